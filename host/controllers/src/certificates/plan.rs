//! Decides whether a request for the serving certificate of a kubelet is approved. All functions
//! are pure.
//!
//! A kubelet controls its request, and its Node: labels, annotations, addresses, the provider ID
//! until it is set, and the taints with which it is created. It does not control the name of its
//! user, from which the API server admits it to one Node, and what the cloud says about the
//! instance with this name. Therefore, names and addresses come only from these two, and the cloud
//! is asked with a Node that has nothing but its name ([`question`]). The Node itself can only keep
//! a request from being approved.

use std::{collections::BTreeSet, net::IpAddr};

use skydock_cloud::{
    AddressKind, CloudError, Instance, Node, ProviderInfo,
    names::{API_SERVER, CLUSTER_DOMAINS, is_in_cluster, is_local},
};

use super::{
    pkcs10::{self, Pkcs10, Pkcs10Error},
    request::{MOST_BYTES, Request},
};
use crate::node::plan::uninitialized;

/// Users and group of kubelets.
const USER: &str = "system:node:";
const GROUP: &str = "system:nodes";
/// Usages that a kubelet requests; with an RSA key, also [`KEY_ENCIPHERMENT`].
const USAGES: [&str; 2] = ["digital signature", "server auth"];
const KEY_ENCIPHERMENT: &str = "key encipherment";
/// Maximum number of names and addresses in a request.
const MOST_NAMES: usize = 100;
/// Seconds by which the clocks of API servers may differ.
const CLOCKS: u64 = 10;
/// Number of names and addresses that a message quotes.
const QUOTED: usize = 3;

/// Why a request is never approved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Flaw {
    #[error("its user is not a node of the group {GROUP}")]
    User,
    #[error("its usages are not those that a kubelet requests")]
    Usages,
    #[error("it has more than {MOST_BYTES} bytes")]
    TooLong,
    #[error(transparent)]
    Unreadable(#[from] Pkcs10Error),
    #[error("its subject is not the user and the group {GROUP}")]
    Subject,
    #[error("it has neither names nor addresses, or more than {MOST_NAMES}")]
    Count,
    #[error("it contains a DNS name that is not valid")]
    DnsName,
    #[error("it contains {0:?}, which is a name in the DNS of the cluster or of every machine")]
    ClusterName(String),
}

/// Why a request waits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Wait {
    #[error("the node does not exist")]
    NoNode,
    #[error("the node is not initialized")]
    Uninitialized,
    #[error("the node has no provider ID of this provider")]
    Foreign,
    #[error("it is older than the node; the kubelet creates another one")]
    Older,
    #[error("another node has the same provider ID")]
    Shared,
    #[error("the cloud finds no instance with the name of the node: {0}")]
    NotFound(CloudError),
    #[error("the cloud cannot be asked: {0}")]
    Cloud(CloudError),
    #[error(
        "the cloud says that the instance with the name of the node has another provider ID than the node"
    )]
    OtherInstance,
    #[error("the cloud does not say that these belong to the instance: {0}")]
    Unconfirmed(String),
}

impl Wait {
    /// Returns true if this is usual for a node that was just created.
    pub(super) fn is_usual(&self) -> bool {
        matches!(self, Self::NoNode | Self::Uninitialized)
    }

    /// Returns what follows from an error of the cloud.
    pub(super) fn after(error: CloudError) -> Self {
        match error {
            CloudError::NotFound(_) => Self::NotFound(error),
            error => Self::Cloud(error),
        }
    }
}

/// A well-formed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    /// DNS names in lower case.
    dns_names: BTreeSet<String>,
    addresses: BTreeSet<IpAddr>,
}

/// Returns the name of the node whose kubelet created a request; empty if its user is not a node.
pub(super) fn node_name(request: &Request) -> &str {
    request.username.strip_prefix(USER).unwrap_or_default()
}

/// Checks everything in a request that needs no other knowledge.
pub(super) fn claim(request: &Request) -> Result<Claim, Flaw> {
    if node_name(request).is_empty() || !request.groups.iter().any(|group| group == GROUP) {
        return Err(Flaw::User);
    }
    if !are_of_kubelet(&request.usages) {
        return Err(Flaw::Usages);
    }

    let pem = request.pem.as_deref().ok_or(Flaw::TooLong)?;
    let Pkcs10 {
        common_name,
        organization,
        dns_names,
        addresses,
    } = pkcs10::read(pem)?;

    if common_name != request.username || organization != GROUP {
        return Err(Flaw::Subject);
    }
    if !(1..=MOST_NAMES).contains(&(dns_names.len() + addresses.len())) {
        return Err(Flaw::Count);
    }

    let dns_names = dns_names.into_iter().map(|name| name.to_ascii_lowercase());
    let dns_names: BTreeSet<String> = dns_names.collect();
    if !dns_names.iter().all(|name| is_dns_name(name)) {
        return Err(Flaw::DnsName);
    }
    if let Some(name) = dns_names.iter().find(|name| is_of_cluster(name)) {
        return Err(Flaw::ClusterName(name.clone()));
    }

    Ok(Claim {
        dns_names,
        addresses: addresses.iter().map(IpAddr::to_canonical).collect(),
    })
}

