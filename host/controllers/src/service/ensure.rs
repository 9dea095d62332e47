//! Makes the load balancer of a service, and writes its status.

use k8s_openapi::api::core::v1::Service;
use serde_json::json;
use skydock_cloud::CloudError;

use super::{Failure, ServiceController, ServiceEntry, known::Known, plan, target};
use crate::{
    api::{ApiError, Patch, patch},
    constants::{FINALIZER, reason},
    convert::status_json,
    queue::Priority,
};

impl ServiceController {
    /// The finalizer first, so that no load balancer is forgotten; then the cloud; then the status.
    ///
    /// Events are told once for each piece of work: not again when a failed or unfinished one is repeated, and not at all
    /// when a re-check finds nothing to change.
    pub(super) async fn ensure(&self, known: &Known, entry: &ServiceEntry, priority: Priority) -> Result<(), Failure> {
        if let Some(problem) = &entry.view.problem {
            known.update(|progress| progress.refused = true);
            return Err(Failure::Invalid(problem.clone()));
        }
        if priority == Priority::Change && known.announce(reason::ENSURING_LB) {
            self.shared.normal(entry, reason::ENSURING_LB, "Ensuring load balancer");
        }
        if !plan::has_finalizer(&entry.object) {
            match self.add_finalizer(entry).await {
                Ok(()) => {}
                Err(ApiError::Gone(_)) => return Ok(()),
                Err(error) => return Err(Failure::Api("failed to add load balancer cleanup finalizer", error)),
            }
        }
        let (nodes, ids) = self.selection.of(entry);
        if nodes.is_empty() {
            self.shared.warning(entry, reason::UNAVAILABLE_LB, "There are no available nodes for LoadBalancer");
        }
        known.update(|progress| {
            progress.nodes = Some(ids);
            progress.asked = true;
            progress.unfinished = true;
            progress.refused = false;
        });
        let service = &entry.view.service;
        let status = match self.shared.provider.ensure_load_balancer(service, &nodes).await {
            Ok(status) => status,
            Err(CloudError::ImplementedElsewhere) => {
                known.finish();
                return Ok(());
            }
            Err(error) => {
                if matches!(error, CloudError::Invalid(_)) {
                    known.update(|progress| (progress.nodes, progress.refused) = (None, true));
                }
                return Err(Failure::Cloud("failed to ensure load balancer", error));
            }
        };
        known.update(|progress| progress.unfinished = false);
        let changed = !plan::same_status(&service.status, &status);
        if changed {
            let body =
                json!({ "metadata": { "uid": entry.uid() }, "status": { "loadBalancer": status_json(&status) } });
            match patch::<Service>(&self.client, &target(entry), &Patch::Merge(body)).await {
                Ok(_) | Err(ApiError::Gone(_)) => {}
                Err(error) => return Err(Failure::Api("failed to update load balancer status", error)),
            }
        }
        let progress = known.progress();
        if changed || progress.announced.is_some() || progress.troubled {
            self.shared.normal(entry, reason::ENSURED_LB, "Ensured load balancer");
        }
        known.finish();
        self.check_later(&entry.key());
        Ok(())
    }

    async fn add_finalizer(&self, entry: &ServiceEntry) -> Result<(), ApiError> {
        let body = json!({ "metadata": { "uid": entry.uid(), "finalizers": [FINALIZER] } });
        patch::<Service>(&self.client, &target(entry), &Patch::Strategic(body)).await.map(drop)
    }
}
