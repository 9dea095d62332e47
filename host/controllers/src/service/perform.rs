//! Performs what the plan says.

use std::{borrow::Cow, sync::atomic::Ordering, time::Duration};

use skydock_cloud::{CloudError, LoadBalancerStatus, Service};
use skydock_kube::{events::EventType, queue::Priority};
use tokio::time::Instant;

use super::{
    GATHER, ServiceController, ServiceEntry,
    known::{Known, Waiting},
    nodes::Nodes,
    plan::{
        event::Event,
        step::{Attempt, Failure, Goal, Requeue, Step, Turn},
    },
};

impl ServiceController {
    /// Attempts a goal for a version of a Service, or for the last version that is known. If other
    /// work on the Service is in progress, the attempt is scheduled for when that has ended: a
    /// worker must not wait for a slow load balancer.
    pub(super) async fn attempt(
        &self,
        key: &str,
        known: &Known,
        goal: Goal,
        entry: Option<ServiceEntry>,
        priority: Priority,
    ) {
        let busy = match known.busy.try_lock() {
            Ok(busy) => busy,
            Err(_) => {
                known.wait(match goal {
                    Goal::UpdateNodes => Waiting {
                        sync: None,
                        nodes: true,
                    },
                    _ => Waiting {
                        sync: Some(priority),
                        nodes: false,
                    },
                });

                // The other work may have ended just before.
                let Ok(busy) = known.busy.try_lock() else {
                    return;
                };
                busy
            }
        };

        // The other work may have removed the Service from memory, or moved it to another key.
        if self
            .known
            .get(key)
            .is_some_and(|current| std::ptr::eq(&*current, known))
        {
            let entry = entry.unwrap_or_else(|| known.entry());
            let attempt = Attempt {
                goal,
                entry: &entry,
                priority,
                classes: &self.options.classes,
            };
            self.perform(key, known, &attempt).await;
        }

        // Unlocked before the waiting work is read: whoever finds it locked until then has added
        // its work.
        drop(busy);
        match known.waiting() {
            // It includes the nodes.
            Waiting {
                sync: Some(priority),
                ..
            } => self
                .queue
                .try_after(key.to_owned(), Duration::ZERO, priority),
            Waiting { nodes: true, .. } => self
                .node_queue
                .add(Nodes::Of(key.to_owned()), Priority::Change),
            Waiting { .. } => {}
        }
    }

    /// Notes what the provider has looked at of the nodes in a call. They may have changed
    /// meanwhile.
    fn look(&self, known: &Known, service: &Service) {
        let looked = self.shared.provider.looked_at(&service.uid);
        // So far, changes that only such a provider sees have caused no pass.
        if known.look(looked) && !self.looks_at_nodes.swap(true, Ordering::SeqCst) {
            self.selection.changed(true);
            self.node_queue
                .add_after(Nodes::Pass, GATHER, Priority::Change);
        }
    }

    /// Performs one step after the other, and tells the plan their outcomes.
    async fn perform(&self, key: &str, known: &Known, attempt: &Attempt<'_>) {
        let mut key = Cow::Borrowed(key);
        let entry = attempt.entry;
        let service = &entry.view.service;
        let cloud = &self.shared.provider;

        let mut turn = known.advance(|state| attempt.start(state));
        loop {
            self.report(&key, known, attempt, &turn);

            let present = self.services.get(&key);
            let step = match present.filter(|present| present.uid() == entry.uid()) {
                Some(present) => known.read(|state| attempt.revised(turn.step, state, &present)),
                None => turn.step,
            };

            turn = match step {
                Step::AddFinalizer { note } => {
                    let added = self.add_finalizer(entry, note.as_deref()).await;
                    known.advance(|state| attempt.after_add_finalizer(state, added))
                }
                Step::SelectNodes => {
                    let choice = self.selection.of(entry).await;
                    known.advance(|state| attempt.after_select_nodes(state, choice, Instant::now()))
                }
                Step::Ensure { nodes, before } => {
                    let ensured = cloud.ensure_load_balancer(service, &nodes).await;
                    self.look(known, service);
                    // Any other answer, even an error, is about a load balancer of this provider.
                    if ensured != Err(CloudError::ImplementedElsewhere) {
                        self.elsewhere.remove(&key);
                    }
                    known.advance(|state| attempt.after_ensure(state, before, ensured))
                }
                Step::UpdateNodes { nodes, before } => {
                    self.metrics.loadbalancer_sync.inc();
                    let start = Instant::now();
                    let updated = cloud.update_load_balancer(service, &nodes).await;
                    let latency = &self.metrics.update_loadbalancer_host_latency;
                    latency.observe(start.elapsed().as_secs_f64());
                    self.look(known, service);
                    let updated = (updated, Instant::now());
                    known.advance(|state| attempt.after_update_nodes(state, nodes, before, updated))
                }
                Step::Look(why) => {
                    let found = cloud.get_load_balancer(service).await;
                    known.advance(|state| attempt.after_look(state, why, found))
                }
                Step::Delete => {
                    let deleted = cloud.ensure_load_balancer_deleted(service).await;
                    known.advance(|state| attempt.after_delete(state, deleted))
                }
                Step::WriteStatus(status) => {
                    let written = self.write_status(entry, &status).await;
                    known.advance(|state| attempt.after_write_status(state, written))
                }
                Step::ClearStatus => {
                    let cleared = self
                        .write_status(entry, &LoadBalancerStatus::default())
                        .await;
                    known.advance(|state| attempt.after_clear_status(state, cleared))
                }
                Step::RemoveFinalizer { note } => {
                    let removed = self.remove_finalizer(entry, note).await;
                    known.advance(|state| attempt.after_remove_finalizer(state, removed))
                }
                Step::LeaveFinalizer { note } => {
                    let left = self.leave_finalizer(entry, &note).await;
                    known.advance(|state| attempt.after_remove_finalizer(state, left))
                }
                Step::Forget => {
                    self.known.remove(&key);
                    // Nothing else removes what the queue remembers about its updates.
                    self.node_queue.forget(&Nodes::Of(key.to_string()));
                    known.advance(|state| attempt.after_forget(state))
                }
                Step::SetAside => {
                    let aside = self.known.set_aside(&key, entry.uid());
                    self.node_queue.forget(&Nodes::Of(key.to_string()));
                    key = aside.into();
                    known.advance(|state| attempt.after_set_aside(state))
                }
                Step::Done(requeue) => {
                    return requeue
                        .into_iter()
                        .for_each(|requeue| self.requeue(&key, attempt, requeue));
                }
            };
        }
    }

