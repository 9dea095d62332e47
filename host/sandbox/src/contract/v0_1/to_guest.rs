//! Converts the types of `skydock-cloud` to those of the contract, to be passed to a plugin.

use std::sync::Arc;

use skydock_cloud as cloud;

use super::bindings::{
    exports::skydock::provider::{plugin, routes},
    skydock::provider::{
        node_sets::{PackedTargets, Target},
        types as wit,
    },
};
use crate::load::source::Settings;

fn pairs(pairs: &cloud::Pairs) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

pub(super) fn settings(settings: &Settings) -> plugin::Settings {
    plugin::Settings {
        cluster_name: settings.cluster_name.clone(),
        cluster_cidrs: settings.cluster_cidrs.clone(),
        cloud_config: settings
            .cloud_config
            .as_ref()
            .map(|config| config.text().to_owned()),
        options: pairs(&settings.options),
        cloud_config_path: settings
            .cloud_config
            .as_ref()
            .map(|config| config.path().display().to_string()),
    }
}

fn address(address: &cloud::NodeAddress) -> wit::NodeAddress {
    let kind = match address.kind {
        cloud::AddressKind::Hostname => wit::AddressKind::Hostname,
        cloud::AddressKind::InternalIp => wit::AddressKind::InternalIp,
        cloud::AddressKind::ExternalIp => wit::AddressKind::ExternalIp,
        cloud::AddressKind::InternalDns => wit::AddressKind::InternalDns,
        cloud::AddressKind::ExternalDns => wit::AddressKind::ExternalDns,
    };

    wit::NodeAddress {
        kind,
        address: address.address.clone(),
    }
}

fn taint(taint: &cloud::Taint) -> wit::Taint {
    let effect = match taint.effect {
        cloud::TaintEffect::NoSchedule => wit::TaintEffect::NoSchedule,
        cloud::TaintEffect::PreferNoSchedule => wit::TaintEffect::PreferNoSchedule,
        cloud::TaintEffect::NoExecute => wit::TaintEffect::NoExecute,
    };

    wit::Taint {
        key: taint.key.clone(),
        value: taint.value.clone(),
        effect,
    }
}

pub(super) fn node(node: &cloud::Node) -> wit::Node {
    wit::Node {
        name: node.name.clone(),
        uid: node.uid.clone(),
        provider_id: node.provider_id.clone(),
        labels: pairs(&node.labels),
        annotations: pairs(&node.annotations),
        taints: node.taints.iter().map(taint).collect(),
        addresses: node.addresses.iter().map(address).collect(),
        pod_cidrs: node.pod_cidrs.clone(),
        ready: node.ready,
        unschedulable: node.unschedulable,
        system_uuid: node.system_uuid.clone(),
        machine_id: node.machine_id.clone(),
        architecture: node.architecture.clone(),
        operating_system: node.operating_system.clone(),
        os_image: node.os_image.clone(),
        creation_timestamp: node.creation_timestamp,
    }
}

pub(super) fn nodes(nodes: &[Arc<cloud::Node>]) -> Vec<wit::Node> {
    nodes.iter().map(|it| node(it)).collect()
}

/// Returns the fields of a node that most clouds need to identify its instance.
pub(super) fn target(node: &cloud::Node) -> Target {
    Target {
        name: node.name.clone(),
        provider_id: node.provider_id.clone(),
        zone: node.zone().map(str::to_owned),
        addresses: node.addresses.iter().map(address).collect(),
    }
}

/// In place of the length of an absent text.
const ABSENT: u32 = u32::MAX;

/// Returns the targets in the form that is copied in two pieces.
pub(super) fn packed(targets: &[Target]) -> PackedTargets {
    let (mut numbers, mut texts) = (Vec::new(), String::new());
    let mut add = |numbers: &mut Vec<u32>, text: &str| {
        numbers.push(count(text.len()));
        texts.push_str(text);
    };

    for target in targets {
        add(&mut numbers, &target.name);
        for text in [&target.provider_id, &target.zone] {
            match text {
                Some(text) => add(&mut numbers, text),
                None => numbers.push(ABSENT),
            }
        }

        numbers.push(count(target.addresses.len()));
        for address in &target.addresses {
            // The cases are numbered as in the contract.
            numbers.push(address.kind as u32);
            add(&mut numbers, &address.address);
        }
    }

    PackedTargets { numbers, texts }
}

/// Objects of the API server are far smaller than that.
fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(ABSENT)
}

fn transport(transport: cloud::Transport) -> wit::Transport {
    match transport {
        cloud::Transport::Tcp => wit::Transport::Tcp,
        cloud::Transport::Udp => wit::Transport::Udp,
        cloud::Transport::Sctp => wit::Transport::Sctp,
    }
}

fn port(port: &cloud::ServicePort) -> wit::ServicePort {
    wit::ServicePort {
        name: port.name.clone(),
        transport: transport(port.transport),
        app_protocol: port.app_protocol.clone(),
        port: port.port,
        target_port: port.target_port.clone(),
        node_port: port.node_port,
    }
}

