//! Creates and deletes snapshots of volumes, in place of csi-snapshotter (volume-snapshot).
//!
//! The snapshot-controller of the cluster creates a VolumeSnapshotContent for a VolumeSnapshot, and binds
//! both. `plan.rs` has the rules for it. An annotation says that the cloud was asked, so that a leader knows
//! what an earlier one has begun.
//!
//! Not done, unlike in csi-snapshotter: groups of snapshots.

mod content;
mod plan;

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
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
use skydock_csi::{
    Code, Controller, Failure,
    proto::{DeleteSnapshotRequest, ListSnapshotsRequest, Snapshot},
};
use skydock_kube::{
    api::{ApiError, Patch, Target, patch},
    informer::{Change, Entry, Informer},
    queue::{Priority, Queue},
};
use tokio_util::sync::CancellationToken;

use self::{
    content::{Content, ContentKind},
    plan::Step,
};
use crate::{
    Parts, custom,
    request::{self, LIMITER, PATIENCE, WORKERS},
};

type ContentEntry = Arc<Entry<ContentKind>>;

/// What is known of the controller before it runs.
pub static CONTROLLER: Descriptor = Descriptor {
    name: "volume-snapshot-controller",
    alias: "volume-snapshot",
    client: ClientName::Node,
    event_source: "volume-snapshot-controller",
    needs: Some(Capability::Snapshots),
    needs_services: NeedsServices::No,
};

/// The controller. Its queue has names of VolumeSnapshotContents.
pub struct SnapshotController {
    context: ControllerContext,
    client: Client,
    driver: Arc<Controller>,
    contents: Informer<ContentKind>,
    queue: Arc<Queue<String>>,
}

/// Why a snapshot is not ready, or not deleted.
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

