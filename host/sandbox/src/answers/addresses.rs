//! Rules for the IP addresses of nodes and load balancers in answers: which are allowed. kubelets
//! and load balancers have addresses of their own; an answer with the address of something else
//! would send requests of the API server, or the traffic of the whole cluster, to that address.

use std::{
    fmt, iter,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::IpNet;
use skydock_cloud::{Holder, Node, Service};
use skydock_egress::is_metadata_address;

/// Rules for addresses, as far as the operator configures them. What Skydock knows of the cluster
/// is checked in addition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressRules {
    /// Networks of Pod addresses.
    pub pods: Vec<IpNet>,
    /// Networks of Services' cluster IPs.
    pub services: Vec<IpNet>,
    /// Networks that are allowed for load balancers although they are reserved, or contain Pods or
    /// cluster IPs.
    pub allowed: Vec<IpNet>,
    /// Whether load balancers may have addresses of nodes.
    pub node_addresses: bool,
}

/// What is known to have an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// The IPv4 address to which a NAT64 translator of the network connects for it.
    pub(crate) translated: Option<IpAddr>,
    /// The API server has it.
    pub(crate) api_server: bool,
    /// These objects have it.
    pub(crate) holders: Vec<Holder>,
}

/// Reasons why an address or a name cannot belong to a node or a load balancer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// It is not an address: 0.0.0.0/8 and `::`.
    Unspecified,
    /// It is a loopback address, which stands for the machine that connects to it.
    Loopback,
    /// It is link-local, a neighbor of the machine that connects to it; clouds serve credentials
    /// there.
    LinkLocal,
    /// It is a multicast address.
    Multicast,
    /// It is the broadcast address.
    Broadcast,
    /// It is an IPv4 address in the form of an IPv6 address.
    Embedded,
    /// It is reserved for special purposes, or for the future.
    Reserved,
    /// It is that of a metadata service, which hands out the cloud identities of machines.
    Metadata,
    /// The API server has it.
    ApiServer,
    /// The cluster's DNS answers for this name.
    ClusterName,
    /// The cluster's DNS answers for this name with the search path of Pods: it is that of a
    /// Service, as `NAMESPACE/NAME`.
    ServiceName(String),
    /// It belongs to a Pod.
    Pod(IpNet),
    /// It is a Service's cluster IP.
    Service(IpNet),
    /// An object of the cluster has it.
    Held(Holder),
    /// Something of this holds for a node, for which no flag allows it.
    OfNode(Box<Self>),
}

/// Formats the reason as a sentence. The alternate form does not say what allows it.
impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (allowed, nodes_allowed) = if f.alternate() {
            ("", "")
        } else {
            (
                "; to allow it, set --load-balancer-allowed-cidrs",
                "; to allow addresses of nodes, set --load-balancer-allow-node-addresses",
            )
        };

        match self {
            Self::Unspecified => f.write_str("it is unspecified"),
            Self::Loopback => f.write_str("it is a loopback address"),
            Self::LinkLocal => f.write_str("it is link-local"),
            Self::Multicast => f.write_str("it is a multicast address"),
            Self::Broadcast => f.write_str("it is the broadcast address"),
            Self::Embedded => f.write_str("it is an IPv6 address that contains an IPv4 address"),
            Self::Reserved => f.write_str("it is in a reserved range"),
            Self::Metadata => f.write_str("it is a metadata service of clouds"),
            Self::ApiServer => f.write_str("it is the address of the Kubernetes API server"),
            Self::ClusterName => f.write_str("it is a name in the DNS of the cluster"),
            Self::ServiceName(key) => {
                write!(
                    f,
                    "it is the name of Service {key} in the DNS of the cluster"
                )
            }
            Self::Pod(net) => write!(f, "it is in the Pod address range {net}{allowed}"),
            Self::Service(net) => write!(f, "it is in the cluster IP range {net}{allowed}"),
            Self::Held(holder @ (Holder::Node(_) | Holder::NodeName(_))) => {
                write!(f, "it is {holder}{nodes_allowed}")
            }
            Self::Held(holder @ Holder::Pods { .. }) => write!(f, "it is {holder}{allowed}"),
            Self::Held(holder) => write!(f, "it is {holder}"),
            Self::OfNode(why) => write!(f, "{why:#}"),
        }
    }
}

