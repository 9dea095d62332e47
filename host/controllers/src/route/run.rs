//! The main loop for routes: lists and compares them, starts changes, and records their results. A slow call does not delay
//! anything else.

use std::sync::Arc;

use skydock_cloud::{CloudError, NewRoute, Route};
use skydock_kube::{
    events::{EventType, Notice, TELL_AGAIN},
    queue::Priority,
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    GATHER, Rhythm, RouteController,
    flight::Flight,
    plan,
    round::{Due, Round},
    tries::LIMITER,
    work::{Change, Done, Work},
};
use crate::{
    constants::reason,
    patience::minutes,
    retry::{self, Again},
};

pub(super) struct Run<'a> {
    controller: &'a RouteController,
    stop: CancellationToken,
    work: Work,
    tasks: JoinSet<Event>,
    /// Set while the list of routes is being requested.
    listing: Option<Listing>,
    round: Round,
    flight: Flight,
    /// Start of the last list request, and earliest start of the next.
    started: Instant,
    not_before: Instant,
    /// When to retry if listing failed.
    relist: Option<Instant>,
    /// True if a route waits because an overlapping one is being created.
    blocked: bool,
}

/// Changes that were completed while the list was being requested: it is not known whether the list contains them.
#[derive(Default)]
struct Listing {
    /// [`Memory::forgotten`] when the request was sent.
    begun: u64,
    created: Vec<NewRoute>,
    deleted: Vec<Route>,
}

/// A completed call.
pub(super) enum Event {
    Listed(Result<Vec<Route>, CloudError>),
    /// With [`Memory::forgotten`] when the call started.
    Created(Vec<Done<NewRoute>>, u64),
    Deleted(Vec<Done<Route>>, u64),
}

impl<'a> Run<'a> {
    pub(super) fn new(controller: &'a RouteController, stop: CancellationToken) -> Self {
        let now = Instant::now();
        Self {
            work: Work::new(Arc::clone(&controller.shared.provider), stop.clone()),
            controller,
            stop,
            tasks: JoinSet::new(),
            listing: None,
            round: Round::default(),
            flight: Flight::default(),
            started: now,
            not_before: now,
            relist: None,
            blocked: false,
        }
    }

    /// Runs until the queue is closed, and then waits for calls in progress.
    pub(super) async fn work(mut self) {
        loop {
            let (pause, stop, queue) = (sleep_until(self.not_before), self.stop.clone(), &self.controller.queue);
            let turn = async move {
                tokio::select! { () = pause => {}, () = stop.cancelled() => {} }
                queue.take().await
            };
            tokio::select! {
                turn = turn, if self.listing.is_none() => match turn {
                    Some(_) if !self.stop.is_cancelled() => self.list(),
                    _ => break,
                },
                Some(event) = self.next() => self.handle(event),
            }
        }
        while let Some(event) = self.next().await {
            self.handle(event);
        }
    }

    /// Starts a round.
    pub(super) fn list(&mut self) {
        self.controller.shared.metrics.route.syncs.inc();
        let begun = self.controller.memory().forgotten;
        (self.started, self.listing) = (Instant::now(), Some(Listing { begun, ..Listing::default() }));
        let provider = Arc::clone(&self.controller.shared.provider);
        self.tasks.spawn(async move { Event::Listed(provider.list_routes().await) });
    }