impl SnapshotController {
    /// Creates the controller.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts {
            context,
            client,
            driver,
            objects: _,
        } = parts;
        let metrics = context.metrics.queue("VolumeSnapshotContents");
        let queue = Arc::new(Queue::new(LIMITER, metrics));
        let contents = Informer::<ContentKind>::default();
        contents.subscribe({
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
            contents,
            queue,
        }
    }

    /// Does what a VolumeSnapshotContent needs. Returns when to try again.
    async fn sync(&self, name: &str, stop: &CancellationToken) -> RetryWhen {
        let info = self.context.provider.info();
        let (Some(content), Some(driver)) = (self.contents.get(name), info.driver.as_ref()) else {
            return RetryWhen::OnChange;
        };

        let step = plan::step(&content.object, &driver.name);
        let is_deletion = matches!(step, Step::Delete(_));
        let done = match step {
            Step::Nothing => return RetryWhen::OnChange,
            Step::Create(class) => self.create(&content, &class).await,
            Step::Check(request) => self.check(&content, request).await,
            Step::Unmark => self.unmark(&content).await.map(|()| true),
            Step::Delete(request) => self.delete(&content, request).await,
            Step::Release => self.release(&content).await,
            Step::Wait(message) => Err(Problem::Object(message)),
        };
        match done {
            Ok(true) => RetryWhen::OnChange,
            // It is not ready yet.
            Ok(false) => RetryWhen::BackOff,
            Err(_) if stop.is_cancelled() => RetryWhen::OnChange,
            Err(problem) => self.tell(&content, problem, is_deletion).await,
        }
    }

    /// Creates a snapshot. Returns whether it is ready.
    async fn create(&self, content: &ContentEntry, class: &str) -> Result<bool, Problem> {
        let class = custom::SNAPSHOT_CLASSES
            .get(&self.client, None, class)
            .await?;
        let request = plan::request(&content.object, &class).map_err(Problem::Object)?;
        if let Some(marked) = plan::marked(&content.object) {
            self.write(content, None, &Patch::Merge(marked)).await?;
        }

        let answer = self.driver.create_snapshot(request, PATIENCE);
        match Box::pin(answer).await {
            Ok(answer) => {
                let snapshot = answer.snapshot.unwrap_or_default();
                self.write_found(content, &snapshot).await?;
                self.unmark(content).await?;
                Ok(snapshot.ready_to_use)
            }
            Err(failure) => {
                // As csi-snapshotter (`isCSIFinalError`).
                if failure.code.is_final() && failure.code != Code::ResourceExhausted {
                    self.unmark(content).await?;
                }
                Err(failure.into())
            }
        }
    }

    /// Looks for a snapshot. Returns whether it is ready.
    async fn check(
        &self,
        content: &ContentEntry,
        request: ListSnapshotsRequest,
    ) -> Result<bool, Problem> {
        let id = request.snapshot_id.clone();
        let answer = self.driver.list_snapshots(request, PATIENCE);
        let answer = Box::pin(answer).await?;
        let first = answer.entries.into_iter().next();
        let Some(snapshot) = first.and_then(|it| it.snapshot) else {
            return Err(Problem::Object(format!("snapshot {id} does not exist")));
        };
        self.write_found(content, &snapshot).await?;
        Ok(snapshot.ready_to_use)
    }

    /// Deletes a snapshot, and lets its object go.
    async fn delete(
        &self,
        content: &ContentEntry,
        request: DeleteSnapshotRequest,
    ) -> Result<bool, Problem> {
        let answer = self.driver.delete_snapshot(request, PATIENCE);
        Box::pin(answer).await?;
        let cleared = Patch::Merge(plan::cleared(&content.object));
        self.write(content, Some("status"), &cleared).await?;
        self.release(content).await
    }

    async fn release(&self, content: &ContentEntry) -> Result<bool, Problem> {
        if let Some(released) = plan::released(&content.object) {
            self.write(content, None, &Patch::Json(released)).await?;
        }
        Ok(true)
    }

    async fn unmark(&self, content: &ContentEntry) -> Result<(), Problem> {
        let unmarked = Patch::Merge(plan::unmarked(&content.object));
        self.write(content, None, &unmarked).await?;
        Ok(())
    }

    async fn write_found(
        &self,
        content: &ContentEntry,
        snapshot: &Snapshot,
    ) -> Result<(), ApiError> {
        let found = plan::found(&content.object, snapshot, &Time(Timestamp::now()));
        self.write(content, Some("status"), &Patch::Merge(found))
            .await
    }

    /// Tells a problem in an event, and that of a creation in the status. Returns when to try again.
    async fn tell(&self, content: &ContentEntry, problem: Problem, is_deletion: bool) -> RetryWhen {
        let name = content.name();
        let message = match problem {
            Problem::Api(error) => {
                self.context.api_error(name, &error);
                // A class that does not exist yet is not followed.
                return match RetryWhen::after_write(&error) {
                    RetryWhen::OnChange => RetryWhen::BackOff,
                    other => other,
                };
            }
            Problem::Object(message) => message,
            Problem::Cloud(failure) => {
                request::failed(&self.context, name, &failure);
                failure.message
            }
        };

        if is_deletion {
            let message = format!("Failed to delete snapshot: {message}");
            self.context
                .warning(content, reason::SNAPSHOT_DELETE_ERROR, message);
            return RetryWhen::BackOff;
        }
        let (reason, message) = if content.object.status.is_null() {
            let message = format!("Failed to create snapshot: {message}");
            (reason::SNAPSHOT_CREATION_FAILED, message)
        } else {
            let message = format!("Failed to check and update snapshot content: {message}");
            (reason::SNAPSHOT_CHECK_FAILED, message)
        };
        let status = plan::failed(&content.object, &message, &Time(Timestamp::now()));
        if let Some(status) = status {
            self.context.warning(content, reason, message);
            self.tell_in_status(content, status).await;
        }
        RetryWhen::BackOff
    }

    async fn tell_in_status(&self, content: &ContentEntry, status: Value) {
        let patch = Patch::Merge(status);
        if let Err(error) = self.write(content, Some("status"), &patch).await {
            self.context.api_error(content.name(), &error);
        }
    }

    async fn write(
        &self,
        content: &ContentEntry,
        subresource: Option<&'static str>,
        body: &Patch,
    ) -> Result<(), ApiError> {
        let target = Target {
            namespace: None,
            name: content.name(),
            subresource,
        };
        patch::<Content>(&self.client, &target, body).await?;
        Ok(())
    }

    async fn work(&self, shutdown: &CancellationToken) {
        let synced = self.contents.synced();
        if shutdown.run_until_cancelled(synced).await.is_none() {
            return;
        }
        let work = |name: String, _| async move {
            let again = Box::pin(self.sync(&name, shutdown)).await;
            again.schedule(&self.queue, &name);
        };
        self.queue.run_workers(WORKERS, shutdown, work).await;
    }
}

#[async_trait]
impl Runner for SnapshotController {
    fn recheck(&self) {
        let all = self.contents.list();
        let names = all.iter().map(|it| it.key());
        self.queue.add_all(names, Priority::Recheck);
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        tokio::select! {
            () = self.contents.run(self.client.clone()) => {}
            () = self.work(&shutdown) => {}
        }
    }
}

#[cfg(test)]
mod tests;
