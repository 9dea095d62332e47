//! Changes the properties of volumes when their claims get another VolumeAttributesClass, in place of
//! csi-resizer (volume-modify). `plan.rs` has the rules.

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
use skydock_cloud::{Capability, Pairs, reason};
use skydock_controller_base::{
    calls::retry::RetryWhen,
    controller::{
        clients::ClientName,
        context::{ControllerContext, Runner},
        descriptor::{Descriptor, NeedsServices},
    },
};
use skydock_csi::{Code, Controller, Failure, proto::ControllerModifyVolumeRequest};
use skydock_kube::{
    api::{ApiError, Patch, Target, patch},
    informer::{Change, Entry},
    queue::{Priority, Queue},
};
use tokio_util::sync::CancellationToken;

use self::plan::Step;
use super::plan::is_of;
use crate::{
    Parts, custom,
    objects::{ClaimKind, VolumeKind, VolumeObjects},
    request::{self, LIMITER, PATIENCE, WORKERS},
};

/// What is known of the controller before it runs.
pub static CONTROLLER: Descriptor = Descriptor {
    name: "volume-modify-controller",
    alias: "volume-modify",
    client: ClientName::Node,
    event_source: "volume-modify-controller",
    needs: Some(Capability::VolumeAttributes),
    needs_services: NeedsServices::No,
};

/// The controller. Its queue has the keys of claims.
pub struct ModifyController {
    context: ControllerContext,
    client: Client,
    driver: Arc<Controller>,
    objects: Arc<VolumeObjects>,
    queue: Arc<Queue<String>>,
    /// UIDs of claims on whose volumes the cloud may still be at work.
    uncertain: Mutex<HashSet<String>>,
}

