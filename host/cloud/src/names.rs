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

/// Returns true if every machine uses this name, in lower case, for itself.
#[must_use]
pub fn is_local(name: &str) -> bool {
    let below = LOCAL_DOMAINS.iter().find_map(|it| name.strip_suffix(it));
    let name = below.unwrap_or(name);
    LOCAL.contains(&name) || name.ends_with(".localhost")
}
