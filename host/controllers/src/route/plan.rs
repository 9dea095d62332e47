//! Decides which routes to create and which to delete.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    iter::successors,
    net::IpAddr,
};

use ipnet::IpNet;
use skydock_cloud::{NewRoute, Node, NodeAddress, ProviderInfo, Route};

use super::NodeEntry;
use crate::{ClusterCidrs, node::plan::uninitialized};

/// Changes to make, and what they mean for nodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Routes in the cluster's ranges that no node needs in this form.
    pub(super) deletes: Vec<Route>,
    /// Routes that nodes need and the cloud does not have.
    pub(super) creates: Vec<Create>,
    /// Names of nodes without Pod CIDRs to which a route in the cluster's ranges leads.
    pub(super) stranded: HashSet<String>,
    /// Pod CIDRs outside of the cluster's ranges to which no route leads, by node. No route is
    /// created to them: it would not be Skydock's to delete later, and whoever registers a node
    /// could redirect any traffic to it.
    pub(super) outside: BTreeMap<String, Vec<String>>,
}

/// A route to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Create {
    pub(super) route: NewRoute,
    /// Indices in [`Plan::deletes`] of routes that have to be deleted first: a cloud has one route
    /// for each destination.
    pub(super) after: Vec<usize>,
    /// True if one of these leads to the same node, and not into a black hole: only its addresses
    /// are outdated.
    pub(super) stale: bool,
}

/// Leaves to other providers what is theirs: nodes with their provider IDs, and the routes to the
/// Pods on these. Whose a node is that was not initialized yet is not known, unless it has its
/// provider ID already.
pub(super) fn own(
    mut routes: Vec<Route>,
    nodes: Vec<NodeEntry>,
    info: &ProviderInfo,
) -> (Vec<Route>, Vec<NodeEntry>) {
    // A provider without instances has no provider IDs, and serves all nodes.
    let is_own = |node: &Node| match &node.provider_id {
        _ if info.provider_id_prefixes.is_empty() => true,
        Some(id) => info.owns(id),
        // It may become another provider's, and nobody would remove its routes then.
        None => !uninitialized(node),
    };
    let (own, others): (Vec<_>, Vec<_>) = nodes.into_iter().partition(|node| is_own(&node.view));

    let destinations = |nodes: &[NodeEntry]| -> HashSet<String> {
        let cidrs = nodes.iter().flat_map(|node| &node.view.pod_cidrs);
        cidrs.map(|cidr| canonical(cidr)).collect()
    };
    let theirs = &destinations(&others) - &destinations(&own);

    // A route to a node that is none of theirs is left of a node that had the range before.
    let names: HashSet<&str> = others.iter().map(|node| node.name()).collect();
    let may_be_theirs = |route: &Route| {
        let target = route.target_node.as_deref();
        target.is_none_or(|name| names.contains(name))
    };

    routes.retain(|route| {
        !may_be_theirs(route) || !theirs.contains(&canonical(&route.destination_cidr))
    });

    (routes, own)
}

