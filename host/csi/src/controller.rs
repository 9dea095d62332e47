//! The requests of the services Identity and Controller, from the check to the answer.

use std::{sync::Arc, time::Duration};

use skydock_cloud::{Capability, Pairs, ProviderInfo, Snapshot, Volume};

use crate::{
    answer,
    failure::{Code, Failure},
    operations::Operations,
    page::page,
    proto,
    request::{self, Snapshots},
};

/// The controller part of a CSI driver, on any provider.
pub struct Controller {
    operations: Arc<Operations>,
}

impl Controller {
    /// Creates the controller part of the driver that the provider of the operations has.
    #[must_use]
    pub fn new(operations: Arc<Operations>) -> Self {
        Self { operations }
    }

    /// Returns what the provider is, if this replica serves.
    fn serving(&self, needed: Capability) -> Result<Arc<ProviderInfo>, Failure> {
        self.operations.serving(needed)
    }

    /// Returns name and version of the driver.
    ///
    /// # Errors
    /// If the plugin has none.
    pub fn plugin_info(&self) -> Result<proto::GetPluginInfoResponse, Failure> {
        let info = self.operations.info();
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
            capabilities: answer::plugin_capabilities(&self.operations.info()),
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
            capabilities: answer::controller_capabilities(&self.operations.info()),
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

        let created = self.operations.create_volume(new, left).await?;
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
        self.operations.delete_volume(id, left).await?;
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
        let context = self.operations.attach(new, left).await?;
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
        self.operations.detach(old, left).await?;
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

        self.operations.get_volume(id, left).await?;
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
        let found = self.operations.get_volume(id, left).await?;
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
        let all = self.operations.list_volumes().await?;

        let (entries, next_token) = page(
            all,
            volume_id,
            &request.starting_token,
            request.max_entries,
            answer::volume_entry,
        )?;
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
        let expanded = self.operations.expand(expansion, left).await?;
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
        self.operations.modify(change, left).await?;
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
        let capacity = self.operations.get_capacity(asked, left).await?;
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
        let created = self.operations.create_snapshot(new, left).await?;
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
        self.operations.delete_snapshot(id, left).await?;
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
        let all = match request::snapshots(&request)? {
            Snapshots::One(id) => match self.operations.get_snapshot(id, left).await {
                Ok(snapshot) => vec![snapshot],
                Err(failure) if failure.code == Code::NotFound => Vec::new(),
                Err(failure) => return Err(failure),
            },
            Snapshots::Of(volume) => {
                let mut all = self.operations.list_snapshots().await?;
                all.retain(|it| it.volume == volume);
                all
            }
            Snapshots::All => self.operations.list_snapshots().await?,
        };

        let (entries, next_token) = page(
            all,
            snapshot_id,
            &request.starting_token,
            request.max_entries,
            answer::snapshot_entry,
        )?;
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
        let found = self.operations.get_snapshot(id, left).await?;
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
