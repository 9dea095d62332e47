//! Expands volumes, in place of csi-resizer (volume-resize).
//!
//! When a claim requests more than its volume has, the volume is expanded, and a kubelet is told to expand
//! the file system in it. `plan.rs` has the rules.
//!
//! Not done, unlike in csi-resizer: volumes of in-tree plugins. Changes of VolumeAttributesClasses are those of
//! another controller, [`modify`].

pub mod modify;
mod plan;

use std::{collections::HashSet, sync::Arc};

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{PersistentVolume, PersistentVolumeClaim},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::Client;
use parking_lot::Mutex;
use serde_json::Value;
use skydock_cloud::{Capability, reason};
use skydock_controller_base::{
    calls::retry::RetryWhen,
    controller::{
        clients::ClientName,
        context::{ControllerContext, Runner},
        descriptor::{Descriptor, NeedsServices},
    },
};
use skydock_csi::{Code, Controller, Failure, proto::ControllerExpandVolumeResponse};
use skydock_kube::{
    api::{ApiError, Patch, Target, patch},
    informer::{Change, Entry},
    queue::{Priority, Queue},
};
use tokio_util::sync::CancellationToken;

use self::plan::{Expansion, Written};
use crate::{
    Parts,
    objects::{ClaimKind, VolumeKind, VolumeObjects},
    quantity,
    request::{self, LIMITER, PATIENCE, WORKERS},
};

/// What is known of the controller before it runs.
pub static CONTROLLER: Descriptor = Descriptor {
    name: "volume-resize-controller",
    alias: "volume-resize",
    client: ClientName::Node,
    event_source: "volume-resize-controller",
    needs: Some(Capability::VolumeExpansion),
    needs_services: NeedsServices::No,
};

/// The controller. Its queue has the keys of claims.
pub struct ResizeController {
    context: ControllerContext,
    client: Client,
    driver: Arc<Controller>,
    objects: Arc<VolumeObjects>,
    queue: Arc<Queue<String>>,
    /// UIDs of claims whose last expansion has ended with an error.
    failed: Mutex<HashSet<String>>,
}