    fn requeue(&self, key: &str, attempt: &Attempt<'_>, requeue: Requeue) {
        let nodes = Nodes::Of(key.to_owned());
        let key = key.to_owned();
        let of_nodes = attempt.goal == Goal::UpdateNodes;

        match requeue {
            Requeue::Reset if of_nodes => self.node_queue.forget(&nodes),
            Requeue::Reset => self.queue.forget(&key),
            Requeue::Retry(again) if of_nodes => again.schedule(&self.node_queue, &nodes),
            Requeue::Retry(again) => again.schedule_as(&self.queue, &key, attempt.priority),
            Requeue::Check => self.check_later(&key, matches!(attempt.goal, Goal::Forget { .. })),
            Requeue::Ensure(delay) => self.queue.add_after(key, delay, Priority::Change),
            Requeue::UpdateNodes => self.node_queue.add(nodes, Priority::Change),
        }
    }

    /// Logs and counts a failure, and publishes the events.
    fn report(&self, key: &str, known: &Known, attempt: &Attempt<'_>, turn: &Turn) {
        let shared = &self.shared;
        match &turn.failure {
            None => {}
            Some(Failure::Cloud(_, error) | Failure::Gone(error)) => {
                shared.cloud_error(key, error);
                self.report_if_long(known, attempt, error);
            }
            Some(Failure::Nodes(error)) => {
                self.metrics.nodesync_error.inc();
                shared.cloud_error(key, error);
            }
            Some(Failure::Look(error)) => shared.cloud_error(key, error),
            Some(Failure::Api(_, error)) => shared.api_error(key, error),
            Some(Failure::Invalid(error)) => {
                shared.metrics.error(shared.controller, "invalid");
                tracing::warn!(service = key, "{error}");
            }
        }

        for event in &turn.events {
            if let Event::HandedOver { may_stay } = event {
                // It is told once: the provider answers so again whenever the Service changes.
                if !self.elsewhere.add(key) {
                    continue;
                }
                tracing::info!(
                    service = key,
                    load_balancer_may_stay = may_stay,
                    "the provider leaves the Service to another implementation"
                );
            }

            self.publish(attempt, event);
        }
    }

    /// Reports an operation that has been in progress for a long time: it is not an error, so
    /// nothing else reports it.
    fn report_if_long(&self, known: &Known, attempt: &Attempt<'_>, error: &CloudError) {
        let long = self.shared.metrics.long_in_progress(self.shared.controller);
        if let Some(lasted) = known.note(error, &long) {
            self.publish(attempt, &Event::StillInProgress(lasted, error.clone()));
        }
    }

    fn publish(&self, attempt: &Attempt<'_>, event: &Event) {
        let (kind, reason, message) = event.text();
        match kind {
            EventType::Normal => self.shared.normal(attempt.entry, reason, message),
            EventType::Warning => self.shared.warning(attempt.entry, reason, message),
        }
    }
}
