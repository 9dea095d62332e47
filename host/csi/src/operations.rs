//! Operations on volumes and snapshots, from the question to the final answer of the plugin, for
//! the requests of sidecars and for the controllers that replace sidecars.
//!
//! They are shared by both, so that only one works on an object at a time, and that all that ask at
//! the same time ask together.

use std::{future::pending, sync::Arc, time::Duration};

use futures::FutureExt as _;
use skydock_cloud::{
    Attachment, Capability, Capacity, CapacityRequest, CloudError, CloudProvider, Expansion,
    Modification, NewAttachment, NewSnapshot, NewVolume, Pairs, ProviderInfo, Snapshot, SnapshotId,
    StorageError, Volume, VolumeId,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout_at},
};

use crate::{
    batch::Batch,
    busy::{Busy, Object},
    failure::{Code, Failure},
    patience::ask_again,
    request,
};

/// Operations on the volumes and snapshots of any provider. Each takes the time that it may wait for
/// the cloud.
pub struct Operations {
    provider: Arc<dyn CloudProvider>,
    /// Whether this replica is the leader.
    leads: watch::Receiver<bool>,
    busy: Busy,
    /// Since when waiting operations count time.
    start: Instant,
    create_volumes: Arc<Batch<NewVolume, Volume>>,
    get_volumes: Arc<Batch<VolumeId, Volume>>,
    delete_volumes: Arc<Batch<VolumeId, ()>>,
    attach_volumes: Arc<Batch<NewAttachment, Pairs>>,
    detach_volumes: Arc<Batch<Attachment, ()>>,
    expand_volumes: Arc<Batch<Expansion, u64>>,
    modify_volumes: Arc<Batch<Modification, ()>>,
    create_snapshots: Arc<Batch<NewSnapshot, Snapshot>>,
    get_snapshots: Arc<Batch<SnapshotId, Snapshot>>,
    delete_snapshots: Arc<Batch<SnapshotId, ()>>,
    get_capacities: Arc<Batch<CapacityRequest, Capacity>>,
}

/// Returns a batch of the questions for a function of the provider.
macro_rules! batch {
    ($provider:ident.$function:ident) => {{
        let (asked, provider) = (Arc::clone(&$provider), Arc::clone(&$provider));
        Batch::new(
            move || asked.info().max_batch,
            move |questions| {
                let provider = Arc::clone(&provider);
                async move { provider.$function(&questions).await }.boxed()
            },
        )
    }};
}

impl Operations {
    /// Creates the operations of a provider. They are possible while `leads` is true.
    #[must_use]
    pub fn new(provider: Arc<dyn CloudProvider>, leads: watch::Receiver<bool>) -> Self {
        Self {
            create_volumes: batch!(provider.create_volumes),
            get_volumes: batch!(provider.get_volumes),
            delete_volumes: batch!(provider.delete_volumes),
            attach_volumes: batch!(provider.attach_volumes),
            detach_volumes: batch!(provider.detach_volumes),
            expand_volumes: batch!(provider.expand_volumes),
            modify_volumes: batch!(provider.modify_volumes),
            create_snapshots: batch!(provider.create_snapshots),
            get_snapshots: batch!(provider.get_snapshots),
            delete_snapshots: batch!(provider.delete_snapshots),
            get_capacities: batch!(provider.get_capacities),
            provider,
            leads,
            busy: Busy::default(),
            start: Instant::now(),
        }
    }

    /// Returns what the provider is.
    pub(crate) fn info(&self) -> Arc<ProviderInfo> {
        self.provider.info()
    }

    /// Returns what the provider is, if this replica serves.
    pub(crate) fn serving(&self, needed: Capability) -> Result<Arc<ProviderInfo>, Failure> {
        self.leading()?;
        let info = self.info();
        request::driver(&info)?;
        request::has(&info, needed)?;
        Ok(info)
    }

    /// Checks whether this replica is the leader.
    fn leading(&self) -> Result<(), Failure> {
        if *self.leads.borrow() {
            return Ok(());
        }
        let message = "this replica of Skydock does not lead";
        Err(Failure::unavailable(message))
    }

