//! An embedded Kubernetes control plane for development, demos and fast tests.
//!
//! [`DevPlane::start`] serves the Kubernetes API on loopback: nodes, services, events, leases,
//! namespaces, configmaps and service accounts, well enough for `kubectl` and for controllers built
//! on kube-rs or client-go. [`Kubelets`] are the simulated machines of the cluster. Nothing else
//! runs: no pods (they can be listed, but the list is empty) and no garbage collector. [`Access`]
//! says who can use it: everybody on this machine, or whoever has the kubeconfig.
//!
//! Differences from an API server:
//! - There is no server-side apply, and `metadata.managedFields` notes only who has written which
//!   annotations.
//! - There is no garbage collection: an object does not wait for what `propagationPolicy` asks for.
//! - Service IPs are IPv4, from 10.96.0.0/16.
//! - Protobuf is accepted in request bodies and never sent: a client must also accept JSON, as
//!   `kubectl` and client-go do.
//!
//! ```no_run
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use skydock_devplane::{DevPlane, NodeSpec, Options};
//!
//! let plane = DevPlane::start(Options::default()).await?;
//! plane.kubelets().register(NodeSpec::new("node-1", "10.0.0.1".parse()?))?;
//! std::fs::write("kubeconfig", plane.kubeconfig())?;
//! plane.shutdown().await;
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use axum::{Router, serve::Listener};
use jiff::SignedDuration;
use tokio::{net::TcpListener, runtime::Handle, task::JoinHandle, time::timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

mod access;
mod clock;
mod faults;
mod formats;
mod http;
mod kubelet;
mod registry;
mod resources;
mod status;
mod storage;
mod tls;

pub use access::Access;
pub use faults::{Fault, FaultSwitch, Faults, Rule, Verb};
pub use http::behind_faults;
pub use kubelet::{KubeletError, Kubelets, NodeSpec};
pub use storage::persist::StateFileError;
pub use tls::TlsError;

use access::Credentials;
use storage::persist::StateFile;
use storage::plane::Plane;
use storage::store::Store;
use tls::{Certificate, TlsListener};

/// How long a shutdown waits for requests in flight.
const GRACE: Duration = Duration::from_secs(2);

/// Interval of searches for old events.
const EVENT_SWEEP: Duration = Duration::from_secs(60);

/// Options of a plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Address of the API: a loopback address. Port 0, the default, selects a free port.
    pub listen: SocketAddr,
    /// File for the state of the cluster, so that it survives a restart. Without it, the state is
    /// lost.
    pub state_file: Option<PathBuf>,
    /// Who can use the API.
    pub access: Access,
    /// Whether the garbage collector and the namespace controller are simulated. Without them,
    /// objects that wait for one of these wait forever, as with an API server on its own.
    pub controllers: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            state_file: None,
            access: Access::default(),
            controllers: true,
        }
    }
}

