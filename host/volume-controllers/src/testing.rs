//! A cloud with volumes, and what a controller is built from, for tests.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use skydock_cloud::{
    AccessMode, Answers, Attachment, Capability, CloudError, CloudProvider, CsiDriver, Expansion,
    Modification, NewAttachment, NewSnapshot, NewVolume, Pairs, ProviderInfo, Snapshot, SnapshotId,
    StorageError, Volume, VolumeId, VolumeSource,
};
use skydock_controller_base::{
    controller::{
        context::{ControllerContext, metrics::SharedMetrics},
        descriptor,
    },
    testing::{FakeApi, FakeCloud, context, pairs},
};
use skydock_csi::Controller;
use tokio::{sync::watch, time::sleep};

use crate::{Parts, VolumeObjects};

pub(crate) const DRIVER: &str = "disks.example";

/// A cloud that does what it is asked, but for what it is told.
#[derive(Default)]
pub(crate) struct Disks {
    calls: Mutex<Vec<String>>,
    /// Errors of the next questions about a volume, by its name or ID.
    errors: Mutex<BTreeMap<String, VecDeque<StorageError>>>,
    /// What is listed.
    pub(crate) listed: Mutex<Vec<Volume>>,
    /// Keys of the topology.
    pub(crate) topology: Mutex<Vec<String>>,
    /// Whether there are snapshots.
    pub(crate) snapshots: Mutex<bool>,
    /// Whether the next snapshot is not ready at once.
    pub(crate) slow: AtomicBool,
}

impl Disks {
    /// Returns the calls since the last time.
    pub(crate) fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock())
    }

    /// Makes the next question about a volume fail.
    pub(crate) fn fails(&self, name: &str, error: impl Into<StorageError>) {
        let mut errors = self.errors.lock();
        let of = errors.entry(name.to_owned()).or_default();
        of.push_back(error.into());
    }

    /// Answers each question of a call.
    fn answer<Q, A>(
        &self,
        call: &str,
        questions: &[Q],
        answer: impl Fn(&Q) -> (String, A),
    ) -> Answers<A, StorageError> {
        let answers = questions.iter().map(|question| {
            let (about, answer) = answer(question);
            self.calls.lock().push(format!("{call} {about}"));
            let name = about.split(' ').next().unwrap_or_default();
            let mut errors = self.errors.lock();
            match errors.get_mut(name).and_then(VecDeque::pop_front) {
                Some(error) => Err(error),
                None => Ok(answer),
            }
        });
        answers.collect()
    }
}

fn snapshot(id: &str) -> Snapshot {
    Snapshot {
        id: SnapshotId(id.to_owned()),
        volume: VolumeId("vol-1".to_owned()),
        bytes: 1 << 30,
        created: Duration::from_secs(7),
        ready: true,
    }
}

#[async_trait]
impl CloudProvider for Disks {
    fn info(&self) -> Arc<ProviderInfo> {
        let snapshots = (*self.snapshots.lock()).then_some(Capability::Snapshots);
        let always = [
            Capability::Volumes,
            Capability::Attachments,
            Capability::VolumeExpansion,
            Capability::VolumeAttributes,
        ];
        Arc::new(ProviderInfo {
            name: "disks".into(),
            version: "1".into(),
            capabilities: always.into_iter().chain(snapshots).collect(),
            provider_id_prefixes: Vec::new(),
            annotation_prefixes: Vec::new(),
            max_batch: 10,
            driver: Some(CsiDriver {
                name: DRIVER.into(),
                topology_keys: self.topology.lock().clone(),
                access_modes: vec![AccessMode::SingleNodeWriter],
                clones: false,
            }),
        })
    }

    async fn list_volumes(&self) -> Result<Vec<Volume>, CloudError> {
        Ok(self.listed.lock().clone())
    }

    async fn create_volumes(
        &self,
        volumes: &[NewVolume],
    ) -> Result<Answers<Volume, StorageError>, CloudError> {
        Ok(self.answer("create", volumes, |it| {
            let mut about = it.name.clone();
            if let Some(VolumeSource::Snapshot(id)) = &it.source {
                about = format!("{about} from {}", id.0);
            }
            let parts: Vec<_> = it.preferred.iter().take(1).cloned().collect();
            for value in parts.iter().flat_map(Pairs::values) {
                about = format!("{about} in {value}");
            }
            let volume = Volume {
                id: VolumeId(format!("vol-of-{}", it.name)),
                bytes: it.size.bytes,
                topology: parts,
                context: pairs(&[]),
                nodes: Vec::new(),
            };
            (about, volume)
        }))
    }

