//! The real Kubernetes, as processes on this machine.

mod binary;
mod command_line;
mod container_node;
mod go;
mod konnectivity;
mod process;
mod prometheus;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use kube::{Api, Client};
use rustix::process::Signal;
use skydock_support::Process;
use tempfile::TempDir;
use tokio::net::{TcpSocket, UnixStream};
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

pub use self::binary::{control_plane_binary, go_binary, go_module, go_tool};
pub use self::container_node::PAUSE;
use self::konnectivity::Tunnel;
pub use self::prometheus::prometheus_program;
use crate::{Error, NodeSpec, Plane, client};

/// How long a step may take. Usually it takes one or two seconds, but longer on a machine that is
/// busy with a build.
const PATIENCE: Duration = Duration::from_secs(90);
/// The maximum fraction of requests that an API server answers with a GOAWAY.
const MOST_GOAWAYS: f32 = 0.02;
/// How long a node with containers may need to end.
const CLEANUP: Duration = Duration::from_secs(15);
/// How often a step checks whether it is done.
const POLL: Duration = Duration::from_millis(25);

/// A real Kubernetes control plane on loopback, with kubelets that use a fake container runtime.
///
/// RBAC is enabled, the API is served over TLS, and none of Kubernetes' controllers does the work
/// of a cloud controller.
pub struct RealPlane {
    // Fields are dropped in order: first the kubelets, then the programs of the control plane, in
    // reverse order of their start.
    kubelets: Mutex<HashMap<String, Kubelet>>,
    _programs: Vec<Process>,
    client: Client,
    kubeconfig: PathBuf,
    binary: PathBuf,
    port: u16,
    _port: TcpSocket,
    tunnel: Option<Tunnel>,
    folder: TempDir,
}

struct Kubelet {
    process: Process,
    provider_id: Option<String>,
    /// The process has to remove control groups before it ends.
    cleans_up: bool,
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        if !self.cleans_up || self.process.signal(Signal::TERM).is_err() {
            return;
        }
        let began = Instant::now();
        while matches!(self.process.ended(), Ok(None)) && began.elapsed() < CLEANUP {
            std::thread::sleep(POLL);
        }
    }
}

impl RealPlane {
    /// Starts a control plane and waits until the API server is ready and Pods can be created in
    /// the default namespace. The API server sends clients to other connections as often as it
    /// allows. The first start on a machine builds Kubernetes (see [`control_plane_binary`]).
    ///
    /// # Errors
    /// Fails if the binary is not available, or if a program of the control plane ends or is not
    /// ready in time.
    pub async fn start() -> Result<Self, Error> {
        Self::launch(true, false).await
    }

    /// Like [`Self::start`], but the API server reaches kubelets only through a tunnel
    /// (konnectivity). Only one node can have containers; its agent of the tunnel is a static Pod.
    ///
    /// # Errors
    /// See [`Self::start`].
    pub async fn start_with_tunnel() -> Result<Self, Error> {
        Self::launch(true, true).await
    }

    /// Starts only etcd and the API server, so that no controller handles nodes with simulated
    /// kubelets, and only the cloud controller uses the machine. Pods cannot be created.
    ///
    /// # Errors
    /// See [`Self::start`].
    pub async fn start_without_controllers() -> Result<Self, Error> {
        Self::launch(false, false).await
    }

