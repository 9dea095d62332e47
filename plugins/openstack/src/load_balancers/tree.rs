//! A load balancer as Octavia has it, with all its parts.

use std::collections::BTreeMap;

use skydock_sdk::types::Service;

use super::{
    names,
    want::{PortWant, Want},
};
use crate::octavia::{Listener, LoadBalancer, Member, Monitor, Pool};

/// A load balancer with its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// The load balancer itself.
    pub load_balancer: LoadBalancer,
    /// Its listeners, others' included.
    pub listeners: Vec<Listener>,
    /// Its pools, others' included.
    pub pools: Vec<Pool>,
    /// Members of the pools that were looked at, by ID of the pool.
    pub members: BTreeMap<String, Vec<Member>>,
    /// Monitors of the pools that were looked at, by their ID.
    pub monitors: BTreeMap<String, Monitor>,
}

/// Whose a load balancer is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    /// True if it was made for this Service, or found by its name.
    pub owner: bool,
    /// True if this Service is among its tags.
    pub attached: bool,
    /// How many Services are among its tags.
    pub services: usize,
    /// What the cluster was called when it was made, if it is called otherwise now.
    pub renamed_from: Option<String>,
}

impl Ownership {
    /// Whose it is. `found_by_name`: no annotation has led to it.
    ///
    /// A name that differs in the cluster alone is one of the same Service, from when the cluster was called otherwise: but only for a
    /// Service whose status has an address. Annotations prove nothing, since a manifest that was copied from another cluster has them too.
    #[must_use]
    pub fn of(
        load_balancer: &LoadBalancer,
        want: &Want,
        service: &Service,
        cluster: &str,
        found_by_name: bool,
    ) -> Self {
        let has_address = !service.status.ingress.is_empty();
        let old = names::cluster_of(&load_balancer.name, service).filter(|old| *old != cluster && has_address);
        let is_own = |tag: &String| {
            *tag == want.name || old.is_some_and(|old| names::with_cluster(tag, old, cluster) == want.name)
        };
        Self {
            owner: found_by_name || load_balancer.name == want.name || old.is_some(),
            attached: load_balancer.tags.iter().any(is_own),
            services: load_balancer.tags.iter().filter(|tag| tag.starts_with(names::SERVICE_PREFIX)).count(),
            renamed_from: old.map(str::to_owned),
        }
    }

    /// True if the load balancer serves other Services, too.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        self.services > self.attached as usize
    }
}

impl Tree {
    /// True if a listener was made for this Service: by its tag, or without tags on a load balancer of its own.
    #[must_use]
    pub fn is_own(&self, listener: &Listener, want: &Want, ownership: &Ownership) -> bool {
        listener.tags.contains(&want.name) || (listener.tags.is_empty() && ownership.owner)
    }

    /// The listener on the port of the Service, whosever it is.
    #[must_use]
    pub fn listener(&self, port: &PortWant) -> Option<&Listener> {
        let same = |listener: &&Listener| {
            listener.protocol_port == port.port && transport(&listener.protocol) == port.transport
        };
        self.listeners.iter().find(same)
    }

    /// The pool of a listener.
    #[must_use]
    pub fn pool(&self, listener: &str) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.listeners.iter().any(|other| other.id == listener))
    }
}

/// What a listener's protocol is carried by.
fn transport(protocol: &str) -> &'static str {
    match protocol {
        "UDP" => "UDP",
        "SCTP" => "SCTP",
        _ => "TCP",
    }
}
