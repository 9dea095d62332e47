//! How OpenStack's errors map to the errors of the host.

use std::time::Duration;

use skydock_sdk::{Result, http::Response, types::CloudError};

/// When to retry a change of a load balancer that is being changed.
const IMMUTABLE: Duration = Duration::from_secs(1);

/// What Octavia and Neutron say about a value that is never valid, whatever the state of the cloud.
const MALFORMED: &[&str] = &[
    "Invalid input for",
    "Invalid attribute",
    "invalid attribute",
    "Unknown attribute",
];

/// What they say about something that does not exist, is disabled, or is in another state.
const MISSING: &[&str] = &[
    "Invalid input for operation",
    "not found",
    "ould not be found",
    "not exist",
    "No such",
    "not enabled",
    "disabled",
];

/// What Neutron says if a network or subnet has no free address.
const EXHAUSTED: &[&str] = &[
    "IpAddressGenerationFailure",
    "ExternalIpAddressExhausted",
    "No more IP addresses",
    "Unable to find any IP address",
    "No valid service subnet",
];

/// Returns true if a network or subnet has no free address, so that another one may have one.
#[must_use]
pub fn is_exhausted(error: &CloudError) -> bool {
    let text = error.message();
    matches!(error, CloudError::Unavailable(_)) && EXHAUSTED.iter().any(|word| text.contains(word))
}

/// Returns the answer if it is a success, and otherwise the corresponding error. Its message starts
/// with `what`.
///
/// # Errors
/// Fails if the request failed.
pub fn explain(what: &str, answer: Result<Response>) -> Result<Response> {
    let answer = answer.map_err(|error| error.about(what))?;
    if answer.is_success() {
        Ok(answer)
    } else {
        Err(rejection(what, &answer))
    }
}

