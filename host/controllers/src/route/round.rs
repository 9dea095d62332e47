//! One comparison of routes with nodes, and what has become of it so far.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use skydock_cloud::{NewRoute, Route};
use tokio::time::Instant;

use super::{
    Memory, NodeEntry,
    flight::Flight,
    network::{Network, Standing},
    plan::Plan,
    work::Change,
};

/// The last comparison.
#[derive(Default)]
pub(super) struct Round {
    entries: Vec<NodeEntry>,
    plan: Plan,
    /// Where in the plan a route to be made is, by its key; and those to be made for a node.
    creates: HashMap<String, usize>,
    by_node: HashMap<String, Vec<usize>>,
    /// Where in the plan a route to be deleted is, and which to be made wait for that.
    deletes: HashMap<String, usize>,
    waiting: HashMap<usize, Vec<usize>>,
    made: HashSet<usize>,
    gone: HashSet<usize>,
}

/// What can be begun, each with the size of the batch it may go in.
#[derive(Default)]
pub(super) struct Due {
    pub(super) deletes: Vec<(Route, usize)>,
    pub(super) creates: Vec<(NewRoute, usize)>,
    /// Something waits for another route that is being made in its place.
    pub(super) blocked: bool,
}

impl Round {
    pub(super) fn new(plan: Plan, entries: Vec<NodeEntry>) -> Self {
        let keys = |keys: Vec<String>| keys.into_iter().enumerate().map(|(index, key)| (key, index)).collect();
        let creates = keys(plan.creates.iter().map(|create| create.route.key()).collect());
        let deletes = keys(plan.deletes.iter().map(Change::key).collect());
        let (mut by_node, mut waiting): (HashMap<String, Vec<usize>>, HashMap<usize, Vec<usize>>) = Default::default();
        for (index, create) in plan.creates.iter().enumerate() {
            by_node.entry(create.route.target_node.clone()).or_default().push(index);
            create.after.iter().for_each(|delete| waiting.entry(*delete).or_default().push(index));
        }
        Self { entries, plan, creates, by_node, deletes, waiting, ..Self::default() }
    }

    pub(super) fn entries(&self) -> &[NodeEntry] {
        &self.entries
    }

    /// Pod CIDRs to which no route is made, by node.
    pub(super) fn outside(&self) -> &BTreeMap<String, Vec<String>> {
        &self.plan.outside
    }

    pub(super) fn entry(&self, node: &str) -> Option<&NodeEntry> {
        let index = self.entries.binary_search_by(|entry| entry.name().cmp(node)).ok()?;
        self.entries.get(index)
    }

    /// Takes note of a route that was made. False if this round knows of no need for it as it is.
    pub(super) fn created(&mut self, route: &NewRoute) -> bool {
        let index = self.creation(route);
        self.made.extend(index);
        index.is_some()
    }

    fn creation(&self, route: &NewRoute) -> Option<usize> {
        let same = |index: &usize| self.plan.creates.get(*index).is_some_and(|create| create.route == *route);
        self.creates.get(&route.key()).copied().filter(same)
    }

    /// True if this very route is to be made.
    pub(super) fn makes(&self, route: &NewRoute) -> bool {
        self.creation(route).is_some()
    }

    /// True if this very route is to be deleted.
    pub(super) fn deletes(&self, route: &Route) -> bool {
        let index = self.deletes.get(&route.key());
        let planned = index.and_then(|index| self.plan.deletes.get(*index));
        // A cloud may list two of the same name to the same destination.
        planned.is_some_and(|planned| planned == route || self.plan.deletes.contains(route))
    }

    /// Takes note of a route that was deleted. False if this round did not know of it.
    pub(super) fn deleted(&mut self, route: &Route) -> bool {
        self.deletes.get(&route.key()).is_some_and(|index| {
            self.gone.insert(*index);
            true
        })
    }

