//! The work on routes: it lists, compares and begins what is to be done, and takes note of what has become of it. Nothing that
//! takes long holds up anything else.

use std::sync::Arc;

use skydock_cloud::{CloudError, NewRoute, Route, Severity};
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
    events::{Notice, TELL_AGAIN},
    patience::minutes,
    queue::Priority,
    retry::{self, Again},
};

pub(super) struct Run<'a> {
    controller: &'a RouteController,
    stop: CancellationToken,
    work: Work,
    tasks: JoinSet<Event>,
    /// The list of routes is on its way since then.
    listing: Option<Listing>,
    round: Round,
    flight: Flight,
    /// Begin of the last listing, and the earliest of the next.
    started: Instant,
    not_before: Instant,
    /// When to list again if listing failed.
    relist: Option<Instant>,
    /// A route waits for another one that is being made in its place.
    blocked: bool,
}

/// What was done while the list of routes was on its way: nobody knows whether it is in the list.
#[derive(Default)]
struct Listing {
    /// [`Memory::forgotten`] at the beginning.
    begun: u64,
    created: Vec<NewRoute>,
    deleted: Vec<Route>,
}

/// What has come to an end.
pub(super) enum Event {
    Listed(Result<Vec<Route>, CloudError>),
    /// With [`Memory::forgotten`] as it was at the beginning.
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

    /// Works until the queue is closed, and then waits for what is under way.
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

    /// Begins a round.
    pub(super) fn list(&mut self) {
        self.controller.shared.metrics.route_sync.inc();
        let begun = self.controller.memory().forgotten;
        (self.started, self.listing) = (Instant::now(), Some(Listing { begun, ..Listing::default() }));
        let provider = Arc::clone(&self.controller.shared.provider);
        self.tasks.spawn(async move { Event::Listed(provider.list_routes().await) });
    }

    /// What ends next; `None` if nothing is under way.
    pub(super) async fn next(&mut self) -> Option<Event> {
        match self.tasks.join_next().await? {
            Ok(event) => Some(event),
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is going down, and this with it.
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
        // Another plugin is to be asked, and will be at once: what the one before has listed may be another cloud's.
        if meanwhile.begun != controller.memory().forgotten {
            return;
        }
        let routes = match listed {
            Ok(routes) => routes,
            Err(error) => {
                controller.shared.cloud_error("routes", &error);
                if retry::warns(&error) {
                    self.warn(reason::FAILED_TO_LIST_ROUTES, format!("No route is made or deleted: {error}"));
                }
                let mut memory = controller.memory();
                self.relist = Again::after(&error).wait(&LIMITER, memory.failures).map(|wait| now + wait);
                memory.failures = memory.failures.saturating_add(1);
                return;
            }
        };
        self.tell_if_nearly_full(routes.len(), now);
        // In this order: a route that is listed belongs to a node that is known by now, or to none.
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

    /// A list with too many routes in it is refused as a whole, and then there are no routes for new nodes.
    fn tell_if_nearly_full(&self, routes: usize, now: Instant) {
        let shared = &self.controller.shared;
        let limit = shared.provider.max_routes();
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        shared.metrics.routes.set(gauge(routes));
        shared.metrics.routes_limit.set(gauge(limit.unwrap_or(0)));
        let Some(limit) = limit.filter(|limit| routes >= limit - limit / 5) else { return };
        let mut memory = self.controller.memory();
        if memory.tell_of_limit.is_none_or(|at| now >= at) {
            memory.tell_of_limit = Some(now + TELL_AGAIN);
            let message = format!(
                "There are {routes} routes, and with more than {limit} no route is made or deleted any more: allow more, such as \
                 --plugin-limit routes={}",
                limit.saturating_mul(2)
            );
            tracing::warn!("{message}");
            self.warn(reason::ROUTES_NEAR_LIMIT, message);
        }
    }

    /// Events are kept for an hour, and the node waits for somebody.
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
                    "No route is made to Pod CIDR {cidrs} of the node: it is outside of --cluster-cidr. If it is right, \
                     --cluster-cidr has to hold it; else delete the node, and let it register again"
                );
                tracing::warn!(node, "{message}");
                shared.metrics.error(shared.controller, "pod-cidr-out-of-range");
                shared.warning(entry, reason::POD_CIDR_OUT_OF_RANGE, message);
            }
        }
    }

    /// On what stands for this process, since it is about no one object of the cluster.
    fn warn(&self, reason: &str, message: String) {
        let shared = &self.controller.shared;
        shared.recorder.publish(Notice {
            source: shared.controller.event_source(),
            object: self.controller.process.clone(),
            severity: Severity::Warning,
            reason: reason.to_owned(),
            message,
        });
    }

    fn begin(&mut self, due: Due) {
        self.blocked |= due.blocked;
        due.deletes.iter().for_each(|(route, _)| self.flight.begin_delete(route));
        let mut creates = Vec::new();
        for (route, size) in due.creates {
            // Of several that overlap, one after the other.
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
                // Of a change that nobody wants any more, or that another plugin was asked for: it says nothing of the one that is next.
                Err(_) if begun != memory.forgotten || !self.round.makes(&done.change) => news = true,
                Err(error) => {
                    let (long, now) = (self.long(), Instant::now());
                    let (name, key) = (done.change.target_node.clone(), done.change.key());
                    let lasted = memory.creates.failed(done.change, &error, done.spoiled, now, &long);
                    if let (Some(lasted), Some(entry)) = (lasted, self.round.entry(&name)) {
                        let lasted = minutes(lasted);
                        let message =
                            format!("The cloud has been at work on route {key} for {lasted}, and goes on: {error}");
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
                        tracing::warn!(route = key, "the cloud has been deleting this route for {lasted}: {error}");
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

    /// What an earlier round has begun came to its end only now: what there is, the next list shows.
    fn look_again_if(&self, news: bool) {
        if news && matches!(self.controller.rhythm, Rhythm::Watch { .. }) {
            self.controller.queue.add_after((), GATHER, Priority::Change);
        }
    }

    /// Has the conditions of these nodes written, of those whose routes are settled.
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

    /// When there is something to try again.
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

    /// Counts, logs and publishes what went wrong.
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
