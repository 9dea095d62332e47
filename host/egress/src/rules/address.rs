//! The addresses that plugins may connect to, whatever host name resolved to them.

use std::{
    collections::HashSet,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Why an address is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A metadata service, which hands out the machine's cloud identity. Never opened.
    Metadata,
    /// The Kubernetes API of this cluster, or a port of the control plane on this machine. Never
    /// opened.
    ApiServer,
    /// Not the address of a single machine: unspecified, multicast, broadcast, reserved or a
    /// transition mechanism. Never opened.
    Special,
    /// A loopback address. Opened only by a network within 127.0.0.0/8 or `::1`.
    Loopback,
    /// A link-local address. Opened only by a network within the link-local range.
    LinkLocal,
    /// A Service or a Pod of the cluster, or this machine. Opened only by a network within the
    /// cluster's network or the machine's address.
    Closed,
    /// A private address that no CIDR opens.
    Private,
}

/// A connection to this address is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub struct AddressDenied {
    /// The address before conversion to IPv4.
    pub address: IpAddr,
    /// The address that a network must contain to open it, which is the one after conversion to
    /// IPv4.
    pub judged: IpAddr,
    /// Why it is denied.
    pub reason: Reason,
}

impl fmt::Display for AddressDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            address,
            judged,
            reason,
        } = self;
        match reason {
            Reason::Metadata => write!(
                f,
                "address {address} is a metadata service, which is always denied"
            ),
            Reason::ApiServer => {
                write!(
                    f,
                    "address {address} and port belong to the Kubernetes API or its control plane, which is always denied"
                )
            }
            Reason::Special => {
                write!(
                    f,
                    "address {address} is reserved or not that of one machine, which is always denied"
                )
            }
            Reason::Loopback => {
                write!(
                    f,
                    "address {address} is loopback: add {judged} itself to `addresses` of the rule"
                )
            }
            Reason::LinkLocal => {
                write!(
                    f,
                    "address {address} is link-local: add {judged} itself to `addresses` of the rule"
                )
            }
            Reason::Closed => write!(
                f,
                "address {address} belongs to the cluster or to this machine: if it is safe, add {judged} itself to `addresses` of the rule"
            ),
            Reason::Private => {
                write!(
                    f,
                    "address {address} is private: add {judged} or its network to `addresses` of the rule"
                )
            }
        }
    }
}

/// Addresses at which clouds hand out identities or secrets without authentication.
const METADATA: &[IpAddr] = &[
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)), // AWS, Azure, GCP, OpenStack, DigitalOcean, Oracle
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 252)), // GKE's metadata server on the node
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),   // AWS ECS task credentials
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 23)),  // AWS EKS pod identity
    IpAddr::V4(Ipv4Addr::new(169, 254, 42, 42)),   // Scaleway
    IpAddr::V4(Ipv4Addr::new(169, 254, 0, 23)),    // Tencent Cloud
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),   // Azure wire server
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)), // Alibaba Cloud
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),     // Oracle Cloud classic
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)), // AWS
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)), // AWS EKS pod identity
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)), // GCP
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe)), // Oracle
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42)), // Scaleway
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xa9fe, 0xa9fe, 0, 0, 0, 0, 1)), // Akamai (Linode)
    IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe)), // OpenStack
];

/// Ports of the control plane, the kubelet and container runtimes, which listen on addresses of
/// nodes and may trust local clients.
const CONTROL_PLANE: [u16; 28] = [
    2375, 2376, // Docker
    2379, 2380, 2381, 2382, // etcd
    6443, 6444, // API server, and the local one of k3s
    8132, 8133, 8134, // konnectivity
    9345, // RKE2
    10248, 10249, 10250, 10255, 10256, 10257, 10258, 10259,
    10260, // kubelet, kube-proxy, controller managers, scheduler, Skydock
    12379, 12380, // etcd of MicroK8s
    16443, // API server of MicroK8s
    19001, // dqlite
    25000, // MicroK8s
    50000, 50001, // Talos
];

/// Addresses of the cluster, which are denied whatever name resolves to them. Determined again for
/// each name resolution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterAddresses {
    /// Addresses of the Kubernetes API: `KUBERNETES_SERVICE_HOST`, and what the server in the
    /// kubeconfig resolves to. Never opened: all ports of the address, or, if the address is on
    /// this machine, its port on all of the machine's addresses.
    pub api_server: Vec<SocketAddr>,
    /// The CIDRs of Services and Pods.
    pub cluster: Vec<IpNet>,
    /// This machine's own addresses ([`own_addresses`](crate::own_addresses)).
    pub own: Vec<IpAddr>,
    /// Ports of this machine that are never opened, in addition to those of the control plane.
    pub own_ports: Vec<u16>,
    /// Addresses of nodes. Their ports of the control plane and of the kubelet, and that of the API
    /// server, are never opened.
    pub nodes: Arc<HashSet<IpAddr>>,
}

