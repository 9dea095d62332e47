//! Adds zone labels and node affinity to PersistentVolumes that people have created (pvlabel).
//!
//! With them, Pods are scheduled where the volume can be attached. `plan.rs` has the rules.
//!
//! Earlier versions of Kubernetes did this with the admission plugin PersistentVolumeLabel. Upstream
//! has nothing of the kind for CSI drivers, so this controller runs only if `--controllers` names
//! it. It comes after the object: a Pod that is scheduled before may be on a node that cannot reach
//! the volume.

mod plan;
mod round;
mod volume;

use std::{collections::HashMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::Client;
use parking_lot::Mutex;
use serde_json::json;
use skydock_cloud::{Capability, CloudError, Volume, reason};
use skydock_controller_base::{
    calls::retry::{self, RetryWhen},
    controller::{
        context::{ControllerContext, Runner},
        descriptor::{Descriptor, NeedsServices},
    },
};
use skydock_kube::{
    api::{ApiError, Patch, Target, patch},
    informer::{Change, Entry, Informer},
    queue::{Limiter, Priority, Queue},
};
use tokio_util::sync::CancellationToken;

use self::{
    plan::Addition,
    round::{Question, Round},
    volume::VolumeKind,
};
use crate::{
    ClientName,
    batches::{BatchLimit, Lanes, ask_all, asked::Asked},
    pause::Pause,
};

/// Maximum number of batches that are processed concurrently.
const WORKERS: usize = 2;
/// Maximum number of volumes in one batch.
const BATCH: usize = 250;

/// Delays of volumes that the cloud does not know. The longest is that after which an event is
/// published again.
const LIMITER: Limiter = Limiter {
    base: Duration::from_secs(5),
    max: Duration::from_secs(30 * 60),
    bucket: None,
};

type VolumeEntry = Arc<Entry<VolumeKind>>;

/// What is known of the controller before it runs.
pub(crate) static CONTROLLER: Descriptor = Descriptor {
    name: "persistent-volume-label-controller",
    alias: "pvlabel",
    client: ClientName::Node,
    event_source: "persistent-volume-label-controller",
    needs: Some(Capability::Volumes),
    needs_services: NeedsServices::No,
};

/// The controller. Its queue has names of PersistentVolumes.
pub(crate) struct VolumeLabelController {
    context: ControllerContext,
    client: Client,
    volumes: Informer<VolumeKind>,
    asked: Arc<Asked>,
    queue: Arc<Queue<String>>,
    lanes: Lanes,
    pause: Pause,
    /// Volumes that are not asked about in batches of any size.
    batch_limits: Mutex<HashMap<String, BatchLimit>>,
}

impl VolumeLabelController {
    pub(crate) fn new(context: ControllerContext, client: Client) -> Self {
        let queue = Arc::new(Queue::new(
            LIMITER,
            context.metrics.queue("PersistentVolumes"),
        ));
        let asked = Arc::<Asked>::default();

        let volumes = Informer::<VolumeKind>::default();
        volumes.subscribe({
            let queue = Arc::clone(&queue);
            let asked = Arc::clone(&asked);
            move |change| match change {
                Change::Updated(old, new) if old.view == new.view => {}
                Change::Added(new) | Change::Updated(_, new) => {
                    if new.view.is_some() {
                        let key = new.key();
                        let wait = asked.wait(&key);
                        queue.add_after(key, wait, Priority::Change);
                    }
                }
                Change::Deleted(_) => {}
            }
        });

        Self {
            context,
            client,
            volumes,
            asked,
            queue,
            lanes: Lanes::new(WORKERS),
            pause: Pause::default(),
            batch_limits: Mutex::default(),
        }
    }

    /// Asks the cloud about the volumes that may lack something.
    async fn sync(&self, names: Vec<String>, stop: &CancellationToken) {
        let mut questions = Vec::new();
        for name in names {
            match self.question(&name) {
                Some(question) => {
                    let limit = self.batch_limits.lock().get(&name).copied();
                    questions.push((question, limit.unwrap_or_default()));
                }
                None => {
                    self.batch_limits.lock().remove(&name);
                    self.queue.forget(&name);
                    self.queue.done(&name);
                }
            }
        }

        let max = self.context.provider.info().max_batch;
        let round = Round::new(self, stop);
        ask_all(&round, questions, max, &self.lanes).await;
    }

    fn question(&self, name: &str) -> Option<Question> {
        let entry = self.volumes.get(name)?;
        let volume = entry.view.clone()?;
        let info = self.context.provider.info();
        let driver = info.driver.as_ref()?;
        plan::is_open(&volume, driver).then_some(Question { entry, volume })
    }

    /// Adds what the PersistentVolume of a volume lacks. Returns when to ask again.
    async fn add_missing(&self, asked: &Question, found: &Volume) -> RetryWhen {
        let addition = plan::addition(&asked.volume, &found.topology);
        if addition.is_empty() {
            return RetryWhen::OnChange;
        }

        let name = asked.entry.name();
        match self.write(&asked.entry, addition).await {
            Ok(()) => {
                tracing::debug!(volume = name, "labels or node affinity added");
                RetryWhen::OnChange
            }
            Err(error) => {
                self.context.api_error(name, &error);
                RetryWhen::after_write(&error)
            }
        }
    }

    /// Writes to this version of a PersistentVolume, and to no other: someone else may have added
    /// something since.
    async fn write(&self, entry: &VolumeEntry, addition: Addition) -> Result<(), ApiError> {
        let mut body = json!({"metadata": {
            "uid": entry.uid(),
            "resourceVersion": entry.resource_version(),
            "labels": addition.labels,
        }});
        if let (Some(fields), Some(affinity)) = (body.as_object_mut(), addition.affinity) {
            fields.insert("spec".to_owned(), json!({"nodeAffinity": affinity}));
        }

        let target = Target {
            namespace: None,
            name: entry.name(),
            subresource: None,
        };
        patch::<PersistentVolume>(&self.client, &target, &Patch::Merge(body)).await?;
        Ok(())
    }

    /// Tells that the cloud says nothing about a volume. Returns when to ask again.
    fn follow_error(&self, asked: &Question, error: &CloudError) -> RetryWhen {
        self.context.cloud_error(asked.entry.name(), error);
        // What is temporary is no fault of the PersistentVolume.
        if retry::warns(error) && !retry::is_temporary(error) {
            let id = &asked.volume.id.0;
            let message =
                format!("Labels and node affinity of volume {id} cannot be added: {error}");
            self.context
                .warning(&asked.entry, reason::VOLUME_NOT_LABELED, message);
        }
        RetryWhen::after(error)
    }
}

#[async_trait]
impl Runner for VolumeLabelController {
    fn recheck(&self) {
        let all = self.volumes.list();
        let hand_made = all.iter().filter(|entry| entry.view.is_some());
        self.queue
            .add_all(hand_made.map(|entry| entry.key()), Priority::Change);
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let max = || self.context.provider.info().max_batch.min(BATCH);
        let sync = |names| self.sync(names, &shutdown);

        tokio::select! {
            () = self.volumes.run(self.client.clone()) => {}
            () = self.queue.run_batch_workers(WORKERS, &shutdown, max, sync) => {}
        }
    }
}

#[cfg(test)]
mod tests;
