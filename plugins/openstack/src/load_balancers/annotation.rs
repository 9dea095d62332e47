//! The annotations of Services, with upstream's names, and how their values are read.
//!
//! An additional annotation is a constant with its name and a row of `KNOWN` here, the field of
//! `DesiredLoadBalancer` that it sets, in `desired_load_balancer.rs`, and a row of the table in
//! `README.md`. `plan.rs` compares the field with what exists; `immutable.rs` reports a difference
//! that Octavia does not accept.

use skydock_sdk::{Lookup, types::Service};

use crate::config::nearest;

/// The prefix of all annotations except [`INTERNAL`]. This provider may write annotations with this
/// prefix.
pub const PREFIX: &str = "loadbalancer.openstack.org/";

/// Disables the floating IP.
pub const INTERNAL: &str = "service.beta.kubernetes.io/openstack-internal-load-balancer";
/// Labels of the nodes that become members.
pub const NODE_SELECTOR: &str = "loadbalancer.openstack.org/node-selector";
/// Maximum number of connections of a listener.
pub const CONNECTION_LIMIT: &str = "loadbalancer.openstack.org/connection-limit";
/// The network of the floating IP.
pub const FLOATING_NETWORK_ID: &str = "loadbalancer.openstack.org/floating-network-id";
/// A pattern for the name of the floating IP's subnet.
pub const FLOATING_SUBNET: &str = "loadbalancer.openstack.org/floating-subnet";
/// The subnet of the floating IP.
pub const FLOATING_SUBNET_ID: &str = "loadbalancer.openstack.org/floating-subnet-id";
/// Tags of the floating IP's subnet.
pub const FLOATING_SUBNET_TAGS: &str = "loadbalancer.openstack.org/floating-subnet-tags";
/// The class in the operator's configuration.
pub const CLASS: &str = "loadbalancer.openstack.org/class";
/// Keeps the floating IP when the Service is deleted.
pub const KEEP_FLOATING_IP: &str = "loadbalancer.openstack.org/keep-floatingip";
/// The port of the VIP.
pub const PORT_ID: &str = "loadbalancer.openstack.org/port-id";
/// The algorithm of the pools.
pub const LB_METHOD: &str = "loadbalancer.openstack.org/lb-method";
/// PROXY protocol: `true`, `v1` or `v2`, in any case.
pub const PROXY_PROTOCOL: &str = "loadbalancer.openstack.org/proxy-protocol";
/// The subnet of the VIP.
pub const SUBNET_ID: &str = "loadbalancer.openstack.org/subnet-id";
/// The network of the VIP.
pub const NETWORK_ID: &str = "loadbalancer.openstack.org/network-id";
/// The subnet of the members.
pub const MEMBER_SUBNET_ID: &str = "loadbalancer.openstack.org/member-subnet-id";
/// Timeout for inactive clients in milliseconds.
pub const TIMEOUT_CLIENT_DATA: &str = "loadbalancer.openstack.org/timeout-client-data";
/// Timeout for connections to members in milliseconds.
pub const TIMEOUT_MEMBER_CONNECT: &str = "loadbalancer.openstack.org/timeout-member-connect";
/// Timeout for inactive members in milliseconds.
pub const TIMEOUT_MEMBER_DATA: &str = "loadbalancer.openstack.org/timeout-member-data";
/// How long to wait for content to inspect, in milliseconds.
pub const TIMEOUT_TCP_INSPECT: &str = "loadbalancer.openstack.org/timeout-tcp-inspect";
/// Makes listeners use HTTP and add the header `X-Forwarded-For`.
pub const X_FORWARDED_FOR: &str = "loadbalancer.openstack.org/x-forwarded-for";
/// The Octavia flavor.
pub const FLAVOR_ID: &str = "loadbalancer.openstack.org/flavor-id";
/// The Octavia availability zone.
pub const AVAILABILITY_ZONE: &str = "loadbalancer.openstack.org/availability-zone";
/// Enables health monitors.
pub const ENABLE_HEALTH_MONITOR: &str = "loadbalancer.openstack.org/enable-health-monitor";
/// Seconds between two probes.
pub const HEALTH_MONITOR_DELAY: &str = "loadbalancer.openstack.org/health-monitor-delay";
/// Timeout of a probe in seconds.
pub const HEALTH_MONITOR_TIMEOUT: &str = "loadbalancer.openstack.org/health-monitor-timeout";
/// Number of successful probes until a member is healthy.
pub const HEALTH_MONITOR_MAX_RETRIES: &str =
    "loadbalancer.openstack.org/health-monitor-max-retries";
