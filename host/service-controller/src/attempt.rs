//! One attempt at what a Service needs: its goal, who works on it, and what follows from a failure.
//!
//! `ensure.rs`, `cleanup.rs` and `update_nodes.rs` say, from top to bottom, what is done for a
//! goal. What they decide is up to the functions of [`State`](crate::known::state::State) and the
//! [plan](crate::plan), and all that they do goes through [`Io`]. The state that applies while a
//! call is in flight is set before the call: its answer may never arrive.

mod apply;
mod cleanup;
mod ensure;
pub(crate) mod event;
pub(crate) mod io;
#[cfg(test)]
pub(crate) mod testing;
mod update_nodes;

use std::time::Duration;

use skydock_cloud::CloudError;
use skydock_controller_base::{
    calls::retry::{self, RetryWhen},
    objects::convert::ConvertError,
};
use skydock_kube::{
    api::ApiError,
    queue::{Limiter, Priority},
};

use self::{
    event::Event,
    io::{ControllerIo, Io},
};
use crate::{
    Classes, ServiceController, ServiceEntry,
    known::{Deferred, KnownService},
    nodes::NodeWork,
    plan::goal::Goal,
};

/// One attempt at a goal, for one version of a Service.
pub(crate) struct Attempt<'a> {
    pub(crate) goal: Goal,
    /// The version of the Service.
    pub(crate) entry: &'a ServiceEntry,
    /// What is known about it.
    pub(crate) known: &'a KnownService,
    /// A re-check reports only what it changes.
    pub(crate) priority: Priority,
    pub(crate) classes: &'a Classes,
}

/// What to put into which queue after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requeue {
    /// Reset the back-off of this attempt.
    Reset,
    /// Retry this attempt.
    Retry(RetryWhen),
    /// Check the load balancer after the period of checks.
    Check,
    /// Ensure the load balancer after this delay.
    Ensure(Duration),
    /// Update the nodes of the load balancer.
    UpdateNodes,
}