    /// Returns the next completed call; `None` if none is in progress.
    pub(super) async fn next(&mut self) -> Option<Event> {
        match self.tasks.join_next().await? {
            Ok(event) => Some(event),
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is shutting down, and this with it.
                Err(_) => std::future::pending().await,
            },
        }
    }

    pub(super) fn handle(&mut self, event: Event) {
        match event {
            Event::Listed(listed) => self.listed(listed),
            Event::Created(done, begun) => self.created(done, begun),
            Event::Deleted(done, begun) => self.deleted(done, begun),
        }
        self.schedule();
    }

    fn listed(&mut self, listed: Result<Vec<Route>, CloudError>) {
        let controller = self.controller;
        controller.queue.done(&());
        let meanwhile = self.listing.take().unwrap_or_default();
        let now = Instant::now();
        self.relist = None;
        // The plugin was replaced and will be queried at once: the list of the previous plugin may come from a different cloud.
        if meanwhile.begun != controller.memory().forgotten {
            return;
        }
        let routes = match listed {
            Ok(routes) => routes,
            Err(error) => {
                controller.shared.cloud_error("routes", &error);
                if retry::warns(&error) {
                    self.warn(reason::FAILED_TO_LIST_ROUTES, format!("No route is created or deleted: {error}"));
                }
                let mut memory = controller.memory();
                self.relist = Again::after(&error).wait(&LIMITER, memory.failures).map(|wait| now + wait);
                memory.failures = memory.failures.saturating_add(1);
                return;
            }
        };
        self.tell_if_nearly_full(routes.len(), now);
        // Nodes are read after the list: the node of a listed route is known by then, unless it does not exist.
        let entries = controller.shared.nodes.list();
        let nodes: Vec<_> = entries.iter().map(|entry| &*entry.view).collect();
        let plan = plan::plan(routes, &nodes, &controller.cidrs);
        let due = {
            let mut memory = controller.memory();
            memory.failures = 0;
            memory.deletes.keep(plan.deletes.iter());
            memory.creates.keep(plan.creates.iter().map(|create| &create.route));
            self.round = Round::new(plan, entries);
            for route in &meanwhile.created {
                self.round.created(route);
            }
            for route in &meanwhile.deleted {
                self.round.deleted(route);
            }
            self.round.due(&memory, &self.flight, now)
        };
        self.blocked = false;
        self.begin(due);
        self.tell_of_outside(now);
        let (memory, round) = (controller.memory(), &self.round);
        for entry in round.entries() {
            if let Some(network) = round.verdict(entry, &memory, &self.flight) {
                controller.conditions.want(entry, network);
            }
        }
    }

    /// Warns when the limit of routes is nearly reached: a longer list is rejected as a whole, and then new nodes get no
    /// routes.
    fn tell_if_nearly_full(&self, routes: usize, now: Instant) {
        let shared = &self.controller.shared;
        let limit = shared.provider.max_routes();
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        shared.metrics.route.routes.set(gauge(routes));
        shared.metrics.route.limit.set(gauge(limit.unwrap_or(0)));
        let Some(limit) = limit.filter(|limit| routes >= limit - limit / 5) else { return };
        let mut memory = self.controller.memory();
        if memory.tell_of_limit.is_none_or(|at| now >= at) {
            memory.tell_of_limit = Some(now + TELL_AGAIN);
            let message = format!(
                "There are {routes} routes; with more than {limit}, no route is created or deleted. Raise the limit, for example \
                 --plugin-limit routes={}",
                limit.saturating_mul(2)
            );
            tracing::warn!("{message}");
            self.warn(reason::ROUTES_NEAR_LIMIT, message);
        }
    }

    /// Publishes an event for each node whose Pod CIDRs are outside of the cluster's; again after a while, because events
    /// expire.
    fn tell_of_outside(&self, now: Instant) {
        let shared = &self.controller.shared;
        let mut memory = self.controller.memory();
        let before = std::mem::take(&mut memory.tell_of_outside);
        for (node, cidrs) in self.round.outside() {
            let Some(entry) = self.round.entry(node) else { continue };
            let waits = before.get(entry.uid()).filter(|at| now < **at);
            memory.tell_of_outside.insert(entry.uid().to_owned(), waits.copied().unwrap_or(now + TELL_AGAIN));
            if waits.is_none() {
                let cidrs = cidrs.join(", ");
                let message = format!(
                    "No route is created to Pod CIDR {cidrs} of the node: it is outside --cluster-cidr. If it is correct, \
                     extend --cluster-cidr; otherwise delete the node, and let it register again"
                );
                tracing::warn!(node, "{message}");
                shared.metrics.error(shared.controller, "pod-cidr-out-of-range");
                shared.warning(entry, reason::POD_CIDR_OUT_OF_RANGE, message);
            }
        }
    }

    /// Publishes a warning that is not about a single object of the cluster, on the object that represents this process.
    fn warn(&self, reason: &str, message: String) {
        let shared = &self.controller.shared;
        shared.recorder.publish(Notice {
            source: shared.controller.event_source,
            object: self.controller.process.clone(),
            event_type: EventType::Warning,
            reason: reason.to_owned(),
            message,
        });
    }

    fn begin(&mut self, due: Due) {
        self.blocked |= due.blocked;
        due.deletes.iter().for_each(|(route, _)| self.flight.begin_delete(route));
        let mut creates = Vec::new();
        for (route, size) in due.creates {
            // Overlapping routes are created one after the other.
            if self.flight.is_in_the_place_of(&route) {
                self.blocked = true;
                continue;
            }
            self.flight.begin_create(&route);
            creates.push((route, size));
        }
        let begun = self.controller.memory().forgotten;
        for batch in self.work.batches(due.deletes) {
            let work = self.work.clone();
            self.tasks.spawn(async move { Event::Deleted(work.batch(batch).await, begun) });
        }
        for batch in self.work.batches(creates) {
            let work = self.work.clone();
            self.tasks.spawn(async move { Event::Created(work.batch(batch).await, begun) });
        }
    }

    fn created(&mut self, done: Vec<Done<NewRoute>>, begun: u64) {
        let mut nodes = Vec::new();
        let mut news = self.blocked;
        for done in done {
            self.flight.end_create(&done.change);
            nodes.push(done.change.target_node.clone());
            self.tell_created(&done);
            let mut memory = self.controller.memory();
            match done.result {
                Ok(()) => {
                    memory.creates.succeeded(&done.change);
                    news |= !self.round.created(&done.change);
                    self.listing.iter_mut().for_each(|listing| listing.created.push(done.change.clone()));
                }
                // The current round does not want this change, or it was requested from the previous plugin: the error says
                // nothing about the next attempt.
                Err(_) if begun != memory.forgotten || !self.round.makes(&done.change) => news = true,
                Err(error) => {
                    let (long, now) = (self.long(), Instant::now());
                    let (name, key) = (done.change.target_node.clone(), done.change.key());
                    let lasted = memory.creates.failed(done.change, &error, done.spoiled, now, &long);
                    if let (Some(lasted), Some(entry)) = (lasted, self.round.entry(&name)) {
                        let lasted = minutes(lasted);
                        let message = format!("An operation on route {key} has been in progress for {lasted}: {error}");
                        self.controller.shared.warning(entry, reason::STILL_IN_PROGRESS, message);
                    }
                }
            }
        }
        self.look_again_if(news);
        self.want(nodes);
    }

    fn deleted(&mut self, done: Vec<Done<Route>>, begun: u64) {
        let (mut nodes, mut gone, mut news, now) = (Vec::new(), Vec::new(), false, Instant::now());
        for Done { change, result, spoiled, .. } in done {
            self.flight.end_delete(&change);
            nodes.extend(self.round.nodes_waiting_for(&change));
            match result {
                Ok(()) => {
                    tracing::info!(route = change.name, cidr = change.destination_cidr, "deleted a route");
                    self.listing.iter_mut().for_each(|listing| listing.deleted.push(change.clone()));
                    news |= !self.round.deleted(&change);
                    self.controller.memory().deletes.succeeded(&change);
                    gone.push(change);
                }
                Err(error) => {
                    let key = change.key();
                    self.controller.shared.cloud_error(&key, &error);
                    let long = self.long();
                    let mut memory = self.controller.memory();
                    if begun != memory.forgotten || !self.round.deletes(&change) {
                        news = true;
                        continue;
                    }
                    let lasted = memory.deletes.failed(change, &error, spoiled, now, &long);
                    drop(memory);
                    if let Some(lasted) = lasted.map(minutes) {
                        tracing::warn!(route = key, "route deletion has been in progress for {lasted}: {error}");
                    }
                }
            }
        }
        let due = self.round.freed_by(&gone, &self.controller.memory(), &self.flight, now);
        self.begin(due);
        self.look_again_if(news);
        self.want(nodes);
    }

    fn long(&self) -> prometheus_client::metrics::gauge::Gauge {
        let shared = &self.controller.shared;
        shared.metrics.long_in_progress(shared.controller)
    }

    /// Schedules a run if a change from an earlier round ended: the next list shows the result.
    fn look_again_if(&self, news: bool) {
        if news && matches!(self.controller.rhythm, Rhythm::Watch { .. }) {
            self.controller.queue.add_after((), GATHER, Priority::Change);
        }
    }

    /// Queues the conditions of those nodes the state of whose routes is known.
    fn want(&self, mut nodes: Vec<String>) {
        nodes.sort_unstable();
        nodes.dedup();
        let memory = self.controller.memory();
        for entry in nodes.iter().filter_map(|node| self.round.entry(node)) {
            if let Some(network) = self.round.verdict(entry, &memory, &self.flight) {
                self.controller.conditions.want(entry, network);
            }
        }
    }

    /// Returns the earliest time at which something is to be retried.
    pub(super) fn next_try(&self) -> Option<Instant> {
        let memory = self.controller.memory();
        self.round.next(&memory, &self.flight).into_iter().chain(self.relist).min()
    }

    fn schedule(&mut self) {
        if self.listing.is_some() {
            return;
        }
        let now = Instant::now();
        let again = self.next_try().map(|next| next.saturating_duration_since(now));
        let (next, pause) = self.controller.rhythm.after(self.started.elapsed(), again);
        if let Some(next) = next {
            self.controller.queue.add_after((), next, Priority::Recheck);
        }
        self.not_before = now + pause;
    }

    /// Logs the result, and counts and publishes errors.
    fn tell_created(&self, done: &Done<NewRoute>) {
        let Done { change, result, took, .. } = done;
        let (node, cidr) = (change.target_node.as_str(), &change.destination_cidr);
        let Err(error) = result else {
            tracing::info!(node, cidr, "created a route");
            return;
        };
        self.controller.shared.cloud_error(&change.key(), error);
        if let Some(entry) = self.round.entry(node).filter(|_| retry::warns(error)) {
            let hint = &change.name_hint;
            let message = format!("Could not create route {hint} {cidr} for node {node} after {took:?}: {error}");
            self.controller.shared.warning(entry, reason::FAILED_TO_CREATE_ROUTE, message);
        }
    }
}
