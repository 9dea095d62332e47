//! What a load balancer says of itself.

use crate::Transport;

/// How an address of a load balancer is handled inside the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // Kubernetes' own words
pub enum IpMode {
    Vip,
    Proxy,
}

/// State of one port of an ingress point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// Port of the service.
    pub port: u16,
    /// Transport protocol.
    pub transport: Transport,
    /// CamelCase reason if the port does not work.
    pub error: Option<String>,
}

/// One point where a load balancer takes traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ingress {
    /// Address, if it has one.
    pub ip: Option<String>,
    /// DNS name, if it has one.
    pub hostname: Option<String>,
    /// `None` leaves it to the API server.
    pub ip_mode: Option<IpMode>,
    /// One entry per port, or none.
    pub ports: Vec<PortStatus>,
}

/// `status.loadBalancer`, whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadBalancerStatus {
    /// Empty means: exists, and has no address yet.
    pub ingress: Vec<Ingress>,
}
