//! The requests of the services Identity and Controller, from the check to the answer.

mod returned;

use std::{sync::Arc, time::Duration};

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

use self::returned::Returned;
use crate::{
    answer,
    batch::Batch,
    busy::{Busy, Object},
    failure::{Code, Failure, of_call},
    page::Page,
    patience::{ask_again, delay},
    proto, request,
};

/// The controller part of a CSI driver, on any provider.
pub struct Controller {
    provider: Arc<dyn CloudProvider>,
    /// Whether this replica is the leader.
    leads: watch::Receiver<bool>,
    busy: Busy,
    volumes: Returned,
    snapshots: Returned,
    /// Since when waiting requests count time.
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

impl Controller {
    /// Creates the controller part of the driver that the provider has. It serves while `leads` is
    /// true.
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
            volumes: Returned::default(),
            snapshots: Returned::default(),
            start: Instant::now(),
        }
    }

    /// Checks whether this replica is the leader.
    fn leading(&self) -> Result<(), Failure> {
        if *self.leads.borrow() {
            return Ok(());
        }
        let message = "this replica of Skydock does not lead";
        Err(Failure::unavailable(message))
    }

    /// Returns what the provider is, if this replica serves.
    fn serving(&self, needed: Capability) -> Result<Arc<ProviderInfo>, Failure> {
        self.leading()?;
        let info = self.provider.info();
        request::driver(&info)?;
        request::has(&info, needed)?;
        Ok(info)
    }

    /// Asks a question until the cloud is done, but at most for `left`.
    async fn settled<Q: Clone + Send + 'static, A: Send + 'static>(
        &self,
        batch: &Arc<Batch<Q, A>>,
        question: Q,
        object: Option<Object>,
        left: Duration,
    ) -> Result<A, Failure> {
        let begun = Instant::now();
        let end = begun + left;
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

            let after = delay(retry.after, begun.elapsed());
            let at = self.start + ask_again(self.start.elapsed(), after);
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
        let _ = leads.wait_for(|leads| !leads).await;
    }

    /// Waits until the plugin has answered everything that it was asked about a single object.
    pub async fn idle(&self) {
        self.busy.idle().await;
    }

    /// Returns name and version of the driver.
    ///
    /// # Errors
    /// If the plugin has none.
    pub fn plugin_info(&self) -> Result<proto::GetPluginInfoResponse, Failure> {
        let info = self.provider.info();
        let driver = request::driver(&info)?;
        Ok(proto::GetPluginInfoResponse {
            name: driver.name.clone(),
            vendor_version: info.version.clone(),
            manifest: Pairs::new(),
        })
    }

    /// Returns what the driver is.
    #[must_use]
    pub fn plugin_capabilities(&self) -> proto::GetPluginCapabilitiesResponse {
        proto::GetPluginCapabilitiesResponse {
            capabilities: answer::plugin_capabilities(&self.provider.info()),
        }
    }

    /// Returns whether this replica serves. The sidecars of one that does not lead wait for it.
    #[must_use]
    pub fn probe(&self) -> proto::ProbeResponse {
        proto::ProbeResponse {
            ready: Some(self.serving(Capability::Volumes).is_ok()),
        }
    }

    /// Returns what the controller service can do.
    #[must_use]
    pub fn capabilities(&self) -> proto::ControllerGetCapabilitiesResponse {
        proto::ControllerGetCapabilitiesResponse {
            capabilities: answer::controller_capabilities(&self.provider.info()),
        }
    }

    /// Creates a volume.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn create_volume(
        &self,
        request: proto::CreateVolumeRequest,
        left: Duration,
    ) -> Result<proto::CreateVolumeResponse, Failure> {
        let info = self.serving(Capability::Volumes)?;
        let source = request.volume_content_source.clone();
        let new = request::new_volume(request, &info)?;

        let name = new.name.clone();
        let object = Some(Object::NewVolume(name.clone()));
        let created = self
            .settled(&self.create_volumes, new, object, left)
            .await?;
        self.volumes.remember(&created.id.0, &name)?;
        Ok(proto::CreateVolumeResponse {
            volume: Some(answer::volume(&created, source)),
        })
    }

    /// Deletes a volume.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn delete_volume(
        &self,
        request: proto::DeleteVolumeRequest,
        left: Duration,
    ) -> Result<proto::DeleteVolumeResponse, Failure> {
        self.serving(Capability::Volumes)?;
        let id = request::deleted_volume(request)?;

        let object = Some(Object::Volume(id.clone()));
        self.settled(&self.delete_volumes, id.clone(), object, left)
            .await?;
        self.volumes.forget(&id.0);
        Ok(proto::DeleteVolumeResponse {})
    }

    /// Attaches a volume.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn publish_volume(
        &self,
        request: proto::ControllerPublishVolumeRequest,
        left: Duration,
    ) -> Result<proto::ControllerPublishVolumeResponse, Failure> {
        let info = self.serving(Capability::Attachments)?;
        let new = request::new_attachment(request, &info)?;

        let object = Some(Object::Volume(new.volume.clone()));
        let context = self
            .settled(&self.attach_volumes, new, object, left)
            .await?;
        Ok(proto::ControllerPublishVolumeResponse {
            publish_context: context,
        })
    }

    /// Detaches a volume.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn unpublish_volume(
        &self,
        request: proto::ControllerUnpublishVolumeRequest,
        left: Duration,
    ) -> Result<proto::ControllerUnpublishVolumeResponse, Failure> {
        self.serving(Capability::Attachments)?;
        let old = request::attachment(request)?;

        let object = Some(Object::Volume(old.volume.clone()));
        self.settled(&self.detach_volumes, old, object, left)
            .await?;
        Ok(proto::ControllerUnpublishVolumeResponse {})
    }

    /// Checks whether a volume can be used in some ways.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn validate_capabilities(
        &self,
        request: proto::ValidateVolumeCapabilitiesRequest,
        left: Duration,
    ) -> Result<proto::ValidateVolumeCapabilitiesResponse, Failure> {
        let info = self.serving(Capability::Volumes)?;
        let (id, fits) = request::validated(&request, &info)?;

        self.settled(&self.get_volumes, id, None, left).await?;
        if let Err(failure) = fits {
            return Ok(proto::ValidateVolumeCapabilitiesResponse {
                confirmed: None,
                message: failure.message,
            });
        }

        let confirmed = proto::validate_volume_capabilities_response::Confirmed {
            volume_context: request.volume_context,
            volume_capabilities: request.volume_capabilities,
            parameters: request.parameters,
            mutable_parameters: request.mutable_parameters,
        };
        Ok(proto::ValidateVolumeCapabilitiesResponse {
            confirmed: Some(confirmed),
            message: String::new(),
        })
    }

    /// Returns a volume.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn get_volume(
        &self,
        request: proto::ControllerGetVolumeRequest,
        left: Duration,
    ) -> Result<proto::ControllerGetVolumeResponse, Failure> {
        self.serving(Capability::Volumes)?;
        let id = request::volume(request)?;
        let found = self.settled(&self.get_volumes, id, None, left).await?;
        Ok(answer::volume_with_nodes(&found))
    }

    /// Lists volumes.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn list_volumes(
        &self,
        request: proto::ListVolumesRequest,
    ) -> Result<proto::ListVolumesResponse, Failure> {
        self.serving(Capability::Volumes)?;
        let page = Page::new(&request.starting_token, request.max_entries)?;

        let all = self.provider.list_volumes().await.map_err(of_call)?;
        let (entries, next_token) = page.of(all, volume_id, answer::volume_entry);
        Ok(proto::ListVolumesResponse {
            entries,
            next_token,
        })
    }

    /// Expands a volume.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn expand_volume(
        &self,
        request: proto::ControllerExpandVolumeRequest,
        left: Duration,
    ) -> Result<proto::ControllerExpandVolumeResponse, Failure> {
        self.serving(Capability::VolumeExpansion)?;
        let (expansion, is_block) = request::expansion(request)?;

        let size = expansion.size;
        let object = Some(Object::Volume(expansion.volume.clone()));
        let expanded = self.settled(&self.expand_volumes, expansion, object, left);
        let expanded = expanded.await?;
        if !size.contains(expanded) {
            // It was larger before: volumes never shrink.
            let message = format!("the volume has {expanded} bytes, more than limit_bytes");
            return Err(Failure::new(Code::OutOfRange, message));
        }
        Ok(proto::ControllerExpandVolumeResponse {
            capacity_bytes: answer::signed(expanded),
            // The file system has to grow, too.
            node_expansion_required: !is_block,
        })
    }

    /// Changes the properties of a volume.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn modify_volume(
        &self,
        request: proto::ControllerModifyVolumeRequest,
        left: Duration,
    ) -> Result<proto::ControllerModifyVolumeResponse, Failure> {
        self.serving(Capability::VolumeAttributes)?;
        let change = request::modification(request)?;

        let object = Some(Object::Volume(change.volume.clone()));
        self.settled(&self.modify_volumes, change, object, left)
            .await?;
        Ok(proto::ControllerModifyVolumeResponse {})
    }

    /// Measures the room for volumes.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn get_capacity(
        &self,
        request: proto::GetCapacityRequest,
        left: Duration,
    ) -> Result<proto::GetCapacityResponse, Failure> {
        let info = self.serving(Capability::StorageCapacity)?;
        let asked = request::capacity(request, &info)?;
        let capacity = self
            .settled(&self.get_capacities, asked, None, left)
            .await?;
        Ok(answer::capacity(capacity))
    }

    /// Creates a snapshot.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn create_snapshot(
        &self,
        request: proto::CreateSnapshotRequest,
        left: Duration,
    ) -> Result<proto::CreateSnapshotResponse, Failure> {
        self.serving(Capability::Snapshots)?;
        let new = request::new_snapshot(request)?;

        let name = new.name.clone();
        let object = Some(Object::NewSnapshot(name.clone()));
        let created = self.settled(&self.create_snapshots, new, object, left);
        let created = created.await.map_err(Failure::of_snapshot)?;
        self.snapshots.remember(&created.id.0, &name)?;
        Ok(proto::CreateSnapshotResponse {
            snapshot: Some(answer::snapshot(&created)),
        })
    }

    /// Deletes a snapshot.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn delete_snapshot(
        &self,
        request: proto::DeleteSnapshotRequest,
        left: Duration,
    ) -> Result<proto::DeleteSnapshotResponse, Failure> {
        self.serving(Capability::Snapshots)?;
        let id = request::deleted_snapshot(request)?;

        let object = Some(Object::Snapshot(id.clone()));
        self.settled(&self.delete_snapshots, id.clone(), object, left)
            .await?;
        self.snapshots.forget(&id.0);
        Ok(proto::DeleteSnapshotResponse {})
    }

    /// Lists snapshots. csi-snapshotter asks for one at a time, until it is ready: it is read
    /// together with others.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn list_snapshots(
        &self,
        request: proto::ListSnapshotsRequest,
        left: Duration,
    ) -> Result<proto::ListSnapshotsResponse, Failure> {
        self.serving(Capability::Snapshots)?;
        let page = Page::new(&request.starting_token, request.max_entries)?;
        let asked = request::snapshots(&request)?;

        let mut all = match asked.id {
            Some(id) => match self.settled(&self.get_snapshots, id, None, left).await {
                Ok(snapshot) => vec![snapshot],
                Err(failure) if failure.code == Code::NotFound => Vec::new(),
                Err(failure) => return Err(failure),
            },
            None => self.provider.list_snapshots().await.map_err(of_call)?,
        };
        if let Some(volume) = asked.of {
            all.retain(|it| it.volume == volume);
        }

        let (entries, next_token) = page.of(all, snapshot_id, answer::snapshot_entry);
        Ok(proto::ListSnapshotsResponse {
            entries,
            next_token,
        })
    }

    /// Returns a snapshot.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn get_snapshot(
        &self,
        request: proto::GetSnapshotRequest,
        left: Duration,
    ) -> Result<proto::GetSnapshotResponse, Failure> {
        self.serving(Capability::Snapshots)?;
        let id = request::snapshot(request)?;
        let found = self.settled(&self.get_snapshots, id, None, left).await?;
        Ok(proto::GetSnapshotResponse {
            snapshot: Some(answer::snapshot(&found)),
        })
    }
}

fn volume_id(volume: &Volume) -> &str {
    &volume.id.0
}

fn snapshot_id(snapshot: &Snapshot) -> &str {
    &snapshot.id.0
}

#[cfg(test)]
mod tests;
