//! The state of routes, as far as it is known, and what follows from each answer of the cloud. There
//! is no I/O here; `run.rs` performs what [`Effects`] say.

use std::collections::HashSet;

use prometheus_client::metrics::gauge::Gauge;
use skydock_cloud::{CloudError, NewRoute, Route};
use skydock_kube::events::REMINDER_PERIOD;
use tokio::time::Instant;

use super::{
    NodeEntry, RouteMemory,
    changes::{Change, Done},
    comparison::{Comparison, Due},
    in_flight::InFlight,
    network::Network,
    plan::Plan,
    report::Report,
    tries::Next,
};

/// What is known about routes while the process leads.
#[derive(Default)]
pub(super) struct State {
    /// Set while the list of routes is being requested.
    listing: Option<Listing>,
    comparison: Comparison,
    in_flight: InFlight,
    /// When to retry the last list if it failed: nothing else can be retried before it has
    /// succeeded.
    relist: Option<Next>,
    /// True if a route waits because an overlapping one is being created.
    blocked: bool,
}

/// Changes that were completed while the list was being requested: it is not known whether the list
/// contains them.
#[derive(Default)]
pub(super) struct Listing {
    /// [`RouteMemory::forgotten`] when the request was sent.
    begun: u64,
    created: Vec<NewRoute>,
    deleted: Vec<Route>,
}

/// What follows from an answer.
#[derive(Default)]
pub(super) struct Effects {
    pub(super) reports: Vec<Report>,
    /// Changes to request from the cloud. They count as in progress.
    pub(super) due: Due,
    /// The conditions of the nodes the state of whose routes is known.
    pub(super) networks: Vec<(NodeEntry, Network)>,
    /// True if a change from an earlier round ended: the next list shows the result.
    pub(super) list_again: bool,
}

impl State {
    /// Records that the list of routes is being requested.
    pub(super) fn begin_list(&mut self, memory: &RouteMemory) {
        self.listing = Some(Listing {
            begun: memory.forgotten,
            ..Listing::default()
        });
    }

    /// Returns true while the list of routes is being requested.
    pub(super) fn is_listing(&self) -> bool {
        self.listing.is_some()
    }

    /// Ends a request of the list. Returns `None` if the plugin was replaced in the meantime and
    /// will be queried at once: the list of the previous plugin may come from a different cloud.
    pub(super) fn end_list(&mut self, memory: &RouteMemory) -> Option<Listing> {
        self.relist = None;
        Some(self.listing.take().unwrap_or_default())
            .filter(|listing| listing.begun == memory.forgotten)
    }

    /// Handles a list that failed: nothing is changed.
    pub(super) fn list_failed(
        &mut self,
        memory: &mut RouteMemory,
        error: CloudError,
        now: Instant,
    ) -> Effects {
        self.relist = Some(Next::after(&error, memory.failures, now));
        memory.failures = memory.failures.saturating_add(1);
        Effects {
            reports: vec![Report::ListFailed(error)],
            ..Effects::default()
        }
    }

    /// Begins a round with this comparison of the listed routes with these nodes.
    pub(super) fn listed(
        &mut self,
        memory: &mut RouteMemory,
        meanwhile: &Listing,
        (plan, entries): (Plan, Vec<NodeEntry>),
        now: Instant,
    ) -> Effects {
        memory.failures = 0;
        memory.deletes.keep(plan.deletes.iter());
        memory
            .creates
            .keep(plan.creates.iter().map(|create| &create.route));

        self.comparison = Comparison::new(plan, entries);

        // Of a change that the nodes do not want in this form, another list shows the result.
        let mut list_again = false;
        let mut uncertain = HashSet::new();
        for route in &meanwhile.created {
            list_again |= !self.comparison.created(route)
                && !self
                    .comparison
                    .keeps(&route.target_node, &route.destination_cidr);
        }

        for route in &meanwhile.deleted {
            if !self.comparison.deleted(route)
                && let Some(node) = &route.target_node
                && self.comparison.keeps(node, &route.destination_cidr)
            {
                list_again = true;
                uncertain.insert(node.as_str());
            }
        }

        self.blocked = false;
        let due = self.start(self.comparison.due(memory, &self.in_flight, now));
        let reports = self.outside(memory, now);

        let entries = self
            .comparison
            .entries()
            .iter()
            .filter(|entry| !uncertain.contains(entry.name()));
        let networks = self.networks(entries, memory);

        Effects {
            reports,
            due,
            networks,
            list_again,
        }
    }

    /// Returns reports about nodes whose Pod CIDRs are outside of the cluster's; again after a
    /// while, because events expire.
    fn outside(&self, memory: &mut RouteMemory, now: Instant) -> Vec<Report> {
        // Taken, so that nodes that have no such Pod CIDRs are not remembered.
        let before = std::mem::take(&mut memory.next_outside_reports);
        let mut reports = Vec::new();

        for (node, cidrs) in self.comparison.outside() {
            let Some(entry) = self.comparison.entry(node) else {
                continue;
            };
            let waits = before.get(entry.uid()).filter(|at| now < **at);
            memory.next_outside_reports.insert(
                entry.uid().to_owned(),
                waits.copied().unwrap_or(now + REMINDER_PERIOD),
            );

            if waits.is_none() {
                reports.push(Report::Outside(entry.clone(), cidrs.clone()));
            }
        }

        reports
    }

