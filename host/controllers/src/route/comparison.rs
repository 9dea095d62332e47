//! One comparison of routes with nodes, and its results so far.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use skydock_cloud::{NewRoute, Route};
use tokio::time::Instant;

use super::{
    NodeEntry, RouteMemory,
    changes::{Change, ReadyChange, key},
    in_flight::InFlight,
    network::{Network, RouteState},
    plan::{self, Plan},
    tries::Next,
};

/// The last comparison.
#[derive(Default)]
pub(super) struct Comparison {
    entries: Vec<NodeEntry>,
    plan: Plan,
    /// Indices in the plan of the routes to create, by key and by node.
    creates: HashMap<String, usize>,
    by_node: HashMap<String, Vec<usize>>,
    /// Indices in the plan of the routes to delete, by key, and of the routes to create that wait
    /// for each of them.
    deletes: HashMap<String, usize>,
    waiting: HashMap<usize, Vec<usize>>,
    made: HashSet<usize>,
    gone: HashSet<usize>,
}

/// Changes that can be started.
#[derive(Default)]
pub(super) struct Due {
    pub(super) deletes: Vec<ReadyChange<Route>>,
    pub(super) creates: Vec<ReadyChange<NewRoute>>,
    /// True if a route waits because an overlapping one is being created.
    pub(super) blocked: bool,
}

impl Comparison {
    pub(super) fn new(plan: Plan, entries: Vec<NodeEntry>) -> Self {
        let keys = |keys: Vec<String>| {
            keys.into_iter()
                .enumerate()
                .map(|(index, key)| (key, index))
                .collect()
        };

        let creates = keys(
            plan.creates
                .iter()
                .map(|create| create.route.key())
                .collect(),
        );
        let deletes = keys(plan.deletes.iter().map(Change::key).collect());

        let (mut by_node, mut waiting): (HashMap<String, Vec<usize>>, HashMap<usize, Vec<usize>>) =
            Default::default();
        for (index, create) in plan.creates.iter().enumerate() {
            by_node
                .entry(create.route.target_node.clone())
                .or_default()
                .push(index);
            create
                .after
                .iter()
                .for_each(|delete| waiting.entry(*delete).or_default().push(index));
        }

        Self {
            entries,
            plan,
            creates,
            by_node,
            deletes,
            waiting,
            ..Self::default()
        }
    }

    pub(super) fn entries(&self) -> &[NodeEntry] {
        &self.entries
    }

    /// Returns the Pod CIDRs to which no route is created, by node.
    pub(super) fn outside(&self) -> &BTreeMap<String, Vec<String>> {
        &self.plan.outside
    }

    pub(super) fn entry(&self, node: &str) -> Option<&NodeEntry> {
        let index = self
            .entries
            .binary_search_by(|entry| entry.name().cmp(node))
            .ok()?;
        self.entries.get(index)
    }

    /// Records that a route was created. Returns false if this comparison does not need it in this
    /// form.
    pub(super) fn created(&mut self, route: &NewRoute) -> bool {
        let index = self.creation(route);
        self.made.extend(index);
        index.is_some()
    }

    fn creation(&self, route: &NewRoute) -> Option<usize> {
        let same = |index: &usize| {
            self.plan
                .creates
                .get(*index)
                .is_some_and(|create| create.route == *route)
        };
        self.creates.get(&route.key()).copied().filter(same)
    }

    /// Returns true if exactly this route is to be created.
    pub(super) fn makes(&self, route: &NewRoute) -> bool {
        self.creation(route).is_some()
    }

    /// Returns true if exactly this route is to be deleted.
    pub(super) fn deletes(&self, route: &Route) -> bool {
        let index = self.deletes.get(&route.key());
        let planned = index.and_then(|index| self.plan.deletes.get(*index));
        // A cloud may list two routes with the same name and destination.
        planned.is_some_and(|planned| planned == route || self.plan.deletes.contains(route))
    }

    /// Records that a route was deleted. Returns false if this comparison does not contain it.
    pub(super) fn deleted(&mut self, route: &Route) -> bool {
        self.deletes.get(&route.key()).is_some_and(|index| {
            self.gone.insert(*index);
            true
        })
    }

    /// Returns true if a node needs a route to this destination and the list contains one, so that
    /// none is to be created.
    pub(super) fn keeps(&self, node: &str, destination: &str) -> bool {
        let needs = |entry: &NodeEntry| plan::has(&entry.view, destination);
        self.entry(node).is_some_and(needs)
            && !self
                .creates
                .contains_key(&key(node, &plan::canonical(destination)))
    }

