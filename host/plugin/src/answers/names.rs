//! Rules for the host names in a plugin's answers. The API server may connect to the name of a node,
//! and Pods to that of a load balancer.

use std::net::{IpAddr, Ipv4Addr};

use skydock_egress::is_metadata_name;

use super::Refused;

/// Names that every machine uses for itself (RFC 6761, and the `/etc/hosts` of Linux
/// distributions).
const LOCAL: &[&str] = &[
    "localhost",
    "localhost.localdomain",
    "localhost6",
    "ip6-localhost",
    "ip6-loopback",
];

/// Domains of the cluster's DNS: that of Services in search paths, the default domain, and that of
/// Services of several clusters. A cluster may have another domain, which Skydock does not know.
const CLUSTER: &[&str] = &["svc", "cluster.local", "clusterset.local"];

/// The name of the API server in the cluster's DNS.
const API_SERVER: &str = "kubernetes.default";

/// Checks a name. If it stands for a fixed address, `judge` checks the address.
pub(crate) fn check(
    name: &str,
    judge: impl Fn(IpAddr) -> Result<(), Refused>,
) -> Result<(), Refused> {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    if LOCAL.contains(&name.as_str()) || name.ends_with(".localhost") {
        return Err(Refused::Loopback);
    }
    if is_metadata_name(&name) {
        return Err(Refused::Metadata);
    }
    if is_in_cluster(&name) {
        return Err(Refused::ClusterName);
    }
    match in_disguise(&name) {
        // A machine may be named `7`.
        Some(address) if matches!(address.octets(), [0, ..]) && !address.is_unspecified() => Ok(()),
        Some(address) => judge(address.into()),
        None => Ok(()),
    }
}

/// Returns true if the cluster's DNS answers for this name.
fn is_in_cluster(name: &str) -> bool {
    let is_below = |domain: &&str| {
        name.strip_suffix(*domain)
            .is_some_and(|before| before.ends_with('.'))
    };
    let of_api_server = name
        .strip_prefix(API_SERVER)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(".svc"));
    of_api_server || CLUSTER.iter().any(is_below)
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
            let checked = check(text, addresses::possible);
            assert_eq!(checked.err(), expected, "{text}");
        }
    }

    // Holds: SEC-60
    #[test]
    fn names_of_the_cluster_and_of_metadata_are_rejected() {
        let (cluster, metadata) = (Some(Refused::ClusterName), Some(Refused::Metadata));
        let table = [
            ("kubernetes.default", cluster.clone()),
            ("kubernetes.default.svc", cluster.clone()),
            ("Kubernetes.Default.Svc.Corp.Example.", cluster.clone()),
            ("web.shop.svc", cluster.clone()),
            ("web.shop.svc.cluster.local", cluster.clone()),
            ("10-244-0-1.shop.pod.cluster.local.", cluster.clone()),
            ("web.shop.svc.clusterset.local", cluster),
            ("metadata.google.internal", metadata.clone()),
            ("instance-data", metadata),
            ("kubernetes", None),
            ("kubernetes.default-pool.example", None),
            ("svc", None),
            ("mysvc", None),
            ("cluster.local", None),
            ("mycluster.local", None),
            ("lb.svc.example.com", None),
        ];
        for (text, expected) in table {
            assert_eq!(check(text, |_| Ok(())).err(), expected, "{text}");
        }
    }
}
