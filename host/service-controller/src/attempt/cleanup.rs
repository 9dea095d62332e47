//! Deletes the load balancer of a Service, and removes what it has left on the object: finalizer,
//! class annotation, status.

use skydock_cloud::{CloudError, LoadBalancerStatus};
use skydock_kube::api::ApiError;

use super::{
    Attempt, AttemptResult, Failure, Requeue, apply::Write, event::Event, io::Io, unless_gone,
};
use crate::{
    ServiceEntry,
    known::{
        own_load_balancer::OwnLoadBalancer,
        state::{Announced, LoadBalancerPhase},
    },
    plan::{
        finalizer::{Ending, FinalizerAction},
        goal::Goal,
        is_served_by_others, status,
    },
};

impl Attempt<'_> {
    /// Deletes the load balancer of a Service that exists. What it has left on the object is
    /// removed after that.
    ///
    /// A load balancer that the cloud does not report may exist: partially, if a process was
    /// killed, or completely, if the cloud's lists are outdated. Once the object is deleted, nobody
    /// looks for it again. So it is deleted as well, without announcing it.
    pub(crate) async fn clean_up(&self, io: &mut dyn Io) -> AttemptResult {
        self.known.update(|state| state.begin(None));

        // If a request is unfinished, the cloud may not report a load balancer that is partially
        // created or deleted.
        let mut exists = true;
        if !self.known.read(|state| state.phase.requested()) {
            match io.get_load_balancer().await {
                // An earlier process may have written it.
                Ok(Some(status)) => self.known.update(|state| {
                    state.written_status.get_or_insert(status);
                }),
                Ok(None) | Err(CloudError::NotFound(_)) => exists = false,
                Err(CloudError::ImplementedElsewhere) => return self.hand_over(io).await,
                Err(error) => {
                    let what = "failed to check if load balancer exists before cleanup";
                    return Err(Failure::Cloud(what, error));
                }
            }
        }

        match self.delete(io, exists).await {
            Ok(()) => {}
            Err(CloudError::ImplementedElsewhere) => return self.hand_over(io).await,
            Err(error) => return Err(Failure::Cloud("failed to delete load balancer", error)),
        }

        let present = io.present();
        let action = self.ending(present.as_ref()).after_deletion();
        self.update_finalizer(io, action).await?;
        // Not again if the status could not be cleared.
        let deleted = Some(Announced::Deleted);
        if self.known.update(|state| state.begin(deleted)) {
            io.publish(Event::Deleted);
        }
        self.clear_status(io).await?;

        io.drop_known();
        Ok(vec![Requeue::Reset])
    }

    /// Deletes the load balancer of a Service that does not exist. A successor of the Service is
    /// next; its attempt decides on the back-off.
    pub(crate) async fn delete_orphan(&self, io: &mut dyn Io, recreated: bool) -> AttemptResult {
        match self.delete(io, true).await {
            Ok(()) => io.publish(Event::Deleted),
            Err(CloudError::ImplementedElsewhere) => {
                self.known
                    .update(|state| state.phase = LoadBalancerPhase::LeftToOthers);
            }
            // The old object will never change, and the new one must not wait for it. The cloud and
            // the plugin can change, so that it can be deleted later.
            Err(error @ CloudError::Invalid(_)) if recreated => {
                let requeue = self.failed(io, &Failure::Gone(error));
                io.set_aside();
                return Ok(requeue);
            }
            Err(error) => return Err(Failure::Gone(error)),
        }

        io.drop_known();
        Ok(Vec::new())
    }

    /// Leaves the Service to the implementation that owns it, whose status it keeps: nothing that
    /// happens to it waits for Skydock any more.
    pub(crate) async fn hand_over(&self, io: &mut dyn Io) -> AttemptResult {
        let own_load_balancer = self.known.update(|state| {
            let own = OwnLoadBalancer::of(&self.entry.object, state);
            state.phase = LoadBalancerPhase::LeftToOthers;
            own
        });
        // The provider answers so again whenever the Service changes.
        if io.leave_to_others(own_load_balancer) {
            io.publish(Event::HandedOver(own_load_balancer));
        }

        let present = io.present();
        let action = self.ending(present.as_ref()).at_hand_over();
        self.update_finalizer(io, action).await?;

        io.drop_known();
        Ok(vec![Requeue::Reset])
    }

    /// Has the cloud delete the load balancer. `exists` says whether there is one, as far as is
    /// known.
    ///
    /// `NotFound` is a failure: deleting a load balancer that does not exist must be a success, so
    /// here something else was not found, maybe by the cloud itself.
    async fn delete(&self, io: &mut dyn Io, exists: bool) -> Result<(), CloudError> {
        let announced = self.known.update(|state| {
            state.phase = LoadBalancerPhase::Deleting;
            state.begin(exists.then_some(Announced::Deleting))
        });
        if announced {
            io.publish(Event::Deleting);
        }

        io.delete().await?;
        self.known
            .update(|state| state.phase = LoadBalancerPhase::Absent);
        Ok(())
    }

    /// Returns what decides on the finalizer.
    fn ending<'a>(&'a self, present: Option<&'a ServiceEntry>) -> Ending<'a> {
        Ending {
            service: &self.entry.object,
            present: present.map(|present| &present.object),
            classes: self.classes,
            added_by: self.known.read(|state| state.finalizer_added_by),
            ensured: self.goal == Goal::Ensure,
        }
    }

    async fn update_finalizer(
        &self,
        io: &mut dyn Io,
        action: FinalizerAction,
    ) -> Result<(), Failure> {
        let write = match action {
            FinalizerAction::Keep => return Ok(()),
            FinalizerAction::Remove { class_annotation } => {
                Write::RemoveFinalizer { class_annotation }
            }
            FinalizerAction::Leave { class_annotation } => {
                Write::LeaveFinalizer { class_annotation }
            }
        };

        unless_gone(io.write(write).await).map_err(|error| {
            Failure::Api("failed to remove load balancer cleanup finalizer", error)
        })
    }

    /// Removes the status, unless another implementation that serves the Service by now has written
    /// its own. The cache may not contain the last written one yet.
    async fn clear_status(&self, io: &mut dyn Io) -> Result<(), Failure> {
        let has = |status: &LoadBalancerStatus| !status.ingress.is_empty();
        let written = self.known.read(|state| state.written_status.clone());
        if !has(&self.entry.view.service.status) && !written.as_ref().is_some_and(has) {
            return Ok(());
        }

        let theirs = io.present().is_some_and(|present| {
            let status = &present.view.service.status;
            let ours = written.is_some_and(|written| status::is_same(&written, status));
            is_served_by_others(&present.object, self.classes) && !ours
        });
        if theirs {
            return Ok(());
        }

        match io.write(Write::Status(LoadBalancerStatus::default())).await {
            // A Service that was deleted or recreated in the meantime does not have this status.
            Ok(()) | Err(ApiError::Gone(_) | ApiError::Changed(_)) => Ok(()),
            Err(error) => {
                let what = "failed to update load balancer status";
                Err(Failure::Api(what, error))
            }
        }
    }
}

#[cfg(test)]
mod tests;
