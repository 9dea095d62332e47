//! Creates or changes the load balancer of a Service.
//!
//! The finalizer is added first, so that no load balancer is forgotten; then the cloud is called,
//! and then the status is written. Events are published once for each work: not again for a retry,
//! and not at all if a re-check finds nothing to change.

use skydock_cloud::{CloudError, LoadBalancerStatus};
use skydock_kube::{api::ApiError, queue::Priority};

use super::{
    event::Event,
    has_finalizer, note_to_write, same_status,
    state::{Announced, Phase, Sent, State},
    step::{Attempt, Failure, Next, Requeue, Step},
};
use crate::service::selection::Choice;

impl Attempt<'_> {
    /// An invalid Service is rejected. Otherwise, the finalizer is first.
    pub(super) fn start_ensure(&self, mut state: State) -> Next {
        state.work();

        if let Some(problem) = &self.entry.view.problem {
            state.phase = state.phase.rejected();
            return self.failed(state, Failure::Invalid(problem.clone()));
        }

        let mut events = Vec::new();
        if self.priority == Priority::Change && state.announce(Announced::Ensuring) {
            events.push(Event::Ensuring);
        }

        let note = note_to_write(&self.entry.object);
        if has_finalizer(&self.entry.object) && note.is_none() {
            state.report(events, Step::SelectNodes)
        } else {
            state.report(events, Step::AddFinalizer { note })
        }
    }

    /// Without the finalizer, the cloud is not called.
    pub(crate) fn after_add_finalizer(
        &self,
        mut state: State,
        added: Result<(), ApiError>,
    ) -> Next {
        match added {
            Ok(()) => {
                // A finalizer that was there before may be that of another implementation.
                state.ours |= !has_finalizer(&self.entry.object);
                state.then(Step::SelectNodes)
            }
            Err(ApiError::Gone(_)) => state.then(Step::Done(vec![Requeue::Reset])),
            Err(error) => self.failed(
                state,
                Failure::Api("failed to add load balancer cleanup finalizer", error),
            ),
        }
    }

    /// Sends these nodes, even if there are none.
    pub(super) fn ensure(&self, mut state: State, Choice { nodes, fingerprint }: Choice) -> Next {
        let mut events = Vec::new();

        // Not for re-checks, and not again for retries.
        if nodes.is_empty()
            && self.priority == Priority::Change
            && !std::mem::replace(&mut state.work().no_nodes, true)
        {
            events.push(Event::NoNodes);
        }

        // Remembered before the call, even if it fails: the cloud may have applied a part of it.
        state.phase = state.phase.ensuring();
        let before = std::mem::replace(&mut state.sent, Sent::Nodes(fingerprint));
        state.report(events, Step::Ensure { nodes, before })
    }

    /// Writes the status if it is different. The cache may not contain the last written one yet.
    pub(crate) fn after_ensure(
        &self,
        mut state: State,
        before: Sent,
        ensured: Result<LoadBalancerStatus, CloudError>,
    ) -> Next {
        let status = match ensured {
            Ok(status) => status,
            Err(CloudError::ImplementedElsewhere) => return self.hand_over(state),
            Err(error) => return self.not_ensured(state, before, error),
        };
        state.phase = Phase::Present;

        let other = |before: &LoadBalancerStatus| !same_status(before, &status);
        if other(&self.entry.view.service.status) || state.written.as_ref().is_some_and(other) {
            state.written = Some(status.clone());
            return state.then(Step::WriteStatus(status));
        }

        finished(state, false)
    }

    /// Handles a failed call. It may have failed before the nodes were updated, and may keep
    /// failing. An existing load balancer must not wait for that: its nodes are updated separately.
    fn not_ensured(&self, mut state: State, before: Sent, error: CloudError) -> Next {
        if matches!(error, CloudError::Invalid(_)) {
            state.phase = state.phase.rejected();
        }

        let missed = state.phase.exists() && !state.has_sent(before);
        if missed {
            // A wait that the cloud has asked for goes on, and the first update after a start still
            // emits no event.
            state.sent = match before {
                Sent::Unknown | Sent::Postponed(_) => before,
                Sent::Nodes(_) | Sent::Failed => Sent::Failed,
            };
        }

        let (state, mut turn) = self.failed(
            state,
            Failure::Cloud("failed to ensure load balancer", error),
        );

        if let (true, Step::Done(requeue)) = (missed, &mut turn.step) {
            requeue.push(Requeue::UpdateNodes);
        }

        (state, turn)
    }

    /// A Service that was deleted in the meantime needs no status.
    pub(crate) fn after_write_status(&self, state: State, written: Result<(), ApiError>) -> Next {
        match written {
            Ok(()) | Err(ApiError::Gone(_)) => finished(state, true),
            Err(error) => self.failed(
                state,
                Failure::Api("failed to update load balancer status", error),
            ),
        }
    }
}

/// Ends the work. Success is reported if the status was written, or if something was reported
/// before.
fn finished(mut state: State, written: bool) -> Next {
    let work = state.work.take().unwrap_or_default();
    let reported = written || work.announced.is_some() || work.failed;

    let events = if reported {
        vec![Event::Ensured]
    } else {
        Vec::new()
    };

    state.report(events, Step::Done(vec![Requeue::Reset, Requeue::Check]))
}

#[cfg(test)]
mod tests;