    /// What can be begun now, of all there is.
    pub(super) fn due(&self, memory: &Memory, flight: &Flight, now: Instant) -> Due {
        let deletes = self.plan.deletes.iter().enumerate().filter(|(index, route)| {
            !self.gone.contains(index) && !flight.deletes(route) && memory.deletes.due(route, now)
        });
        let deletes = deletes.map(|(_, route)| (route.clone(), memory.deletes.batch(route))).collect();
        Due { deletes, ..self.creates_due(0..self.plan.creates.len(), memory, flight, now) }
    }

    /// What can be begun since these were deleted.
    pub(super) fn freed_by(&self, routes: &[Route], memory: &Memory, flight: &Flight, now: Instant) -> Due {
        let waiting: BTreeSet<usize> = routes.iter().flat_map(|route| self.waiting_for(route)).collect();
        self.creates_due(waiting.into_iter(), memory, flight, now)
    }

    fn creates_due(&self, indices: impl Iterator<Item = usize>, memory: &Memory, flight: &Flight, now: Instant) -> Due {
        let mut due = Due::default();
        for (index, create) in indices.filter_map(|index| Some((index, self.plan.creates.get(index)?))) {
            let route = &create.route;
            if self.made.contains(&index) || !self.is_free(index) || flight.creates(route) {
                continue;
            }
            if flight.is_in_the_place_of(route) {
                due.blocked = true;
            } else if memory.creates.due(route, now) {
                due.creates.push((route.clone(), memory.creates.batch(route)));
            }
        }
        due
    }

    fn waiting_for(&self, route: &Route) -> impl Iterator<Item = usize> {
        let index = self.deletes.get(&route.key());
        index.and_then(|index| self.waiting.get(index)).into_iter().flatten().copied()
    }

    /// The nodes whose routes wait for the deletion of this one.
    pub(super) fn nodes_waiting_for(&self, route: &Route) -> Vec<String> {
        let creates = self.waiting_for(route).filter_map(|index| self.plan.creates.get(index));
        creates.map(|create| create.route.target_node.clone()).collect()
    }

    /// True if nothing is in the place of this route any more.
    fn is_free(&self, create: usize) -> bool {
        self.plan.creates.get(create).is_some_and(|create| create.after.iter().all(|index| self.gone.contains(index)))
    }

    /// When something that failed is to be tried again.
    pub(super) fn next(&self, memory: &Memory, flight: &Flight) -> Option<Instant> {
        let creates = memory.creates.next(|route| {
            let index = self.creates.get(&route.key()).copied();
            let waits = flight.creates(route) || flight.is_in_the_place_of(route);
            !waits && index.is_some_and(|index| !self.made.contains(&index) && self.is_free(index))
        });
        let deletes = memory.deletes.next(|route| !flight.deletes(route));
        creates.into_iter().chain(deletes).min()
    }

    /// Whether a node has a network; `None` if nothing can be said, or not yet: one of its own routes is being made.
    pub(super) fn verdict(&self, entry: &NodeEntry, memory: &Memory, flight: &Flight) -> Option<Network> {
        let indices = self.by_node.get(entry.name()).map(Vec::as_slice).unwrap_or_default();
        let mut standings = Vec::new();
        for index in indices {
            let create = self.plan.creates.get(*index)?;
            let goes = |delete: &usize| self.plan.deletes.get(*delete).is_some_and(|route| flight.deletes(route));
            if flight.creates(&create.route) || create.after.iter().any(goes) {
                return None;
            }
            standings.push(if self.made.contains(index) {
                Standing::There
            } else if let Some(standing) = memory.creates.standing(&create.route) {
                standing
            } else if create.stale || self.is_free(*index) {
                Standing::Unknown
            } else {
                Standing::Missing
            });
        }
        if self.plan.outside.contains_key(entry.name()) {
            standings.push(Standing::Unknown);
        }
        if self.plan.stranded.contains(entry.name()) {
            standings = vec![Standing::Missing];
        } else if entry.view.pod_cidrs.is_empty() {
            return None;
        }
        Network::of(&standings, &entry.object.conditions)
    }
}
