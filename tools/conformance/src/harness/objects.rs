//! The objects that the kit calls functions with.

use std::sync::Arc;

use skydock_cloud::{
    AccessMode, AddressKind, Answer, Arguments, Attachment, CapacityRequest, Expansion, IpFamily,
    Modification, NewAttachment, NewRoute, NewSnapshot, NewVolume, Node, NodeAddress, ProviderInfo,
    Route, Service, ServicePort, SizeRange, SnapshotId, Transport, VolumeCapability, VolumeId,
};

fn node(name: String, number: u8) -> Node {
    Node {
        uid: format!("5a1c0de5-0000-4000-8000-0000000001{number:02}"),
        labels: [("kubernetes.io/hostname".to_owned(), name.clone())].into(),
        addresses: vec![
            NodeAddress {
                kind: AddressKind::InternalIp,
                address: format!("10.77.0.{number}"),
            },
            NodeAddress {
                kind: AddressKind::Hostname,
                address: format!("conformance-{number}"),
            },
        ],
        pod_cidrs: vec![format!("10.244.{number}.0/24")],
        name,
        architecture: "amd64".to_owned(),
        operating_system: "linux".to_owned(),
        ready: true,
        ..Node::default()
    }
}

/// Returns nodes that no cloud knows: without a provider ID, and with one of each prefix of the
/// plugin.
pub(crate) fn nodes(info: &ProviderInfo) -> Vec<Arc<Node>> {
    let mut nodes: Vec<_> = (1..=3)
        .map(|number| node(format!("conformance-{number}"), number))
        .collect();

    for (number, prefix) in (4..20).zip(&info.provider_id_prefixes) {
        let name = format!("conformance-{number}");
        let provider_id = Some(format!("{prefix}{name}"));
        nodes.push(Node {
            provider_id,
            ..node(name, number)
        });
    }

    nodes.truncate(info.max_batch);
    nodes.into_iter().map(Arc::new).collect()
}

/// Returns nodes with everything that Kubernetes allows at most, and more text than any real node
/// has.
pub(crate) fn unusual_nodes(info: &ProviderInfo) -> Vec<Arc<Node>> {
    // 253 characters: the longest name that a node may have.
    let label = "a".repeat(63);

    let longest = [label.as_str(), &label, &label, "a".repeat(61).as_str()].join(".");
    let mut long = node(longest, 30);
    long.annotations.insert(
        "example.com/text".to_owned(),
        "Ünïcødé 日本語 🚢 \u{202e}\"'\\\n".repeat(2000),
    );

    let mut bare = Node {
        name: "conformance-31".to_owned(),
        ..Node::default()
    };

    let prefix = info
        .provider_id_prefixes
        .first()
        .cloned()
        .unwrap_or_default();
    bare.provider_id =
        Some(format!("{prefix}%00/../~#?//{}", "x".repeat(300))).filter(|_| !prefix.is_empty());

    let mut nodes = vec![Arc::new(long), Arc::new(bare)];
    nodes.truncate(info.max_batch);
    nodes
}

/// Returns a Service with two ports.
pub(crate) fn service() -> Service {
    let port = |name: &str, port| ServicePort {
        name: name.to_owned(),
        port,
        target_port: "8080".to_owned(),
        node_port: 30_000 + port,
        ..ServicePort::default()
    };
    Service {
        namespace: "conformance".to_owned(),
        name: "web".to_owned(),
        uid: "5a1c0de5-0000-4000-8000-000000000200".to_owned(),
        ports: vec![port("http", 80), port("https", 443)],
        ip_families: vec![IpFamily::V4],
        allocate_node_ports: true,
        cluster_ips: vec!["10.96.0.77".to_owned()],
        ..Service::default()
    }
}

/// Returns a Service with long names and annotations, ports of all kinds, and fields that others do
/// not have.
fn unusual_service() -> Service {
    let annotations = [(
        "example.com/text".to_owned(),
        "Ünïcødé 日本語 🚢 \u{202e}".repeat(2000),
    )]
    .into();
    let port = |name: &str, transport, port| ServicePort {
        name: name.repeat(63),
        transport,
        port,
        target_port: "named-port-here".to_owned(),
        node_port: 0,
        ..ServicePort::default()
    };
    Service {
        namespace: "n".repeat(63),
        name: "s".repeat(63),
        uid: "5a1c0de5-0000-4000-8000-000000000201".to_owned(),
        annotations,
        ports: vec![
            port("u", Transport::Udp, 53),
            port("s", Transport::Sctp, 65535),
        ],
        ip_families: vec![IpFamily::V6, IpFamily::V4],
        cluster_ips: vec!["2001:db8::77".to_owned(), "10.96.0.78".to_owned()],
        load_balancer_ip: Some("not an address".to_owned()),
        source_ranges: vec!["2001:db8::/32".to_owned()],
        allocate_node_ports: false,
        ..service()
    }
}

/// Returns routes of both IP families to nodes of which little is known.
fn unusual_routes(info: &ProviderInfo) -> Vec<NewRoute> {
    let mut unusual = routes(&unusual_nodes(info));
    for (route, cidr) in unusual.iter_mut().zip(["2001:db8:1::/64", "10.245.0.0/16"]) {
        cidr.clone_into(&mut route.destination_cidr);
    }
    unusual
}

/// Returns a route of which the cloud knows little, and which does not exist.
fn unknown_route() -> Route {
    Route {
        name: "../conformance?unknown".to_owned(),
        target_node: None,
        target_addresses: None,
        destination_cidr: "2001:db8:2::/64".to_owned(),
        blackhole: true,
    }
}

