//! Creates or changes the load balancer of a Service.

use skydock_cloud::CloudError;
use skydock_kube::{api::ApiError, queue::Priority};

use super::{
    Attempt, AttemptResult, Failure, Requeue, apply::Write, event::Event, io::Io, unless_gone,
};
use crate::{
    known::state::{Announced, SentNodes, State},
    nodes::selection::SelectedNodes,
    plan::{class_annotation::live_to_write, has_finalizer, wants_load_balancer},
};

impl Attempt<'_> {
    /// Adds the finalizer first, so that no load balancer is forgotten; then calls the cloud, and
    /// then writes the status. Events are published once for each sync: not again for a retry, and
    /// not at all if a re-check finds nothing to change.
    pub(crate) async fn ensure(&self, io: &mut dyn Io) -> AttemptResult {
        let (entry, known) = (self.entry, self.known);
        let changed = self.priority == Priority::Change;

        if let Some(problem) = &entry.view.problem {
            known.update(|state| state.phase = state.phase.rejected());
            return Err(Failure::Invalid(problem.clone()));
        }

        if known.update(|state| state.begin(changed.then_some(Announced::Ensuring))) {
            io.publish(Event::Ensuring);
        }

        let has_finalizer = has_finalizer(&entry.object);
        let class_annotation = live_to_write(&entry.object);
        if !has_finalizer || class_annotation.is_some() {
            match io.write(Write::AddFinalizer { class_annotation }).await {
                Ok(()) => known.update(|state| {
                    let added_by = &mut state.finalizer_added_by;
                    *added_by = added_by.after_write(has_finalizer);
                }),
                Err(ApiError::Gone(_)) => return Ok(vec![Requeue::Reset]),
                Err(error) => {
                    let what = "failed to add load balancer cleanup finalizer";
                    return Err(Failure::Api(what, error));
                }
            }
        }

        // They are sent even if there are none.
        let SelectedNodes { nodes, fingerprint } = io.select_nodes().await;
        if nodes.is_empty() && changed && known.update(State::report_no_nodes) {
            io.publish(Event::NoNodes);
        }

        // Before the call: its answer may never arrive.
        let before = known.update(|state| state.ensuring(fingerprint));
        let ensured = io.ensure(&nodes).await;
        // Any other answer, even an error, is about a load balancer of this provider.
        if ensured != Err(CloudError::ImplementedElsewhere) {
            io.take_from_others();
        }

        let status = match ensured {
            Ok(status) => status,
            Err(CloudError::ImplementedElsewhere) => return self.hand_over(io).await,
            Err(error) => return Ok(self.not_ensured(io, before, error)),
        };

        let cached = &entry.view.service.status;
        let must_write_status = known.update(|state| state.ensured(cached, &status));
        if must_write_status {
            let present = io.present();
            if present.is_some_and(|it| !wants_load_balancer(&it.object, self.classes)) {
                // The change has queued a cleanup.
                return Ok(vec![Requeue::Reset]);
            }

            unless_gone(io.write(Write::Status(status)).await)
                .map_err(|error| Failure::Api("failed to update load balancer status", error))?;
        }

        if known.update(|state| state.finished(must_write_status)) {
            io.publish(Event::Ensured);
        }
        Ok(vec![Requeue::Reset, Requeue::Check])
    }

    /// Ends an attempt whose call failed. It may keep failing, and the nodes of an existing load
    /// balancer must not wait for that: they are updated separately.
    fn not_ensured(&self, io: &mut dyn Io, before: SentNodes, error: CloudError) -> Vec<Requeue> {
        let missed = self.known.update(|state| state.not_ensured(before, &error));

        let failure = Failure::Cloud("failed to ensure load balancer", error);
        let mut requeue = self.failed(io, &failure);
        if missed {
            requeue.push(Requeue::UpdateNodes);
        }
        requeue
    }
}

#[cfg(test)]
mod tests;