/// How an attempt ends.
pub(crate) type AttemptResult = Result<Vec<Requeue>, Failure>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A call to the cloud.
    #[error("{0}: {1}")]
    Cloud(&'static str, #[source] CloudError),
    /// A request to the API server.
    #[error("{0}: {1}")]
    Api(&'static str, #[source] ApiError),
    /// The Service is invalid.
    #[error("{0}")]
    Invalid(ConvertError),
    /// The load balancer of a Service that does not exist could not be deleted.
    #[error("{0}")]
    Gone(#[source] CloudError),
    /// The nodes of a load balancer could not be updated.
    #[error("{0}")]
    Nodes(#[source] CloudError),
    /// The cloud could not say whether there is a load balancer whose nodes could not be updated.
    #[error("{0}")]
    GetLoadBalancer(#[source] CloudError),
}

impl Failure {
    /// Returns when to retry.
    fn again(&self) -> RetryWhen {
        match self {
            Self::Cloud(_, error)
            | Self::Gone(error)
            | Self::Nodes(error)
            | Self::GetLoadBalancer(error) => RetryWhen::after(error),
            Self::Api(_, error) => RetryWhen::after_write(error),
            Self::Invalid(_) => RetryWhen::OnChange,
        }
    }

    /// Returns true if it is reported by an event.
    fn is_reported(&self) -> bool {
        match self {
            Self::Cloud(_, error)
            | Self::Gone(error)
            | Self::Nodes(error)
            | Self::GetLoadBalancer(error) => retry::warns(error),
            Self::Api(..) | Self::Invalid(_) => true,
        }
    }
}

impl ServiceController {
    /// Attempts a goal for a version of a Service, or for the last version that is known. If other
    /// work on the Service is in progress, the attempt is scheduled for when that has ended: a
    /// worker must not wait for a slow load balancer.
    pub(crate) async fn attempt(
        &self,
        key: &str,
        known: &KnownService,
        goal: Goal,
        entry: Option<ServiceEntry>,
        priority: Priority,
    ) {
        let busy = match known.busy.try_lock() {
            Ok(busy) => busy,
            Err(_) => {
                let nodes = goal == Goal::UpdateNodes;
                let sync = (!nodes).then_some(priority);
                known.defer(Deferred { sync, nodes });

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
                known,
                priority,
                classes: &self.options.classes,
            };
            self.perform(key, &attempt).await;
        }

        // Unlocked before the waiting work is read: whoever finds it locked until then has added
        // its work.
        drop(busy);
        match known.take_deferred() {
            // It includes the nodes.
            Deferred {
                sync: Some(priority),
                ..
            } => self
                .queue
                .add_attempt_after(key.to_owned(), Duration::ZERO, priority),
            Deferred { nodes: true, .. } => self
                .node_queue
                .add(NodeWork::Update(key.to_owned()), Priority::Change),
            Deferred { .. } => {}
        }
    }

    async fn perform(&self, key: &str, attempt: &Attempt<'_>) {
        let mut io = ControllerIo {
            controller: self,
            known: attempt.known,
            entry: attempt.entry,
            key: key.to_owned(),
        };

        for requeue in attempt.run(&mut io).await {
            self.requeue(&io.key, attempt, requeue);
        }
    }

    fn requeue(&self, key: &str, attempt: &Attempt<'_>, requeue: Requeue) {
        let nodes = NodeWork::Update(key.to_owned());
        let key = key.to_owned();
        let of_nodes = attempt.goal == Goal::UpdateNodes;

        match requeue {
            Requeue::Reset if of_nodes => self.node_queue.forget(&nodes),
            Requeue::Reset => self.queue.forget(&key),
            Requeue::Retry(again) if of_nodes => again.schedule(&self.node_queue, &nodes),
            Requeue::Retry(again) => again.schedule_as(&self.queue, &key, attempt.priority),
            Requeue::Check => self.check_later(&key, attempt.goal),
            Requeue::Ensure(delay) => self.queue.add_after(key, delay, Priority::Change),
            Requeue::UpdateNodes => self.node_queue.add(nodes, Priority::Change),
        }
    }

    /// Schedules the next check of a load balancer after an attempt at this goal. Without a period,
    /// only that of a Service that does not exist is checked, after the longest back-off: nothing
    /// else would delete it, and after a restart nobody knows about it.
    fn check_later(&self, key: &str, goal: Goal) {
        let gone = matches!(goal, Goal::DeleteOrphan { .. });
        if let Some(period) = self
            .options
            .check_period
            .or_else(|| gone.then_some(Limiter::SERVICES.max))
        {
            self.queue.pace(self.options.pace(self.known.len()));
            self.queue
                .add_after(key.to_owned(), period, Priority::Recheck);
        }
    }
}

impl Attempt<'_> {
    /// Does what the goal needs. Returns what to put into the queues.
    pub(crate) async fn run(&self, io: &mut dyn Io) -> Vec<Requeue> {
        let outcome = match self.goal {
            Goal::Ensure => self.ensure(io).await,
            Goal::CleanUp => self.clean_up(io).await,
            Goal::DeleteOrphan { recreated } => self.delete_orphan(io, recreated).await,
            Goal::UpdateNodes => Ok(self.update_nodes(io).await),
        };
        outcome.unwrap_or_else(|failure| self.failed(io, &failure))
    }

    /// Reports a failure that ends the attempt.
    ///
    /// An invalid or rejected Service is checked later: the cloud and the plugin can change, and
    /// events expire. This also applies to a Service that does not exist.
    pub(crate) fn failed(&self, io: &mut dyn Io, failure: &Failure) -> Vec<Requeue> {
        io.log_and_count(failure);

        // It is not an error, so that nothing else reports it.
        if let Failure::Cloud(_, error) | Failure::Gone(error) = failure
            && let Some(lasted) = io.long_in_progress(error)
        {
            io.publish(Event::StillInProgress(lasted, error.clone()));
        }

        if failure.is_reported() {
            self.known
                .update(|state| state.unfinished_sync().failed = true);
            let text = failure.to_string();
            io.publish(match failure {
                Failure::Gone(_) => Event::DeleteFailed(text),
                _ => Event::SyncFailed(text),
            });
        }

        match failure.again() {
            RetryWhen::OnChange => vec![Requeue::Reset, Requeue::Check],
            again => vec![Requeue::Retry(again)],
        }
    }
}

/// Returns success for an object that was deleted in the meantime: it needs no write.
pub(crate) fn unless_gone(written: Result<(), ApiError>) -> Result<(), ApiError> {
    match written {
        Err(ApiError::Gone(_)) => Ok(()),
        written => written,
    }
}

#[cfg(test)]
mod tests;
