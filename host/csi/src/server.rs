//! The socket and gRPC: everything else is in [`Controller`].

use std::{
    fs, io,
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures::stream;
use tokio::net::UnixListener;
use tonic::{Request, Response, Status, async_trait, transport::Server};

use crate::{
    Controller, Failure,
    patience::time_left,
    proto::{self, controller_server::ControllerServer, identity_server::IdentityServer},
};

/// Who may connect: the sidecars, which run as the same user.
const MODE: u32 = 0o600;

/// Why the socket does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// It cannot be created.
    #[error("cannot listen on {}: {source}", path.display())]
    Bind {
        /// Path of the socket.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// It ended.
    #[error("the CSI socket failed: {0}")]
    Transport(#[from] tonic::transport::Error),
}

/// Serves Identity and Controller on a unix socket, until `stop`.
///
/// # Errors
/// [`ServeError`].
pub async fn serve(
    path: &Path,
    controller: Arc<Controller>,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let bound = bind(path);
    let listener = bound.map_err(|source| ServeError::Bind {
        path: path.to_owned(),
        source,
    })?;
    let incoming = stream::unfold(listener, |listener| async move {
        let accepted = listener.accept().await.map(|(socket, _)| socket);
        Some((accepted, listener))
    });

    let edge = Edge(controller);
    Server::builder()
        .add_service(IdentityServer::new(edge.clone()))
        .add_service(ControllerServer::new(edge))
        .serve_with_incoming_shutdown(Box::pin(incoming), stop)
        .await?;
    Ok(())
}

/// Listens on a socket that only this user can connect to. One that is left of an earlier process is
/// removed.
fn bind(path: &Path) -> io::Result<UnixListener> {
    // Nothing else, if the path is a mistake.
    if fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket()) {
        fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
    Ok(listener)
}

/// gRPC's side of the controller.
#[derive(Clone)]
struct Edge(Arc<Controller>);

/// Takes a request apart: what it asks for, and the time that it has.
fn parts<T>(request: Request<T>) -> (T, Duration) {
    let header = request.metadata().get("grpc-timeout");
    let left = time_left(header.and_then(|it| it.to_str().ok()));
    (request.into_inner(), left)
}

fn answer<T>(answer: Result<T, Failure>) -> Result<Response<T>, Status> {
    let failed = |it: Failure| Status::new(tonic::Code::from(it.code as i32), it.message);
    answer.map(Response::new).map_err(failed)
}

#[async_trait]
impl proto::identity_server::Identity for Edge {
    async fn get_plugin_info(
        &self,
        _: Request<proto::GetPluginInfoRequest>,
    ) -> Result<Response<proto::GetPluginInfoResponse>, Status> {
        answer(self.0.plugin_info())
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<proto::GetPluginCapabilitiesRequest>,
    ) -> Result<Response<proto::GetPluginCapabilitiesResponse>, Status> {
        Ok(Response::new(self.0.plugin_capabilities()))
    }

    async fn probe(
        &self,
        _: Request<proto::ProbeRequest>,
    ) -> Result<Response<proto::ProbeResponse>, Status> {
        Ok(Response::new(self.0.probe()))
    }
}

#[async_trait]
impl proto::controller_server::Controller for Edge {
    async fn create_volume(
        &self,
        request: Request<proto::CreateVolumeRequest>,
    ) -> Result<Response<proto::CreateVolumeResponse>, Status> {
        let (request, left) = parts(request);
        answer(self.0.create_volume(request, left).await)
    }

    async fn delete_volume(
        &self,
        request: Request<proto::DeleteVolumeRequest>,
    ) -> Result<Response<proto::DeleteVolumeResponse>, Status> {
        let (request, left) = parts(request);
        answer(self.0.delete_volume(request, left).await)
    }

    async fn controller_publish_volume(
        &self,
        request: Request<proto::ControllerPublishVolumeRequest>,
    ) -> Result<Response<proto::ControllerPublishVolumeResponse>, Status> {
        let (request, left) = parts(request);
        answer(self.0.publish_volume(request, left).await)
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<proto::ControllerUnpublishVolumeRequest>,
    ) -> Result<Response<proto::ControllerUnpublishVolumeResponse>, Status> {
        let (request, left) = parts(request);
        answer(self.0.unpublish_volume(request, left).await)
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<proto::ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<proto::ValidateVolumeCapabilitiesResponse>, Status> {
        let (request, left) = parts(request);
        answer(self.0.validate_capabilities(request, left).await)
    }

    async fn list_volumes(
        &self,
        request: Request<proto::ListVolumesRequest>,
    ) -> Result<Response<proto::ListVolumesResponse>, Status> {
        answer(self.0.list_volumes(request.into_inner()).await)
    }

    async fn controller_list_volume_health(
        &self,
        _: Request<proto::ControllerListVolumeHealthRequest>,
    ) -> Result<Response<proto::ControllerListVolumeHealthResponse>, Status> {
        Err(Status::unimplemented("the health of volumes is not known"))
    }

    async fn controller_get_volume_health(
        &self,
        _: Request<proto::ControllerGetVolumeHealthRequest>,
    ) -> Result<Response<proto::ControllerGetVolumeHealthResponse>, Status> {
        Err(Status::unimplemented("the health of volumes is not known"))
    }

    async fn get_capacity(
        &self,
        request: Request<proto::GetCapacityRequest>,
    ) -> Result<Response<proto::GetCapacityResponse>, Status> {
        let (request, left) = parts(request);
        answer(self.0.get_capacity(request, left).await)
    }

    async fn controller_get_capabilities(
        &self,
        _: Request<proto::ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<proto::ControllerGetCapabilitiesResponse>, Status> {
        Ok(Response::new(self.0.capabilities()))
    }

    async fn create_snapshot(
        &self,
        request: Request<proto::CreateSnapshotRequest>,
    ) -> Result<Response<proto::CreateSnapshotResponse>, Status> {
        let (request, left) = parts(request);
        answer(self.0.create_snapshot(request, left).await)
    }

    async fn delete_snapshot(
        &self,
        request: Request<proto::DeleteSnapshotRequest>,
    ) -> Result<Response<proto::DeleteSnapshotResponse>, Status> {
        let (request, left) = parts(request);
        answer(self.0.delete_snapshot(request, left).await)
    }

    async fn list_snapshots(
        &self,
        request: Request<proto::ListSnapshotsRequest>,
    ) -> Result<Response<proto::ListSnapshotsResponse>, Status> {
        let (request, left) = parts(request);
        answer(self.0.list_snapshots(request, left).await)
    }

    async fn get_snapshot(
        &self,
        request: Request<proto::GetSnapshotRequest>,
    ) -> Result<Response<proto::GetSnapshotResponse>, Status> {
        let (request, left) = parts(request);
        answer(self.0.get_snapshot(request, left).await)
    }

    async fn controller_expand_volume(
        &self,
        request: Request<proto::ControllerExpandVolumeRequest>,
    ) -> Result<Response<proto::ControllerExpandVolumeResponse>, Status> {
        let (request, left) = parts(request);
        answer(self.0.expand_volume(request, left).await)
    }

    async fn controller_get_volume(
        &self,
        request: Request<proto::ControllerGetVolumeRequest>,
    ) -> Result<Response<proto::ControllerGetVolumeResponse>, Status> {
        let (request, left) = parts(request);
        answer(self.0.get_volume(request, left).await)
    }

    async fn controller_modify_volume(
        &self,
        request: Request<proto::ControllerModifyVolumeRequest>,
    ) -> Result<Response<proto::ControllerModifyVolumeResponse>, Status> {
        let (request, left) = parts(request);
        answer(self.0.modify_volume(request, left).await)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Code;

    #[test]
    fn a_failure_has_the_number_of_its_code() {
        for (code, expected) in [
            (Code::InvalidArgument, tonic::Code::InvalidArgument),
            (Code::NotFound, tonic::Code::NotFound),
            (Code::AlreadyExists, tonic::Code::AlreadyExists),
            (Code::ResourceExhausted, tonic::Code::ResourceExhausted),
            (Code::FailedPrecondition, tonic::Code::FailedPrecondition),
            (Code::Aborted, tonic::Code::Aborted),
            (Code::OutOfRange, tonic::Code::OutOfRange),
            (Code::Unimplemented, tonic::Code::Unimplemented),
            (Code::Unavailable, tonic::Code::Unavailable),
        ] {
            let status = answer::<()>(Err(Failure::new(code, "why"))).unwrap_err();
            assert_eq!((status.code(), status.message()), (expected, "why"));
        }
    }

    #[test]
    fn a_request_has_the_time_of_its_header() {
        let mut request = Request::new(());
        let value = "10S".parse().unwrap();
        request.metadata_mut().insert("grpc-timeout", value);
        assert_eq!(parts(request).1, Duration::from_millis(9_700));
    }

    #[tokio::test]
    async fn a_socket_is_for_this_user_and_replaces_an_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("csi.sock");
        for _ in 0..2 {
            let listener = bind(&path).unwrap();
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, MODE);
            drop(listener);
        }

        let file = folder.path().join("file");
        fs::write(&file, "kept").unwrap();
        assert!(bind(&file).is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
    }
}