/// Rejects addresses that no machine has.
pub(super) fn possible(address: IpAddr) -> Result<(), Rejected> {
    let rejected = match address {
        IpAddr::V4(it) => match it.octets() {
            [0, ..] => Rejected::Unspecified,
            [127, ..] => Rejected::Loopback,
            [169, 254, ..] => Rejected::LinkLocal,
            // IETF protocol assignments (RFC 6890), and relays of 6to4 (RFC 7526).
            [192, 0, 0, _] | [192, 88, 99, _] => Rejected::Reserved,
            [224..=239, ..] => Rejected::Multicast,
            [255, 255, 255, 255] => Rejected::Broadcast,
            _ => return Ok(()),
        },
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Rejected::Unspecified,
        IpAddr::V6(Ipv6Addr::LOCALHOST) => Rejected::Loopback,
        IpAddr::V6(it) => match it.segments() {
            // IPv4-mapped addresses; IPv4-compatible ones, which are their deprecated predecessors
            // (RFC 4291); IPv4-translated ones (RFC 7915); NAT64 (RFC 6052, RFC 8215); Teredo.
            [0, 0, 0, 0, 0, 0 | 0xffff, ..]
            | [0, 0, 0, 0, 0xffff, 0, ..]
            | [0x64, 0xff9b, ..]
            | [0x2001, 0, ..] => Rejected::Embedded,
            // A machine may have a 6to4 address.
            [0x2002, high, low, ..] if possible(v4(high, low).into()).is_err() => {
                Rejected::Embedded
            }
            // ORCHID (RFC 4843, RFC 7343).
            [0x2001, 0x10..=0x2f, ..] => Rejected::Reserved,
            [0xfe80..=0xfebf, ..] => Rejected::LinkLocal,
            [0xff00..=0xffff, ..] => Rejected::Multicast,
            // Global unicast, unique local, and site-local, its predecessor.
            [0x2000..=0x3fff | 0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] => return Ok(()),
            _ => Rejected::Reserved,
        },
    };

    Err(rejected)
}

/// Returns the address, and the IPv4 address that it contains.
pub(crate) fn forms(address: IpAddr) -> impl Iterator<Item = IpAddr> {
    let contained = match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(it) => match it.segments() {
            [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
            | [0, 0, 0, 0, 0xffff, 0, high, low]
            | [0x64, 0xff9b, .., high, low]
            | [0x2002, high, low, ..] => Some(v4(high, low)),
            _ => None,
        },
    };

    iter::once(address).chain(contained.map(IpAddr::V4))
}

fn v4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(high) << 16 | u32::from(low))
}

fn within(nets: &[IpNet], address: IpAddr) -> Option<IpNet> {
    nets.iter().find(|net| net.contains(&address)).copied()
}

impl Taken {
    /// Returns the address, and the IPv4 address that it leads to.
    fn forms(&self, address: IpAddr) -> impl Iterator<Item = IpAddr> {
        forms(address).chain(self.translated)
    }

    /// Rejects addresses that no machine has in this network.
    fn possible(&self, address: IpAddr) -> Result<(), Rejected> {
        possible(address)?;
        self.translated.map_or(Ok(()), |_| Err(Rejected::Embedded))
    }

    fn by(&self, is: impl Fn(&Holder) -> bool) -> Result<(), Rejected> {
        let holder = self.holders.iter().find(|holder| is(holder));
        holder.map_or(Ok(()), |it| Err(Rejected::Held(it.clone())))
    }
}

impl AddressRules {
    /// Checks an address of this node.
    pub(crate) fn node(&self, address: IpAddr, node: &Node, taken: &Taken) -> Result<(), Rejected> {
        if taken.forms(address).any(is_metadata_address) {
            return Err(Rejected::Metadata);
        }
        taken.possible(address)?;
        taken.by(|holder| matches!(holder, Holder::ClusterIp { .. }))?;
        if let Some(net) = within(&self.services, address) {
            return Err(Rejected::Service(net));
        }

        // If Pods and nodes share a network, the kubelet reports the address itself. Some questions
        // have no addresses, but the Node has.
        let in_question = || {
            let mut known = node.addresses.iter();
            known.any(|it| it.address.parse() == Ok(address))
        };
        let in_cache = || {
            let mut holders = taken.holders.iter();
            holders.any(|it| matches!(it, Holder::Node(of) if *of == node.name))
        };
        if in_question() || in_cache() {
            return Ok(());
        }
        taken.by(|holder| self.is_of_assigned_pods(holder))
    }