/// Returns a route to each node.
fn routes(nodes: &[Arc<Node>]) -> Vec<NewRoute> {
    let route = |node: &Arc<Node>| NewRoute {
        name_hint: node.uid.clone(),
        target_node: node.name.clone(),
        target_provider_id: node.provider_id.clone(),
        target_addresses: node.addresses.clone(),
        destination_cidr: node.pod_cidrs.first().cloned().unwrap_or_default(),
    };
    nodes.iter().map(route).collect()
}

/// Returns those of the routes that were created like this. Others are those of the cloud's owner.
pub(crate) fn created(routes: Vec<Route>, wanted: &[NewRoute]) -> Vec<Route> {
    let is_created = |it: &Route| {
        let mut wanted = wanted.iter();
        wanted.any(|new| new.destination_cidr == it.destination_cidr)
    };
    routes.into_iter().filter(is_created).collect()
}

/// Returns two volumes for Pods on one node each: a file system, and a block device.
pub(crate) fn new_volumes(info: &ProviderInfo) -> Vec<NewVolume> {
    let modes = info.driver.as_ref().map(|driver| &driver.access_modes);
    let mode = modes.and_then(|modes| modes.first().copied());
    let volume = |number: u8, file_system: Option<&str>| NewVolume {
        name: format!("pvc-5a1c0de5-0000-4000-8000-0000000003{number:02}"),
        size: SizeRange {
            bytes: u64::from(number) << 30,
            limit: None,
        },
        capabilities: vec![VolumeCapability {
            mode: mode.unwrap_or(AccessMode::SingleNodeWriter),
            file_system: file_system.map(Into::into),
        }],
        ..NewVolume::default()
    };

    let mut volumes = vec![volume(1, Some("ext4")), volume(2, None)];
    volumes.truncate(info.max_batch);
    volumes
}

/// Returns a snapshot of each volume.
pub(crate) fn new_snapshots(volumes: &[VolumeId]) -> Vec<NewSnapshot> {
    let snapshot = |(number, volume): (u8, &VolumeId)| NewSnapshot {
        name: format!("snapshot-5a1c0de5-0000-4000-8000-0000000004{number:02}"),
        volume: volume.clone(),
        parameters: skydock_cloud::Pairs::new(),
        owner: None,
    };
    (1..).zip(volumes).map(snapshot).collect()
}

/// Returns the volumes that a call has created.
pub(crate) fn created_volumes(answer: Option<&Answer>) -> Vec<VolumeId> {
    match answer {
        Some(Answer::CreateVolumes(all)) => all.iter().flatten().map(|it| it.id.clone()).collect(),
        _ => Vec::new(),
    }
}

/// Returns the snapshots that a call has created.
pub(crate) fn created_snapshots(answer: Option<&Answer>) -> Vec<SnapshotId> {
    match answer {
        Some(Answer::CreateSnapshots(all)) => {
            all.iter().flatten().map(|it| it.id.clone()).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns volumes with the longest name, and with more requirements than any cloud can meet.
fn unusual_volumes(info: &ProviderInfo) -> Vec<NewVolume> {
    let pairs = |key: &str| {
        let text = "Ünïcødé 日本語 🚢 \u{202e}".to_owned();
        skydock_cloud::Pairs::from([(key.to_owned(), text)])
    };
    let mut volumes = new_volumes(info);
    for volume in &mut volumes {
        volume.name = format!("{}{}", "x".repeat(120), volume.size.bytes >> 30);
        volume.size = SizeRange {
            bytes: u64::MAX >> 1,
            limit: Some(u64::MAX >> 1),
        };
        volume.parameters = pairs("unknown");
        volume.requisite = vec![pairs("topology.conformance.example/zone")];
    }
    volumes
}

/// Returns the ID of a volume that does not exist.
fn unknown_volume() -> VolumeId {
    VolumeId("../conformance?unknown".to_owned())
}

/// Returns the arguments of calls about these nodes.
pub(crate) fn arguments(nodes: &[Arc<Node>]) -> Arguments {
    Arguments {
        nodes: nodes.to_vec(),
        service: service(),
        node_set: nodes.to_vec().into(),
        new_routes: routes(nodes),
        ..Arguments::default()
    }
}

/// Returns unusual arguments. The nodes of the load balancer are these.
pub(crate) fn unusual_arguments(info: &ProviderInfo, nodes: &[Arc<Node>]) -> Arguments {
    Arguments {
        nodes: unusual_nodes(info),
        service: unusual_service(),
        node_set: nodes.to_vec().into(),
        new_routes: unusual_routes(info),
        routes: vec![unknown_route()],
        new_volumes: unusual_volumes(info),
        volume_ids: vec![unknown_volume()],
        new_attachments: vec![NewAttachment {
            volume: unknown_volume(),
            node: "conformance 日本語".to_owned(),
            capability: VolumeCapability {
                mode: AccessMode::MultiNodeMultiWriter,
                file_system: Some(String::new()),
            },
            context: skydock_cloud::Pairs::new(),
        }],
        attachments: vec![Attachment {
            volume: unknown_volume(),
            node: None,
        }],
        expansions: vec![Expansion {
            volume: unknown_volume(),
            size: SizeRange {
                bytes: u64::MAX >> 1,
                limit: None,
            },
        }],
        modifications: vec![Modification {
            volume: unknown_volume(),
            attributes: skydock_cloud::Pairs::new(),
        }],
        new_snapshots: new_snapshots(&[unknown_volume()]),
        snapshot_ids: vec![SnapshotId("../conformance?unknown".to_owned())],
        capacity_requests: vec![CapacityRequest::default()],
    }
}
