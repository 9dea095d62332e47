//! The socket and gRPC: everything else is in [`Controller`].

mod connection;

use std::{
    fs,
    future::pending,
    io,
    os::unix::fs::{FileTypeExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures::stream;
use tokio::{
    net::{UnixListener, UnixSocket},
    sync::Semaphore,
    time::{Instant, sleep},
};
use tonic::{Request, Response, Status, async_trait, transport::Server};

use self::connection::Connection;
use crate::{
    Controller, CsiMetrics, Failure,
    patience::time_left,
    proto::{self, controller_server::ControllerServer, identity_server::IdentityServer},
};

/// Who may connect: the sidecars, which run as the same user.
const MODE: u32 = 0o600;

/// Maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 128;

/// Maximum number of connections; more wait. There are four sidecars, with one or two each.
const MAX_CONNECTIONS: usize = 16;

/// Maximum number of requests in progress on a connection; more wait. The sidecars have up to 100
/// workers, and csi-provisioner has them twice: for claims, and for volumes to delete.
const MAX_REQUESTS: u32 = 256;

/// Maximum number of requests in progress on all connections; more are answered at once with an error
/// after which sidecars retry.
const MAX_REQUESTS_OF_ALL: usize = 1024;

/// Maximum bytes of a request. CSI has 4 KiB for each map, and only a list of topologies is longer.
const MAX_MESSAGE: usize = 256 << 10;

/// How long to wait after a connection cannot be accepted, for example because of too many open files.
const PAUSE: Duration = Duration::from_millis(100);

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

/// A socket for the sidecars.
#[derive(Debug)]
pub struct Socket(UnixListener);

/// Creates the socket.
///
/// # Errors
/// [`ServeError::Bind`].
pub fn listen(path: &Path) -> Result<Socket, ServeError> {
    let bound = bind(path).map(Socket);
    bound.map_err(|source| ServeError::Bind {
        path: path.to_owned(),
        source,
    })
}

/// Serves Identity and Controller, until `stop`.
///
/// # Errors
/// [`ServeError::Transport`].
pub async fn serve(
    socket: Socket,
    controller: Arc<Controller>,
    metrics: CsiMetrics,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let incoming = stream::unfold((socket.0, places), |(listener, places)| async move {
        let accepted = accept(&listener, &places).await;
        Some((io::Result::Ok(accepted), (listener, places)))
    });

    let edge = Edge {
        controller,
        metrics,
        places: Arc::new(Semaphore::new(MAX_REQUESTS_OF_ALL)),
    };
    let identity = IdentityServer::new(edge.clone()).max_decoding_message_size(MAX_MESSAGE);
    let controller = ControllerServer::new(edge).max_decoding_message_size(MAX_MESSAGE);
    Server::builder()
        .max_concurrent_streams(MAX_REQUESTS)
        .add_service(identity)
        .add_service(controller)
        .serve_with_incoming_shutdown(Box::pin(incoming), stop)
        .await?;
    Ok(())
}

/// Returns the next connection, as soon as there is a place for it.
async fn accept(listener: &UnixListener, places: &Arc<Semaphore>) -> Connection {
    let Ok(place) = Arc::clone(places).acquire_owned().await else {
        // The semaphore is never closed.
        return pending().await;
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                return Connection {
                    stream,
                    _place: place,
                };
            }
            Err(error) => {
                tracing::debug!("cannot accept a connection of a CSI sidecar: {error}");
                sleep(PAUSE).await;
            }
        }
    }
}

/// Listens on a socket that only this user can connect to. One that is left of an earlier process is
/// removed.
fn bind(path: &Path) -> io::Result<UnixListener> {
    // Nothing else, if the path is a mistake.
    if fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket()) {
        fs::remove_file(path)?;
    }
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    // Until it listens, nobody can connect.
    fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
    socket.listen(BACKLOG)
}

/// gRPC's side of the controller.
#[derive(Clone)]
struct Edge {
    controller: Arc<Controller>,
    metrics: CsiMetrics,
    /// Those of requests in progress.
    places: Arc<Semaphore>,
}