fn policy(policy: cloud::TrafficPolicy) -> wit::TrafficPolicy {
    match policy {
        cloud::TrafficPolicy::Cluster => wit::TrafficPolicy::Cluster,
        cloud::TrafficPolicy::Local => wit::TrafficPolicy::Local,
    }
}

fn family(family: &cloud::IpFamily) -> wit::IpFamily {
    match family {
        cloud::IpFamily::V4 => wit::IpFamily::Ipv4,
        cloud::IpFamily::V6 => wit::IpFamily::Ipv6,
    }
}

fn ingress(ingress: &cloud::Ingress) -> wit::Ingress {
    wit::Ingress {
        ip: ingress.ip.clone(),
        hostname: ingress.hostname.clone(),
        ip_mode: ingress.ip_mode.map(|mode| match mode {
            cloud::IpMode::Vip => wit::IpMode::Vip,
            cloud::IpMode::Proxy => wit::IpMode::Proxy,
        }),
        ports: ingress
            .ports
            .iter()
            .map(|port| wit::PortStatus {
                port: port.port,
                transport: transport(port.transport),
                error: port.error.clone(),
            })
            .collect(),
    }
}

pub(super) fn service(service: &cloud::Service) -> wit::Service {
    wit::Service {
        namespace: service.namespace.clone(),
        name: service.name.clone(),
        uid: service.uid.clone(),
        labels: pairs(&service.labels),
        annotations: pairs(&service.annotations),
        ports: service.ports.iter().map(port).collect(),
        load_balancer_ip: service.load_balancer_ip.clone(),
        load_balancer_class: service.load_balancer_class.clone(),
        source_ranges: service.source_ranges.clone(),
        external_traffic_policy: policy(service.external_traffic_policy),
        internal_traffic_policy: policy(service.internal_traffic_policy),
        health_check_node_port: service.health_check_node_port,
        client_ip_affinity_seconds: service.client_ip_affinity_seconds,
        ip_families: service.ip_families.iter().map(family).collect(),
        ip_family_policy: match service.ip_family_policy {
            cloud::IpFamilyPolicy::SingleStack => wit::IpFamilyPolicy::SingleStack,
            cloud::IpFamilyPolicy::PreferDualStack => wit::IpFamilyPolicy::PreferDualStack,
            cloud::IpFamilyPolicy::RequireDualStack => wit::IpFamilyPolicy::RequireDualStack,
        },
        allocate_node_ports: service.allocate_node_ports,
        publish_not_ready_addresses: service.publish_not_ready_addresses,
        cluster_ips: service.cluster_ips.clone(),
        external_ips: service.external_ips.clone(),
        selector: pairs(&service.selector),
        status: wit::LoadBalancerStatus {
            ingress: service.status.ingress.iter().map(ingress).collect(),
        },
        deleting: service.deleting,
    }
}

pub(super) fn route(route: &cloud::Route) -> routes::Route {
    routes::Route {
        name: route.name.clone(),
        target_node: route.target_node.clone(),
        target_addresses: route
            .target_addresses
            .as_ref()
            .map(|all| all.iter().map(address).collect()),
        destination_cidr: route.destination_cidr.clone(),
        blackhole: route.blackhole,
    }
}

pub(super) fn new_route(route: &cloud::NewRoute) -> routes::NewRoute {
    routes::NewRoute {
        name_hint: route.name_hint.clone(),
        target_node: route.target_node.clone(),
        target_provider_id: route.target_provider_id.clone(),
        target_addresses: route.target_addresses.iter().map(address).collect(),
        destination_cidr: route.destination_cidr.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_zone_label_means_no_zone() {
        for (label, zone) in [("a", Some("a")), ("", None)] {
            let node = cloud::Node {
                labels: [(cloud::LABEL_ZONE.to_owned(), label.to_owned())].into(),
                ..cloud::Node::default()
            };
            assert_eq!(target(&node).zone.as_deref(), zone);
        }
    }

    // The SDKs have the same table.
    #[test]
    fn packed_targets_are_numbers_and_texts() {
        let named = |name: &str| Target {
            name: name.into(),
            provider_id: None,
            zone: None,
            addresses: Vec::new(),
        };
        let address = |kind, address: &str| wit::NodeAddress {
            kind,
            address: address.into(),
        };
        let full = Target {
            provider_id: Some("metal://1".into()),
            zone: Some(String::new()),
            addresses: vec![
                address(wit::AddressKind::InternalIp, "10.0.0.1"),
                address(wit::AddressKind::ExternalDns, "n.example"),
            ],
            ..named("ünï")
        };
        for (targets, numbers, texts) in [
            (vec![], &[][..], ""),
            (vec![named("a")], &[1, ABSENT, ABSENT, 0], "a"),
            (
                vec![full, named("b")],
                &[5, 9, 0, 2, 1, 8, 4, 9, 1, ABSENT, ABSENT, 0],
                "ünïmetal://110.0.0.1n.exampleb",
            ),
        ] {
            let found = packed(&targets);
            assert_eq!((&*found.numbers, &*found.texts), (numbers, texts));
        }
    }
}