    /// Records that changes are being requested, and returns those that can be.
    fn start(&mut self, due: Due) -> Due {
        self.blocked |= due.blocked;
        due.deletes
            .iter()
            .for_each(|delete| self.in_flight.begin_delete(&delete.change));

        let mut creates = Vec::new();
        for create in due.creates {
            // Overlapping routes are created one after the other.
            if self.in_flight.is_in_the_place_of(&create.change) {
                self.blocked = true;
                continue;
            }
            self.in_flight.begin_create(&create.change);
            creates.push(create);
        }

        Due { creates, ..due }
    }

    /// Records results of creations that were requested when [`RouteMemory::forgotten`] was `begun`.
    pub(super) fn created(
        &mut self,
        memory: &mut RouteMemory,
        done: Vec<Done<NewRoute>>,
        begun: u64,
        (now, long): (Instant, &Gauge),
    ) -> Effects {
        let mut nodes = Vec::new();
        let mut reports = Vec::new();
        let mut list_again = self.blocked;

        for done in done {
            let route = done.change.clone();
            self.in_flight.end_create(&route);
            let node = self.comparison.entry(&route.target_node).cloned();
            nodes.push(route.target_node.clone());

            match &done.result {
                Ok(()) => {
                    memory.creates.succeeded(&route);
                    list_again |= !self.comparison.created(&route);
                    self.listing
                        .iter_mut()
                        .for_each(|listing| listing.created.push(route.clone()));
                    reports.push(Report::Created(done, node));
                }
                // The last comparison does not want this change, or it was requested from the
                // previous plugin: the error says nothing about the next attempt.
                Err(_) if begun != memory.forgotten || !self.comparison.makes(&route) => {
                    list_again = true;
                    reports.push(Report::Created(done, node));
                }
                Err(error) => {
                    let error = error.clone();
                    let key = route.key();
                    let lasted = memory
                        .creates
                        .failed(route, &error, done.spoiled, now, long);
                    reports.push(Report::Created(done, node.clone()));
                    if let (Some(lasted), Some(entry)) = (lasted, node) {
                        reports.push(Report::CreatingForLong {
                            entry,
                            key,
                            lasted,
                            error,
                        });
                    }
                }
            }
        }

        Effects {
            reports,
            networks: self.networks_of(nodes, memory),
            list_again,
            due: Due::default(),
        }
    }

    /// Records results of deletions that were requested when [`RouteMemory::forgotten`] was `begun`.
    pub(super) fn deleted(
        &mut self,
        memory: &mut RouteMemory,
        done: Vec<Done<Route>>,
        begun: u64,
        (now, long): (Instant, &Gauge),
    ) -> Effects {
        let mut nodes = Vec::new();
        let mut reports = Vec::new();
        let mut gone = Vec::new();
        let mut list_again = false;

        for Done {
            change,
            result,
            spoiled,
            ..
        } in done
        {
            self.in_flight.end_delete(&change);
            nodes.extend(self.comparison.nodes_waiting_for(&change));

            match result {
                Ok(()) => {
                    self.listing
                        .iter_mut()
                        .for_each(|listing| listing.deleted.push(change.clone()));
                    list_again |= !self.comparison.deleted(&change);
                    memory.deletes.succeeded(&change);
                    reports.push(Report::Deleted(change.clone()));
                    gone.push(change);
                }
                Err(error) => {
                    let key = change.key();
                    reports.push(Report::NotDeleted {
                        key: key.clone(),
                        error: error.clone(),
                    });

                    // As for creations, such an error says nothing about the next attempt.
                    if begun != memory.forgotten || !self.comparison.deletes(&change) {
                        list_again = true;
                    } else if let Some(lasted) =
                        memory.deletes.failed(change, &error, spoiled, now, long)
                    {
                        reports.push(Report::DeletingForLong { key, lasted, error });
                    }
                }
            }
        }

        let due = self.start(
            self.comparison
                .freed_by(&gone, memory, &self.in_flight, now),
        );
        Effects {
            reports,
            due,
            networks: self.networks_of(nodes, memory),
            list_again,
        }
    }

    fn networks_of(
        &self,
        mut nodes: Vec<String>,
        memory: &RouteMemory,
    ) -> Vec<(NodeEntry, Network)> {
        nodes.sort_unstable();
        nodes.dedup();
        self.networks(
            nodes.iter().filter_map(|node| self.comparison.entry(node)),
            memory,
        )
    }

    fn networks<'a>(
        &self,
        entries: impl Iterator<Item = &'a NodeEntry>,
        memory: &RouteMemory,
    ) -> Vec<(NodeEntry, Network)> {
        let known = |entry: &NodeEntry| {
            Some((
                entry.clone(),
                self.comparison.network(entry, memory, &self.in_flight)?,
            ))
        };
        entries.filter_map(known).collect()
    }

    /// Returns when something is to be retried. Changes are retried after a list.
    pub(super) fn next_try(&self, memory: &RouteMemory) -> Next {
        self.relist
            .unwrap_or_else(|| self.comparison.next(memory, &self.in_flight))
    }
}

impl RouteMemory {
    /// Returns the report that the limit of routes is nearly reached, unless it was made recently:
    /// a longer list is rejected as a whole, and then new nodes get no routes.
    pub(super) fn near_limit(
        &mut self,
        routes: usize,
        limit: Option<usize>,
        now: Instant,
    ) -> Option<Report> {
        let limit = limit.filter(|limit| routes >= limit - limit / 5)?;
        if self.next_limit_report.is_some_and(|at| now < at) {
            return None;
        }
        self.next_limit_report = Some(now + REMINDER_PERIOD);
        Some(Report::NearLimit { routes, limit })
    }
}

#[cfg(test)]
mod tests;
