//! Which addresses a plugin may reach, whatever name led there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Why an address is out of reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It hands out the machine's cloud identity. Never opened.
    Metadata,
    /// The host itself. Never opened.
    Loopback,
    /// The wire the host is on. Never opened.
    LinkLocal,
    /// No single machine: unspecified, multicast, broadcast, reserved or a transition mechanism. Never opened.
    Special,
    /// Closed by the operator, or the cluster's own API. Never opened.
    Closed,
    /// A private network, and no CIDR opens it.
    Private,
}

impl Reason {
    /// As a metric label.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::Loopback => "loopback",
            Self::LinkLocal => "link_local",
            Self::Special => "special",
            Self::Closed => "closed",
            Self::Private => "private",
        }
    }
}

/// An address that may not be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("address {address} is not permitted ({})", reason.as_str())]
pub struct AddressDenied {
    /// The address as it came.
    pub address: IpAddr,
    /// Why.
    pub reason: Reason,
}

/// Addresses at which clouds hand out identities or secrets to whoever asks.
const METADATA: [IpAddr; 9] = [
    IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)), // AWS, Azure, GCP, OpenStack, DigitalOcean, Oracle
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 2)),   // AWS ECS task credentials
    IpAddr::V4(Ipv4Addr::new(169, 254, 170, 23)),  // AWS EKS pod identity
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),   // Azure wire server
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)), // Alibaba Cloud
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),     // Oracle Cloud classic
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)), // AWS
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)), // AWS EKS pod identity
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)), // GCP
];

/// What may be reached. The default lets public addresses pass and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    /// Private networks that may be reached, such as those of a cloud on one's own premises.
    pub opened: Vec<IpNet>,
    /// Networks that may not be reached, before all else: the Kubernetes API belongs here.
    pub closed: Vec<IpNet>,
}

impl AddressPolicy {
    /// Decides on one address and gives it in canonical form (no IPv4 in IPv6 clothes): connect to that one.
    ///
    /// # Errors
    /// [`AddressDenied`] with the reason.
    pub fn check(&self, address: IpAddr) -> Result<IpAddr, AddressDenied> {
        let canonical = canonical(address);
        let within = |nets: &[IpNet]| nets.iter().any(|net| net.contains(&canonical));
        let reason = match canonical {
            it if METADATA.contains(&it) => Some(Reason::Metadata),
            _ if within(&self.closed) => Some(Reason::Closed),
            IpAddr::V4(it) => classify_v4(it),
            IpAddr::V6(it) => classify_v6(it),
        };
        match reason {
            Some(Reason::Private) if within(&self.opened) => Ok(canonical),
            Some(reason) => Err(AddressDenied { address, reason }),
            None => Ok(canonical),
        }
    }
}

/// The IPv4 address inside an IPv4-mapped, IPv4-compatible or NAT64 (RFC 6052) address, else the address itself.
fn canonical(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let [a, b, c, d, e, f, high, low] = v6.segments();
    let embedded = matches!((a, b, c, d, e, f), (0, 0, 0, 0, 0, 0 | 0xffff) | (0x64, 0xff9b, 0, 0, 0, 0));
    if !embedded || v6.is_loopback() || v6.is_unspecified() {
        return address;
    }
    let ([h0, h1], [l0, l1]) = (high.to_be_bytes(), low.to_be_bytes());
    Ipv4Addr::new(h0, h1, l0, l1).into()
}

fn classify_v4(it: Ipv4Addr) -> Option<Reason> {
    match it.octets() {
        [127, ..] => Some(Reason::Loopback),
        [169, 254, ..] => Some(Reason::LinkLocal),
        // "This network", IETF protocol assignments, benchmarks, documentation, multicast, reserved and broadcast (RFC 6890).
        [0, ..] | [192, 0, 0 | 2, _] | [198, 18 | 19, ..] | [198, 51, 100, _] | [203, 0, 113, _] | [224..=255, ..] => {
            Some(Reason::Special)
        }
        // RFC 1918, and RFC 6598 (carrier-grade NAT), which clusters use for Pods and load balancers.
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => Some(Reason::Private),
        _ => None,
    }
}

