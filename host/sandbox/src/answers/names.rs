//! Rules for the host names in a plugin's answers. The API server may connect to the name of a node,
//! and Pods to that of a load balancer.

use std::net::{IpAddr, Ipv4Addr};

use skydock_cloud::names::{API_SERVER, is_in_cluster, is_local};
use skydock_egress::is_metadata_name;

use super::Rejected;

/// Names in `/etc/hosts` for all machines of a network.
const MULTICAST: &[&str] = &[
    "mcastprefix",
    "allnodes",
    "allrouters",
    "allhosts",
    "localnet",
];

/// What a name may stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StandsFor<'a> {
    /// This address.
    Address(IpAddr),
    /// What has this name, in lower case.
    Name(&'a str),
    /// This Service, if it exists.
    Service { namespace: &'a str, name: &'a str },
}

/// Checks a name. `judge` checks what it stands for. `home` is the namespace of the Pods that use
/// the name, if they are in one.
pub(crate) fn check(
    name: &str,
    home: Option<&str>,
    judge: impl Fn(StandsFor<'_>) -> Result<(), Rejected>,
) -> Result<(), Rejected> {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    // The API server prefers a node's host name to its addresses, and `localhost` is itself.
    if is_local(&name) {
        return Err(Rejected::Loopback);
    }

    // For example `ip6-allnodes`.
    let of_network = name.strip_prefix("ip6-").or(name.strip_prefix("ipv6-"));
    if of_network.is_some_and(|rest| MULTICAST.contains(&rest)) {
        return Err(Rejected::Multicast);
    }

    if is_metadata_name(&name) {
        return Err(Rejected::Metadata);
    }
    if is_of_api_server(&name) || is_in_cluster(&name) {
        return Err(Rejected::ClusterName);
    }

    match in_disguise(&name) {
        // A machine may be named `7`.
        Some(address) if matches!(address.octets(), [0, ..]) && !address.is_unspecified() => Ok(()),
        Some(address) => judge(StandsFor::Address(address.into())),
        None => {
            judge(StandsFor::Name(&name))?;
            // Pods find Services by short names.
            service(&name, home).map_or(Ok(()), judge)
        }
    }
}

/// Returns the Service that Pods find under this name with their search path.
fn service<'a>(name: &'a str, home: Option<&'a str>) -> Option<StandsFor<'a>> {
    let (name, namespace) = match name.split_once('.') {
        Some((_, rest)) if rest.contains('.') => return None,
        Some(parts) => parts,
        None => (name, home?),
    };
    Some(StandsFor::Service { namespace, name })
}

/// Returns true if Pods find the API server under this name, in a cluster with any domain.
fn is_of_api_server(name: &str) -> bool {
    name.strip_prefix(API_SERVER)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(".svc"))
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
    // As with inet_aton, the last part fills the rest of the address.
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

#[cfg(test)]
mod tests {
    use super::{super::addresses, *};

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
            ("0x", Some(Rejected::Unspecified)),
            ("0", Some(Rejected::Unspecified)),
            ("localhost", Some(Rejected::Loopback)),
            ("LocalHost.", Some(Rejected::Loopback)),
            ("a.localhost", Some(Rejected::Loopback)),
            ("ip6-localhost", Some(Rejected::Loopback)),
            ("localhost.localdomain", Some(Rejected::Loopback)),
            ("localhost4", Some(Rejected::Loopback)),
            ("kubernetes.docker.internal", Some(Rejected::Loopback)),
            ("localhost4.localdomain4", Some(Rejected::Loopback)),
            ("localhost6.localdomain6", Some(Rejected::Loopback)),
            ("ipv6-loopback", Some(Rejected::Loopback)),
            ("a.localhost.localdomain", Some(Rejected::Loopback)),
            ("node-1.localdomain", None),
            ("localhost.example", None),
            ("ip6-allnodes", Some(Rejected::Multicast)),
            ("ipv6-allrouters", Some(Rejected::Multicast)),
            ("127.1", Some(Rejected::Loopback)),
            ("127.0.0.1.", Some(Rejected::Loopback)),
            ("2130706433", Some(Rejected::Loopback)),
            ("0x7f000001", Some(Rejected::Loopback)),
            ("0177.0.0.01", Some(Rejected::Loopback)),
            ("0xa9fe.0xa9fe", None),
            ("169.254.43518", Some(Rejected::LinkLocal)),
            ("99999999999", None),
        ];
        for (text, expected) in table {
            let checked = check(text, Some("shop"), |stands_for| match stands_for {
                StandsFor::Address(address) => addresses::possible(address),
                StandsFor::Name(_) | StandsFor::Service { .. } => Ok(()),
            });
            assert_eq!(checked.err(), expected, "{text}");
        }
    }

    // Holds: SEC-60
    #[test]
    fn names_of_the_cluster_and_of_metadata_are_rejected() {
        let (cluster, metadata) = (Some(Rejected::ClusterName), Some(Rejected::Metadata));
        let table = [
            ("kubernetes.default", cluster.clone()),
            ("kubernetes.default.svc", cluster.clone()),
            ("Kubernetes.Default.Svc.Corp.Example.", cluster.clone()),
            ("web.shop.svc", cluster.clone()),
            ("web.shop.svc.cluster.local", cluster.clone()),
            ("10-244-0-1.shop.pod.cluster.local.", cluster.clone()),
            ("10-244-0-1.shop.pod", cluster.clone()),
            ("web.shop.svc.clusterset.local", cluster),
            ("metadata.google.internal", metadata.clone()),
            ("instance-data", metadata),
            ("kubernetes", None),
            ("kubernetes.default-pool.example", None),
            ("svc", None),
            ("pod", None),
            ("lb.pod.example.com", None),
            ("mysvc", None),
            ("cluster.local", None),
            ("mycluster.local", None),
            ("lb.svc.example.com", None),
        ];
        for (text, expected) in table {
            assert_eq!(check(text, None, |_| Ok(())).err(), expected, "{text}");
        }
    }

    // Holds: SEC-60
    #[test]
    fn names_of_services_in_the_search_path_are_found() {
        for (text, home, expected) in [
            ("db.shop", None, Some("shop/db")),
            ("DB.Shop.", Some("web"), Some("shop/db")),
            ("db", Some("web"), Some("web/db")),
            ("db", None, None),
            ("lb.db.shop", Some("web"), None),
            ("10.1", Some("web"), None),
        ] {
            let judge = |stands_for: StandsFor<'_>| match stands_for {
                StandsFor::Service { namespace, name } => {
                    Err(Rejected::ServiceName(format!("{namespace}/{name}")))
                }
                StandsFor::Address(_) | StandsFor::Name(_) => Ok(()),
            };
            let found = check(text, home, judge).err();
            let expected = expected.map(|key| Rejected::ServiceName(key.into()));
            assert_eq!(found, expected, "{text}");
        }
    }
}