    async fn launch(controllers: bool, tunnelled: bool) -> Result<Self, Error> {
        let binary = control_plane_binary().await?;
        let began = Instant::now();
        let folder = tempfile::Builder::new()
            .prefix("skydock-plane-") // short, because the path of a Unix socket is limited to 107 bytes
            .tempdir()
            .map_err(Error::io("create a folder in", std::env::temp_dir()))?;
        let path = folder.path();
        run(&binary, path, &["keys", &path.display().to_string()])?;
        let socket = reserve_port().map_err(Error::setup("reserve a port on 127.0.0.1"))?;
        let port = socket
            .local_addr()
            .map_err(Error::setup("reserve a port on 127.0.0.1"))?
            .port();
        let token = uuid::Uuid::new_v4().simple().to_string();
        let kubeconfig = path.join("kubeconfig");
        write(&path.join("tokens.csv"), &command_line::token_file(&token))?;
        write(&path.join("audit-policy.yaml"), command_line::AUDIT_POLICY)?;
        write(&kubeconfig, &command_line::kubeconfig(path, port, &token))?;
        let client = client::from_kubeconfig(&kubeconfig).await?;

        let mut programs = Vec::new();
        let start = |program: &str, arguments: Vec<String>| {
            process::start(&binary, program, program, &arguments, path)
        };

        programs.push(start("etcd", command_line::etcd(path))?);
        let etcd_socket = command_line::etcd_socket(path);
        wait_for("etcd to listen", &mut programs, async || {
            UnixStream::connect(&etcd_socket).await.is_ok()
        })
        .await?;

        let goaway_chance = if controllers { MOST_GOAWAYS } else { 0.0 };
        let mut api_server = command_line::kube_apiserver(path, port, goaway_chance);
        let mut tunnel = None;
        if tunnelled {
            let (started, process) = Tunnel::start(path).await?;
            tunnel = Some(started);
            programs.push(process);
            let socket = konnectivity::socket(path);
            wait_for("the tunnel's server to listen", &mut programs, async || {
                UnixStream::connect(&socket).await.is_ok()
            })
            .await?;
            let selector = konnectivity::egress_selector(path);
            api_server.push(format!(
                "--egress-selector-config-file={}",
                selector.display()
            ));
        }
        programs.push(start("kube-apiserver", api_server)?);
        wait_for("the API server to be ready", &mut programs, async || {
            is_ready(&client).await
        })
        .await?;

        if controllers {
            programs.push(start(
                "kube-scheduler",
                command_line::kube_scheduler(&kubeconfig),
            )?);
            programs.push(start(
                "kube-controller-manager",
                command_line::kube_controller_manager(path, &kubeconfig),
            )?);
            // Pods are not admitted without it, and its creation shows that the controllers work.
            let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "default");
            let made = async || {
                accounts
                    .get_opt("default")
                    .await
                    .is_ok_and(|account| account.is_some())
            };
            wait_for("the default service account", &mut programs, made).await?;
        }

        let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(port, ms, "a real control plane is ready");
        programs.reverse();
        Ok(Self {
            kubelets: Mutex::default(),
            _programs: programs,
            client,
            kubeconfig,
            binary,
            port,
            _port: socket,
            tunnel,
            folder,
        })
    }

    /// Runs kubectl of the same version as the admin, and returns its standard output.
    ///
    /// # Errors
    /// Fails if kubectl cannot be started or fails. The error contains its standard error output.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String, Error> {
        let kubeconfig = format!("--kubeconfig={}", self.kubeconfig.display());
        let mut all = vec!["kubectl".to_owned(), kubeconfig];
        all.extend(arguments.iter().map(|&argument| argument.to_owned()));
        let (binary, folder) = (self.binary.clone(), self.folder.path().to_owned());
        tokio::task::spawn_blocking(move || {
            let arguments: Vec<&str> = all.iter().map(String::as_str).collect();
            run(&binary, &folder, &arguments)
        })
        .await
        .map_err(Error::setup("run kubectl"))?
    }

    /// Returns the folder with all files of this plane: `PROGRAM.log`, `NODE.log`, keys, etcd's
    /// data. It is deleted with the plane, unless a test that holds it panics.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the path of the API server's audit log with the requests of service accounts,
    /// including denied ones. It has one `audit.k8s.io/v1` event per line, written before the
    /// answer is sent. The first such request creates it.
    #[must_use]
    pub fn audit_log(&self) -> PathBuf {
        command_line::audit_log(self.folder.path())
    }

    /// Starts a node that runs Pods in containers, with the images in these archives
    /// (`skydock_image`). Returns the folder in which its kubelet looks for static Pods.
    ///
    /// It differs from other nodes only in that: it is also stopped by [`Plane::stop_node`], which
    /// ends everything that ran on it, and is empty when it is started again. The images must be
    /// named in Pods as in the archives.
    ///
    /// # Errors
    /// [`Error::NoContainers`] if this machine cannot run such nodes, otherwise as for
    /// [`Plane::start_node`].
    pub async fn start_container_node(
        &self,
        node: &NodeSpec,
        images: &[PathBuf],
    ) -> Result<PathBuf, Error> {
        container_node::is_possible()?;
        let folder = self.node_folder(&node.name);
        if self.kubelets().contains_key(&node.name) {
            return Err(Error::NodeRuns(node.name.clone()));
        }
        let (kubeconfig, tunnel) = (&self.kubeconfig, self.tunnel.as_ref());
        let arguments =
            container_node::prepare(node, images, &folder, kubeconfig, self.port, tunnel).await?;
        self.start_kubelet(node, "node", &arguments, true).await?;
        Ok(container_node::static_pods(&folder))
    }

    fn node_folder(&self, name: &str) -> PathBuf {
        self.folder.path().join("nodes").join(name)
    }

    /// Starts a program of the binary that is a kubelet, and waits until its Node exists.
    async fn start_kubelet(
        &self,
        node: &NodeSpec,
        program: &str,
        arguments: &[String],
        cleans_up: bool,
    ) -> Result<(), Error> {
        {
            let mut kubelets = self.kubelets();
            if kubelets.contains_key(&node.name) {
                return Err(Error::NodeRuns(node.name.clone()));
            }
            let process = process::start(
                &self.binary,
                format!("kubelet-{}", node.name),
                program,
                arguments,
                self.folder.path(),
            )?;
            kubelets.insert(
                node.name.clone(),
                Kubelet {
                    process,
                    provider_id: node.provider_id.clone(),
                    cleans_up,
                },
            );
        }
        let began = Instant::now();
        let nodes: Api<Node> = Api::all(self.client());
        while !nodes
            .get_opt(&node.name)
            .await
            .is_ok_and(|node| node.is_some())
        {
            let failed = match self.kubelets().get_mut(&node.name) {
                None => Some(Error::NoSuchNode(node.name.clone())), // stopped in the meantime
                Some(kubelet) => failure("its Node to be registered", began, &mut kubelet.process),
            };
            if let Some(error) = failed {
                self.kubelets().remove(&node.name);
                return Err(error);
            }
            tokio::time::sleep(POLL).await;
        }
        tracing::info!(
            node = node.name,
            ms = began.elapsed().as_millis(),
            "a kubelet runs"
        );
        Ok(())
    }

    fn kubelets(&self) -> MutexGuard<'_, HashMap<String, Kubelet>> {
        // No code that holds the lock can panic in an inconsistent state.
        self.kubelets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Plane for RealPlane {
    fn name(&self) -> &'static str {
        "real"
    }

    fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig
    }

    fn client(&self) -> Client {
        self.client.clone()
    }

    fn runs_pods(&self) -> bool {
        true
    }

    async fn start_node(&self, node: &NodeSpec) -> Result<(), Error> {
        let arguments = command_line::hollow_node(node, &self.kubeconfig);
        self.start_kubelet(node, "hollow-node", &arguments, false)
            .await
    }

    async fn stop_node(&self, name: &str) -> Result<(), Error> {
        let kubelet = self
            .kubelets()
            .remove(name)
            .ok_or_else(|| Error::NoSuchNode(name.to_owned()))?;
        drop(kubelet);
        tracing::info!(node = name, "the kubelet was killed");
        Ok(())
    }

    fn provider_id_of(&self, node: &str) -> Option<String> {
        self.kubelets().get(node)?.provider_id.clone()
    }
}