/// Number of failed probes until a member is unhealthy.
pub const HEALTH_MONITOR_MAX_RETRIES_DOWN: &str =
    "loadbalancer.openstack.org/health-monitor-max-retries-down";
/// The host name in the Service's status, instead of the address.
pub const HOSTNAME: &str = "loadbalancer.openstack.org/hostname";
/// The address of the load balancer, written by this provider.
pub const LOAD_BALANCER_ADDRESS: &str = "loadbalancer.openstack.org/load-balancer-address";
/// The TLS container of the listeners.
pub const TLS_CONTAINER_REF: &str = "loadbalancer.openstack.org/default-tls-container-ref";
/// The ID of the load balancer: written by this provider, or set by the user to share a load
/// balancer.
pub const LOAD_BALANCER_ID: &str = "loadbalancer.openstack.org/load-balancer-id";

/// How the value of an annotation is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Boolean,
    Number,
    Proxy,
}

/// All annotations.
const KNOWN: &[(&str, Kind)] = &[
    (INTERNAL, Kind::Boolean),
    (NODE_SELECTOR, Kind::Text),
    (CONNECTION_LIMIT, Kind::Number),
    (FLOATING_NETWORK_ID, Kind::Text),
    (FLOATING_SUBNET, Kind::Text),
    (FLOATING_SUBNET_ID, Kind::Text),
    (FLOATING_SUBNET_TAGS, Kind::Text),
    (CLASS, Kind::Text),
    (KEEP_FLOATING_IP, Kind::Boolean),
    (PORT_ID, Kind::Text),
    (LB_METHOD, Kind::Text),
    (PROXY_PROTOCOL, Kind::Proxy),
    (SUBNET_ID, Kind::Text),
    (NETWORK_ID, Kind::Text),
    (MEMBER_SUBNET_ID, Kind::Text),
    (TIMEOUT_CLIENT_DATA, Kind::Number),
    (TIMEOUT_MEMBER_CONNECT, Kind::Number),
    (TIMEOUT_MEMBER_DATA, Kind::Number),
    (TIMEOUT_TCP_INSPECT, Kind::Number),
    (X_FORWARDED_FOR, Kind::Boolean),
    (FLAVOR_ID, Kind::Text),
    (AVAILABILITY_ZONE, Kind::Text),
    (ENABLE_HEALTH_MONITOR, Kind::Boolean),
    (HEALTH_MONITOR_DELAY, Kind::Number),
    (HEALTH_MONITOR_TIMEOUT, Kind::Number),
    (HEALTH_MONITOR_MAX_RETRIES, Kind::Number),
    (HEALTH_MONITOR_MAX_RETRIES_DOWN, Kind::Number),
    (HOSTNAME, Kind::Text),
    (LOAD_BALANCER_ADDRESS, Kind::Text),
    (TLS_CONTAINER_REF, Kind::Text),
    (LOAD_BALANCER_ID, Kind::Text),
];

/// The beginnings of names that only this provider reads.
const OWN: [&str; 2] = [PREFIX, "service.beta.kubernetes.io/openstack-"];

/// Maximum number of letters of a value in a message.
const QUOTED: usize = 40;

/// Maximum number of problems in a message.
const LISTED: usize = 6;

/// Returns a text. An empty annotation counts as set.
pub(crate) fn text<'a>(service: &'a Service, key: &str, unset: &'a str) -> &'a str {
    service.annotations.lookup(key).unwrap_or(unset)
}