impl ModifyController {
    /// Creates the controller.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts {
            context,
            client,
            driver,
            objects,
        } = parts;
        let metrics = context.metrics.queue("PersistentVolumeClaimsToModify");
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
            uncertain: Mutex::default(),
        }
    }

    /// Changes the volume of a claim. Returns when to try again.
    async fn sync(&self, key: &str, stop: &CancellationToken) -> RetryWhen {
        let info = self.context.provider.info();
        let (Some(claim), Some(driver)) = (self.objects.claims.get(key), info.driver.as_ref())
        else {
            return RetryWhen::OnChange;
        };
        let is_uncertain = self.uncertain.lock().contains(claim.uid());
        let step = plan::step(&claim.object, is_uncertain);
        let spec = claim.object.spec.as_ref();
        let name = spec.and_then(|it| it.volume_name.as_deref());
        let name = name.filter(|name| !name.is_empty() && step != Step::Nothing);
        let Some(name) = name else {
            return RetryWhen::OnChange;
        };
        let Some(volume) = self.objects.volumes.get(name) else {
            return RetryWhen::BackOff;
        };
        if !is_of(&claim.object, &volume.object, &driver.name) {
            return RetryWhen::OnChange;
        }

        let done = match step {
            Step::Nothing => return RetryWhen::OnChange,
            Step::Cancel => {
                let canceled = plan::canceled(&claim.object);
                let written = self.write_status(&claim, canceled).await;
                written.map(|()| RetryWhen::OnChange)
            }
            Step::Modify(class) => {
                let asked = (&claim, &volume, class.as_str());
                self.modify(asked, &driver.name, stop).await
            }
        };
        match done {
            Ok(again) => again,
            Err(error) => {
                self.context.api_error(key, &error);
                RetryWhen::after_write(&error)
            }
        }
    }

    async fn modify(
        &self,
        (claim, volume, class): (&Arc<Entry<ClaimKind>>, &Arc<Entry<VolumeKind>>, &str),
        driver: &str,
        stop: &CancellationToken,
    ) -> Result<RetryWhen, ApiError> {
        let found = custom::ATTRIBUTES_CLASSES.get(&self.client, None, class);
        let found = match found.await {
            Ok(found) => found,
            Err(ApiError::Gone(_)) => {
                let message = format!("VAC {class:?} does not exist.");
                self.context
                    .warning(claim, reason::VOLUME_MODIFY_FAILED, message);
                let pending = plan::pending(&claim.object);
                self.write_status(claim, pending).await?;
                return Ok(RetryWhen::BackOff);
            }
            Err(error) => return Err(error),
        };
        let Some(attributes) = custom::attributes(&found, driver) else {
            let message = format!("VolumeAttributesClass {class} is for another driver");
            self.context
                .warning(claim, reason::VOLUME_MODIFY_FAILED, message);
            return Ok(RetryWhen::BackOff);
        };

        let begun = plan::begun(&claim.object, class, &Time(Timestamp::now()));
        self.write_status(claim, begun).await?;
        let name = claim.name();
        let message = format!("external resizer is modifying volume {name} with vac {class}");
        self.context.normal(claim, reason::VOLUME_MODIFY, message);

        let request = request_of(volume, attributes);
        let answer = self.driver.modify_volume(request, PATIENCE);
        match Box::pin(answer).await {
            Ok(_) => {
                self.uncertain.lock().remove(claim.uid());
                self.write_volume(volume, plan::changed(&volume.object, class))
                    .await?;
                let finished = plan::finished(&claim.object, class);
                self.write_status(claim, finished).await?;
                let message = format!(
                    "external resizer modified volume {name} with vac {class} successfully"
                );
                self.context
                    .normal(claim, reason::VOLUME_MODIFY_SUCCESSFUL, message);
                let spec = claim.object.spec.as_ref();
                let wanted = spec.and_then(|it| it.volume_attributes_class_name.as_deref());
                Ok(if wanted == Some(class) {
                    RetryWhen::OnChange
                } else {
                    // That had to end first.
                    RetryWhen::Soon
                })
            }
            Err(_) if stop.is_cancelled() => Ok(RetryWhen::OnChange),
            Err(failure) => self.follow_failure(claim, class, &failure).await,
        }
    }

    async fn follow_failure(
        &self,
        claim: &Arc<Entry<ClaimKind>>,
        class: &str,
        failure: &Failure,
    ) -> Result<RetryWhen, ApiError> {
        request::failed(&self.context, &claim.key(), failure);
        let message = failure.message.as_str();
        self.context
            .warning(claim, reason::VOLUME_MODIFY_FAILED, message);

        // As csi-resizer (`IsFinalError`).
        let is_final = failure.code.is_final() && failure.code != Code::ResourceExhausted;
        if is_final {
            self.uncertain.lock().remove(claim.uid());
        } else {
            self.uncertain.lock().insert(claim.uid().to_owned());
        }
        let code = format!("{:?}", failure.code);
        let time = Time(Timestamp::now());
        let why = (code.as_str(), message);
        let body = plan::failed(&claim.object, class, why, is_final, &time);
        self.write_status(claim, body).await?;
        Ok(match failure.code {
            Code::InvalidArgument => RetryWhen::After(LIMITER.max),
            _ => RetryWhen::BackOff,
        })
    }

    async fn write_status(&self, claim: &Entry<ClaimKind>, body: Value) -> Result<(), ApiError> {
        let target = Target {
            namespace: claim.object.metadata.namespace.as_deref(),
            name: claim.name(),
            subresource: Some("status"),
        };
        patch::<PersistentVolumeClaim>(&self.client, &target, &Patch::Strategic(body)).await?;
        Ok(())
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
        let modify = |key: String, _| async move {
            let again = Box::pin(self.sync(&key, shutdown)).await;
            again.schedule(&self.queue, &key);
        };
        self.queue.run_workers(WORKERS, shutdown, modify).await;
    }
}

fn request_of(volume: &Entry<VolumeKind>, attributes: Pairs) -> ControllerModifyVolumeRequest {
    let spec = volume.object.spec.as_ref();
    let csi = spec.and_then(|it| it.csi.as_ref());
    ControllerModifyVolumeRequest {
        volume_id: csi.map(|it| it.volume_handle.clone()).unwrap_or_default(),
        mutable_parameters: attributes,
        ..ControllerModifyVolumeRequest::default()
    }
}

#[async_trait]
impl Runner for ModifyController {
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