/// Compares the routes in the cloud with those that the nodes need.
///
/// A route is needed if it leads to a node that has its destination among its Pod CIDRs, was
/// created with the node's current addresses (if the cloud knows them), and is not a black hole. A
/// route that is needed, does not exist and is in the cluster's ranges is created. A route that
/// exists, is not needed and is in the cluster's ranges is deleted. A route to be changed is both
/// deleted and created.
///
/// Differences from upstream: it creates routes to any Pod CIDR, but never deletes those outside of
/// the cluster's ranges; it considers a black hole that names its node a good route while it
/// deletes it, and recreates it only in the next run; and it creates a route twice for a node that
/// has the same Pod CIDR twice.
#[must_use]
pub(super) fn plan(routes: Vec<Route>, nodes: &[&Node], cidrs: &ClusterCidrs) -> Plan {
    let routes = with_targets(routes, nodes);
    let by_name: HashMap<&str, &Node> = nodes
        .iter()
        .map(|node| (node.name.as_str(), *node))
        .collect();
    let target = |route: &Route| {
        route
            .target_node
            .as_deref()
            .and_then(|name| by_name.get(name).copied())
    };

    let (kept, others): (Vec<_>, Vec<_>) = routes
        .into_iter()
        .partition(|route| target(route).is_some_and(|node| serves(route, node)));
    let deletes: Vec<Route> = others
        .into_iter()
        .filter(|route| responsible(&route.destination_cidr, cidrs))
        .collect();

    let stranded = deletes
        .iter()
        .filter_map(target)
        .filter(|node| node.pod_cidrs.is_empty());
    let stranded = stranded.map(|node| node.name.clone()).collect();

    let there: HashSet<(&str, Destination<'_>)> = kept
        .iter()
        .filter_map(|route| {
            Some((
                route.target_node.as_deref()?,
                Destination::of(&route.destination_cidr),
            ))
        })
        .collect();

    let (missing, others): (Vec<_>, Vec<_>) = nodes
        .iter()
        .flat_map(|node| missing(node, &there))
        .partition(|route| ours(&route.destination_cidr, cidrs));

    let mut outside: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for NewRoute {
        target_node,
        destination_cidr,
        ..
    } in others
    {
        outside
            .entry(target_node)
            .or_default()
            .push(destination_cidr);
    }

    let creates = in_order(missing, &deletes);
    Plan {
        deletes,
        creates,
        stranded,
        outside,
    }
}

/// Sets the node of routes of which the cloud only knows the address: the node with this address.
/// If several nodes have it, for example because an instance was registered again as another node,
/// the one that needs the route is preferred.
fn with_targets(mut routes: Vec<Route>, nodes: &[&Node]) -> Vec<Route> {
    let mut by_address: HashMap<IpAddr, Vec<&Node>> = HashMap::new();
    // A cloud that names the nodes of its routes needs no search by address.
    if routes
        .iter()
        .any(|route| route.target_node.is_none() && route.target_addresses.is_some())
    {
        for node in nodes {
            for address in node.addresses.iter().filter_map(ip) {
                by_address.entry(address).or_default().push(node);
            }
        }
    }

    for route in routes
        .iter_mut()
        .filter(|route| route.target_node.is_none())
    {
        let known = route.target_addresses.iter().flatten().filter_map(ip);
        let found: Vec<&Node> = known
            .filter_map(|address| by_address.get(&address))
            .flatten()
            .copied()
            .collect();

        if let Some(node) = found
            .iter()
            .find(|node| has(node, &route.destination_cidr))
            .or_else(|| found.first())
        {
            route.target_node = Some(node.name.clone());
            route.target_addresses = None;
        }
    }

    routes
}

fn ip(address: &NodeAddress) -> Option<IpAddr> {
    address.address.parse().ok()
}

/// Returns the routes that a node needs and that do not exist: one for each of its Pod CIDRs, with
/// the node's UID as the hint for their names. Most nodes have what they need, so nothing is copied
/// for them.
fn missing<'a>(
    node: &'a Node,
    there: &HashSet<(&str, Destination<'_>)>,
) -> impl Iterator<Item = NewRoute> + use<'a> {
    let cidrs = node
        .pod_cidrs
        .iter()
        .filter(|cidr| !there.contains(&(node.name.as_str(), Destination::of(cidr))));
    let cidrs: BTreeSet<String> = cidrs.map(|cidr| canonical(cidr)).collect();

    cidrs.into_iter().map(|destination_cidr| NewRoute {
        name_hint: node.uid.clone(),
        target_node: node.name.clone(),
        target_provider_id: node.provider_id.clone(),
        target_addresses: node.addresses.clone(),
        destination_cidr,
    })
}

fn serves(route: &Route, node: &Node) -> bool {
    let set = |addresses: &[NodeAddress]| addresses.iter().cloned().collect::<BTreeSet<_>>();
    // The cloud may return the addresses in another order.
    let same = |made_with: &Vec<NodeAddress>| {
        *made_with == node.addresses || set(made_with) == set(&node.addresses)
    };
    !route.blackhole
        && has(node, &route.destination_cidr)
        && route.target_addresses.as_ref().is_none_or(same)
}

