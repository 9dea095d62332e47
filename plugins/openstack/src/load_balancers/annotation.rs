//! The annotations of Services, under upstream's names, and how their values are read.

use skydock_sdk::{Lookup, types::Service};

/// What the keys of all annotations but [`INTERNAL`] begin with; what this provider may write.
pub const PREFIX: &str = "loadbalancer.openstack.org/";

/// No floating IP.
pub const INTERNAL: &str = "service.beta.kubernetes.io/openstack-internal-load-balancer";
/// Labels of the nodes that become members.
pub const NODE_SELECTOR: &str = "loadbalancer.openstack.org/node-selector";
/// Connections of a listener.
pub const CONNECTION_LIMIT: &str = "loadbalancer.openstack.org/connection-limit";
/// Network of the floating IP.
pub const FLOATING_NETWORK_ID: &str = "loadbalancer.openstack.org/floating-network-id";
/// Pattern of the name of the floating IP's subnet.
pub const FLOATING_SUBNET: &str = "loadbalancer.openstack.org/floating-subnet";
/// Subnet of the floating IP.
pub const FLOATING_SUBNET_ID: &str = "loadbalancer.openstack.org/floating-subnet-id";
/// Tags of the floating IP's subnet.
pub const FLOATING_SUBNET_TAGS: &str = "loadbalancer.openstack.org/floating-subnet-tags";
/// Class in the operator's configuration.
pub const CLASS: &str = "loadbalancer.openstack.org/class";
/// The floating IP outlives the Service.
pub const KEEP_FLOATING_IP: &str = "loadbalancer.openstack.org/keep-floatingip";
/// Port of the VIP.
pub const PORT_ID: &str = "loadbalancer.openstack.org/port-id";
/// Algorithm of the pools.
pub const LB_METHOD: &str = "loadbalancer.openstack.org/lb-method";
/// PROXY protocol: `true`, `v1` or `v2`.
pub const PROXY_PROTOCOL: &str = "loadbalancer.openstack.org/proxy-protocol";
/// Subnet of the VIP.
pub const SUBNET_ID: &str = "loadbalancer.openstack.org/subnet-id";
/// Network of the VIP.
pub const NETWORK_ID: &str = "loadbalancer.openstack.org/network-id";
/// Subnet of the members.
pub const MEMBER_SUBNET_ID: &str = "loadbalancer.openstack.org/member-subnet-id";
/// Milliseconds a client may be silent.
pub const TIMEOUT_CLIENT_DATA: &str = "loadbalancer.openstack.org/timeout-client-data";
/// Milliseconds to connect to a member.
pub const TIMEOUT_MEMBER_CONNECT: &str = "loadbalancer.openstack.org/timeout-member-connect";
/// Milliseconds a member may be silent.
pub const TIMEOUT_MEMBER_DATA: &str = "loadbalancer.openstack.org/timeout-member-data";
/// Milliseconds to wait for what is to be inspected.
pub const TIMEOUT_TCP_INSPECT: &str = "loadbalancer.openstack.org/timeout-tcp-inspect";
/// Listeners speak HTTP and tell where requests come from.
pub const X_FORWARDED_FOR: &str = "loadbalancer.openstack.org/x-forwarded-for";
/// Octavia flavor.
pub const FLAVOR_ID: &str = "loadbalancer.openstack.org/flavor-id";
/// Octavia availability zone.
pub const AVAILABILITY_ZONE: &str = "loadbalancer.openstack.org/availability-zone";
/// Health monitors.
pub const ENABLE_HEALTH_MONITOR: &str = "loadbalancer.openstack.org/enable-health-monitor";
/// Seconds between two probes.
pub const HEALTH_MONITOR_DELAY: &str = "loadbalancer.openstack.org/health-monitor-delay";
/// Seconds a probe may take.
pub const HEALTH_MONITOR_TIMEOUT: &str = "loadbalancer.openstack.org/health-monitor-timeout";
/// Probes until a member is well.
pub const HEALTH_MONITOR_MAX_RETRIES: &str = "loadbalancer.openstack.org/health-monitor-max-retries";
/// Probes until a member is not.
pub const HEALTH_MONITOR_MAX_RETRIES_DOWN: &str = "loadbalancer.openstack.org/health-monitor-max-retries-down";
/// Name in the Service's status, in place of the address.
pub const HOSTNAME: &str = "loadbalancer.openstack.org/hostname";
/// Written: the address of the load balancer.
pub const LOAD_BALANCER_ADDRESS: &str = "loadbalancer.openstack.org/load-balancer-address";
/// TLS container of the listeners.
pub const TLS_CONTAINER_REF: &str = "loadbalancer.openstack.org/default-tls-container-ref";
/// Written, or given to share a load balancer: its ID.
pub const LOAD_BALANCER_ID: &str = "loadbalancer.openstack.org/load-balancer-id";

/// A text; the annotation counts even if it is empty.
pub(crate) fn text<'a>(service: &'a Service, key: &str, unset: &'a str) -> &'a str {
    service.annotations.lookup(key).unwrap_or(unset)
}

/// `true` or `false`; anything else is as if it were not there.
pub(crate) fn boolean(service: &Service, key: &str, unset: bool) -> bool {
    match service.annotations.lookup(key) {
        Some("true") => true,
        Some("false") => false,
        _ => unset,
    }
}

/// A number; anything else is as if it were not there.
pub(crate) fn number(service: &Service, key: &str, unset: i64) -> i64 {
    service.annotations.lookup(key).and_then(|value| value.parse().ok()).unwrap_or(unset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_as_if_it_were_not_there() {
        let annotations = [("a", ""), ("b", "yes"), ("c", "5s"), ("d", "-1"), ("e", "false")];
        let annotations = annotations.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
        let service = Service { annotations, ..Service::default() };
        assert_eq!((text(&service, "a", "x"), text(&service, "z", "x")), ("", "x"));
        assert!(boolean(&service, "b", true) && !boolean(&service, "e", true));
        assert_eq!((number(&service, "c", 7), number(&service, "d", 7), number(&service, "z", 7)), (7, -1, 7));
    }
}
