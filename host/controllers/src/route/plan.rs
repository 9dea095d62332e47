//! Decides which routes to create and which to delete. All functions are pure.
//!
//! `plan` compares what exists with what is needed: `serves` says whether a node needs a route,
//! `split_routes` which of the others are deleted, `missing` what is created, and `in_order` what
//! waits for a deletion. A rule belongs in one of these. What a further one finds is a field of
//! `Plan`, which `comparison.rs` carries out.

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
    pub(super) replaces_own_route: bool,
}

/// Leaves to other providers what is theirs: nodes with their provider IDs, and the routes to the
/// Pods on these. Whose a node is that was not initialized yet is not known, unless it has its
/// provider ID already.
pub(super) fn leave_other_providers(
    mut routes: Vec<Route>,
    nodes: Vec<NodeEntry>,
    info: &ProviderInfo,
) -> (Vec<Route>, Vec<NodeEntry>) {
    // A provider without instances has no provider IDs, and serves all nodes.
    let is_own = |node: &Node| {
        info.provider_id_prefixes.is_empty()
            || match &node.provider_id {
                Some(id) => info.owns(id),
                // It may become another provider's, and nobody would remove its routes then.
                None => !uninitialized(node),
            }
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

    let SplitRoutes {
        needed,
        obsolete: deletes,
    } = split_routes(routes, &by_name, cidrs);
    let stranded = stranded_nodes(&deletes, &by_name);

    let existing: HashSet<(&str, Destination<'_>)> = needed
        .iter()
        .filter_map(|route| {
            Some((
                route.target_node.as_deref()?,
                Destination::of(&route.destination_cidr),
            ))
        })
        .collect();
    let (wanted, out_of_range): (Vec<_>, Vec<_>) = nodes
        .iter()
        .flat_map(|node| missing(node, &existing))
        .partition(|route| is_within_cluster_cidrs(&route.destination_cidr, cidrs));

    let creates = in_order(wanted, &deletes);
    Plan {
        deletes,
        creates,
        stranded,
        outside: pods_outside(out_of_range),
    }
}

/// Returns the node to which a route leads, if it exists.
fn target<'a>(route: &Route, by_name: &HashMap<&str, &'a Node>) -> Option<&'a Node> {
    let name = route.target_node.as_deref()?;
    by_name.get(name).copied()
}

/// The routes of the cluster. Others are in neither list.
struct SplitRoutes {
    /// Those that nodes need.
    needed: Vec<Route>,
    /// Those to delete.
    obsolete: Vec<Route>,
}

fn split_routes(
    routes: Vec<Route>,
    by_name: &HashMap<&str, &Node>,
    cidrs: &ClusterCidrs,
) -> SplitRoutes {
    let is_needed = |route: &Route| target(route, by_name).is_some_and(|node| serves(route, node));
    let (needed, mut obsolete): (Vec<_>, Vec<_>) = routes.into_iter().partition(is_needed);

    obsolete.retain(|route| touches_cluster_cidrs(&route.destination_cidr, cidrs));
    SplitRoutes { needed, obsolete }
}

/// Returns the names of nodes without Pod CIDRs to which a route leads that is to be deleted.
fn stranded_nodes(deletes: &[Route], by_name: &HashMap<&str, &Node>) -> HashSet<String> {
    deletes
        .iter()
        .filter_map(|route| target(route, by_name))
        .filter(|node| node.pod_cidrs.is_empty())
        .map(|node| node.name.clone())
        .collect()
}

/// Returns the destinations of these routes, by node.
fn pods_outside(routes: Vec<NewRoute>) -> BTreeMap<String, Vec<String>> {
    let mut outside: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for route in routes {
        outside
            .entry(route.target_node)
            .or_default()
            .push(route.destination_cidr);
    }

    outside
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
            // This is a next hop, not all the addresses that the node had when the route was
            // created: compared with those of a node with several, it would always be outdated.
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
    existing: &HashSet<(&str, Destination<'_>)>,
) -> impl Iterator<Item = NewRoute> + use<'a> {
    let cidrs = node
        .pod_cidrs
        .iter()
        .filter(|cidr| !existing.contains(&(node.name.as_str(), Destination::of(cidr))));
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
///
/// False for a text that is not a valid CIDR, unlike [`is_within_cluster_cidrs`]: a route is only
/// deleted if it is certain that it belongs to the cluster.
fn touches_cluster_cidrs(cidr: &str, cidrs: &ClusterCidrs) -> bool {
    cidr.parse::<IpNet>()
        .is_ok_and(|net| cidrs.contains(net.network()) || cidrs.contains(net.broadcast()))
}

/// Returns true if a CIDR is completely in one of the cluster's ranges.
///
/// True for a text that is not a valid CIDR, unlike [`touches_cluster_cidrs`]: it is left to the
/// cloud to reject.
fn is_within_cluster_cidrs(cidr: &str, cidrs: &ClusterCidrs) -> bool {
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
    let mut deletes_by_net: HashMap<IpNet, Vec<(usize, &Route)>> = HashMap::new();
    for (index, route) in deletes.iter().enumerate() {
        if let Some(net) = net(&route.destination_cidr) {
            deletes_by_net.entry(net).or_default().push((index, route));
        }
    }

    // Two CIDRs overlap only if one contains the other.
    let around = |net: &IpNet| successors(Some(*net), IpNet::supernet);
    let mut overlapping: HashMap<IpNet, BTreeMap<usize, &Route>> = HashMap::new();
    for create in routes.iter().filter_map(|it| net(&it.destination_cidr)) {
        let larger = around(&create).filter_map(|outer| deletes_by_net.get(&outer));
        overlapping.insert(create, larger.flatten().copied().collect());
    }
    for (delete, indexed) in &deletes_by_net {
        for outer in around(delete) {
            if let Some(smaller) = overlapping.get_mut(&outer) {
                smaller.extend(indexed.iter().copied());
            }
        }
    }

    let create = |route: NewRoute| {
        let first = net(&route.destination_cidr).and_then(|net| overlapping.get(&net));
        Create {
            after: first
                .into_iter()
                .flatten()
                .map(|(index, _)| *index)
                .collect(),
            replaces_own_route: first
                .into_iter()
                .flatten()
                .any(|(_, old)| leads_to_the_same(&route, old)),
            route,
        }
    };
    routes.into_iter().map(create).collect()
}

fn net(cidr: &str) -> Option<IpNet> {
    cidr.parse::<IpNet>().ok().map(|net| net.trunc())
}

/// Returns true if a route leads from the same destination to the same node as a new one.
fn leads_to_the_same(new: &NewRoute, old: &Route) -> bool {
    !old.blackhole
        && old.target_node.as_ref() == Some(&new.target_node)
        && canonical(&old.destination_cidr) == new.destination_cidr
}

#[cfg(test)]
mod tests;