/// The addresses that a rule allows. The default allows only public addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    /// Networks that are allowed although they are not public, for example those of an on-premises
    /// cloud.
    pub opened: Vec<IpNet>,
    /// NAT64 prefixes (RFC 6052) in addition to 64:ff9b::/96. Their addresses contain an IPv4
    /// address to which the translator connects. The length must be 32, 40, 48, 56, 64 or 96.
    pub nat64: Vec<Ipv6Net>,
}

impl AddressPolicy {
    /// Checks an address and returns the one to connect to, which differs only for IPv4 addresses
    /// that are written as IPv6.
    ///
    /// # Errors
    /// [`AddressDenied`] with the reason if the address is not allowed.
    pub fn check(
        &self,
        to: SocketAddr,
        closed: &ClusterAddresses,
    ) -> Result<SocketAddr, AddressDenied> {
        let unmapped = unmapped(to.ip());
        let judged = translated(&self.nat64, unmapped);
        let denied = |reason| {
            Err(AddressDenied {
                address: to.ip(),
                judged,
                reason,
            })
        };

        // Both the address and the one that a NAT64 translator connects to must be allowed.
        for address in [unmapped, judged] {
            if METADATA.contains(&address) {
                return denied(Reason::Metadata);
            }
            if closed.is_api_server(SocketAddr::new(address, to.port())) {
                return denied(Reason::ApiServer);
            }
        }

        let class = match judged {
            IpAddr::V4(it) => classify_v4(it),
            IpAddr::V6(it) => classify_v6(it),
        };
        let exactly = |around: &[IpNet]| {
            let within = |net: &&IpNet| around.iter().any(|around| around.contains(*net));
            self.opened
                .iter()
                .filter(within)
                .any(|net| net.contains(&judged))
        };

        match class {
            Some(Reason::Loopback) if !exactly(&LOOPBACK) => return denied(Reason::Loopback),
            Some(Reason::LinkLocal) if !exactly(&LINK_LOCAL) => return denied(Reason::LinkLocal),
            Some(Reason::Special) => return denied(Reason::Special),
            _ => {}
        }

        // Networks of the cluster must be opened explicitly: a larger network that contains them
        // does not open them.
        let around = closed.around(judged);
        if !around.is_empty() && !exactly(&around) {
            return denied(Reason::Closed);
        }

        if class == Some(Reason::Private) && !self.opened.iter().any(|net| net.contains(&judged)) {
            return denied(Reason::Private);
        }

        Ok(SocketAddr::new(unmapped, to.port()))
    }
}

/// Returns the IPv4 address to which a NAT64 translator with one of these prefixes, or with the
/// well-known one, connects for this address, or else the address itself.
#[must_use]
pub fn translated(nat64: &[Ipv6Net], address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else {
        return address;
    };

    let known = nat64.iter().chain([&WELL_KNOWN_NAT64]);
    let embedded = known
        .filter(|prefix| prefix.contains(&v6))
        .find_map(|prefix| embedded(v6, prefix.prefix_len()));
    embedded.map_or(address, IpAddr::V4)
}

impl ClusterAddresses {
    fn is_own(&self, address: IpAddr) -> bool {
        address.is_loopback() || self.own.contains(&address)
    }

    fn is_api_server(&self, to: SocketAddr) -> bool {
        let own = self.is_own(to.ip());
        let is = |api: &SocketAddr| {
            let address = unmapped(api.ip());
            // An API server on this machine is denied by its port, on all addresses of the machine.
            if self.is_own(address) {
                own && api.port() == to.port()
            } else {
                address == to.ip()
            }
        };

        let port = to.port();
        let node = || self.nodes.contains(&to.ip());
        let is_api_port = || {
            self.api_server
                .iter()
                // 443 is the port of the API's Service, and of other servers on nodes.
                .any(|api| api.port() == port && port != 443)
        };

        self.api_server.iter().any(is)
            || own && self.own_ports.contains(&port)
            || CONTROL_PLANE.contains(&port) && (own || node())
            || is_api_port() && node()
    }

    /// Returns the networks of the cluster that contain the address.
    fn around(&self, address: IpAddr) -> Vec<IpNet> {
        let own = self
            .own
            .iter()
            .filter(|own| unmapped(**own) == address && !address.is_loopback());
        let cluster = self
            .cluster
            .iter()
            .filter(|net| net.contains(&address))
            .copied();

        cluster
            .chain(own.map(|own| IpNet::from(unmapped(*own))))
            .collect()
    }
}

