//! Deletes the load balancer of a Service, and removes what it has left on the object.

use skydock_cloud::{CloudError, LoadBalancerStatus};
use skydock_kube::{api::ApiError, informer::Entry};

use super::{
    event::Event,
    has_finalizer, has_note, is_noted, is_others, is_ours, note_of_left, note_to_write,
    same_status,
    state::{Announced, Phase, State},
    step::{Attempt, Failure, Goal, Next, Requeue, Step, Why},
    wants_load_balancer,
};
use crate::objects::kinds::ServiceKind;

impl Attempt<'_> {
    /// The cloud is asked whether there is a load balancer, unless a request is unfinished: it may
    /// not report a load balancer that is partially created or deleted.
    pub(super) fn start_cleanup(&self, mut state: State) -> Next {
        state.work();
        if state.phase.requested() {
            delete(state, true)
        } else {
            state.then(Step::Look(Why::CleanUp))
        }
    }

    /// A load balancer that the cloud does not report may exist: partially, if a process was
    /// killed, or completely, if the cloud's lists are outdated. Once the object is deleted, nobody
    /// looks for it again.
    pub(super) fn found(
        &self,
        mut state: State,
        found: Result<Option<LoadBalancerStatus>, CloudError>,
    ) -> Next {
        match found {
            Ok(Some(status)) => {
                // An earlier process may have written it.
                state.written.get_or_insert(status);
                delete(state, true)
            }
            Ok(None) | Err(CloudError::NotFound(_)) => delete(state, false),
            Err(CloudError::ImplementedElsewhere) => self.hand_over(state),
            Err(error) => self.failed(
                state,
                Failure::Cloud(
                    "failed to check if load balancer exists before cleanup",
                    error,
                ),
            ),
        }
    }

    /// `NotFound` is a failure: deleting a load balancer that does not exist must be a success, so
    /// here something else was not found, maybe by the cloud itself.
    pub(crate) fn after_delete(&self, mut state: State, deleted: Result<(), CloudError>) -> Next {
        match (self.goal, deleted) {
            (_, Ok(())) => {
                state.phase = Phase::Absent;
                self.release(state)
            }
            (_, Err(CloudError::ImplementedElsewhere)) => self.hand_over(state),
            (Goal::Forget { recreated }, Err(error)) => {
                // The old object will never change, and the new one must not wait for it.
                let aside = recreated && matches!(error, CloudError::Invalid(_));
                let (state, mut turn) = self.failed(state, Failure::Gone(error));
                if aside {
                    turn.step = Step::SetAside;
                }
                (state, turn)
            }
            (_, Err(error)) => self.failed(
                state,
                Failure::Cloud("failed to delete load balancer", error),
            ),
        }
    }

    /// Leaves the Service to the implementation that owns it, whose status it keeps: nothing that
    /// happens to it waits for this host any more.
    ///
    /// All implementations use the same finalizer. One that another implementation may have added
    /// stays until the Service is deleted. Then it is removed, so that the Service does not stay
    /// forever: an implementation that runs has seen the deletion as well.
    pub(super) fn hand_over(&self, mut state: State) -> Next {
        let object = &self.entry.object;
        let had = state.written.is_some() || has_finalizer(object);
        let may_stay = state.phase.exists() && had;
        state.phase = Phase::Elsewhere;

        let ours = state.ours || !has_finalizer(object) || is_noted(object);
        let (state, mut turn) = if self.goal == Goal::Ensure && !ours {
            self.released(state)
        } else {
            self.release(state)
        };

        if !matches!(self.goal, Goal::Forget { .. }) {
            turn.events.push(Event::HandedOver { may_stay });
        }

        (state, turn)
    }

    /// Removes the finalizer of this host, and the annotation with the class.
    fn release(&self, state: State) -> Next {
        let object = &self.entry.object;
        // What this attempt has added is not in the cache yet.
        let has = match self.goal {
            Goal::Ensure => true,
            Goal::CleanUp => has_finalizer(object),
            Goal::Forget { .. } | Goal::UpdateNodes => false,
        };

        // The annotation may have been edited.
        let ours = is_ours(object, self.classes) || state.ours;

        if has && ours {
            let added = self.goal == Goal::Ensure && note_to_write(object).is_some();
            state.then(Step::RemoveFinalizer {
                note: added || has_note(object),
            })
        } else {
            self.released(state)
        }
    }

    /// Returns what is written instead of what was decided for an earlier version, which can be
    /// long ago. `present` is the current version.
    ///
    /// If another implementation serves the Service by then, it relies on the finalizer, which it
    /// may have found there, and on its own status.
    pub(crate) fn revised(&self, step: Step, state: &State, present: &Entry<ServiceKind>) -> Step {
        let others = is_others(&present.object, self.classes);
        let deleting = present.object.metadata.deletion_timestamp.is_some();
        let is_written =
            |written: &LoadBalancerStatus| same_status(written, &present.view.service.status);

        match step {
            // The change has queued a cleanup.
            Step::WriteStatus(_) if !wants_load_balancer(&present.object, self.classes) => {
                Step::Done(vec![Requeue::Reset])
            }
            Step::RemoveFinalizer { .. }
                if others && !deleting && has_finalizer(&present.object) =>
            {
                Step::LeaveFinalizer {
                    note: note_of_left(&self.entry.object, self.classes),
                }
            }
            Step::ClearStatus if others && !state.written.as_ref().is_some_and(is_written) => {
                Step::Forget
            }
            step => step,
        }
    }

    /// A Service that was deleted in the meantime has no finalizer.
    pub(crate) fn after_remove_finalizer(
        &self,
        state: State,
        removed: Result<(), ApiError>,
    ) -> Next {
        match removed {
            Ok(()) | Err(ApiError::Gone(_)) => self.released(state),
            Err(error) => self.failed(
                state,
                Failure::Api("failed to remove load balancer cleanup finalizer", error),
            ),
        }
    }

    /// Removes the status, if the object exists. The cache may not contain the last written one
    /// yet.
    fn released(&self, state: State) -> Next {
        if state.phase == Phase::Elsewhere {
            return state.then(Step::Forget);
        }

        let has = |status: &LoadBalancerStatus| !status.ingress.is_empty();
        let written =
            has(&self.entry.view.service.status) || state.written.as_ref().is_some_and(has);

        let step = if self.goal == Goal::CleanUp && written {
            Step::ClearStatus
        } else {
            Step::Forget
        };

        state.report(vec![Event::Deleted], step)
    }

    /// A Service that was deleted or recreated in the meantime does not have this status.
    pub(crate) fn after_clear_status(&self, state: State, cleared: Result<(), ApiError>) -> Next {
        match cleared {
            Ok(()) | Err(ApiError::Gone(_) | ApiError::Changed(_)) => state.then(Step::Forget),
            Err(error) => self.failed(
                state,
                Failure::Api("failed to update load balancer status", error),
            ),
        }
    }

    /// A successor of the Service is next; its attempt decides on the back-off.
    pub(crate) fn after_forget(&self, state: State) -> Next {
        let gone = matches!(self.goal, Goal::Forget { .. });
        state.then(Step::Done(if gone {
            Vec::new()
        } else {
            vec![Requeue::Reset]
        }))
    }

    /// The cloud and the plugin can change, so that it can be deleted later.
    pub(crate) fn after_set_aside(&self, state: State) -> Next {
        state.then(Step::Done(vec![Requeue::Reset, Requeue::Check]))
    }
}

/// Deletes the load balancer. `announced` says whether there is one to be deleted, as far as is
/// known.
pub(super) fn delete(mut state: State, announced: bool) -> Next {
    state.phase = Phase::Deleting;
    let first = announced && state.announce(Announced::Deleting);

    state.report(
        if first {
            vec![Event::Deleting]
        } else {
            Vec::new()
        },
        Step::Delete,
    )
}

#[cfg(test)]
mod tests;
