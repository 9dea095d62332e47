//! The annotations of Services, with upstream's names, and how their values are read.

use skydock_sdk::{Lookup, types::Service};

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
/// PROXY protocol: `true`, `v1` or `v2`.
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

/// Returns a text. An empty annotation counts as set.
pub(crate) fn text<'a>(service: &'a Service, key: &str, unset: &'a str) -> &'a str {
    service.annotations.lookup(key).unwrap_or(unset)
}

/// Returns a boolean. Values other than `true` and `false` are ignored.
pub(crate) fn boolean(service: &Service, key: &str, unset: bool) -> bool {
    match service.annotations.lookup(key) {
        Some("true") => true,
        Some("false") => false,
        _ => unset,
    }
}

/// Returns a number. Invalid values are ignored.
pub(crate) fn number(service: &Service, key: &str, unset: i64) -> i64 {
    service
        .annotations
        .lookup(key)
        .and_then(|value| value.parse().ok())
        .unwrap_or(unset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_annotation_values_are_ignored() {
        let annotations = [
            ("a", ""),
            ("b", "yes"),
            ("c", "5s"),
            ("d", "-1"),
            ("e", "false"),
        ];
        let annotations = annotations
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .to_vec();
        let service = Service {
            annotations,
            ..Service::default()
        };
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
}
