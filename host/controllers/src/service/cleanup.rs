//! Deletes the load balancer of a Service, and removes what it has left on the object.

use k8s_openapi::api::core::v1::Service;
use serde_json::json;
use skydock_cloud::{CloudError, LoadBalancerStatus};
use skydock_kube::api::{ApiError, Patch, patch};

use super::{Failure, ServiceController, ServiceEntry, ensure::with_metadata, known::Known, plan, target};
use crate::{
    constants::{ANNOTATION_CLASS, FINALIZER, reason},
    convert::status_json,
};

/// What the cloud reports about a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    There,
    Nothing,
    /// Another implementation is responsible for it.
    Elsewhere,
}

impl ServiceController {
    /// Cleans up a Service that exists and does not want its load balancer.
    pub(super) async fn cleanup(&self, known: &Known, entry: &ServiceEntry) -> Result<(), Failure> {
        let seen = self.look(known, entry).await?;
        if seen == Seen::There && known.announce(reason::DELETING_LB) {
            self.shared.normal(entry, reason::DELETING_LB, "Deleting load balancer");
        }
        // A load balancer that the cloud does not report may exist: partially, if a process was killed, or completely, if the
        // cloud's lists are outdated. Once the object is deleted, nobody looks for it again.
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
        // The cache may not contain the last written status yet.
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

    /// Deletes the load balancer of a Service that disappeared: someone else has removed its finalizer, or it was recreated
    /// with the same name.
    pub(super) async fn delete_gone(&self, known: &Known) -> Result<(), Failure> {
        let entry = known.progress().entry;
        if known.announce(reason::DELETING_LB) {
            self.shared.normal(&entry, reason::DELETING_LB, "Deleting load balancer");
        }
        self.delete(known, &entry).await.map_err(Failure::Gone)?;
        self.shared.normal(&entry, reason::DELETED_LB, "Deleted load balancer");
        Ok(())
    }

    /// Queries the cloud for the load balancer, unless an operation was started: the cloud may not report a partially created
    /// or deleted load balancer.
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
            // Not for `NotFound`: deleting a load balancer that does not exist must be a success, so here something else was
            // not found, maybe by the cloud itself.
            Ok(()) | Err(CloudError::ImplementedElsewhere) => {
                known.update(|progress| progress.unfinished = false);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}