fn are_of_kubelet(usages: &[String]) -> bool {
    let all = |wanted: &[&str]| {
        wanted
            .iter()
            .all(|it| usages.iter().any(|usage| usage == it))
    };
    let known = |usage: &String| USAGES.contains(&usage.as_str()) || usage == KEY_ENCIPHERMENT;
    all(&USAGES) && usages.iter().all(known)
}

/// Returns true for a host name without wildcard, and not for an IP address: a kubelet requests
/// that as an address.
fn is_dns_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let allowed = |it: u8| it.is_ascii_alphanumeric() || it == b'-' || it == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(allowed)
    };
    name.len() <= 253 && name.split('.').all(is_label) && name.parse::<IpAddr>().is_err()
}

/// Returns true for a name with which Pods connect to the API server or to another Service, and
/// for one that every machine uses for itself. Clients in the cluster may trust the authority of
/// serving certificates.
fn is_of_cluster(name: &str) -> bool {
    let of_api_server = name
        .strip_prefix(API_SERVER)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    is_local(name)
        || of_api_server
        || name == "kubernetes"
        || CLUSTER_DOMAINS.contains(&name)
        || is_in_cluster(name)
        || is_of_other_domain(name)
}

/// Returns true for a name that Services and Pods have in a cluster with any domain:
/// `NAME.NAMESPACE.svc.DOMAIN`, also with more labels, and `10-0-0-1.NAMESPACE.pod.DOMAIN`.
fn is_of_other_domain(name: &str) -> bool {
    let is_address = |label: &str| {
        let (v4, v6) = (label.replace('-', "."), label.replace('-', ":"));
        v4.parse::<IpAddr>().is_ok() || v6.parse::<IpAddr>().is_ok()
    };

    let mut labels = name.split('.');
    let of_pod = labels.next().is_some_and(is_address) && labels.nth(1) == Some("pod");
    of_pod || name.split('.').skip(2).any(|label| label == "svc")
}

/// Checks a node before the cloud is asked about it.
pub(super) fn ready(node: &Node, info: &ProviderInfo) -> Result<(), Wait> {
    if uninitialized(node) {
        return Err(Wait::Uninitialized);
    }
    let owned = node.provider_id.as_ref().is_some_and(|id| info.owns(id));
    if owned { Ok(()) } else { Err(Wait::Foreign) }
}

/// Checks a request that was created at this time: one that is older than the node may be of the
/// previous machine with this name. A kubelet requests only what it reads from its Node.
pub(super) fn not_older(created: u64, node: &Node) -> Result<(), Wait> {
    if created.saturating_add(CLOCKS) < node.creation_timestamp {
        return Err(Wait::Older);
    }
    Ok(())
}

/// Returns the node about which the cloud is asked. It has nothing that the kubelet has chosen.
pub(super) fn question(node: &Node) -> Node {
    Node {
        name: node.name.clone(),
        uid: node.uid.clone(),
        ..Node::default()
    }
}

/// Compares a claim with the answer of the cloud to [`question`]. `shared` is true if another node
/// has the same provider ID.
pub(super) fn confirm(
    claim: &Claim,
    node: &Node,
    shared: bool,
    instance: &Instance,
) -> Result<(), Wait> {
    if shared {
        return Err(Wait::Shared);
    }
    if instance.provider_id.is_none() || instance.provider_id != node.provider_id {
        return Err(Wait::OtherInstance);
    }

    let mut names = BTreeSet::from([node.name.to_ascii_lowercase()]);
    let mut addresses = BTreeSet::new();
    for known in &instance.addresses {
        match (known.kind, known.address.parse::<IpAddr>()) {
            // Some clouds use addresses as host names.
            (AddressKind::InternalIp | AddressKind::ExternalIp | AddressKind::Hostname, Ok(ip)) => {
                addresses.insert(ip.to_canonical());
            }
            (AddressKind::InternalIp | AddressKind::ExternalIp, Err(_)) | (_, Ok(_)) => {}
            (_, Err(_)) => {
                names.insert(known.address.to_ascii_lowercase());
            }
        }
    }

    let unknown = claim.dns_names.difference(&names).cloned();
    let unknown: Vec<String> = unknown
        .chain(
            claim
                .addresses
                .difference(&addresses)
                .map(IpAddr::to_string),
        )
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    Err(Wait::Unconfirmed(quote(&unknown)))
}

fn quote(names: &[String]) -> String {
    let quoted = names.get(..QUOTED).unwrap_or(names).join(", ");
    match names.len().saturating_sub(QUOTED) {
        0 => quoted,
        more => format!("{quoted} and {more} more"),
    }
}

#[cfg(test)]
mod tests;