const LOOPBACK: [IpNet; 2] = [
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128)),
];
const LINK_LOCAL: [IpNet; 2] = [
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 0, 0), 16)),
    IpNet::V6(Ipv6Net::new_assert(
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0),
        10,
    )),
];
const WELL_KNOWN_NAT64: Ipv6Net =
    Ipv6Net::new_assert(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

/// Returns true if the network is a loopback or link-local network.
pub(crate) fn is_local(net: &IpNet) -> bool {
    LOOPBACK
        .iter()
        .chain(&LINK_LOCAL)
        .any(|around| around.contains(net))
}

/// Returns true if the network is a single address of a metadata service, in any form.
pub(crate) fn is_metadata(net: &IpNet) -> bool {
    net.prefix_len() == net.max_prefix_len() && is_metadata_address(net.addr())
}

/// Returns true if no address of the network can be opened: they are reserved, or it is the IPv4
/// addresses in them that are judged.
pub(crate) fn is_never_opened(net: &IpNet) -> bool {
    // The ranges of an Internet protocol's space are smaller than a sixteenth of it.
    net.prefix_len() >= 4
        && [net.network(), net.broadcast()]
            .into_iter()
            .all(|it| match it {
                IpAddr::V4(it) => classify_v4(it) == Some(Reason::Special),
                IpAddr::V6(it) => classify_v6(it) == Some(Reason::Special),
            })
}

/// Returns true if the address is one of a metadata service, also if it is written as an IPv6
/// address that contains the IPv4 address.
#[must_use]
pub fn is_metadata_address(address: IpAddr) -> bool {
    let plain = unmapped(address);
    METADATA.contains(&plain) || METADATA.contains(&translated(&[], plain))
}

/// Returns the IPv4 address inside an IPv4-mapped or IPv4-compatible address, or else the address
/// itself.
fn unmapped(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else {
        return address;
    };
    let [a, b, c, d, e, f, high, low] = v6.segments();
    if !matches!((a, b, c, d, e, f), (0, 0, 0, 0, 0, 0 | 0xffff))
        || v6.is_loopback()
        || v6.is_unspecified()
    {
        return address;
    }

    let [h0, h1] = high.to_be_bytes();
    let [l0, l1] = low.to_be_bytes();
    Ipv4Addr::new(h0, h1, l0, l1).into()
}

/// Returns the IPv4 address that follows a prefix of this length (RFC 6052, section 2.2). Byte 8 is
/// skipped.
fn embedded(address: Ipv6Addr, length: u8) -> Option<Ipv4Addr> {
    let bytes = address.octets();
    let at = usize::from(length / 8);
    let mut carried = bytes
        .iter()
        .enumerate()
        .skip(at)
        .filter(|(at, _)| *at != 8 || length == 96)
        .map(|(_, byte)| *byte);
    let mut next = || carried.next();
    Some(Ipv4Addr::new(next()?, next()?, next()?, next()?))
}

fn classify_v4(it: Ipv4Addr) -> Option<Reason> {
    match it.octets() {
        [127, ..] => Some(Reason::Loopback),
        [169, 254, ..] => Some(Reason::LinkLocal),
        // "This network", IETF protocol assignments, benchmarks, documentation, multicast, reserved
        // and broadcast (RFC 6890).
        [0, ..]
        | [192, 0, 0 | 2, _]
        | [198, 18 | 19, ..]
        | [198, 51, 100, _]
        | [203, 0, 113, _]
        | [224..=255, ..] => Some(Reason::Special),
        // RFC 1918, and RFC 6598 (carrier-grade NAT), which clusters use for Pods and load
        // balancers.
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => {
            Some(Reason::Private)
        }
        _ => None,
    }
}

fn classify_v6(it: Ipv6Addr) -> Option<Reason> {
    if it.is_loopback() {
        return Some(Reason::Loopback);
    }

    match it.segments() {
        [0xfe80..=0xfebf, ..] => Some(Reason::LinkLocal),
        // Unique local (RFC 4193) and site-local, its predecessor.
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Some(Reason::Private),
        // Global unicast is 2000::/3. Within it, 6to4, Teredo and ORCHID addresses contain or hide
        // other addresses, and documentation addresses are not routed.
        [0x2002, ..]
        | [0x2001, 0, ..]
        | [0x2001, 0x10..=0x2f, ..]
        | [0x2001, 0xdb8, ..]
        | [0x3fff, 0..=0xfff, ..] => Some(Reason::Special),
        [0x2000..=0x3fff, ..] => None,
        _ => Some(Reason::Special),
    }
}

#[cfg(test)]
mod tests;
