//! Status of a load balancer.

use crate::Transport;

/// How traffic to a load balancer's address is handled inside the cluster (core/v1
/// LoadBalancerIPMode).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // named as in Kubernetes
pub enum IpMode {
    Vip,
    Proxy,
}

/// State of one port of an ingress point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// Port of the Service.
    pub port: u16,
    /// The transport of the port: a Service may have the same number for two.
    pub transport: Transport,
    /// Reason in CamelCase, or a qualified name (`example.com/reason`), if the port does not work.
    pub error: Option<String>,
}

/// One point at which a load balancer receives traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ingress {
    /// IP address, if the load balancer is known by address.
    pub ip: Option<String>,
    /// DNS name, if the load balancer is known by name.
    pub hostname: Option<String>,
    /// If `None`, the API server's default applies.
    pub ip_mode: Option<IpMode>,
    /// One entry for each port, or none.
    pub ports: Vec<PortStatus>,
}

/// The complete `status.loadBalancer`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadBalancerStatus {
    /// Ingress points; empty if the load balancer does not have an address yet, or does not exist.
    pub ingress: Vec<Ingress>,
}
