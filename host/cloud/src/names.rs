//! Host names that no answer of a cloud and no certificate may have.

/// Names that every machine uses for itself (RFC 6761, and the `/etc/hosts` of Linux
/// distributions), also below [`LOCAL_DOMAINS`].
const LOCAL: &[&str] = &[
    "localhost",
    "localhost4",
    "localhost6",
    // Docker Desktop's name for its API server.
    "kubernetes.docker.internal",
    "ip6-localhost",
    "ip6-loopback",
    "ipv6-localhost",
    "ipv6-loopback",
    "loopback",
];

/// Domains of names that every machine uses for itself. Machines may have other names there.
const LOCAL_DOMAINS: &[&str] = &[".localdomain", ".localdomain4", ".localdomain6"];

/// The default domain of the cluster's DNS, and that of Services of several clusters. A cluster may
/// have another domain, which Skydock does not know.
pub const CLUSTER_DOMAINS: [&str; 2] = ["cluster.local", "clusterset.local"];

/// The domains of Services and Pods below those, which are also in search paths.
const SEARCHED_DOMAINS: [&str; 2] = ["svc", "pod"];

/// The name of the API server in the cluster's DNS, without the domain.
pub const API_SERVER: &str = "kubernetes.default";

/// Returns true if every machine uses this name, in lower case, for itself.
#[must_use]
pub fn is_local(name: &str) -> bool {
    let below = LOCAL_DOMAINS.iter().find_map(|it| name.strip_suffix(it));
    let name = below.unwrap_or(name);
    LOCAL.contains(&name) || name.ends_with(".localhost")
}

/// Returns true if this name, in lower case, is below a domain of the cluster's DNS.
#[must_use]
pub fn is_in_cluster(name: &str) -> bool {
    let is_below = |domain: &&str| {
        name.strip_suffix(*domain)
            .is_some_and(|before| before.ends_with('.'))
    };
    CLUSTER_DOMAINS.iter().any(is_below) || SEARCHED_DOMAINS.iter().any(is_below)
}
