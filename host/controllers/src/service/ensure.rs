//! Creates or updates the load balancer of a Service, and writes its status.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};
use skydock_cloud::{CloudError, LoadBalancerStatus};
use skydock_kube::{
    api::{ApiError, Patch, patch},
    queue::Priority,
};

use super::{
    Failure, ServiceController, ServiceEntry,
    known::{Known, Told},
    nodes::Nodes,
    plan,
    selection::Choice,
    target,
};
use crate::{
    constants::{ANNOTATION_CLASS, FINALIZER, reason},
    convert::status_json,
};

impl ServiceController {
    /// Adds the finalizer first, so that no load balancer is forgotten; then calls the cloud, and then writes the status.
    ///
    /// Events are published once for each piece of work: not again for a retry, and not at all if a re-check finds nothing to
    /// change.
    pub(super) async fn ensure(&self, known: &Known, entry: &ServiceEntry, priority: Priority) -> Result<(), Failure> {
        if let Some(problem) = &entry.view.problem {
            known.update(|progress| progress.refused = true);
            return Err(Failure::Invalid(problem.clone()));
        }
        if priority == Priority::Change && known.announce(reason::ENSURING_LB) {
            self.shared.normal(entry, reason::ENSURING_LB, "Ensuring load balancer");
        }
        if !plan::has_finalizer(&entry.object) || plan::note_to_write(&entry.object).is_some() {
            match self.add_finalizer(entry).await {
                Ok(()) => {}
                Err(ApiError::Gone(_)) => return Ok(()),
                Err(error) => return Err(Failure::Api("failed to add load balancer cleanup finalizer", error)),
            }
        }
        let Choice { nodes, fingerprint } = self.selection.of(entry).await;
        // Not for re-checks, and not again for retries.
        if nodes.is_empty()
            && priority == Priority::Change
            && !known.update(|progress| std::mem::replace(&mut progress.empty, true))
        {
            self.shared.warning(entry, reason::UNAVAILABLE_LB, "There are no available nodes for LoadBalancer");
        }
        let before = known.update(|progress| {
            (progress.unfinished, progress.refused) = (true, false);
            std::mem::replace(&mut progress.told, Told::Nodes(fingerprint))
        });
        let service = &entry.view.service;
        let status = match self.shared.provider.ensure_load_balancer(service, &nodes).await {
            Ok(status) => status,
            Err(CloudError::ImplementedElsewhere) => {
                known.update(|progress| progress.served = true);
                known.finish();
                return Ok(());
            }
            Err(error) => {
                self.not_ensured(known, entry, before, &error);
                return Err(Failure::Cloud("failed to ensure load balancer", error));
            }
        };
        let changed = known.update(|progress| {
            (progress.unfinished, progress.served) = (false, true);
            let other = |before: &LoadBalancerStatus| !plan::same_status(before, &status);
            let changed = other(&service.status) || progress.written.as_ref().is_some_and(other);
            if changed {
                progress.written = Some(status.clone());
            }
            changed
        });
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

    /// Handles a failed call. It may have failed before the nodes were updated, and may keep failing. An existing load balancer
    /// must not wait for that: its nodes are updated separately.
    fn not_ensured(&self, known: &Known, entry: &ServiceEntry, before: Told, error: &CloudError) {
        let missed = known.update(|progress| {
            progress.refused = matches!(error, CloudError::Invalid(_));
            let missed = progress.served && progress.told != before;
            if missed {
                progress.told = if before == Told::Nothing { Told::Nothing } else { Told::Failed };
            }
            missed
        });
        if missed {
            self.node_queue.add(Nodes::Of(entry.key()), Priority::Change);
        }
    }

    /// Adds the finalizer, and the annotation with the class, which later shows that this host has created the load balancer.
    async fn add_finalizer(&self, entry: &ServiceEntry) -> Result<(), ApiError> {
        let mut metadata = vec![("uid", json!(entry.uid())), ("finalizers", json!([FINALIZER]))];
        if let Some(note) = plan::note_to_write(&entry.object) {
            metadata.push(("annotations", json!({ ANNOTATION_CLASS: note })));
        }
        patch::<Service>(&self.client, &target(entry), &Patch::Strategic(with_metadata(metadata))).await.map(drop)
    }
}

/// Returns the body of a patch of these metadata fields.
pub(super) fn with_metadata(fields: Vec<(&str, Value)>) -> Value {
    json!({ "metadata": fields.into_iter().collect::<BTreeMap<_, _>>() })
}
