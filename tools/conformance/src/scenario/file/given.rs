//! Objects of the cluster, with the names that their fields have in Kubernetes.

use serde::Deserialize;
use skydock_cloud::{
    AddressKind, IpFamily, Node, NodeAddress, Pairs, Service, ServicePort, TrafficPolicy, Transport,
};

use super::{SnapshotSpec, VolumeSpec};

/// Objects of the cluster.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Given {
    pub(crate) nodes: Vec<NodeSpec>,
    pub(crate) services: Vec<ServiceSpec>,
    /// Not objects of the cluster, but what they lead to: what a claim needs.
    pub(crate) volumes: Vec<VolumeSpec>,
    pub(crate) snapshots: Vec<SnapshotSpec>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NodeSpec {
    pub(crate) name: String,
    /// By default, derived from the name.
    uid: Option<String>,
    #[serde(rename = "providerID")]
    provider_id: Option<String>,
    #[serde(default)]
    labels: Pairs,
    #[serde(default)]
    annotations: Pairs,
    #[serde(default)]
    addresses: Vec<AddressSpec>,
    #[serde(default, rename = "podCIDRs")]
    pod_cidrs: Vec<String>,
    #[serde(default = "yes")]
    ready: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AddressSpec {
    r#type: AddressType,
    address: String,
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum AddressType {
    Hostname,
    #[serde(rename = "InternalIP")]
    InternalIp,
    #[serde(rename = "ExternalIP")]
    ExternalIp,
    #[serde(rename = "InternalDNS")]
    InternalDns,
    #[serde(rename = "ExternalDNS")]
    ExternalDns,
}

/// A Service of type LoadBalancer.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ServiceSpec {
    pub(crate) name: String,
    #[serde(default = "default_namespace")]
    namespace: String,
    /// By default, derived from the name.
    uid: Option<String>,
    #[serde(default)]
    labels: Pairs,
    #[serde(default)]
    annotations: Pairs,
    ports: Vec<PortSpec>,
    #[serde(rename = "loadBalancerIP")]
    load_balancer_ip: Option<String>,
    load_balancer_class: Option<String>,
    #[serde(default)]
    load_balancer_source_ranges: Vec<String>,
    #[serde(default)]
    external_traffic_policy: Policy,
    #[serde(default)]
    health_check_node_port: u16,
    #[serde(default = "only_ipv4")]
    ip_families: Vec<Family>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PortSpec {
    #[serde(default)]
    name: String,
    #[serde(default)]
    protocol: Protocol,
    port: u16,
    /// None by default.
    #[serde(default)]
    node_port: u16,
    /// Number or name; `port` by default.
    target_port: Option<String>,
    app_protocol: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Protocol {
    #[default]
    Tcp,
    Udp,
    Sctp,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
enum Policy {
    #[default]
    Cluster,
    Local,
}

#[derive(Clone, Copy, Debug, Deserialize)]
enum Family {
    #[serde(rename = "IPv4")]
    V4,
    #[serde(rename = "IPv6")]
    V6,
}

fn yes() -> bool {
    true
}

fn default_namespace() -> String {
    "default".to_owned()
}

fn only_ipv4() -> Vec<Family> {
    vec![Family::V4]
}

/// Returns a UID that follows from the name, by FNV-1a: the same in each run, so that hooks can
/// name what was made for it.
fn uid(kind: u8, name: &str) -> String {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!(
        "5a1c0de5-0000-4000-8{kind:03x}-{:012x}",
        hash & 0xffff_ffff_ffff
    )
}

impl NodeSpec {
    pub(crate) fn node(&self) -> Node {
        let Self {
            name,
            uid: given,
            provider_id,
            labels,
            annotations,
            addresses,
            pod_cidrs,
            ready,
        } = self;

        let mut labels = labels.clone();
        // The kubelet gives each node this label.
        labels
            .entry("kubernetes.io/hostname".to_owned())
            .or_insert_with(|| name.clone());

        Node {
            uid: given.clone().unwrap_or_else(|| uid(1, name)),
            provider_id: provider_id.clone(),
            labels,
            annotations: annotations.clone(),
            addresses: addresses.iter().map(AddressSpec::address).collect(),
            pod_cidrs: pod_cidrs.clone(),
            ready: *ready,
            name: name.clone(),
            architecture: "amd64".to_owned(),
            operating_system: "linux".to_owned(),
            ..Node::default()
        }
    }
}

impl AddressSpec {
    fn address(&self) -> NodeAddress {
        let kind = match self.r#type {
            AddressType::Hostname => AddressKind::Hostname,
            AddressType::InternalIp => AddressKind::InternalIp,
            AddressType::ExternalIp => AddressKind::ExternalIp,
            AddressType::InternalDns => AddressKind::InternalDns,
            AddressType::ExternalDns => AddressKind::ExternalDns,
        };

        NodeAddress {
            kind,
            address: self.address.clone(),
        }
    }
}

impl ServiceSpec {
    pub(crate) fn service(&self) -> Service {
        let policy = match self.external_traffic_policy {
            Policy::Cluster => TrafficPolicy::Cluster,
            Policy::Local => TrafficPolicy::Local,
        };
        let family = |family: &Family| match family {
            Family::V4 => IpFamily::V4,
            Family::V6 => IpFamily::V6,
        };

        Service {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self
                .uid
                .clone()
                .unwrap_or_else(|| uid(2, &format!("{}/{}", self.namespace, self.name))),
            labels: self.labels.clone(),
            annotations: self.annotations.clone(),
            ports: self.ports.iter().map(PortSpec::port).collect(),
            load_balancer_ip: self.load_balancer_ip.clone(),
            load_balancer_class: self.load_balancer_class.clone(),
            source_ranges: self.load_balancer_source_ranges.clone(),
            external_traffic_policy: policy,
            health_check_node_port: self.health_check_node_port,
            ip_families: self.ip_families.iter().map(family).collect(),
            allocate_node_ports: true,
            ..Service::default()
        }
    }
}

impl PortSpec {
    fn port(&self) -> ServicePort {
        let transport = match self.protocol {
            Protocol::Tcp => Transport::Tcp,
            Protocol::Udp => Transport::Udp,
            Protocol::Sctp => Transport::Sctp,
        };

        ServicePort {
            name: self.name.clone(),
            transport,
            app_protocol: self.app_protocol.clone(),
            port: self.port,
            target_port: self
                .target_port
                .clone()
                .unwrap_or_else(|| self.port.to_string()),
            node_port: self.node_port,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_uids_that_follow_from_their_names() {
        let node = |text: &str| serde_saphyr::from_str::<NodeSpec>(text).unwrap().node();
        let (one, other) = (node("name: node-1"), node("name: node-2"));
        assert_eq!(one, node("name: node-1"));
        assert!(
            one.uid != other.uid && one.uid.len() == 36,
            "{} {}",
            one.uid,
            other.uid
        );
        assert_eq!(node("{name: node-1, uid: u}").uid, "u");
    }

    #[test]
    fn fields_are_named_as_in_kubernetes() {
        let text =
            "{name: web, ports: [{port: 53, nodePort: 30053, protocol: UDP}], loadBalancerSourceRanges: [10.0.0.0/8],
                    externalTrafficPolicy: Local, healthCheckNodePort: 31000, ipFamilies: [IPv4, IPv6]}";
        let service = serde_saphyr::from_str::<ServiceSpec>(text)
            .unwrap()
            .service();
        let port = service.ports.first().unwrap();
        assert_eq!(
            (port.transport, port.node_port, port.target_port.as_str()),
            (Transport::Udp, 30053, "53")
        );
        assert_eq!(
            (service.namespace.as_str(), service.health_check_node_port),
            ("default", 31000)
        );
        assert_eq!(service.ip_families, [IpFamily::V4, IpFamily::V6]);
        assert_eq!(service.external_traffic_policy, TrafficPolicy::Local);
        let text = "{name: n, providerID: 'x://1', podCIDRs: [10.244.1.0/24], addresses: [{type: InternalIP, address: 10.0.0.1}]}";
        let node = serde_saphyr::from_str::<NodeSpec>(text).unwrap().node();
        assert_eq!(
            (
                node.provider_id.as_deref(),
                node.pod_cidrs.len(),
                node.addresses.len()
            ),
            (Some("x://1"), 1, 1)
        );
        assert!(node.ready);
    }
}
