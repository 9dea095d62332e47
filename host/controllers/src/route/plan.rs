//! Which routes are made and which are deleted.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    iter::successors,
};

use ipnet::IpNet;
use skydock_cloud::{NewRoute, Node, NodeAddress, Route};

use crate::ClusterCidrs;

/// What is to be done, and what that means for nodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Routes in our ranges that no node needs as they are.
    pub(super) deletes: Vec<Route>,
    /// Routes that nodes need and the cloud has not.
    pub(super) creates: Vec<Create>,
    /// Names of the nodes without Pod CIDRs that a route in our ranges leads to all the same.
    pub(super) stranded: HashSet<String>,
    /// Pod CIDRs outside of our ranges to which no route leads, by node. None is made: it would not be ours to delete later, and who
    /// registers a node could draw any traffic to it.
    pub(super) outside: BTreeMap<String, Vec<String>>,
}

/// A route to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Create {
    /// The route.
    pub(super) route: NewRoute,
    /// Which of [`Plan::deletes`] have to succeed first: a cloud has one route for one destination.
    pub(super) after: Vec<usize>,
    /// One of those leads to this very node, and not into a black hole: only its addresses are of old.
    pub(super) stale: bool,
}

/// Compares what the cloud has with what the nodes need.
///
/// A route is needed if it leads to a node that has its destination among its Pod CIDRs, was made with the addresses that
/// the node has now (if the cloud knows), and is no black hole. What is needed and not there is made, if it is in the cluster's
/// ranges; what is there, not needed and in the cluster's ranges is deleted. So a route to be changed is both.
///
/// Fixed here: upstream makes routes to any Pod CIDR, and never deletes those outside of the cluster's ranges; it takes a black hole that names its node for a good route while it deletes it, and makes it anew only
/// with the next run; and it makes a route twice for a node that has one Pod CIDR twice.
#[must_use]
pub(super) fn plan(routes: Vec<Route>, nodes: &[&Node], cidrs: &ClusterCidrs) -> Plan {
    let by_name: HashMap<&str, &Node> = nodes.iter().map(|node| (node.name.as_str(), *node)).collect();
    let target = |route: &Route| route.target_node.as_deref().and_then(|name| by_name.get(name).copied());
    let (kept, others): (Vec<_>, Vec<_>) =
        routes.into_iter().partition(|route| target(route).is_some_and(|node| serves(route, node)));
    let deletes: Vec<Route> = others.into_iter().filter(|route| responsible(&route.destination_cidr, cidrs)).collect();
    let stranded = deletes.iter().filter_map(target).filter(|node| node.pod_cidrs.is_empty());
    let stranded = stranded.map(|node| node.name.clone()).collect();
    let there: HashSet<(&str, Destination<'_>)> = kept
        .iter()
        .filter_map(|route| Some((route.target_node.as_deref()?, Destination::of(&route.destination_cidr))))
        .collect();
    let (missing, others): (Vec<_>, Vec<_>) =
        nodes.iter().flat_map(|node| missing(node, &there)).partition(|route| ours(&route.destination_cidr, cidrs));
    let mut outside: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for NewRoute { target_node, destination_cidr, .. } in others {
        outside.entry(target_node).or_default().push(destination_cidr);
    }
    let creates = in_order(missing, &deletes);
    Plan { deletes, creates, stranded, outside }
}

/// The routes a node needs and has not: one for each of its Pod CIDRs, all with the node's UID as hint for their name. Most
/// nodes have what they need, and nothing of theirs is copied.
fn missing<'a>(node: &'a Node, there: &HashSet<(&str, Destination<'_>)>) -> impl Iterator<Item = NewRoute> + use<'a> {
    let cidrs = node.pod_cidrs.iter().filter(|cidr| !there.contains(&(node.name.as_str(), Destination::of(cidr))));
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
    let same = |made_with: &Vec<NodeAddress>| *made_with == node.addresses || set(made_with) == set(&node.addresses);
    let destination = Destination::of(&route.destination_cidr);
    !route.blackhole
        && node.pod_cidrs.iter().any(|cidr| Destination::of(cidr) == destination)
        && route.target_addresses.as_ref().is_none_or(same)
}

/// What a CIDR means. What is none is what it says.
#[derive(PartialEq, Eq, Hash)]
enum Destination<'a> {
    Net(IpNet),
    Text(&'a str),
}

impl<'a> Destination<'a> {
    fn of(cidr: &'a str) -> Self {
        cidr.parse::<IpNet>().map_or(Self::Text(cidr), |net| Self::Net(net.trunc()))
    }
}

/// True if the first or the last address of a CIDR is in one of the cluster's ranges; other routes are somebody else's.
fn responsible(cidr: &str, cidrs: &ClusterCidrs) -> bool {
    cidr.parse::<IpNet>().is_ok_and(|net| cidrs.contains(net.network()) || cidrs.contains(net.broadcast()))
}

/// True if all of a CIDR is in one of the cluster's ranges. What is none is for the cloud to refuse.
fn ours(cidr: &str, cidrs: &ClusterCidrs) -> bool {
    cidr.parse::<IpNet>().map_or(true, |net| cidrs.iter().any(|range| range.contains(&net)))
}

/// One text for one CIDR. What is none stays as it is, and is for the cloud to refuse.
fn canonical(cidr: &str) -> String {
    cidr.parse::<IpNet>().map_or_else(|_| cidr.to_owned(), |net| net.trunc().to_string())
}

/// A new route waits for the deletion of those that overlap with it.
fn in_order(routes: Vec<NewRoute>, deletes: &[Route]) -> Vec<Create> {
    let mut creates: Vec<Create> =
        routes.into_iter().map(|route| Create { route, after: Vec::new(), stale: false }).collect();
    let nets = |cidrs: Vec<&String>| {
        let mut nets: HashMap<IpNet, Vec<usize>> = HashMap::new();
        for (index, cidr) in cidrs.into_iter().enumerate() {
            if let Ok(net) = cidr.parse::<IpNet>() {
                nets.entry(net.trunc()).or_default().push(index);
            }
        }
        nets
    };
    let going = nets(deletes.iter().map(|route| &route.destination_cidr).collect());
    let coming = nets(creates.iter().map(|create| &create.route.destination_cidr).collect());
    // CIDRs overlap only if one is inside the other.
    let around = |net: &IpNet| successors(Some(*net), IpNet::supernet);
    let mut pairs = BTreeSet::new();
    for (net, created) in &coming {
        let deleted = around(net).filter_map(|outer| going.get(&outer)).flatten();
        pairs.extend(deleted.flat_map(|deleted| created.iter().map(move |created| (*created, *deleted))));
    }
    for (net, deleted) in &going {
        let created = around(net).filter_map(|outer| coming.get(&outer)).flatten();
        pairs.extend(created.flat_map(|created| deleted.iter().map(move |deleted| (*created, *deleted))));
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
