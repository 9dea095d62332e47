//! Rules for the IP addresses in a plugin's answers. kubelets and load balancers have addresses of
//! their own; an answer with the address of something else would send requests of the API server,
//! or the traffic of the whole cluster, to that address.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::IpNet;

/// Networks with addresses that load balancers cannot have, as far as the operator configures them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IngressRules {
    /// Networks of Pod addresses.
    pub pods: Vec<IpNet>,
    /// Networks of Services' cluster IPs.
    pub services: Vec<IpNet>,
    /// Networks that are allowed for load balancers, regardless of the other rules.
    pub allowed: Vec<IpNet>,
}

/// Reasons why an address cannot belong to a node or a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
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
    /// It belongs to a Pod.
    Pod(IpNet),
    /// It is a Service's cluster IP.
    Service(IpNet),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unspecified => f.write_str("it is unspecified"),
            Self::Loopback => f.write_str("it is a loopback address"),
            Self::LinkLocal => f.write_str("it is link-local"),
            Self::Multicast => f.write_str("it is a multicast address"),
            Self::Broadcast => f.write_str("it is the broadcast address"),
            Self::Embedded => f.write_str("it is an IPv6 address that contains an IPv4 address"),
            Self::Pod(net) => {
                write!(
                    f,
                    "it is in the Pod address range {net}; to allow it, set --load-balancer-allowed-cidrs"
                )
            }
            Self::Service(net) => {
                write!(
                    f,
                    "it is in the cluster IP range {net}; to allow it, set --load-balancer-allowed-cidrs"
                )
            }
        }
    }
}

/// Checks an address of a node.
pub(crate) fn node(address: IpAddr) -> Result<(), Refused> {
    let refused = match address {
        IpAddr::V4(it) => match it.octets() {
            [0, ..] => Refused::Unspecified,
            [127, ..] => Refused::Loopback,
            [169, 254, ..] => Refused::LinkLocal,
            [224..=239, ..] => Refused::Multicast,
            [255, 255, 255, 255] => Refused::Broadcast,
            _ => return Ok(()),
        },
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Refused::Unspecified,
        IpAddr::V6(Ipv6Addr::LOCALHOST) => Refused::Loopback,
        IpAddr::V6(it) => match it.segments() {
            // IPv4-mapped addresses, and IPv4-compatible ones, which are their deprecated
            // predecessors (RFC 4291).
            [0, 0, 0, 0, 0, 0 | 0xffff, ..] => Refused::Embedded,
            [0xfe80..=0xfebf, ..] => Refused::LinkLocal,
            [0xff00..=0xffff, ..] => Refused::Multicast,
            _ => return Ok(()),
        },
    };
    Err(refused)
}

/// Names that every machine uses for itself (RFC 6761, and the `/etc/hosts` of Linux
/// distributions).
const LOCAL: &[&str] = &[
    "localhost",
    "localhost.localdomain",
    "localhost6",
    "ip6-localhost",
    "ip6-loopback",
];

/// Checks a name of a node: if it stands for a fixed address, that address is checked.
pub(crate) fn name(name: &str) -> Result<(), Refused> {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    if LOCAL.contains(&name.as_str()) || name.ends_with(".localhost") {
        return Err(Refused::Loopback);
    }
    match in_disguise(&name) {
        // A machine may be named `7`.
        Some(address) if matches!(address.octets(), [0, ..]) && !address.is_unspecified() => Ok(()),
        Some(address) => node(address.into()),
        None => Ok(()),
    }
}

/// Returns the address that resolvers derive from a name in a short form, or with octal or
/// hexadecimal numbers (`inet_aton`), for example `127.1` or `0x7f000001`.
fn in_disguise(name: &str) -> Option<Ipv4Addr> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some("") => Some(0),
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None if text.len() > 1 && text.starts_with('0') => u32::from_str_radix(text, 8).ok(),
        None => text.parse().ok(),
    };
    let parts = name.split('.').map(number).collect::<Option<Vec<u32>>>()?;
    let (last, leading) = parts.split_last()?;
    let bits = 32_u32
        .checked_sub(8 * u32::try_from(leading.len()).ok()?)
        .filter(|bits| *bits > 0)?;
    if u64::from(*last) >= 1_u64 << bits || leading.iter().any(|part| *part > 255) {
        return None;
    }
    let high = leading
        .iter()
        .fold(0_u64, |high, part| high << 8 | u64::from(*part));
    u32::try_from(high << bits | u64::from(*last))
        .ok()
        .map(Ipv4Addr::from)
}