/// Returns true if this destination of a route is one of the node's Pod CIDRs.
pub(super) fn has(node: &Node, destination: &str) -> bool {
    let destination = Destination::of(destination);
    node.pod_cidrs
        .iter()
        .any(|cidr| Destination::of(cidr) == destination)
}

/// Meaning of a CIDR, for comparisons. A text that is not a valid CIDR is compared as it is.
#[derive(PartialEq, Eq, Hash)]
enum Destination<'a> {
    Net(IpNet),
    Text(&'a str),
}

impl<'a> Destination<'a> {
    fn of(cidr: &'a str) -> Self {
        cidr.parse::<IpNet>()
            .map_or(Self::Text(cidr), |net| Self::Net(net.trunc()))
    }
}

/// Returns true if the first or last address of a CIDR is in one of the cluster's ranges; other
/// routes belong to others.
fn responsible(cidr: &str, cidrs: &ClusterCidrs) -> bool {
    cidr.parse::<IpNet>()
        .is_ok_and(|net| cidrs.contains(net.network()) || cidrs.contains(net.broadcast()))
}

/// Returns true if a CIDR is completely in one of the cluster's ranges. A text that is not a valid
/// CIDR is left to the cloud to reject.
fn ours(cidr: &str, cidrs: &ClusterCidrs) -> bool {
    cidr.parse::<IpNet>()
        .map_or(true, |net| cidrs.iter().any(|range| range.contains(&net)))
}

/// Returns the canonical text of a CIDR. A text that is not a valid CIDR is not changed, and left
/// to the cloud to reject.
pub(super) fn canonical(cidr: &str) -> String {
    cidr.parse::<IpNet>()
        .map_or_else(|_| cidr.to_owned(), |net| net.trunc().to_string())
}

/// Makes each new route wait for the deletion of the routes that it overlaps with.
fn in_order(routes: Vec<NewRoute>, deletes: &[Route]) -> Vec<Create> {
    let mut creates: Vec<Create> = routes
        .into_iter()
        .map(|route| Create {
            route,
            after: Vec::new(),
            stale: false,
        })
        .collect();

    let nets = |cidrs: Vec<&String>| {
        let mut nets: HashMap<IpNet, Vec<usize>> = HashMap::new();
        for (index, cidr) in cidrs.into_iter().enumerate() {
            if let Ok(net) = cidr.parse::<IpNet>() {
                nets.entry(net.trunc()).or_default().push(index);
            }
        }
        nets
    };

    let going = nets(
        deletes
            .iter()
            .map(|route| &route.destination_cidr)
            .collect(),
    );
    let coming = nets(
        creates
            .iter()
            .map(|create| &create.route.destination_cidr)
            .collect(),
    );

    // Two CIDRs overlap only if one contains the other.
    let around = |net: &IpNet| successors(Some(*net), IpNet::supernet);
    let mut pairs = BTreeSet::new();
    for (net, created) in &coming {
        let deleted = around(net).filter_map(|outer| going.get(&outer)).flatten();
        pairs.extend(
            deleted.flat_map(|deleted| created.iter().map(move |created| (*created, *deleted))),
        );
    }
    for (net, deleted) in &going {
        let created = around(net).filter_map(|outer| coming.get(&outer)).flatten();
        pairs.extend(
            created.flat_map(|created| deleted.iter().map(move |deleted| (*created, *deleted))),
        );
    }

    for (created, deleted) in pairs {
        if let (Some(create), Some(route)) = (creates.get_mut(created), deletes.get(deleted)) {
            create.after.push(deleted);
            create.stale |= !route.blackhole
                && route.target_node.as_ref() == Some(&create.route.target_node)
                && canonical(&route.destination_cidr) == create.route.destination_cidr;
        }
    }

    creates
}

#[cfg(test)]
mod tests;
