//! Attaches and detaches volumes, in place of csi-attacher (volume-attach).
//!
//! kube-controller-manager creates a VolumeAttachment for each node that needs a volume, and deletes it when
//! no Pod there uses it any more. The volume is attached, and before the object goes, detached.
//! `plan.rs` has the rules.
//!
//! Not done, unlike in csi-attacher: volumes of in-tree plugins, which would have to be translated.

mod plan;

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::{
    api::{core::v1::PersistentVolume, storage::v1::VolumeAttachment},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{Client, Resource};
use parking_lot::Mutex;
use serde_json::Value;
use skydock_cloud::Capability;
use skydock_controller_base::{
    calls::retry::RetryWhen,
    controller::{
        clients::ClientName,
        context::{ControllerContext, Runner},
        descriptor::{Descriptor, NeedsServices},
    },
};
use skydock_csi::{
    Controller, Failure,
    proto::{ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest, ListVolumesRequest},
};
use skydock_kube::{
    api::{ApiError, Patch, Target, patch},
    informer::{Change, Entry},
    queue::{Priority, Queue},
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use self::plan::{Seen, Step};
use crate::{
    Parts, finalizer,
    objects::{AttachmentKind, VolumeKind, VolumeObjects},
    request::{self, LIMITER, PATIENCE, WORKERS},
};

/// How often attachments are compared with what the cloud lists (`--reconcile-sync` of csi-attacher).
const RECONCILE: Duration = Duration::from_mins(1);

/// Maximum number of PersistentVolumes whose finalizer is removed at the same time.
const VOLUME_WORKERS: usize = 16;

/// What is known of the controller before it runs.
pub static CONTROLLER: Descriptor = Descriptor {
    name: "volume-attach-controller",
    alias: "volume-attach",
    client: ClientName::Node,
    event_source: "volume-attach-controller",
    needs: Some(Capability::Attachments),
    needs_services: NeedsServices::No,
};

/// The controller. Its queues have names of VolumeAttachments and of PersistentVolumes.
pub struct AttachController {
    context: ControllerContext,
    client: Client,
    driver: Arc<Controller>,
    objects: Arc<VolumeObjects>,
    queue: Arc<Queue<String>>,
    /// PersistentVolumes that may have a finalizer that nothing needs.
    released: Arc<Queue<String>>,
    /// VolumeAttachments about which the cloud says something else.
    forced: Mutex<HashSet<String>>,
}

impl AttachController {
    /// Creates the controller.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts {
            context,
            client,
            driver,
            objects,
        } = parts;
        let queue = |name| Arc::new(Queue::new(LIMITER, context.metrics.queue(name)));
        let (queue, released) = (
            queue("VolumeAttachments"),
            queue("PersistentVolumesToRelease"),
        );

        objects.attachments.subscribe({
            let (queue, released) = (Arc::clone(&queue), Arc::clone(&released));
            move |change| match change {
                Change::Updated(old, new) if !plan::is_news(&old.object, &new.object) => {}
                Change::Added(new) | Change::Updated(_, new) => {
                    queue.add(new.key(), Priority::Change);
                }
                Change::Deleted(old) => {
                    let volume = &old.object.spec.source.persistent_volume_name;
                    if let Some(volume) = volume {
                        released.add(volume.clone(), Priority::Change);
                    }
                }
            }
        });
        objects.volumes.subscribe({
            let released = Arc::clone(&released);
            move |change| {
                if let Change::Added(new) | Change::Updated(_, new) = change
                    && new.object.metadata.deletion_timestamp.is_some()
                {
                    released.add(new.key(), Priority::Change);
                }
            }
        });

        Self {
            context,
            client,
            driver,
            objects,
            queue,
            released,
            forced: Mutex::default(),
        }
    }

    /// Returns the name of the driver of the plugin in service.
    fn driver_name(&self) -> Option<String> {
        let info = self.context.provider.info();
        info.driver.as_ref().map(|it| it.name.clone())
    }

    /// Attaches or detaches the volume of a VolumeAttachment. Returns when to try again.
    async fn sync(&self, name: &str, stop: &CancellationToken) -> RetryWhen {
        let is_forced = self.forced.lock().remove(name);
        let (Some(entry), Some(driver)) = (self.objects.attachments.get(name), self.driver_name())
        else {
            return RetryWhen::OnChange;
        };

        let step = self.with_seen(&entry, &driver, is_forced, plan::step);
        let done = match step {
            Ok(Step::Nothing) => return RetryWhen::OnChange,
            Ok(Step::Attach(request)) => self.attach(&entry, &driver, request).await,
            Ok(Step::Detach(request)) => self.detach(&entry, &driver, request).await,
            Err(message) => Err(Problem::Object(message)),
        };

        match done {
            Ok(()) => RetryWhen::OnChange,
            // The next leader does the rest, and tells what fails.
            Err(_) if stop.is_cancelled() => RetryWhen::OnChange,
            Err(problem) => self.tell(&entry, problem).await,
        }
    }

    /// Decides something from a VolumeAttachment and what it is about.
    fn with_seen<T>(
        &self,
        entry: &Entry<AttachmentKind>,
        driver: &str,
        is_forced: bool,
        decide: impl FnOnce(Seen<'_>) -> T,
    ) -> T {
        let attachment = &entry.object;
        let volume = attachment.spec.source.persistent_volume_name.as_deref();
        let volume = volume.and_then(|name| self.objects.volumes.get(name));
        let node = self.objects.csi_nodes.get(&attachment.spec.node_name);
        decide(Seen {
            driver,
            attachment,
            volume: volume.as_ref().map(|it| &it.object),
            node: node.as_ref().map(|it| &it.object),
            is_forced,
        })
    }

    /// First the finalizers, without which the volume could be deleted, or stay attached; then the volume.
    async fn attach(
        &self,
        entry: &Entry<AttachmentKind>,
        driver: &str,
        request: ControllerPublishVolumeRequest,
    ) -> Result<(), Problem> {
        let finalizer = plan::finalizer(driver);
        let volume = entry.object.spec.source.persistent_volume_name.as_deref();
        if let Some(volume) = volume.and_then(|name| self.objects.volumes.get(name))
            && !finalizer::has(&volume.object.metadata, &finalizer)
        {
            let added = finalizer::added(&volume.object.metadata, &finalizer);
            let added = Patch::Strategic(added);
            self.write::<PersistentVolume>(volume.name(), None, &added)
                .await?;
        }
        if let Some(preparation) = plan::preparation(&entry.object, &finalizer, &request.node_id) {
            let preparation = Patch::Strategic(preparation);
            self.write::<VolumeAttachment>(entry.name(), None, &preparation)
                .await?;
        }

        let answer = self.driver.publish_volume(request, PATIENCE);
        let answer = Box::pin(answer).await?;
        let status = plan::attached(&entry.object, &answer.publish_context);
        self.write_status(entry, status).await?;
        tracing::debug!(attachment = entry.name(), "volume attached");
        Ok(())
    }

    /// The finalizer goes before the status: a VolumeAttachment with it would be detached again.
    async fn detach(
        &self,
        entry: &Entry<AttachmentKind>,
        driver: &str,
        request: ControllerUnpublishVolumeRequest,
    ) -> Result<(), Problem> {
        let answer = self.driver.unpublish_volume(request, PATIENCE);
        Box::pin(answer).await?;
        tracing::debug!(attachment = entry.name(), "volume detached");

        let removed = finalizer::removed(&entry.object.metadata, &plan::finalizer(driver));
        let removed = Patch::Strategic(removed);
        let written = self.write::<VolumeAttachment>(entry.name(), None, &removed);
        written.await?;
        match self
            .write_status(entry, plan::detached(&entry.object))
            .await
        {
            // Mostly, the API server has deleted it by then.
            Ok(()) | Err(ApiError::Gone(_) | ApiError::Changed(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes a problem to the status, where it becomes an event on the Pod. Returns when to try again.
    async fn tell(&self, entry: &Entry<AttachmentKind>, problem: Problem) -> RetryWhen {
        let name = entry.name();
        let (message, code, again) = match problem {
            Problem::Api(error) => {
                // Nothing that the owner of a Pod could do.
                self.context.api_error(name, &error);
                // The PersistentVolume may be gone, and come back: it is not followed.
                return match RetryWhen::after_write(&error) {
                    RetryWhen::OnChange => RetryWhen::BackOff,
                    other => other,
                };
            }
            Problem::Object(message) => (message, None, RetryWhen::BackOff),
            Problem::Cloud(failure) => {
                request::failed(&self.context, name, &failure);
                let code = failure.code as i32;
                (failure.message, Some(code), RetryWhen::BackOff)
            }
        };

        let is_deleted = entry.object.metadata.deletion_timestamp.is_some();
        let (field, code) = if is_deleted {
            ("detachError", None)
        } else {
            ("attachError", code)
        };
        let time = Time(Timestamp::now());
        let status = plan::failed(&entry.object, field, &message, code, &time);
        if let Err(error) = self.write_status(entry, status).await {
            self.context.api_error(name, &error);
        }
        again
    }

    async fn write_status(
        &self,
        entry: &Entry<AttachmentKind>,
        body: Value,
    ) -> Result<(), ApiError> {
        let body = Patch::Merge(body);
        self.write::<VolumeAttachment>(entry.name(), Some("status"), &body)
            .await
    }

    async fn write<K: Resource<DynamicType = ()>>(
        &self,
        name: &str,
        subresource: Option<&'static str>,
        body: &Patch,
    ) -> Result<(), ApiError> {
        let target = Target {
            namespace: None,
            name,
            subresource,
        };
        patch::<K>(&self.client, &target, body).await?;
        Ok(())
    }

    /// Removes the finalizer of a PersistentVolume that nothing needs.
    async fn release(&self, name: &str) -> RetryWhen {
        let (Some(volume), Some(driver)) = (self.objects.volumes.get(name), self.driver_name())
        else {
            return RetryWhen::OnChange;
        };
        let finalizer = plan::finalizer(&driver);
        if !self.is_released(&volume, &finalizer) {
            return RetryWhen::OnChange;
        }

        let removed = finalizer::removed(&volume.object.metadata, &finalizer);
        let removed = Patch::Strategic(removed);
        match self.write::<PersistentVolume>(name, None, &removed).await {
            Ok(()) => RetryWhen::OnChange,
            Err(error) => {
                self.context.api_error(name, &error);
                RetryWhen::after_write(&error)
            }
        }
    }

    fn is_released(&self, volume: &Entry<VolumeKind>, finalizer: &str) -> bool {
        let attachments = self.objects.attachments.list();
        let attachments = attachments.iter().map(|it| &it.object);
        plan::is_released(&volume.object, finalizer, attachments)
    }

    /// Compares what the cloud lists with all VolumeAttachments, again and again: someone may have detached
    /// a volume.
    async fn reconcile(&self) {
        loop {
            sleep(RECONCILE).await;
            match self.list().await {
                Ok(nodes) => self.compare(&nodes),
                Err(failure) => request::failed(&self.context, "all volumes", &failure),
            }
        }
    }

    /// Returns the node IDs for each volume.
    async fn list(&self) -> Result<BTreeMap<String, Vec<String>>, Failure> {
        let (mut all, mut token) = (BTreeMap::new(), String::new());
        loop {
            let page = self.driver.list_volumes(ListVolumesRequest {
                max_entries: 0,
                starting_token: token,
            });
            let page = Box::pin(page).await?;
            for entry in page.entries {
                let (volume, status) = (entry.volume.unwrap_or_default(), entry.status);
                let nodes = status.unwrap_or_default().published_node_ids;
                all.insert(volume.volume_id, nodes);
            }
            token = page.next_token;
            if token.is_empty() {
                return Ok(all);
            }
        }
    }

    fn compare(&self, nodes: &BTreeMap<String, Vec<String>>) {
        let Some(driver) = self.driver_name() else {
            return;
        };
        for entry in self.objects.attachments.list() {
            if self.with_seen(&entry, &driver, false, |seen| plan::differs(seen, nodes)) {
                let name = entry.key();
                tracing::info!(
                    attachment = name,
                    "the cloud says something else than the status of this VolumeAttachment"
                );
                self.forced.lock().insert(name.clone());
                self.queue.add(name, Priority::Recheck);
            }
        }
    }

    async fn work(&self, shutdown: &CancellationToken) {
        let synced = async {
            self.objects.volumes.synced().await;
            self.objects.attachments.synced().await;
            self.objects.csi_nodes.synced().await;
        };
        if shutdown.run_until_cancelled(synced).await.is_none() {
            return;
        }

        let attach = |name: String, _| async move {
            let again = Box::pin(self.sync(&name, shutdown)).await;
            again.schedule(&self.queue, &name);
        };
        let release = |name: String, _| async move {
            let again = self.release(&name).await;
            again.schedule(&self.released, &name);
        };
        let attaching = self.queue.run_workers(WORKERS, shutdown, attach);
        let releasing = self.released.run_workers(VOLUME_WORKERS, shutdown, release);
        let working = async { tokio::join!(attaching, releasing) };
        tokio::select! {
            _ = working => {}
            () = self.reconcile() => {}
        }
    }
}

/// Why a volume is not attached or detached.
enum Problem {
    Object(String),
    Cloud(Failure),
    Api(ApiError),
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self::Cloud(failure)
    }
}

impl From<ApiError> for Problem {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

#[async_trait]
impl Runner for AttachController {
    fn recheck(&self) {
        let all = self.objects.attachments.list();
        let names = all.iter().map(|it| it.key());
        self.queue.add_all(names, Priority::Recheck);
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let client = || self.client.clone();
        tokio::select! {
            () = self.objects.volumes.fill(client()) => {}
            () = self.objects.attachments.fill(client()) => {}
            () = self.objects.csi_nodes.fill(client()) => {}
            () = self.work(&shutdown) => {}
        }
    }
}

#[cfg(test)]
mod tests;