impl IngressRules {
    /// Checks an address of the load balancer of a Service with these cluster IPs.
    pub(crate) fn check(&self, address: IpAddr, cluster_ips: &[String]) -> Result<(), Refused> {
        let within = |nets: &[IpNet]| nets.iter().find(|net| net.contains(&address)).copied();
        if within(&self.allowed).is_some() {
            return Ok(());
        }
        node(address)?;
        let own = cluster_ips
            .iter()
            .any(|ip| ip.parse() == Ok(address))
            .then(|| IpNet::from(address));
        if let Some(net) = within(&self.services).or(own) {
            return Err(Refused::Service(net));
        }
        within(&self.pods).map_or(Ok(()), |net| Err(Refused::Pod(net)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nets(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    // Holds: SEC-16
    #[test]
    fn names_that_mean_local_addresses_are_rejected() {
        let table = [
            ("node-1.example.com", None),
            ("localhost-7", None),
            ("7", None),
            ("10-0-0-1", None),
            ("1.2.3.4.5", None),
            ("10.0.0.1.", None),
            ("0x", Some(Refused::Unspecified)),
            ("0", Some(Refused::Unspecified)),
            ("localhost", Some(Refused::Loopback)),
            ("LocalHost.", Some(Refused::Loopback)),
            ("a.localhost", Some(Refused::Loopback)),
            ("ip6-localhost", Some(Refused::Loopback)),
            ("127.1", Some(Refused::Loopback)),
            ("127.0.0.1.", Some(Refused::Loopback)),
            ("2130706433", Some(Refused::Loopback)),
            ("0x7f000001", Some(Refused::Loopback)),
            ("0177.0.0.01", Some(Refused::Loopback)),
            ("0xa9fe.0xa9fe", None),
            ("169.254.43518", Some(Refused::LinkLocal)),
            ("99999999999", None),
        ];
        for (text, expected) in table {
            assert_eq!(name(text), expected.map_or(Ok(()), Err), "{text}");
        }
    }

    // Holds: SEC-16
    #[test]
    fn special_addresses_are_rejected() {
        let table = [
            ("10.0.0.1", None),
            ("192.0.2.1", None),
            ("100.64.0.1", None),
            ("2001:db8::1", None),
            ("fd00::1", None),
            ("0.0.0.0", Some(Refused::Unspecified)),
            ("0.1.2.3", Some(Refused::Unspecified)),
            ("::", Some(Refused::Unspecified)),
            ("127.0.0.1", Some(Refused::Loopback)),
            ("127.255.255.254", Some(Refused::Loopback)),
            ("::1", Some(Refused::Loopback)),
            ("169.254.169.254", Some(Refused::LinkLocal)),
            ("fe80::1", Some(Refused::LinkLocal)),
            ("febf::1", Some(Refused::LinkLocal)),
            ("224.0.0.1", Some(Refused::Multicast)),
            ("239.255.255.255", Some(Refused::Multicast)),
            ("ff02::1", Some(Refused::Multicast)),
            ("255.255.255.255", Some(Refused::Broadcast)),
            ("::ffff:10.0.0.1", Some(Refused::Embedded)),
            ("::127.0.0.1", Some(Refused::Embedded)),
        ];
        for (text, expected) in table {
            let address: IpAddr = text.parse().unwrap();
            assert_eq!(node(address).err(), expected, "{text}");
            assert_eq!(
                IngressRules::default().check(address, &[]).err(),
                expected,
                "{text}"
            );
        }
    }

    // Holds: SEC-16
    #[test]
    fn cluster_addresses_need_to_be_allowed_for_load_balancers() {
        let rules = IngressRules {
            pods: nets(&["10.244.0.0/16", "fd00:10:244::/56"]),
            services: nets(&["10.96.0.0/12"]),
            allowed: nets(&["10.244.9.0/24", "127.0.0.0/8"]),
        };
        let refused = |text: &str| {
            rules
                .check(
                    text.parse().unwrap(),
                    &["172.20.0.1".to_owned(), "None".to_owned()],
                )
                .err()
        };
        let pod = |text: &str| Some(Refused::Pod(text.parse().unwrap()));
        let service = |text: &str| Some(Refused::Service(text.parse().unwrap()));
        let table = [
            ("192.0.2.1", None),
            ("10.244.1.1", pod("10.244.0.0/16")),
            ("fd00:10:244::1", pod("fd00:10:244::/56")),
            ("10.96.0.1", service("10.96.0.0/12")),
            ("172.20.0.1", service("172.20.0.1/32")),
            ("172.20.0.2", None),
            ("10.244.9.1", None),
            ("127.0.0.1", None),
            ("::1", Some(Refused::Loopback)),
        ];
        for (text, expected) in table {
            assert_eq!(refused(text), expected, "{text}");
        }
    }

    #[test]
    fn a_rejection_names_the_range_and_the_flag() {
        let rules = IngressRules {
            services: nets(&["10.96.0.0/12"]),
            ..IngressRules::default()
        };
        let said = rules
            .check("10.96.0.1".parse().unwrap(), &[])
            .unwrap_err()
            .to_string();
        assert_eq!(
            said,
            "it is in the cluster IP range 10.96.0.0/12; to allow it, set --load-balancer-allowed-cidrs"
        );
    }
}