    /// Asks a question until the cloud is done, but at most for `left`.
    async fn settled<Q: Clone + Send + 'static, A: Send + 'static>(
        &self,
        batch: &Arc<Batch<Q, A>>,
        question: Q,
        object: Option<Object>,
        left: Duration,
    ) -> Result<A, Failure> {
        let end = Instant::now() + left;
        let operation = object.map(|it| self.busy.begin(it)).transpose()?;
        let operation = operation.map(Arc::new);
        // Again: if this replica has ceased to lead before the operation began, nobody waits for it.
        self.leading()?;

        loop {
            let asked = batch.ask(question.clone(), operation.clone());
            let Ok(answer) = timeout_at(end, asked).await else {
                let message = "the plugin has not answered in time";
                return Err(Failure::new(Code::Aborted, message));
            };

            let error = match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let StorageError::Cloud(CloudError::InProgress(retry)) = &error else {
                return Err(error.into());
            };

            let at = self.start + ask_again(self.start.elapsed(), retry.after);
            if at >= end {
                return Err(error.into());
            }
            tokio::select! {
                () = sleep_until(at) => {}
                // The next leader is asked instead.
                () = self.leads_no_more() => return Err(error.into()),
            }
        }
    }

    async fn leads_no_more(&self) {
        let mut leads = self.leads.clone();
        if leads.wait_for(|leads| !leads).await.is_err() {
            // Nobody is left who could change it.
            pending::<()>().await;
        }
    }

    /// Waits until the plugin has answered everything that it was asked about a single object.
    pub async fn idle(&self) {
        self.busy.idle().await;
    }

    /// Creates a volume.
    pub(crate) async fn create_volume(
        &self,
        new: NewVolume,
        left: Duration,
    ) -> Result<Volume, Failure> {
        let object = Some(Object::NewVolume(new.name.clone()));
        self.settled(&self.create_volumes, new, object, left).await
    }

    /// Returns a volume.
    pub(crate) async fn get_volume(&self, id: VolumeId, left: Duration) -> Result<Volume, Failure> {
        self.settled(&self.get_volumes, id, None, left).await
    }

    /// Deletes a volume.
    pub(crate) async fn delete_volume(&self, id: VolumeId, left: Duration) -> Result<(), Failure> {
        let object = Some(Object::Volume(id.clone()));
        self.settled(&self.delete_volumes, id, object, left).await
    }

    /// Attaches a volume. Returns what the node part of the driver has to know.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn attach(&self, new: NewAttachment, left: Duration) -> Result<Pairs, Failure> {
        let object = Some(Object::Volume(new.volume.clone()));
        self.settled(&self.attach_volumes, new, object, left).await
    }

    /// Detaches a volume.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn detach(&self, old: Attachment, left: Duration) -> Result<(), Failure> {
        let object = Some(Object::Volume(old.volume.clone()));
        self.settled(&self.detach_volumes, old, object, left).await
    }

    /// Expands a volume. Returns its size.
    pub(crate) async fn expand(
        &self,
        expansion: Expansion,
        left: Duration,
    ) -> Result<u64, Failure> {
        let object = Some(Object::Volume(expansion.volume.clone()));
        let batch = &self.expand_volumes;
        self.settled(batch, expansion, object, left).await
    }

    /// Changes the properties of a volume.
    pub(crate) async fn modify(&self, change: Modification, left: Duration) -> Result<(), Failure> {
        let object = Some(Object::Volume(change.volume.clone()));
        let batch = &self.modify_volumes;
        self.settled(batch, change, object, left).await
    }

    /// Lists all volumes.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn list_volumes(&self) -> Result<Vec<Volume>, Failure> {
        self.leading()?;
        Ok(self.provider.list_volumes().await?)
    }

    /// Creates a snapshot.
    pub(crate) async fn create_snapshot(
        &self,
        new: NewSnapshot,
        left: Duration,
    ) -> Result<Snapshot, Failure> {
        let object = Some(Object::NewSnapshot(new.name.clone()));
        let batch = &self.create_snapshots;
        self.settled(batch, new, object, left).await
    }

    /// Returns a snapshot.
    pub(crate) async fn get_snapshot(
        &self,
        id: SnapshotId,
        left: Duration,
    ) -> Result<Snapshot, Failure> {
        self.settled(&self.get_snapshots, id, None, left).await
    }

    /// Deletes a snapshot.
    pub(crate) async fn delete_snapshot(
        &self,
        id: SnapshotId,
        left: Duration,
    ) -> Result<(), Failure> {
        let object = Some(Object::Snapshot(id.clone()));
        let batch = &self.delete_snapshots;
        self.settled(batch, id, object, left).await
    }

    /// Lists all snapshots.
    pub(crate) async fn list_snapshots(&self) -> Result<Vec<Snapshot>, Failure> {
        self.leading()?;
        Ok(self.provider.list_snapshots().await?)
    }

    /// Measures the room for volumes.
    pub(crate) async fn get_capacity(
        &self,
        asked: CapacityRequest,
        left: Duration,
    ) -> Result<Capacity, Failure> {
        self.settled(&self.get_capacities, asked, None, left).await
    }
}