/// Returns a boolean, or the value if it is not one. `None` if it is not set.
pub(crate) fn flag<'a>(service: &'a Service, key: &str) -> Option<Result<bool, &'a str>> {
    let value = service.annotations.lookup(key)?;
    Some(parse_flag(value).ok_or(value))
}

/// Parses a boolean of Go, in any case.
fn parse_flag(value: &str) -> Option<bool> {
    match value.trim().to_ascii_lowercase().as_str() {
        "true" | "t" | "1" => Some(true),
        "false" | "f" | "0" => Some(false),
        _ => None,
    }
}

/// Returns a boolean. Other values are ignored, and reported by [`problems`].
pub(crate) fn boolean(service: &Service, key: &str, unset: bool) -> bool {
    flag(service, key).and_then(Result::ok).unwrap_or(unset)
}

/// Returns true if the floating IP is kept when the Service is deleted. A value that is not a
/// boolean deletes nothing.
pub(crate) fn keeps_floating_ip(service: &Service) -> bool {
    match flag(service, KEEP_FLOATING_IP) {
        None | Some(Ok(false) | Err("")) => false,
        Some(Ok(true) | Err(_)) => true,
    }
}

/// Returns a number. Other values are ignored, and reported by [`problems`].
pub(crate) fn number(service: &Service, key: &str, unset: i64) -> i64 {
    service
        .annotations
        .lookup(key)
        .and_then(|value| value.trim().parse().ok())
        .unwrap_or(unset)
}

/// Returns the protocol of the pools that [`PROXY_PROTOCOL`] selects.
pub(crate) fn proxy(service: &Service) -> Option<&'static str> {
    parse_proxy(text(service, PROXY_PROTOCOL, "")).flatten()
}

/// Returns `None` if the value is not valid.
fn parse_proxy(value: &str) -> Option<Option<&'static str>> {
    match value.trim().to_ascii_lowercase().as_str() {
        "" => Some(None),
        "v1" => Some(Some("PROXY")),
        "v2" => Some(Some("PROXYV2")),
        other => parse_flag(other).map(|wanted| wanted.then_some("PROXY")),
    }
}

/// Returns one sentence about the annotations that have no effect because of their name or value.
/// Empty values count as not set.
pub(crate) fn problems(service: &Service) -> Option<String> {
    let mut found: Vec<String> = service
        .annotations
        .iter()
        .filter(|(key, _)| OWN.iter().any(|own| key.starts_with(own)))
        .filter_map(|(key, value)| problem(key, value))
        .collect();

    found.sort();
    let more = found.len().saturating_sub(LISTED);
    found.truncate(LISTED);
    if more > 0 {
        found.push(format!("and {more} more"));
    }

    (!found.is_empty()).then(|| format!("Annotations are ignored: {}", found.join("; ")))
}

fn problem(key: &str, value: &str) -> Option<String> {
    let Some((_, kind)) = KNOWN.iter().find(|(known, _)| *known == key) else {
        let near = nearest(key, KNOWN.iter().map(|(known, _)| *known))
            .map(|near| format!("; did you mean {near}?"))
            .unwrap_or_default();
        return Some(format!("{key} is unknown{near}"));
    };

    let expected = match kind {
        Kind::Boolean if parse_flag(value).is_none() => "expected `true` or `false`",
        Kind::Number if value.trim().parse::<i64>().is_err() => "expected a number",
        Kind::Proxy if parse_proxy(value).is_none() => "expected `true`, `false`, `v1` or `v2`",
        Kind::Text | Kind::Boolean | Kind::Number | Kind::Proxy => return None,
    };

    // This one is an error instead.
    (!value.is_empty() && key != INTERNAL).then(|| unreadable(key, value, expected))
}