    /// Returns all changes that can be started now.
    pub(super) fn due(&self, memory: &RouteMemory, in_flight: &InFlight, now: Instant) -> Due {
        let deletes = self
            .plan
            .deletes
            .iter()
            .enumerate()
            .filter(|(index, route)| {
                !self.gone.contains(index)
                    && !in_flight.deletes(route)
                    && memory.deletes.due(route, now)
            });
        let deletes = deletes
            .map(|(_, route)| ReadyChange {
                change: route.clone(),
                max_batch: memory.deletes.batch(route),
            })
            .collect();

        Due {
            deletes,
            ..self.creates_due(0..self.plan.creates.len(), memory, in_flight, now)
        }
    }

    /// Returns the changes that can be started after these routes were deleted.
    pub(super) fn freed_by(
        &self,
        routes: &[Route],
        memory: &RouteMemory,
        in_flight: &InFlight,
        now: Instant,
    ) -> Due {
        let waiting: BTreeSet<usize> = routes
            .iter()
            .flat_map(|route| self.waiting_for(route))
            .collect();
        self.creates_due(waiting.into_iter(), memory, in_flight, now)
    }

    fn creates_due(
        &self,
        indices: impl Iterator<Item = usize>,
        memory: &RouteMemory,
        in_flight: &InFlight,
        now: Instant,
    ) -> Due {
        let mut due = Due::default();

        for (index, create) in
            indices.filter_map(|index| Some((index, self.plan.creates.get(index)?)))
        {
            let route = &create.route;
            if self.made.contains(&index) || !self.is_free(index) || in_flight.creates(route) {
                continue;
            }

            if in_flight.is_in_the_place_of(route) {
                due.blocked = true;
            } else if memory.creates.due(route, now) {
                due.creates.push(ReadyChange {
                    change: route.clone(),
                    max_batch: memory.creates.batch(route),
                });
            }
        }

        due
    }

    fn waiting_for(&self, route: &Route) -> impl Iterator<Item = usize> {
        let index = self.deletes.get(&route.key());
        index
            .and_then(|index| self.waiting.get(index))
            .into_iter()
            .flatten()
            .copied()
    }

    /// Returns the nodes whose routes wait for the deletion of this one.
    pub(super) fn nodes_waiting_for(&self, route: &Route) -> Vec<String> {
        let creates = self
            .waiting_for(route)
            .filter_map(|index| self.plan.creates.get(index));
        creates
            .map(|create| create.route.target_node.clone())
            .collect()
    }

    /// Returns true if all routes that this one replaces were deleted.
    fn is_free(&self, create: usize) -> bool {
        self.plan
            .creates
            .get(create)
            .is_some_and(|create| create.after.iter().all(|index| self.gone.contains(index)))
    }

    /// Returns when the first of the failed changes is to be retried.
    pub(super) fn next(&self, memory: &RouteMemory, in_flight: &InFlight) -> Next {
        let creates = memory.creates.next(|route| {
            let index = self.creates.get(&route.key()).copied();
            let waits = in_flight.creates(route) || in_flight.is_in_the_place_of(route);
            !waits && index.is_some_and(|index| !self.made.contains(&index) && self.is_free(index))
        });
        let deletes = memory.deletes.next(|route| !in_flight.deletes(route));
        creates.or(deletes)
    }

    /// Returns whether a node has a network; `None` if this is not known, for example while one of
    /// its routes is being created.
    pub(super) fn network(
        &self,
        entry: &NodeEntry,
        memory: &RouteMemory,
        in_flight: &InFlight,
    ) -> Option<Network> {
        // The list may show a route that an earlier round is deleting.
        let goes = |route: &Route| {
            !self.deletes(route) && self.keeps(entry.name(), &route.destination_cidr)
        };
        if in_flight.deletes_of(entry.name()).any(goes) {
            return None;
        }

        let indices = self
            .by_node
            .get(entry.name())
            .map(Vec::as_slice)
            .unwrap_or_default();

        let mut states = Vec::new();
        for index in indices {
            let create = self.plan.creates.get(*index)?;
            let goes = |delete: &usize| {
                self.plan
                    .deletes
                    .get(*delete)
                    .is_some_and(|route| in_flight.deletes(route))
            };

            if in_flight.creates(&create.route) || create.after.iter().any(goes) {
                return None;
            }

            states.push(if self.made.contains(index) {
                RouteState::Exists
            } else if let Some(state) = memory.creates.state(&create.route) {
                state
            } else if create.replaces_own_route || self.is_free(*index) {
                // An outdated route may still work, and the others were not tried yet.
                RouteState::Unknown
            } else {
                // It waits for the deletion of a route that leads elsewhere.
                RouteState::Missing
            });
        }

        if self.plan.outside.contains_key(entry.name()) {
            states.push(RouteState::Unknown);
        }

        // A node without Pod CIDRs keeps its condition, unless routes still lead to it.
        if self.plan.stranded.contains(entry.name()) {
            states = vec![RouteState::Missing];
        } else if entry.view.pod_cidrs.is_empty() {
            return None;
        }

        Network::of(&states, &entry.object.conditions)
    }
}
