//! Converts the types of `skydock-cloud` to those of the contract, to be passed to a plugin.

use std::sync::Arc;

use skydock_cloud as cloud;

use super::bindings::{
    exports::skydock::provider::{
        attachments, plugin, routes, snapshots, storage_capacity, volume_attributes,
        volume_expansion, volumes,
    },
    skydock::provider::{
        node_sets::{PackedTargets, Target},
        storage, types as wit,
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

pub(super) fn access_mode(mode: cloud::AccessMode) -> storage::AccessMode {
    match mode {
        cloud::AccessMode::SingleNodeWriter => storage::AccessMode::SingleNodeWriter,
        cloud::AccessMode::SingleNodeReaderOnly => storage::AccessMode::SingleNodeReaderOnly,
        cloud::AccessMode::MultiNodeReaderOnly => storage::AccessMode::MultiNodeReaderOnly,
        cloud::AccessMode::MultiNodeSingleWriter => storage::AccessMode::MultiNodeSingleWriter,
        cloud::AccessMode::MultiNodeMultiWriter => storage::AccessMode::MultiNodeMultiWriter,
    }
}

fn capability(capability: &cloud::VolumeCapability) -> storage::VolumeCapability {
    storage::VolumeCapability {
        mode: access_mode(capability.mode),
        file_system: capability.file_system.clone(),
    }
}

fn owner(owner: &cloud::Owner) -> storage::Owner {
    storage::Owner {
        namespace: owner.namespace.clone(),
        name: owner.name.clone(),
        annotations: pairs(&owner.annotations),
    }
}

pub(super) fn volume_ids(ids: &[cloud::VolumeId]) -> Vec<String> {
    ids.iter().map(|id| id.0.clone()).collect()
}

pub(super) fn snapshot_ids(ids: &[cloud::SnapshotId]) -> Vec<String> {
    ids.iter().map(|id| id.0.clone()).collect()
}

pub(super) fn new_volume(volume: &cloud::NewVolume) -> volumes::NewVolume {
    let (snapshot, original) = match &volume.source {
        None => (None, None),
        Some(cloud::VolumeSource::Snapshot(id)) => (Some(id.0.clone()), None),
        Some(cloud::VolumeSource::Volume(id)) => (None, Some(id.0.clone())),
    };

    volumes::NewVolume {
        name: volume.name.clone(),
        size_bytes: volume.size.bytes,
        limit_bytes: volume.size.limit,
        capabilities: volume.capabilities.iter().map(capability).collect(),
        parameters: pairs(&volume.parameters),
        attributes: pairs(&volume.attributes),
        snapshot,
        original,
        requisite: volume.requisite.iter().map(pairs).collect(),
        preferred: volume.preferred.iter().map(pairs).collect(),
        claim: volume.claim.as_ref().map(owner),
    }
}

pub(super) fn new_attachment(attachment: &cloud::NewAttachment) -> attachments::NewAttachment {
    attachments::NewAttachment {
        volume: attachment.volume.0.clone(),
        node: attachment.node.clone(),
        capability: capability(&attachment.capability),
        context: pairs(&attachment.context),
    }
}

pub(super) fn attachment(attachment: &cloud::Attachment) -> attachments::Attachment {
    attachments::Attachment {
        volume: attachment.volume.0.clone(),
        node: attachment.node.clone(),
    }
}

pub(super) fn expansion(expansion: &cloud::Expansion) -> volume_expansion::Expansion {
    volume_expansion::Expansion {
        volume: expansion.volume.0.clone(),
        size_bytes: expansion.size.bytes,
        limit_bytes: expansion.size.limit,
    }
}

pub(super) fn modification(modification: &cloud::Modification) -> volume_attributes::Modification {
    volume_attributes::Modification {
        volume: modification.volume.0.clone(),
        attributes: pairs(&modification.attributes),
    }
}

pub(super) fn new_snapshot(snapshot: &cloud::NewSnapshot) -> snapshots::NewSnapshot {
    snapshots::NewSnapshot {
        name: snapshot.name.clone(),
        volume: snapshot.volume.0.clone(),
        parameters: pairs(&snapshot.parameters),
        owner: snapshot.owner.as_ref().map(owner),
    }
}

pub(super) fn capacity_request(
    request: &cloud::CapacityRequest,
) -> storage_capacity::CapacityRequest {
    storage_capacity::CapacityRequest {
        capabilities: request.capabilities.iter().map(capability).collect(),
        parameters: pairs(&request.parameters),
        topology: request.topology.as_ref().map(pairs),
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
    #[test]
    fn what_the_cluster_needs_is_passed_completely() {
        let map = |key: &str, text: &str| cloud::Pairs::from([(key.to_owned(), text.to_owned())]);
        let list = |key: &str, text: &str| vec![(key.to_owned(), text.to_owned())];
        let claim = cloud::Owner {
            namespace: "ns".into(),
            name: "data".into(),
            annotations: map("a", "b"),
        };
        let block = cloud::VolumeCapability {
            mode: cloud::AccessMode::MultiNodeMultiWriter,
            file_system: None,
        };
        let mount = cloud::VolumeCapability {
            mode: cloud::AccessMode::SingleNodeWriter,
            file_system: Some("ext4".into()),
        };

        let new = cloud::NewVolume {
            name: "pvc-1".into(),
            size: cloud::SizeRange {
                bytes: 1,
                limit: Some(2),
            },
            capabilities: vec![block.clone(), mount.clone()],
            parameters: map("type", "fast"),
            attributes: map("iops", "3000"),
            source: Some(cloud::VolumeSource::Snapshot(cloud::SnapshotId("s".into()))),
            requisite: vec![map("zone", "a"), map("zone", "b")],
            preferred: vec![map("zone", "b")],
            claim: Some(claim),
        };
        let passed_block = storage::VolumeCapability {
            mode: storage::AccessMode::MultiNodeMultiWriter,
            file_system: None,
        };
        let passed_mount = storage::VolumeCapability {
            mode: storage::AccessMode::SingleNodeWriter,
            file_system: Some("ext4".into()),
        };
        let passed_claim = storage::Owner {
            namespace: "ns".into(),
            name: "data".into(),
            annotations: list("a", "b"),
        };
        let passed = volumes::NewVolume {
            name: "pvc-1".into(),
            size_bytes: 1,
            limit_bytes: Some(2),
            capabilities: vec![passed_block, passed_mount.clone()],
            parameters: list("type", "fast"),
            attributes: list("iops", "3000"),
            snapshot: Some("s".into()),
            original: None,
            requisite: vec![list("zone", "a"), list("zone", "b")],
            preferred: vec![list("zone", "b")],
            claim: Some(passed_claim),
        };
        assert_eq!(new_volume(&new), passed);

        let copy = cloud::NewVolume {
            source: Some(cloud::VolumeSource::Volume(cloud::VolumeId("v".into()))),
            ..cloud::NewVolume::default()
        };
        let copy = new_volume(&copy);
        assert_eq!((copy.snapshot, copy.original), (None, Some("v".into())));

        let attached = new_attachment(&cloud::NewAttachment {
            volume: cloud::VolumeId("v".into()),
            node: "i-1".into(),
            capability: mount.clone(),
            context: map("serial", "s"),
        });
        let passed = attachments::NewAttachment {
            volume: "v".into(),
            node: "i-1".into(),
            capability: passed_mount.clone(),
            context: list("serial", "s"),
        };
        assert_eq!(attached, passed);

        let measured = capacity_request(&cloud::CapacityRequest {
            capabilities: vec![mount],
            parameters: map("type", "fast"),
            topology: Some(map("zone", "a")),
        });
        let passed = storage_capacity::CapacityRequest {
            capabilities: vec![passed_mount],
            parameters: list("type", "fast"),
            topology: Some(list("zone", "a")),
        };
        assert_eq!(measured, passed);
    }
}
