//! Resources that Octavia reports as missing although they exist.
//!
//! Octavia sends requests to Neutron with the token of the client. If that token is revoked at this
//! moment, Neutron rejects it, and Octavia interprets the rejection as "not found".

use std::time::Duration;

use serde_json::Value;
use skydock_sdk::types::CloudError;

use crate::cloud::{Cloud, Kind};

/// When to retry.
const SOON: Duration = Duration::from_secs(1);

/// The kinds of resources that Octavia requests from Neutron, with their paths.
const ASKED_FOR: [(&str, &str); 3] = [
    ("Subnet", "subnets"),
    ("Network", "networks"),
    ("Port", "ports"),
];

/// Returns the error, or "in progress" if Neutron has the resource that Octavia did not find.
pub(crate) fn verify_not_found(cloud: &Cloud<'_>, error: CloudError) -> CloudError {
    let CloudError::Denied(message) = &error else {
        return error;
    };
    let Some(path) = missing(message) else {
        return error;
    };

    match cloud.get::<Value>(
        Kind::Network,
        &path,
        "cannot check for resources that Octavia has not found",
    ) {
        Ok(_) => CloudError::in_progress(SOON, format!("{}, but Neutron has it", error.message())),
        Err(_) => error,
    }
}

/// Returns the path of the resource in Neutron: for `Subnet 31f5… not found` the path of that
/// subnet.
fn missing(message: &str) -> Option<String> {
    ASKED_FOR.iter().find_map(|(kind, path)| {
        let (_, rest) = message.split_once(&format!("{kind} "))?;
        let id = rest.split_once(" not found")?.0;
        let is_id = !id.is_empty()
            && id
                .bytes()
                .all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        is_id.then(|| format!("/{path}/{id}"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::Script;

    const SAID: &str =
        "cannot set the members for port 443: HTTP 400: Subnet 31f56a2c-c1fc not found.";

    #[test]
    fn the_missing_resource_is_parsed_from_octavias_message() {
        assert_eq!(missing(SAID).as_deref(), Some("/subnets/31f56a2c-c1fc"));
        assert_eq!(
            missing("HTTP 400: Network 0a-1 not found."),
            Some("/networks/0a-1".to_owned())
        );
        for other in [
            "Subnet not found",
            "Subnet ../x not found",
            "Subnet 31f5",
            "TLS container 31f5 not found",
        ] {
            assert_eq!(missing(other), None, "{other}");
        }
    }

    #[test]
    fn a_resource_that_neutron_has_is_retried() {
        let script = Script::new("");
        script.on(
            "GET http://network/v2.0/subnets/31f56a2c-c1fc",
            200,
            json!({"subnet": {}}),
        );
        let error = verify_not_found(&script.cloud(), CloudError::denied(SAID));
        assert!(matches!(error, CloudError::InProgress(_)), "{error:?}");

        script.on(
            "GET http://network/v2.0/subnets/31f56a2c-c1fc",
            404,
            json!({"NeutronError": {}}),
        );
        assert_eq!(
            verify_not_found(&script.cloud(), CloudError::denied(SAID)),
            CloudError::denied(SAID)
        );
    }
}
