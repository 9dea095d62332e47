//! A load balancer with all its parts, as read from Octavia.

use std::collections::BTreeMap;

use skydock_sdk::types::Service;

use crate::{
    load_balancers::{
        desired_load_balancer::{DesiredLoadBalancer, DesiredPort},
        names,
    },
    services::octavia::{Listener, LoadBalancer, Member, Monitor, Pool},
};

pub(crate) mod cluster_check;
pub(crate) mod find;
pub(crate) mod read;

/// A load balancer with its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedLoadBalancer {
    /// The load balancer itself.
    pub load_balancer: LoadBalancer,
    /// All listeners, including those of other Services.
    pub listeners: Vec<Listener>,
    /// All pools, including those of other Services.
    pub pools: Vec<Pool>,
    /// The members of the pools that were read, by pool ID.
    pub members: BTreeMap<String, Vec<Member>>,
    /// The monitors of the pools that were read, by monitor ID.
    pub monitors: BTreeMap<String, Monitor>,
}

/// The relation of a Service to a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    /// True if the load balancer was created for this Service, or found by its name.
    pub owner: bool,
    /// True if the load balancer has the tag of this Service.
    pub attached: bool,
    /// The number of Services whose tags the load balancer has.
    pub services: usize,
    /// The name of the cluster when the load balancer was created or tagged, if it was different.
    pub renamed_from: Option<String>,
}

impl Ownership {
    /// Determines the ownership. `found_by_name` is true if the load balancer was not found by an
    /// annotation, `serves` if its address is in the Service's status.
    ///
    /// If the name differs only in the cluster, the load balancer belongs to the same Service and
    /// the cluster was renamed. This is assumed only if the load balancer serves this Service and
    /// the Service does not share it. Annotations prove nothing, because a manifest copied from
    /// another cluster has them too.
    #[must_use]
    pub fn of(
        load_balancer: &LoadBalancer,
        desired: &DesiredLoadBalancer,
        service: &Service,
        cluster: &str,
        found_by_name: bool,
        serves: bool,
    ) -> Self {
        let old = old_name(load_balancer, &desired.name, service, cluster).filter(|_| serves);
        let name = &load_balancer.name;
        let is_renamed = old.is_some() && names::cluster_of(name, service).is_some();

        let ownership = Self {
            owner: found_by_name || names::is_of(name, &desired.name, service) || is_renamed,
            attached: false,
            services: load_balancer
                .tags
                .iter()
                .filter(|tag| tag.starts_with(names::SERVICE_PREFIX))
                .count(),
            renamed_from: old.map(str::to_owned),
        };

        // `is_own_tag` needs the previous name of the cluster.
        let attached = load_balancer
            .tags
            .iter()
            .any(|tag| ownership.is_own_tag(tag, desired, cluster));
        Self {
            attached,
            ..ownership
        }
    }

    /// Returns true if a tag is that of this Service, with the current or the old name of the
    /// cluster.
    #[must_use]
    pub fn is_own_tag(&self, tag: &str, desired: &DesiredLoadBalancer, cluster: &str) -> bool {
        let old = self.renamed_from.as_deref();
        tag == desired.name
            || old.is_some_and(|old| names::with_cluster(tag, old, cluster) == desired.name)
    }

    /// Returns true if the load balancer serves other Services too.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        self.services > self.attached as usize
    }
}

/// Returns the name that the cluster may have had when this load balancer was created for this
/// Service, or was tagged by it: the tag of a Service that shares the load balancer, and of one whose
/// load balancer is from before Kubernetes 1.14, has the only name. If the load balancer has the
/// tag of the Service with the current cluster name, the cluster was not renamed, because names and
/// tags change together.
pub(super) fn old_name<'a>(
    balancer: &'a LoadBalancer,
    name: &str,
    service: &Service,
    cluster: &str,
) -> Option<&'a str> {
    let tags = &balancer.tags;
    let has = |old: &str| tags.is_empty() || tags.contains(&names::load_balancer(old, service));
    std::iter::once(&balancer.name)
        .chain(tags)
        .find_map(|name| names::cluster_of(name, service))
        .filter(|old| *old != cluster && has(old) && tags.iter().all(|tag| tag != name))
}

impl ObservedLoadBalancer {
    /// Returns true if a listener was created for this Service: it has the Service's tag, or it has
    /// no tags and the load balancer belongs to the Service.
    #[must_use]
    pub fn is_own(
        &self,
        listener: &Listener,
        desired: &DesiredLoadBalancer,
        ownership: &Ownership,
    ) -> bool {
        listener.tags.contains(&desired.name) || (listener.tags.is_empty() && ownership.owner)
    }

    /// Returns the listener on the port of the Service, whichever Service it belongs to.
    #[must_use]
    pub fn listener(&self, port: &DesiredPort) -> Option<&Listener> {
        let same = |listener: &&Listener| {
            listener.protocol_port == port.port && transport(&listener.protocol) == port.transport
        };
        self.listeners.iter().find(same)
    }

    /// Returns the pool of a listener.
    #[must_use]
    pub fn pool(&self, listener: &str) -> Option<&Pool> {
        self.pools
            .iter()
            .find(|pool| pool.listeners.iter().any(|other| other.id == listener))
    }
}

/// Returns the transport protocol of a listener's protocol.
fn transport(protocol: &str) -> &'static str {
    match protocol {
        "UDP" => "UDP",
        "SCTP" => "SCTP",
        _ => "TCP",
    }
}
