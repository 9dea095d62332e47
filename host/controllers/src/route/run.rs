//! The main loop for routes: lists and compares them, starts changes, and passes their results to
//! the state. A slow call does not delay anything else.

use std::sync::Arc;

use skydock_cloud::{CloudError, NewRoute, Route};
use skydock_controller_base::controller::context::joined;
use skydock_kube::queue::Priority;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    NODE_CHANGE_DEBOUNCE, NextRun, Reconciliation, RouteController,
    changes::{Done, RouteClient},
    plan,
    report::Report,
    state::{Effects, State},
    tries::Next,
};

pub(super) struct Run<'a> {
    controller: &'a RouteController,
    stop: CancellationToken,
    client: RouteClient,
    tasks: JoinSet<Event>,
    state: State,
    /// Start of the last list request, and earliest start of the next.
    started: Instant,
    not_before: Instant,
}

/// A completed call.
pub(super) enum Event {
    Listed(Result<Vec<Route>, CloudError>),
    /// With `RouteMemory::forgotten`(super::Memory) when the call started.
    Created(Vec<Done<NewRoute>>, u64),
    Deleted(Vec<Done<Route>>, u64),
}

impl<'a> Run<'a> {
    pub(super) fn new(controller: &'a RouteController, stop: CancellationToken) -> Self {
        let now = Instant::now();
        Self {
            client: RouteClient::new(Arc::clone(&controller.context.provider), stop.clone()),
            controller,
            stop,
            tasks: JoinSet::new(),
            state: State::default(),
            started: now,
            not_before: now,
        }
    }

    /// Runs until the queue is closed, and then waits for calls in progress.
    pub(super) async fn work(mut self) {
        loop {
            let pause = sleep_until(self.not_before);
            let stop = self.stop.clone();
            let queue = &self.controller.queue;

            let effects = async move {
                tokio::select! { () = pause => {}, () = stop.cancelled() => {} }
                queue.take().await
            };

            tokio::select! {
                effects = effects, if !self.state.is_listing() => match effects {
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
        // Counted even if the list fails, as in upstream.
        self.controller.metrics.syncs.inc();
        self.state.begin_list(&self.controller.memory.lock());
        self.started = Instant::now();
        let provider = Arc::clone(&self.controller.context.provider);
        self.tasks
            .spawn(async move { Event::Listed(provider.list_routes().await) });
    }

    /// Returns the next completed call; `None` if none is in progress.
    pub(super) async fn next(&mut self) -> Option<Event> {
        let ended = self.tasks.join_next().await?;
        Some(joined(ended).await)
    }

    /// Passes the result of a call to the state, and performs what follows from it.
    pub(super) fn handle(&mut self, event: Event) {
        let controller = self.controller;
        let now = Instant::now();
        let long = controller
            .context
            .metrics
            .long_in_progress(controller.context.controller);

        let effects = match event {
            Event::Listed(listed) => self.listed(listed, now),
            Event::Created(done, begun) => {
                self.state
                    .created(&mut controller.memory.lock(), done, begun, (now, &long))
            }
            Event::Deleted(done, begun) => {
                self.state
                    .deleted(&mut controller.memory.lock(), done, begun, (now, &long))
            }
        };

        self.perform(effects);
        self.schedule();
    }

    fn listed(&mut self, listed: Result<Vec<Route>, CloudError>, now: Instant) -> Effects {
        let controller = self.controller;
        controller.queue.done(&());
        let ended = self.state.end_list(&controller.memory.lock());
        let Some(meanwhile) = ended else {
            return Effects::default();
        };

        let routes = match listed {
            Ok(routes) => routes,
            Err(error) => {
                return self
                    .state
                    .list_failed(&mut controller.memory.lock(), error, now);
            }
        };
        let near_limit = self.measure(routes.len(), now);

        // Nodes are read after the list: the node of a listed route is known by then, unless it
        // does not exist.
        let entries = controller.context.nodes.list();
        let info = controller.context.provider.info();
        let (routes, entries) = plan::leave_other_providers(routes, entries, &info);
        let nodes: Vec<_> = entries.iter().map(|entry| &*entry.view).collect();
        let plan = plan::plan(routes, &nodes, &controller.cidrs);

        let mut effects = self.state.listed(
            &mut controller.memory.lock(),
            &meanwhile,
            (plan, entries),
            now,
        );
        effects.reports.splice(0..0, near_limit);
        effects
    }

    /// Sets the metrics of the number of routes, and returns what to report about it.
    fn measure(&self, routes: usize, now: Instant) -> Option<Report> {
        let RouteController {
            context, metrics, ..
        } = self.controller;
        let limit = context.provider.max_routes();

        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        metrics.routes.set(gauge(routes));
        metrics.limit.set(gauge(limit.unwrap_or(0)));
        self.controller.memory.lock().near_limit(routes, limit, now)
    }

    fn perform(
        &mut self,
        Effects {
            reports,
            due,
            networks,
            list_again,
        }: Effects,
    ) {
        let controller = self.controller;
        reports.iter().for_each(|report| controller.report(report));

        let begun = controller.memory.lock().forgotten;
        for batch in self.client.batches(due.deletes) {
            let client = self.client.clone();
            self.tasks
                .spawn(async move { Event::Deleted(client.batch(batch).await, begun) });
        }
        for batch in self.client.batches(due.creates) {
            let client = self.client.clone();
            self.tasks
                .spawn(async move { Event::Created(client.batch(batch).await, begun) });
        }

        // With `Periodic`, nothing but the period starts a run, as in upstream.
        if list_again
            && matches!(
                controller.options.reconciliation,
                Reconciliation::OnChange { .. }
            )
        {
            controller
                .queue
                .add_after((), NODE_CHANGE_DEBOUNCE, Priority::Change);
        }

        networks
            .iter()
            .for_each(|(entry, network)| controller.conditions.want(entry, *network));
    }

    /// Returns when something is to be retried.
    pub(super) fn next_try(&self) -> Next {
        self.state.next_try(&self.controller.memory.lock())
    }

    fn schedule(&mut self) {
        if self.state.is_listing() {
            return;
        }

        let now = Instant::now();
        let Next { at, asked } = self.next_try();
        let [again, asked] = [at, asked].map(|at| at.map(|at| at.saturating_duration_since(now)));

        let took = self.started.elapsed();
        let reconciliation = self.controller.options.reconciliation;
        let NextRun { due, pause } = reconciliation.after(took, again, asked);

        if let Some(due) = due {
            self.controller.queue.add_after((), due, Priority::Recheck);
        }
        self.not_before = now + pause;
    }
}