fn rejection(what: &str, answer: &Response) -> CloudError {
    let error = answer.error().about(what);
    let text = error.message().to_owned();
    let body = String::from_utf8_lossy(&answer.body);
    let says = |words: &[&str]| {
        words
            .iter()
            .any(|word| body.contains(word) || text.contains(word))
    };

    match answer.status {
        // Octavia: the load balancer is being changed.
        409 if says(&["immutable"]) => CloudError::in_progress(IMMUTABLE, text),
        // Neutron and Nova return 403, 409 or 413 for an exceeded quota. Retrying does not help, an
        // operator has to act.
        403 | 409 | 413 if says(&["uota"]) => CloudError::denied(text),
        // Neutron limits the number of routes of a router.
        400 | 409 if says(&["RoutesExhausted"]) => CloudError::denied(text),
        400 | 409 if says(EXHAUSTED) => CloudError::unavailable(text),
        // Neutron: an interface may be about to be added to the router.
        400 if says(&["is not connected with router"]) => CloudError::unavailable(text),
        // Octavia's provider does not support it, or, with the same status, does not exist yet. What is
        // on the way to Octavia, for example a proxy, has no fault.
        501 if says(MISSING) => CloudError::denied(text),
        501 if says(&["faultstring"]) => CloudError::invalid(text),
        // Most requests contain IDs and settings of resources that somebody may create or change a
        // minute later.
        400 | 422 if !says(MALFORMED) || says(MISSING) => CloudError::denied(text),
        // Nova and Neutron return 413 for limits of body sizes and of request rates.
        413 => CloudError::throttled(Duration::from_secs(5), text),
        // What a proxy or another version of the API does not accept is not about the values.
        status if ![400, 422].contains(&status) && matches!(error, CloudError::Invalid(_)) => {
            CloudError::denied(text)
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use skydock_sdk::types::Retry;

    use super::*;

    fn rejection(status: u16, body: &str) -> CloudError {
        super::rejection(
            "cannot do it",
            &Response {
                status,
                body: body.into(),
                ..Response::default()
            },
        )
    }

    #[test]
    fn a_quota_error_is_denied_with_any_status() {
        let neutron = r#"{"NeutronError":{"type":"OverQuota","message":"Quota exceeded for resources: ['floatingip'].","detail":""}}"#;
        let octavia = r#"{"faultcode":"Client","faultstring":"Quota has been met for resources: Load Balancer","debuginfo":null}"#;
        for (status, body) in [(409, neutron), (403, octavia), (413, octavia)] {
            let error = rejection(status, body);
            assert!(
                matches!(&error, CloudError::Denied(text) if text.contains("uota")),
                "{error:?}"
            );
            assert!(error.message().starts_with("cannot do it: "), "{error:?}");
        }
    }

    #[test]
    fn an_immutable_load_balancer_is_in_progress() {
        let body = r#"{"faultcode":"Client","faultstring":"Load Balancer 1 is immutable and cannot be updated.","debuginfo":null}"#;
        assert!(matches!(
            rejection(409, body),
            CloudError::InProgress(Retry { after_ms: 1000, .. })
        ));
        assert!(matches!(rejection(409, "{}"), CloudError::Conflict(_)));
        assert!(matches!(rejection(412, "{}"), CloudError::Conflict(_)));
    }

    #[test]
    fn an_unsupported_request_is_invalid() {
        let unsupported = r#"{"faultcode":"Server","faultstring":"Provider 'ovn' does not support a requested option."}"#;
        assert!(matches!(
            rejection(501, unsupported),
            CloudError::Invalid(_)
        ));
        assert!(
            matches!(rejection(501, "{}"), CloudError::Unavailable(_)),
            "a proxy"
        );
        assert!(matches!(rejection(500, "{}"), CloudError::Unavailable(_)));
    }

    /// What is missing may be created a minute later.
    #[test]
    fn only_a_malformed_value_is_invalid() {
        let octavia = |text: &str| format!(r#"{{"faultcode":"Client","faultstring":"{text}"}}"#);
        let neutron = |text: &str| format!(r#"{{"NeutronError":{{"message":"{text}"}}}}"#);
        for body in [
            octavia("Invalid input for field/attribute lb_algorithm. Value: 'X'."),
            octavia("Unknown attribute for argument loadbalancer: x"),
            neutron("['description'] is invalid attribute for filtering"),
            neutron(
                "Invalid input for floating_ip_address. Reason: 'x' is not a valid IP address.",
            ),
        ] {
            let error = rejection(400, &body);
            assert!(matches!(error, CloudError::Invalid(_)), "{error:?}");
        }
        for body in [
            octavia("Flavor big not found."),
            octavia("Validation failure: The specified availability zone 'b' does not exist."),
            octavia("Provider 'ovn' is not enabled."),
            octavia("Could not retrieve certificate: ['http://b/1']"),
            octavia("Supplied network does not contain a subnet for VIP address specified."),
            octavia("Invalid input for field/attribute vip_subnet_id: Subnet s not found."),
            neutron("Bad floatingip request: Network n has no gateway."),
            neutron(
                "Invalid input for operation: IP address 10.0.0.5 is not a valid IP for the specified subnet.",
            ),
            "{}".to_owned(),
        ] {
            let error = rejection(400, &body);
            assert!(matches!(error, CloudError::Denied(_)), "{body} {error:?}");
        }
        let unknown = octavia("Provider 'ovn' was not found.");

        assert!(matches!(rejection(501, &unknown), CloudError::Denied(_)));
    }

    #[test]
    fn what_a_proxy_does_not_accept_is_retried() {
        for status in [405, 406, 414, 415, 431, 451] {
            let error = rejection(status, "<html>no</html>");
            assert!(matches!(error, CloudError::Denied(_)), "{error:?}");
        }
    }

    #[test]
    fn a_next_hop_without_router_interface_is_unavailable() {
        let body = r#"{"NeutronError":{"type":"InvalidRoutes","message":"Invalid format for routes: [], the nexthop is not connected with router","detail":""}}"#;
        assert!(matches!(rejection(400, body), CloudError::Unavailable(_)));
    }

    #[test]
    fn an_exhausted_address_pool_is_unavailable() {
        let body = |text: &str| {
            format!(r#"{{"NeutronError":{{"type":"T","message":"{text}","detail":""}}}}"#)
        };
        for (status, text) in [
            (409, "No more IP addresses available on network 1."),
            (400, "Unable to find any IP address on external network 1."),
            (409, "No valid service subnet for the given device owner."),
        ] {
            let error = rejection(status, &body(text));
            assert!(is_exhausted(&error), "{error:?}");
        }
        for (status, text) in [
            (409, "Quota exceeded for resources: ['floatingip']."),
            (503, "Unavailable"),
            (404, "External network 1 is not reachable from subnet 2."),
        ] {
            let error = rejection(status, &body(text));
            assert!(!is_exhausted(&error), "{error:?}");
        }
    }
}