impl Drop for RealPlane {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.folder.disable_cleanup(true);
            tracing::error!(folder = %self.folder.path().display(), "the control plane's logs are kept");
        }
    }
}

/// Returns a socket that reserves a free port on 127.0.0.1 as long as it exists. It never listens.
/// kube-apiserver listens on the same port, which `SO_REUSEPORT` allows.
fn reserve_port() -> std::io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseport(true)?;
    socket.bind(([127, 0, 0, 1], 0).into())?;
    Ok(socket)
}

async fn is_ready(client: &Client) -> bool {
    match http::Request::get("/readyz").body(Vec::new()) {
        // The client would log an error for each attempt before the API server is ready.
        Ok(request) => client
            .request_text(request)
            .with_subscriber(NoSubscriber::new())
            .await
            .is_ok(),
        Err(_) => false,
    }
}

/// Waits until `done`. Fails after the time limit, or if one of the programs has ended.
async fn wait_for(
    what: &str,
    programs: &mut [Process],
    done: impl AsyncFn() -> bool,
) -> Result<(), Error> {
    let began = Instant::now();
    while !done().await {
        // Usually the last started program is waited for, but any of them may have ended.
        if let Some(error) = programs
            .iter_mut()
            .rev()
            .find_map(|program| failure(what, began, program))
        {
            return Err(error);
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

/// Returns the reason to stop waiting for `program`, if there is one.
fn failure(what: &str, began: Instant, program: &mut Process) -> Option<Error> {
    if let Err(error) = process::check(program) {
        return Some(error);
    }
    (began.elapsed() > PATIENCE).then(|| Error::TimedOut {
        what: what.to_owned(),
        waited: PATIENCE,
        program: program.name().to_owned(),
        log: program.last_lines(),
    })
}

/// Runs a program of the binary to its end.
fn run(binary: &Path, folder: &Path, arguments: &[&str]) -> Result<String, Error> {
    let output = process::command(binary, folder)
        .args(arguments)
        .output()
        .map_err(Error::io("start", binary))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(command_failed(arguments, output.status, &output.stderr))
}

fn command_failed(arguments: &[&str], status: ExitStatus, errors: &[u8]) -> Error {
    let output = String::from_utf8_lossy(errors).trim_end().to_owned();
    Error::Command {
        command: arguments.join(" "),
        status,
        output,
    }
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(Error::io("write", path))
}