fn classify_v6(it: Ipv6Addr) -> Option<Reason> {
    if it.is_loopback() {
        return Some(Reason::Loopback);
    }
    match it.segments() {
        [0xfe80..=0xfebf, ..] => Some(Reason::LinkLocal),
        // Unique local (RFC 4193), and site-local, which it replaced.
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Some(Reason::Private),
        // Global unicast is 2000::/3; within it 6to4, Teredo and ORCHID carry or hide other addresses, and
        // documentation leads nowhere.
        [0x2002, ..] | [0x2001, 0, ..] | [0x2001, 0x10..=0x2f, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => {
            Some(Reason::Special)
        }
        [0x2000..=0x3fff, ..] => None,
        _ => Some(Reason::Special),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(policy: &AddressPolicy, address: &str) -> Result<String, Reason> {
        let address: IpAddr = address.parse().expect(address);
        policy.check(address).map(|it| it.to_string()).map_err(|denied| denied.reason)
    }

    #[test]
    fn by_default_only_public_addresses_can_be_reached() {
        let table = [
            ("1.1.1.1", None),
            ("2606:4700::1111", None),
            ("169.254.169.254", Some(Reason::Metadata)),
            ("::ffff:169.254.169.254", Some(Reason::Metadata)),
            ("64:ff9b::a9fe:a9fe", Some(Reason::Metadata)),
            ("168.63.129.16", Some(Reason::Metadata)),
            ("100.100.100.200", Some(Reason::Metadata)),
            ("192.0.0.192", Some(Reason::Metadata)),
            ("fd00:ec2::254", Some(Reason::Metadata)),
            ("169.254.1.1", Some(Reason::LinkLocal)),
            ("fe80::1", Some(Reason::LinkLocal)),
            ("127.0.0.1", Some(Reason::Loopback)),
            ("127.9.9.9", Some(Reason::Loopback)),
            ("::1", Some(Reason::Loopback)),
            ("::ffff:127.0.0.1", Some(Reason::Loopback)),
            ("::127.0.0.1", Some(Reason::Loopback)),
            ("0.0.0.0", Some(Reason::Special)),
            ("::", Some(Reason::Special)),
            ("224.0.0.1", Some(Reason::Special)),
            ("255.255.255.255", Some(Reason::Special)),
            ("ff02::1", Some(Reason::Special)),
            ("2002:7f00:1::", Some(Reason::Special)),
            ("64:ff9b:1::1", Some(Reason::Special)),
            ("10.1.2.3", Some(Reason::Private)),
            ("172.31.255.255", Some(Reason::Private)),
            ("172.32.0.1", None),
            ("192.168.1.1", Some(Reason::Private)),
            ("100.64.0.1", Some(Reason::Private)),
            ("fd12::1", Some(Reason::Private)),
            ("::ffff:10.0.0.1", Some(Reason::Private)),
        ];
        let policy = AddressPolicy::default();
        for (address, reason) in table {
            assert_eq!(check(&policy, address).err(), reason, "{address}");
        }
    }

    #[test]
    fn a_refusal_names_the_address_and_the_reason() {
        let policy = AddressPolicy { closed: vec!["8.8.8.8/32".parse().unwrap()], ..AddressPolicy::default() };
        let table = [
            ("169.254.169.254", "metadata"),
            ("127.0.0.1", "loopback"),
            ("fe80::1", "link_local"),
            ("0.0.0.0", "special"),
            ("8.8.8.8", "closed"),
            ("10.0.0.1", "private"),
        ];
        for (address, reason) in table {
            let denied = policy.check(address.parse().unwrap()).unwrap_err();
            assert_eq!(denied.to_string(), format!("address {address} is not permitted ({reason})"));
        }
    }

    #[test]
    fn a_cidr_opens_private_networks_and_nothing_else() {
        let opened = ["0.0.0.0/0", "::/0"].map(|net| net.parse().unwrap()).to_vec();
        let policy = AddressPolicy { opened, closed: vec!["10.96.0.1/32".parse().unwrap()] };
        assert_eq!(check(&policy, "10.0.0.1"), Ok("10.0.0.1".to_owned()));
        assert_eq!(check(&policy, "::ffff:10.0.0.1"), Ok("10.0.0.1".to_owned()));
        assert_eq!(check(&policy, "fd12::1"), Ok("fd12::1".to_owned()));
        assert_eq!(check(&policy, "10.96.0.1"), Err(Reason::Closed));
        assert_eq!(check(&policy, "::ffff:10.96.0.1"), Err(Reason::Closed));
        assert_eq!(check(&policy, "169.254.169.254"), Err(Reason::Metadata));
        assert_eq!(check(&policy, "fd00:ec2::254"), Err(Reason::Metadata));
        assert_eq!(check(&policy, "127.0.0.1"), Err(Reason::Loopback));
        assert_eq!(check(&policy, "fe80::1"), Err(Reason::LinkLocal));
    }
}