    /// Returns true for a Pod CIDR in a network of Pods. A kubelet may write any other into its
    /// Node, and must not keep other nodes from having addresses.
    fn is_of_assigned_pods(&self, holder: &Holder) -> bool {
        let Holder::Pods { cidr, .. } = holder else {
            return false;
        };
        let cidr = cidr.parse::<IpNet>();
        cidr.is_ok_and(|cidr| self.pods.iter().any(|net| net.contains(&cidr)))
    }

    /// Checks a name of this node, which these objects have. The API server may connect to it.
    pub(crate) fn node_name(node: &Node, holders: Vec<Holder>) -> Result<(), Rejected> {
        if holders.contains(&Holder::NodeName(node.name.clone())) {
            return Ok(());
        }

        let is_other = |it: &Holder| matches!(it, Holder::NodeName(_));
        holders
            .into_iter()
            .find(is_other)
            .map_or(Ok(()), |it| Err(Rejected::Held(it)))
    }

    /// Checks a host name of a load balancer, which these objects have.
    pub(crate) fn load_balancer_name(&self, holders: Vec<Holder>) -> Result<(), Rejected> {
        let is_rejected = |it: &Holder| match it {
            Holder::Node(_) | Holder::NodeName(_) => !self.node_addresses,
            _ => true,
        };
        holders
            .into_iter()
            .find(is_rejected)
            .map_or(Ok(()), |it| Err(Rejected::Held(it)))
    }

    /// Checks an address of the load balancer of this Service.
    pub(crate) fn load_balancer(
        &self,
        address: IpAddr,
        service: &Service,
        taken: &Taken,
    ) -> Result<(), Rejected> {
        // Nobody can allow these: whoever has them serves the whole cluster.
        if taken.forms(address).any(is_metadata_address) {
            return Err(Rejected::Metadata);
        }

        if taken.api_server {
            return Err(Rejected::ApiServer);
        }

        let own = |form: IpAddr| service.cluster_ips.iter().any(|ip| ip.parse() == Ok(form));
        if taken.forms(address).any(own) {
            return Err(Rejected::Held(Holder::ClusterIp {
                namespace: service.namespace.clone(),
                name: service.name.clone(),
            }));
        }

        taken.by(|it| matches!(it, Holder::ClusterIp { .. } | Holder::LoadBalancer { .. }))?;

        // Whoever can write a Service can write any external IP, also one that is already the
        // address of another's load balancer.
        let ingress = service.status.ingress.iter();
        let has_it = ingress
            .filter_map(|it| it.ip.as_deref()?.parse::<IpAddr>().ok())
            .any(|it| it == address);

        taken.by(|it| {
            let other = |namespace: &str, name: &str| {
                (namespace, name) != (&*service.namespace, &*service.name)
            };
            matches!(it, Holder::ExternalIp { namespace, name } if !has_it && other(namespace, name))
        })?;

        // On bare metal, load balancers may have the addresses of nodes.
        taken.by(|it| matches!(it, Holder::Node(_) if !self.node_addresses))?;

        // The operator can allow what follows.
        if within(&self.allowed, address).is_some() {
            return Ok(());
        }

        taken.possible(address)?;
        // Only nodes have these: Google Cloud has subnets of this range.
        if matches!(address, IpAddr::V4(it) if it.octets() >= [240, 0, 0, 0]) {
            return Err(Rejected::Reserved);
        }
        if let Some(net) = within(&self.services, address) {
            return Err(Rejected::Service(net));
        }
        if let Some(net) = within(&self.pods, address) {
            return Err(Rejected::Pod(net));
        }

        taken.by(|it| matches!(it, Holder::Pods { .. }))
    }
}

#[cfg(test)]
mod tests;
