//! Names of what is made, letter by letter as the official provider makes them: whoever comes later finds it by them.

use sha1::{Digest as _, Sha1};
use sha2::Sha256;
use skydock_sdk::types::Service;

const CLASSIC: &str = "k8s-elb-";

/// Name of a Service's load balancer: `a` and the UID without dashes, of which 31 fit.
pub(crate) fn balancer(service: &Service) -> String {
    format!("a{}", service.uid.replace('-', "")).chars().take(32).collect()
}

/// NAMESPACE/NAME, as in the tag of the Service.
pub(crate) fn service(service: &Service) -> String {
    format!("{}/{}", service.namespace, service.name)
}

/// What a target group cannot change, and what tells it from others of the Service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupKey<'a> {
    /// Port of the listener.
    pub(crate) port: u16,
    /// Port of the targets.
    pub(crate) node_port: u16,
    /// Protocol of the targets.
    pub(crate) protocol: &'a str,
    /// Protocol of the health check.
    pub(crate) health_protocol: &'a str,
    /// Seconds between health checks.
    pub(crate) health_interval: u32,
    /// True if targets are reached by IPv6, which the official provider does not do.
    pub(crate) ipv6: bool,
}

/// Name of a target group.
pub(crate) fn group(cluster: &str, service: &Service, key: GroupKey<'_>) -> String {
    let mut hash = Sha1::new();
    let (port, node_port, interval) =
        (key.port.to_string(), key.node_port.to_string(), key.health_interval.to_string());
    for part in [
        cluster,
        &service.namespace,
        &service.name,
        &port,
        &node_port,
        key.protocol,
        "instance",
        key.health_protocol,
        &interval,
        if key.ipv6 { "ipv6" } else { "" },
    ] {
        hash.update(part);
    }
    format!("{}{}", group_prefix(service), first(&hex::encode(hash.finalize()), 10))
}

/// Beginning of the names of a Service's target groups; Services of similar names share it.
pub(crate) fn group_prefix(service: &Service) -> String {
    format!("k8s-{}-{}-", plain(&service.namespace), plain(&service.name))
}

/// Name of the security group that is made for a network load balancer. It takes the cluster's name by `--cluster-name`.
pub(crate) fn network_security_group(cluster_name: &str, service: &Service) -> String {
    let mut hash = Sha256::new();
    for part in [cluster_name, &service.name, &service.namespace, &service.uid] {
        hash.update(part);
    }
    format!("{}{}", group_prefix(service), first(&hex::encode(hash.finalize()), 10))
}

/// Name of the security group that is made for a classic load balancer.
pub(crate) fn classic_security_group(service: &Service) -> String {
    format!("{CLASSIC}{}", balancer(service))
}

/// True for a security group that was made for a classic load balancer, of whichever Service.
pub(crate) fn is_classic_security_group(name: &str) -> bool {
    name.starts_with(CLASSIC)
}

fn plain(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).take(8).collect()
}

fn first(text: &str, letters: usize) -> String {
    text.chars().take(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web() -> Service {
        Service {
            namespace: "kube-public".into(),
            name: "web-frontend".into(),
            uid: "0123abcd-4567-89ab-cdef-0123456789ab".into(),
            ..Service::default()
        }
    }

    // The expected names were made by running the official functions (v1.37.0) with these values.
    #[test]
    fn names_are_the_official_providers() {
        let key = GroupKey {
            port: 80,
            node_port: 30080,
            protocol: "TCP",
            health_protocol: "TCP",
            health_interval: 30,
            ipv6: false,
        };
        assert_eq!(balancer(&web()), "a0123abcd456789abcdef0123456789a");
        assert_eq!(group("my-cluster", &web(), key), "k8s-kubepubl-webfront-c7e6dc3e82");
        assert_eq!(network_security_group("kubernetes", &web()), "k8s-kubepubl-webfront-3dbc9bf831");
        assert_eq!(classic_security_group(&web()), "k8s-elb-a0123abcd456789abcdef0123456789a");
    }
}