impl Edge {
    /// Answers a request, if there are not too many, and counts it.
    async fn answer<T>(
        &self,
        method: &'static str,
        answer: impl Future<Output = Result<T, Failure>>,
    ) -> Result<Response<T>, Status> {
        let begun = Instant::now();
        let answer = match self.places.try_acquire() {
            Ok(_place) => answer.await,
            Err(_) => Err(Failure::unavailable("too many requests at the same time")),
        };

        let code = match &answer {
            Ok(_) => "OK".to_owned(),
            Err(failure) => format!("{:?}", failure.code),
        };
        if let Err(failure) = &answer {
            tracing::debug!(method, code, "a CSI request failed: {failure}");
        }
        self.metrics.answered(method, code, begun.elapsed());
        answer.map(Response::new).map_err(status)
    }
}

/// Takes a request apart: what it asks for, and the time that it has.
fn parts<T>(request: Request<T>) -> (T, Duration) {
    let header = request.metadata().get("grpc-timeout");
    let left = time_left(header.and_then(|it| it.to_str().ok()));
    (request.into_inner(), left)
}

fn status(failure: Failure) -> Status {
    Status::new(tonic::Code::from(failure.code as i32), failure.message)
}

#[async_trait]
impl proto::identity_server::Identity for Edge {
    async fn get_plugin_info(
        &self,
        _: Request<proto::GetPluginInfoRequest>,
    ) -> Result<Response<proto::GetPluginInfoResponse>, Status> {
        self.controller
            .plugin_info()
            .map(Response::new)
            .map_err(status)
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<proto::GetPluginCapabilitiesRequest>,
    ) -> Result<Response<proto::GetPluginCapabilitiesResponse>, Status> {
        Ok(Response::new(self.controller.plugin_capabilities()))
    }

    async fn probe(
        &self,
        _: Request<proto::ProbeRequest>,
    ) -> Result<Response<proto::ProbeResponse>, Status> {
        Ok(Response::new(self.controller.probe()))
    }
}

#[async_trait]
impl proto::controller_server::Controller for Edge {
    async fn create_volume(
        &self,
        request: Request<proto::CreateVolumeRequest>,
    ) -> Result<Response<proto::CreateVolumeResponse>, Status> {
        let (request, left) = parts(request);
        let answer = self.controller.create_volume(request, left);
        self.answer("CreateVolume", answer).await
    }

    async fn delete_volume(
        &self,
        request: Request<proto::DeleteVolumeRequest>,
    ) -> Result<Response<proto::DeleteVolumeResponse>, Status> {
        let (request, left) = parts(request);
        let answer = self.controller.delete_volume(request, left);
        self.answer("DeleteVolume", answer).await
    }