/// Reasons why a plane cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address is not a loopback address: other machines must not reach the plane.
    #[error(
        "the embedded control plane cannot listen on {0}: other machines could reach it; use a loopback address, for \
         example 127.0.0.1:{port}", port = .0.port()
    )]
    NotLoopback(SocketAddr),
    /// The port is in use, or not allowed.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The state file cannot be used.
    #[error(transparent)]
    StateFile(#[from] StateFileError),
    /// HTTPS cannot be served.
    #[error("cannot serve HTTPS")]
    Tls(#[from] TlsError),
}

/// A running control plane. It ends with [`DevPlane::shutdown`], or abruptly when it is dropped.
#[derive(Debug)]
pub struct DevPlane {
    plane: Arc<Plane>,
    url: String,
    credentials: Option<Credentials>,
    kubelets: Kubelets,
    faults: FaultSwitch,
    stop: CancellationToken,
    server: JoinHandle<()>,
    keeper: Option<JoinHandle<()>>,
    _stop_on_drop: DropGuard,
}

impl DevPlane {
    /// Starts serving the API. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`StartError`] with the reason.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let Options {
            listen,
            state_file,
            access,
            controllers,
        } = options;

        if !listen.ip().is_loopback() {
            return Err(StartError::NotLoopback(listen));
        }

        let (state_file, store) = match state_file {
            Some(path) => {
                let (file, store) = StateFile::open(&path)?;
                (Some(file), store)
            }
            None => (None, Store::new(0, [])),
        };
        let store = store.with_controllers(controllers);

        let failed = |source| StartError::Listen {
            address: listen,
            source,
        };
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;

        let plane = Arc::new(Plane::new(store));
        // After the bind, because the `kubernetes` Service has the port.
        plane.bootstrap(access, address.port());

        let stop = CancellationToken::new();
        let faults = FaultSwitch::default();
        let router = http::router(Arc::clone(&plane), faults.clone());

        let (server, credentials) = match access {
            Access::Insecure => (serve(listener, http::guarded(router), &stop), None),
            Access::Secure => {
                let Certificate { authority, config } = Certificate::create(address.ip())?;
                let credentials = Credentials::new(authority);
                let router = http::guarded(http::authenticated(router, &credentials));
                (
                    serve(TlsListener::new(listener, config), router, &stop),
                    Some(credentials),
                )
            }
        };

        let keeper =
            state_file.map(|file| tokio::spawn(file.keep(Arc::clone(&plane), stop.clone())));
        tokio::spawn(
            stop.clone()
                .run_until_cancelled_owned(sweep_events(Arc::clone(&plane))),
        );

        let kubelets = Kubelets::new(Arc::clone(&plane), Handle::current());
        Ok(Self {
            plane,
            url: format!("{}://{address}", access.scheme()),
            credentials,
            kubelets,
            faults,
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
            server,
            keeper,
        })
    }

    /// Returns the base URL of the API, for example `http://127.0.0.1:41234`.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Returns a kubeconfig, in YAML, whose only context is this plane. It has the token of a
    /// secure plane.
    #[must_use]
    pub fn kubeconfig(&self) -> String {
        access::kubeconfig(&self.url, self.credentials.as_ref())
    }

    /// Returns the simulated machines.
    #[must_use]
    pub fn kubelets(&self) -> Kubelets {
        self.kubelets.clone()
    }

    /// Returns the faults between clients and this plane. Kubelets are not affected, because they
    /// do not use HTTP.
    #[must_use]
    pub fn faults(&self) -> &FaultSwitch {
        &self.faults
    }

    /// Returns the API without a socket, including faults, for a client in this process, so that a
    /// test can run on a paused clock.
    pub fn router(&self) -> Router {
        http::router(Arc::clone(&self.plane), self.faults.clone())
    }

    /// Ends all watches, like a restart of an API server. Clients continue their watches where they
    /// were.
    pub fn cut_watches(&self) {
        self.plane.cut_watches();
    }

    /// Deletes the history, so that every watch that continues from an earlier revision gets 410
    /// Gone.
    pub fn compact(&self) {
        self.plane.write(|store, _| store.compact());
    }

    /// Shifts the wall clock of the plane and its kubelets relative to that of this machine,
    /// forwards or backwards.
    pub fn shift_clock(&self, by: SignedDuration) {
        self.plane.clock().shift(by);
    }

    /// Stops serving, and saves the state a last time.
    pub async fn shutdown(mut self) {
        self.kubelets.halt();
        self.stop.cancel();
        // Watches would keep their connections open until the grace period is over.
        self.plane.end_watches();

        if timeout(GRACE, &mut self.server).await.is_err() {
            self.server.abort();
        }

        if let Some(keeper) = self.keeper.take()
            && let Err(error) = keeper.await
        {
            tracing::error!(%error, "the state may not have been saved");
        }
    }
}

impl Drop for DevPlane {
    fn drop(&mut self) {
        self.kubelets.halt();
        self.plane.end_watches();
    }
}

/// Serves until `stop` is canceled.
fn serve<L: Listener<Addr = SocketAddr>>(
    listener: L,
    router: Router,
    stop: &CancellationToken,
) -> JoinHandle<()> {
    let server =
        axum::serve(listener, router).with_graceful_shutdown(stop.clone().cancelled_owned());
    tokio::spawn(async move {
        if let Err(error) = server.await {
            tracing::error!(%error, "the control plane no longer serves");
        }
    })
}

async fn sweep_events(plane: Arc<Plane>) {
    let mut sweeps = tokio::time::interval(EVENT_SWEEP);
    loop {
        sweeps.tick().await;
        plane.write(storage::write::delete::expire_events);
    }
}