    async fn delete_volumes(
        &self,
        ids: &[VolumeId],
    ) -> Result<Answers<(), StorageError>, CloudError> {
        Ok(self.answer("delete", ids, |it| (it.0.clone(), ())))
    }

    async fn expand_volumes(
        &self,
        expansions: &[Expansion],
    ) -> Result<Answers<u64, StorageError>, CloudError> {
        Ok(self.answer("expand", expansions, |it| {
            (
                format!("{} to {}", it.volume.0, it.size.bytes),
                it.size.bytes,
            )
        }))
    }

    async fn modify_volumes(
        &self,
        modifications: &[Modification],
    ) -> Result<Answers<(), StorageError>, CloudError> {
        Ok(self.answer("modify", modifications, |it| {
            let attributes: Vec<_> = it.attributes.values().map(String::as_str).collect();
            (format!("{} to {}", it.volume.0, attributes.join(",")), ())
        }))
    }

    async fn create_snapshots(
        &self,
        snapshots: &[NewSnapshot],
    ) -> Result<Answers<Snapshot, StorageError>, CloudError> {
        Ok(self.answer("snapshot", snapshots, |it| {
            let mut made = snapshot(&format!("snap-of-{}", it.name));
            made.ready = !self.slow.swap(false, Ordering::SeqCst);
            (format!("{} of {}", it.name, it.volume.0), made)
        }))
    }

    async fn get_snapshots(
        &self,
        ids: &[SnapshotId],
    ) -> Result<Answers<Snapshot, StorageError>, CloudError> {
        Ok(self.answer("look for", ids, |it| (it.0.clone(), snapshot(&it.0))))
    }

    async fn delete_snapshots(
        &self,
        ids: &[SnapshotId],
    ) -> Result<Answers<(), StorageError>, CloudError> {
        Ok(self.answer("drop", ids, |it| (it.0.clone(), ())))
    }

    async fn attach_volumes(
        &self,
        attachments: &[NewAttachment],
    ) -> Result<Answers<Pairs, StorageError>, CloudError> {
        Ok(self.answer("attach", attachments, |it| {
            let about = format!("{} {}", it.volume.0, it.node);
            (about, pairs(&[("DevicePath", "/dev/vdb")]))
        }))
    }

    async fn detach_volumes(
        &self,
        attachments: &[Attachment],
    ) -> Result<Answers<(), StorageError>, CloudError> {
        Ok(self.answer("detach", attachments, |it| {
            let node = it.node.as_deref().unwrap_or("everywhere");
            (format!("{} {node}", it.volume.0), ())
        }))
    }
}

/// What surrounds a controller.
pub(crate) struct Bench {
    pub(crate) api: FakeApi,
    pub(crate) disks: Arc<Disks>,
    pub(crate) objects: Arc<VolumeObjects>,
    leads: watch::Sender<bool>,
}

impl Default for Bench {
    fn default() -> Self {
        let objects = Arc::<VolumeObjects>::default();
        objects.volumes.complete();
        objects.claims.complete();
        objects.classes.complete();
        objects.attachments.complete();
        objects.csi_nodes.complete();
        Self {
            api: FakeApi::default(),
            disks: Arc::default(),
            objects,
            leads: watch::Sender::new(true),
        }
    }
}

impl Bench {
    /// Returns what a controller is built from.
    pub(crate) fn parts(&self, controller: descriptor::Controller) -> Parts {
        let metrics = SharedMetrics::register(&mut Registry::default());
        let cloud = Arc::new(FakeCloud::default());
        let context = ControllerContext {
            provider: self.disks.clone(),
            ..context(controller, &self.api, cloud, &metrics)
        };
        let leads = self.leads.subscribe();
        Parts {
            context,
            client: self.api.client(),
            driver: Arc::new(Controller::new(self.disks.clone(), leads)),
            objects: Arc::clone(&self.objects),
        }
    }
}

pub(crate) async fn wait(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}