/// Returns the message about a value that is not valid.
pub(crate) fn unreadable(key: &str, value: &str, expected: &str) -> String {
    let quoted: String = value.chars().take(QUOTED).collect();
    format!("{key}: {expected}, not `{quoted}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(annotations: &[(&str, &str)]) -> Service {
        Service {
            annotations: annotations
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            ..Service::default()
        }
    }

    #[test]
    fn invalid_annotation_values_are_ignored() {
        let service = service(&[
            ("a", ""),
            ("b", "yes"),
            ("c", "5s"),
            ("d", "-1"),
            ("e", "false"),
        ]);
        assert_eq!(
            (text(&service, "a", "x"), text(&service, "z", "x")),
            ("", "x")
        );
        assert!(boolean(&service, "b", true) && !boolean(&service, "e", true));
        assert_eq!(
            (
                number(&service, "c", 7),
                number(&service, "d", 7),
                number(&service, "z", 7)
            ),
            (7, -1, 7)
        );
    }

    #[test]
    fn booleans_are_read_like_in_go_in_any_case() {
        for (value, read) in [
            ("true", Some(true)),
            ("True", Some(true)),
            ("TRUE", Some(true)),
            (" true ", Some(true)),
            ("t", Some(true)),
            ("1", Some(true)),
            ("False", Some(false)),
            ("F", Some(false)),
            ("0", Some(false)),
            ("yes", None),
            ("on", None),
            ("tru", None),
            ("", None),
        ] {
            assert_eq!(parse_flag(value), read, "{value}");
        }
    }

    #[test]
    fn an_unreadable_value_keeps_the_floating_ip() {
        for (value, keeps) in [
            ("true", true),
            ("TRUE", true),
            ("yes", true),
            ("false", false),
            ("", false),
        ] {
            assert_eq!(
                keeps_floating_ip(&service(&[(KEEP_FLOATING_IP, value)])),
                keeps,
                "{value}"
            );
        }
        assert!(!keeps_floating_ip(&service(&[])));
    }

    #[test]
    fn proxy_protocol_versions_are_read_in_any_case() {
        for (value, protocol) in [
            ("true", Some("PROXY")),
            ("True", Some("PROXY")),
            ("v1", Some("PROXY")),
            ("V2", Some("PROXYV2")),
            ("false", None),
            ("v3", None),
        ] {
            assert_eq!(
                proxy(&service(&[(PROXY_PROTOCOL, value)])),
                protocol,
                "{value}"
            );
        }
    }

    #[test]
    fn unknown_names_and_invalid_values_are_reported() {
        for (key, value, message) in [
            (
                CONNECTION_LIMIT,
                "7k",
                "connection-limit: expected a number, not `7k`",
            ),
            (
                PROXY_PROTOCOL,
                "v3",
                "proxy-protocol: expected `true`, `false`, `v1` or `v2`, not `v3`",
            ),
            (
                ENABLE_HEALTH_MONITOR,
                "yes",
                "enable-health-monitor: expected `true` or `false`, not `yes`",
            ),
            (
                "loadbalancer.openstack.org/conection-limit",
                "7",
                "conection-limit is unknown; did you mean loadbalancer.openstack.org/connection-limit?",
            ),
            (
                "service.beta.kubernetes.io/openstack-internal-loadbalancer",
                "true",
                "is unknown; did you mean service.beta.kubernetes.io/openstack-internal-load-balancer?",
            ),
        ] {
            let text = problems(&service(&[(key, value)])).unwrap_or_default();
            assert!(text.contains(message), "{text}");
        }
        let fine = [
            (CONNECTION_LIMIT, " 7 "),
            (ENABLE_HEALTH_MONITOR, "True"),
            (TIMEOUT_CLIENT_DATA, ""),
            ("service.beta.kubernetes.io/aws-load-balancer-type", "nlb"),
            ("example.com/loadbalancer.openstack.org", "x"),
        ];
        assert_eq!(problems(&service(&fine)), None);
    }

    #[test]
    fn many_problems_are_one_short_message() {
        let names: Vec<String> = (0..20)
            .map(|number| format!("{PREFIX}x{number:03}"))
            .collect();
        let all: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1")).collect();
        let text = problems(&service(&all)).unwrap();
        assert!(
            text.ends_with("; and 14 more") && text.len() < 1000,
            "{text}"
        );
    }
}