    async fn controller_publish_volume(
        &self,
        request: Request<proto::ControllerPublishVolumeRequest>,
    ) -> Result<Response<proto::ControllerPublishVolumeResponse>, Status> {
        let (request, left) = parts(request);
        let answer = self.controller.publish_volume(request, left);
        self.answer("ControllerPublishVolume", answer).await
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<proto::ControllerUnpublishVolumeRequest>,
    ) -> Result<Response<proto::ControllerUnpublishVolumeResponse>, Status> {
        let (request, left) = parts(request);
        let answer = self.controller.unpublish_volume(request, left);
        self.answer("ControllerUnpublishVolume", answer).await
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<proto::ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<proto::ValidateVolumeCapabilitiesResponse>, Status> {
        let (request, left) = parts(request);
        let answer = self.controller.validate_capabilities(request, left);
        self.answer("ValidateVolumeCapabilities", answer).await
    }

    async fn list_volumes(
        &self,
        request: Request<proto::ListVolumesRequest>,
    ) -> Result<Response<proto::ListVolumesResponse>, Status> {
        let answer = self.controller.list_volumes(request.into_inner());
        self.answer("ListVolumes", answer).await
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
        let answer = self.controller.get_capacity(request, left);
        self.answer("GetCapacity", answer).await
    }

    async fn controller_get_capabilities(
        &self,
        _: Request<proto::ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<proto::ControllerGetCapabilitiesResponse>, Status> {
        Ok(Response::new(self.controller.capabilities()))
    }

    async fn create_snapshot(
        &self,
        request: Request<proto::CreateSnapshotRequest>,
    ) -> Result<Response<proto::CreateSnapshotResponse>, Status> {
        let (request, left) = parts(request);
        let answer = self.controller.create_snapshot(request, left);
        self.answer("CreateSnapshot", answer).await
    }

    async fn delete_snapshot(
        &self,
        request: Request<proto::DeleteSnapshotRequest>,
    ) -> Result<Response<proto::DeleteSnapshotResponse>, Status> {
        let (request, left) = parts(request);
        let answer = self.controller.delete_snapshot(request, left);
        self.answer("DeleteSnapshot", answer).await
    }

    async fn list_snapshots(
        &self,
        request: Request<proto::ListSnapshotsRequest>,
    ) -> Result<Response<proto::ListSnapshotsResponse>, Status> {
        let (request, left) = parts(request);
        let answer = self.controller.list_snapshots(request, left);
        self.answer("ListSnapshots", answer).await
    }

    async fn get_snapshot(
        &self,
        request: Request<proto::GetSnapshotRequest>,
    ) -> Result<Response<proto::GetSnapshotResponse>, Status> {
        let (request, left) = parts(request);
        let answer = self.controller.get_snapshot(request, left);
        self.answer("GetSnapshot", answer).await
    }

    async fn controller_expand_volume(
        &self,
        request: Request<proto::ControllerExpandVolumeRequest>,
    ) -> Result<Response<proto::ControllerExpandVolumeResponse>, Status> {
        let (request, left) = parts(request);
        let answer = self.controller.expand_volume(request, left);
        self.answer("ControllerExpandVolume", answer).await
    }

    async fn controller_get_volume(
        &self,
        request: Request<proto::ControllerGetVolumeRequest>,
    ) -> Result<Response<proto::ControllerGetVolumeResponse>, Status> {
        let (request, left) = parts(request);
        let answer = self.controller.get_volume(request, left);
        self.answer("ControllerGetVolume", answer).await
    }

    async fn controller_modify_volume(
        &self,
        request: Request<proto::ControllerModifyVolumeRequest>,
    ) -> Result<Response<proto::ControllerModifyVolumeResponse>, Status> {
        let (request, left) = parts(request);
        let answer = self.controller.modify_volume(request, left);
        self.answer("ControllerModifyVolume", answer).await
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
            let status = status(Failure::new(code, "why"));
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

    // Holds: SEC-66
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

    #[tokio::test]
    async fn a_connection_waits_for_a_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("csi.sock");
        let (listener, places) = (bind(&path).unwrap(), Arc::new(Semaphore::new(1)));
        let _clients = [(); 2].map(|()| std::os::unix::net::UnixStream::connect(&path).unwrap());

        let first = accept(&listener, &places).await;
        let second = tokio::time::timeout(PAUSE, accept(&listener, &places));
        assert!(second.await.is_err());
        drop(first);
        accept(&listener, &places).await;
    }

    #[tokio::test]
    async fn too_many_requests_are_retried() {
        let edge = Edge {
            controller: Arc::new(Controller::new(
                Arc::new(Nothing),
                tokio::sync::watch::channel(true).1,
            )),
            metrics: CsiMetrics::register(&mut prometheus_client::registry::Registry::default()),
            places: Arc::new(Semaphore::new(1)),
        };
        let answer = || edge.answer("CreateVolume", async { Ok(1) });
        assert!(answer().await.is_ok());

        let place = edge.places.try_acquire().unwrap();
        let rejected = answer().await.unwrap_err();
        assert_eq!(rejected.code(), tonic::Code::Unavailable);
        drop(place);
        assert!(answer().await.is_ok());
    }

    struct Nothing;

    impl skydock_cloud::CloudProvider for Nothing {
        fn info(&self) -> Arc<skydock_cloud::ProviderInfo> {
            unreachable!("it is not asked")
        }
    }
}
