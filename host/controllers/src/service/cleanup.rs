//! Takes the load balancer of a service away, and what it has left on the object.

use k8s_openapi::api::core::v1::Service;
use serde_json::json;
use skydock_cloud::{CloudError, LoadBalancerStatus};

use super::{Failure, ServiceController, ServiceEntry, ensure::with_metadata, known::Known, plan, target};
use crate::{
    api::{ApiError, Patch, patch},
    constants::{ANNOTATION_CLASS, FINALIZER, reason},
    convert::status_json,
};

/// What the cloud shows of a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    There,
    Nothing,
    /// Another implementation sees to it.
    Elsewhere,
}

impl ServiceController {
    /// Of a service that is there and does not want its load balancer any more.
    pub(super) async fn cleanup(&self, known: &Known, entry: &ServiceEntry) -> Result<(), Failure> {
        let seen = self.look(known, entry).await?;
        if seen == Seen::There && known.announce(reason::DELETING_LB) {
            self.shared.normal(entry, reason::DELETING_LB, "Deleting load balancer");
        }
        // What the cloud does not show may be there: half of it, since a process was killed; or all of it, since the cloud's lists are
        // behind. Once the object is gone, nobody looks again.
        if seen != Seen::Elsewhere {
            self.delete(known, entry).await.map_err(|error| Failure::Cloud("failed to delete load balancer", error))?;
        }
        if plan::has_finalizer(&entry.object) && plan::is_ours(&entry.object, &self.options.classes) {
            let mut metadata =
                vec![("uid", json!(entry.uid())), ("$deleteFromPrimitiveList/finalizers", json!([FINALIZER]))];
            if plan::is_noted(&entry.object) {
                metadata.push(("annotations", json!({ ANNOTATION_CLASS: null })));
            }
            match patch::<Service>(&self.client, &target(entry), &Patch::Strategic(with_metadata(metadata))).await {
                Ok(_) | Err(ApiError::Gone(_)) => {}
                Err(error) => return Err(Failure::Api("failed to remove load balancer cleanup finalizer", error)),
            }
        }
        self.shared.normal(entry, reason::DELETED_LB, "Deleted load balancer");
        // The cache may not show yet what was written last.
        let written =
            known.update(|progress| progress.written.as_ref().is_some_and(|status| !status.ingress.is_empty()));
        if written || !entry.view.service.status.ingress.is_empty() {
            let none = status_json(&LoadBalancerStatus::default());
            let body = json!({ "metadata": { "uid": entry.uid() }, "status": { "loadBalancer": none } });
            match patch::<Service>(&self.client, &target(entry), &Patch::Merge(body)).await {
                Ok(_) | Err(ApiError::Gone(_) | ApiError::Changed(_)) => {}
                Err(error) => return Err(Failure::Api("failed to update load balancer status", error)),
            }
        }
        Ok(())
    }

    /// Of a service that vanished: its finalizer was taken away by somebody else, or a new one has its name.
    pub(super) async fn delete_gone(&self, known: &Known) -> Result<(), Failure> {
        let entry = known.progress().entry;
        if known.announce(reason::DELETING_LB) {
            self.shared.normal(&entry, reason::DELETING_LB, "Deleting load balancer");
        }
        self.delete(known, &entry).await.map_err(Failure::Gone)?;
        self.shared.normal(&entry, reason::DELETED_LB, "Deleted load balancer");
        Ok(())
    }

    /// What was begun is finished without asking: remains of a half-made or half-deleted load balancer are none that
    /// the cloud could show.
    async fn look(&self, known: &Known, entry: &ServiceEntry) -> Result<Seen, Failure> {
        if known.progress().unfinished {
            return Ok(Seen::There);
        }
        match self.shared.provider.get_load_balancer(&entry.view.service).await {
            Ok(Some(_)) => Ok(Seen::There),
            Ok(None) | Err(CloudError::NotFound(_)) => Ok(Seen::Nothing),
            Err(CloudError::ImplementedElsewhere) => Ok(Seen::Elsewhere),
            Err(error) => Err(Failure::Cloud("failed to check if load balancer exists before cleanup", error)),
        }
    }

    async fn delete(&self, known: &Known, entry: &ServiceEntry) -> Result<(), CloudError> {
        known.update(|progress| (progress.unfinished, progress.refused, progress.served) = (true, false, false));
        match self.shared.provider.ensure_load_balancer_deleted(&entry.view.service).await {
            // Not what is not found: to delete what is not there is a success, so that something else is missing, such as an answer of the cloud's
            // own.
            Ok(()) | Err(CloudError::ImplementedElsewhere) => {
                known.update(|progress| progress.unfinished = false);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}