impl ResizeController {
    /// Creates the controller.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts {
            context,
            client,
            driver,
            objects,
        } = parts;
        let metrics = context.metrics.queue("PersistentVolumeClaimsToResize");
        let queue = Arc::new(Queue::new(LIMITER, metrics));
        objects.claims.subscribe({
            let queue = Arc::clone(&queue);
            move |change| match change {
                Change::Updated(old, new) if !plan::is_news(&old.object, &new.object) => {}
                Change::Added(new) | Change::Updated(_, new) => {
                    queue.add(new.key(), Priority::Change);
                }
                Change::Deleted(_) => {}
            }
        });

        Self {
            context,
            client,
            driver,
            objects,
            queue,
            failed: Mutex::default(),
        }
    }

    /// Expands the volume of a claim. Returns when to try again.
    async fn sync(&self, key: &str, stop: &CancellationToken) -> RetryWhen {
        let info = self.context.provider.info();
        let (Some(claim), Some(driver)) = (self.objects.claims.get(key), info.driver.as_ref())
        else {
            return RetryWhen::OnChange;
        };
        let spec = claim.object.spec.as_ref();
        let name = spec.and_then(|it| it.volume_name.as_deref());
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return RetryWhen::OnChange;
        };
        let Some(volume) = self.objects.volumes.get(name) else {
            // It was created a moment ago, and is not followed.
            return RetryWhen::BackOff;
        };
        if !plan::is_of(&claim.object, &volume.object, &driver.name) {
            return RetryWhen::OnChange;
        }

        if let Some(cleaned) = plan::cleaned(&claim.object, &volume.object) {
            let written = self.write_volume(&volume, cleaned).await;
            if let Err(error) = written {
                return self.follow_api_error(key, &error);
            }
        }

        let has_failed = self.failed.lock().contains(claim.uid());
        let Some(expansion) = plan::expansion(&claim.object, &volume.object, has_failed) else {
            self.failed.lock().remove(claim.uid());
            return RetryWhen::OnChange;
        };
        match self.expand(&claim, &volume, &expansion, stop).await {
            Ok(again) => again,
            Err(error) => self.follow_api_error(key, &error),
        }
    }

    async fn expand(
        &self,
        claim: &Arc<Entry<ClaimKind>>,
        volume: &Arc<Entry<VolumeKind>>,
        expansion: &Expansion,
        stop: &CancellationToken,
    ) -> Result<RetryWhen, ApiError> {
        let request = match plan::request(&volume.object, expansion) {
            Ok(request) => request,
            Err(message) => {
                self.context
                    .warning(claim, reason::VOLUME_RESIZE_FAILED, message);
                return Ok(RetryWhen::BackOff);
            }
        };

        let mut written = Written::of(&claim.object);
        let body = written.begun(expansion, &Time(Timestamp::now()));
        written.version = Some(self.write_status(claim, body).await?);
        let message = format!("External resizer is resizing volume {}", volume.name());
        self.context.normal(claim, reason::RESIZING, message);

        let answer = self.driver.expand_volume(request, PATIENCE);
        match Box::pin(answer).await {
            Ok(answer) => {
                self.failed.lock().remove(claim.uid());
                self.finish(claim, volume, &mut written, answer).await?;
                Ok(RetryWhen::OnChange)
            }
            Err(_) if stop.is_cancelled() => Ok(RetryWhen::OnChange),
            Err(failure) => self.follow_failure(claim, &mut written, &failure).await,
        }
    }

    /// Writes the size of the volume, and what is left to do.
    async fn finish(
        &self,
        claim: &Arc<Entry<ClaimKind>>,
        volume: &Arc<Entry<VolumeKind>>,
        written: &mut Written,
        answer: ControllerExpandVolumeResponse,
    ) -> Result<(), ApiError> {
        let (bytes, on_node) = (answer.capacity_bytes, answer.node_expansion_required);
        if let Some(resized) = plan::resized(&claim.object, &volume.object, bytes, on_node) {
            self.write_volume(volume, resized).await?;
        }

        let (body, reason, message) = if on_node {
            let body = written.pending(&Time(Timestamp::now()));
            let message = "Require file system resize of volume on node";
            (body, reason::FILE_SYSTEM_RESIZE_REQUIRED, message)
        } else {
            let body = written.finished(&quantity::of_bytes(bytes));
            (
                body,
                reason::VOLUME_RESIZE_SUCCESSFUL,
                "Resize volume succeeded",
            )
        };
        self.write_status(claim, body).await?;
        self.context.normal(claim, reason, message);
        Ok(())
    }

    async fn follow_failure(
        &self,
        claim: &Arc<Entry<ClaimKind>>,
        written: &mut Written,
        failure: &Failure,
    ) -> Result<RetryWhen, ApiError> {
        request::failed(&self.context, &claim.key(), failure);
        let message = failure.message.as_str();
        self.context
            .warning(claim, reason::VOLUME_RESIZE_FAILED, message);

        // As csi-resizer (`IsFinalError`), for which there may be room later.
        if !failure.code.is_final() || failure.code == Code::ResourceExhausted {
            self.failed.lock().remove(claim.uid());
            return Ok(RetryWhen::BackOff);
        }
        self.failed.lock().insert(claim.uid().to_owned());
        let is_infeasible = matches!(
            failure.code,
            Code::InvalidArgument | Code::OutOfRange | Code::NotFound
        );
        let body = written.failed(message, is_infeasible, &Time(Timestamp::now()));
        self.write_status(claim, body).await?;
        Ok(if is_infeasible {
            RetryWhen::After(LIMITER.max)
        } else {
            RetryWhen::BackOff
        })
    }

    fn follow_api_error(&self, key: &str, error: &ApiError) -> RetryWhen {
        self.context.api_error(key, error);
        RetryWhen::after_write(error)
    }

    /// Writes the status of a claim. Returns its version.
    async fn write_status(
        &self,
        claim: &Entry<ClaimKind>,
        body: Value,
    ) -> Result<String, ApiError> {
        let namespace = claim.object.metadata.namespace.as_deref();
        let target = Target {
            namespace,
            name: claim.name(),
            subresource: Some("status"),
        };
        patch::<PersistentVolumeClaim>(&self.client, &target, &Patch::Merge(body)).await
    }

    async fn write_volume(&self, volume: &Entry<VolumeKind>, body: Value) -> Result<(), ApiError> {
        let target = Target {
            namespace: None,
            name: volume.name(),
            subresource: None,
        };
        patch::<PersistentVolume>(&self.client, &target, &Patch::Merge(body)).await?;
        Ok(())
    }

    async fn work(&self, shutdown: &CancellationToken) {
        let synced = async {
            self.objects.claims.synced().await;
            self.objects.volumes.synced().await;
        };
        if shutdown.run_until_cancelled(synced).await.is_none() {
            return;
        }
        let resize = |key: String, _| async move {
            let again = Box::pin(self.sync(&key, shutdown)).await;
            again.schedule(&self.queue, &key);
        };
        self.queue.run_workers(WORKERS, shutdown, resize).await;
    }
}

#[async_trait]
impl Runner for ResizeController {
    fn recheck(&self) {
        let all = self.objects.claims.list();
        let keys = all.iter().map(|it| it.key());
        self.queue.add_all(keys, Priority::Recheck);
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let client = || self.client.clone();
        tokio::select! {
            () = self.objects.claims.fill(client()) => {}
            () = self.objects.volumes.fill(client()) => {}
            () = self.work(&shutdown) => {}
        }
    }
}

#[cfg(test)]
mod tests;
