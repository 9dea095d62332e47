//! A Kubernetes Service as a provider sees it.

use crate::{LoadBalancerStatus, Pairs, Transport};

/// One port of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServicePort {
    /// Name of the port; empty for the only port of a service.
    pub name: String,
    /// Transport protocol.
    pub transport: Transport,
    /// `appProtocol`.
    pub app_protocol: Option<String>,
    /// Port that the load balancer listens on.
    pub port: u16,
    /// Port of the Pods: a number as text, or a port's name.
    pub target_port: String,
    /// Port on every node; 0 if there is none.
    pub node_port: u16,
}

/// Which Pods receive traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // named as in Kubernetes
pub enum TrafficPolicy {
    #[default]
    Cluster,
    Local,
}

/// IP family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // named as in Kubernetes
pub enum IpFamily {
    V4,
    V6,
}

/// Number of IP families that a Service requires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // named as in Kubernetes
pub enum IpFamilyPolicy {
    #[default]
    SingleStack,
    PreferDualStack,
    RequireDualStack,
}

/// A Kubernetes Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.labels`.
    pub labels: Pairs,
    /// `metadata.annotations`.
    pub annotations: Pairs,
    /// `spec.ports`.
    pub ports: Vec<ServicePort>,
    /// `spec.loadBalancerIP`; `None` if empty.
    pub load_balancer_ip: Option<String>,
    /// `spec.loadBalancerClass`.
    pub load_balancer_class: Option<String>,
    /// `spec.loadBalancerSourceRanges`, or else the ranges of the annotation. Empty means that all
    /// clients are allowed.
    pub source_ranges: Vec<String>,
    /// `spec.externalTrafficPolicy`.
    pub external_traffic_policy: TrafficPolicy,
    /// `spec.internalTrafficPolicy`.
    pub internal_traffic_policy: TrafficPolicy,
    /// `spec.healthCheckNodePort`; 0 if there is none.
    pub health_check_node_port: u16,
    /// Timeout of session affinity ClientIP in seconds; `None` without affinity.
    pub client_ip_affinity_seconds: Option<u32>,
    /// `spec.ipFamilies`.
    pub ip_families: Vec<IpFamily>,
    /// `spec.ipFamilyPolicy`.
    pub ip_family_policy: IpFamilyPolicy,
    /// `spec.allocateLoadBalancerNodePorts`.
    pub allocate_node_ports: bool,
    /// `spec.publishNotReadyAddresses`.
    pub publish_not_ready_addresses: bool,
    /// `spec.clusterIPs`.
    pub cluster_ips: Vec<String>,
    /// `spec.externalIPs`.
    pub external_ips: Vec<String>,
    /// `spec.selector`.
    pub selector: Pairs,
    /// `status.loadBalancer`.
    pub status: LoadBalancerStatus,
    /// True if `metadata.deletionTimestamp` is set.
    pub deleting: bool,
}
