//! A control plane, and a node that has Skydock's images.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams},
};
use skydock_clusters::{Error, NodeSpec, Plane as _, RealPlane};
use skydock_image::{Image, Layer};
use skydock_support::{Paths, Seen, eventually, last_lines};
use tempfile::TempDir;

pub(crate) const NAMESPACE: &str = "kube-system";
pub(crate) const NODE: &str = "control-1";
/// The account of the Pods, which may do everything: other tests are about permissions.
pub(crate) const ACCOUNT: &str = "cloud-controller-manager";
/// The container of a Pod that is a cloud-controller-manager.
pub(crate) const CONTAINER: &str = "manager";
/// The inventory of the static provider.
pub(crate) const INVENTORY: &str = "apiVersion: static.skydock.dev/v1alpha1
kind: Inventory
machines:
  - name: control-1
";
/// A timeout for each step. Each Pod compiles its plugin.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);
/// If set, the tests are skipped on machines that cannot run containers.
const SKIP: &str = "SKYDOCK_NO_CONTAINERS";

pub(crate) struct Cluster {
    pub(crate) plane: RealPlane,
    pub(crate) client: Client,
    pub(crate) paths: Paths,
    dir: TempDir,
}

impl Cluster {
    /// Starts the node, with these images by their names; returns `None` if this machine cannot run
    /// it and the test is to be skipped.
    pub(crate) async fn start(node: &NodeSpec, images: &[(&str, Image)]) -> Result<Option<Self>> {
        let paths = Paths::of_checkout()?;
        let plane = RealPlane::start().await?;
        let dir = tempfile::Builder::new()
            .prefix("skydock-drop-in-")
            .tempdir()?;
        let mut archives = Vec::new();
        for (at, (name, image)) in images.iter().enumerate() {
            let archive = dir.path().join(format!("{at}.tar"));
            let image = std::slice::from_ref(image);
            skydock_image::write(name, image, Layer::Plain, &archive)?;
            archives.push(archive);
        }
        match plane.start_container_node(node, &archives).await {
            Ok(_) => {}
            Err(error @ Error::NoContainers { .. }) if std::env::var_os(SKIP).is_some() => {
                eprintln!("skipped: {error}");
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        }

        for arguments in [
            &["create", "serviceaccount", ACCOUNT, "-n", NAMESPACE][..],
            &[
                "create",
                "clusterrolebinding",
                ACCOUNT,
                "--clusterrole=cluster-admin",
                "--group=system:serviceaccounts:kube-system",
            ],
            // As kubeadm does it: a kubelet may not set this label itself.
            &[
                "label",
                "node",
                NODE,
                "node-role.kubernetes.io/control-plane=",
            ],
        ] {
            plane.kubectl(arguments).await?;
        }
        Ok(Some(Self {
            client: plane.client(),
            plane,
            paths,
            dir,
        }))
    }

    /// Returns the folder with the logs of the control plane.
    pub(crate) fn folder(&self) -> &Path {
        self.plane.folder()
    }

    /// Returns the folder of the node.
    pub(crate) fn node_folder(&self) -> PathBuf {
        self.folder().join("nodes").join(NODE)
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Writes a file that every user on the node may read, and returns its path.
    pub(crate) fn file(&self, path: &str, content: &[u8]) -> Result<PathBuf> {
        let path = self.dir.path().join("on-the-node").join(path);
        let folder = path.parent().context("a file without a folder")?;
        fs::create_dir_all(folder)?;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
        fs::write(&path, content)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
        Ok(path)
    }

    /// Returns what the container of the Pods whose names begin with this has logged. Requests for
    /// logs do not reach the node.
    pub(crate) fn log(&self, pod: &str) -> String {
        let start = format!("{NAMESPACE}_{pod}");
        let mut log = String::new();
        for folder in entries(&self.node_folder().join("logs")) {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(&start) {
                for file in entries(&folder.join(CONTAINER)) {
                    log += &fs::read_to_string(file).unwrap_or_default();
                }
            }
        }
        log
    }

    /// Deletes a Pod, and waits until it has ended.
    pub(crate) async fn end(&self, pod: &str) -> Result<()> {
        let pods = self.pods();
        if pods.get_opt(pod).await?.is_some() {
            pods.delete(pod, &DeleteParams::default()).await?;
        }
        eventually(PATIENCE, async || {
            let left = pods.get_opt(pod).await?;
            Ok(Seen::when(left.is_none(), "the Pod has not ended"))
        })
        .await
    }

    /// Returns the Pods with this label `app`.
    pub(crate) async fn pods_of(&self, app: &str) -> Result<Vec<Pod>> {
        let of_app = ListParams::default().labels(&format!("app={app}"));
        Ok(self.pods().list(&of_app).await?.items)
    }

    /// Returns what a person would look at after a failure.
    pub(crate) async fn state(&self, pod: &str) -> String {
        let mut state = String::new();
        for arguments in [
            &["get", "nodes,pods,leases", "-A", "-o", "wide"][..],
            &["describe", "nodes"],
            &["describe", "pods", "-n", NAMESPACE],
            &["get", "events", "-n", NAMESPACE, "--sort-by=.lastTimestamp"],
        ] {
            let said = self.plane.kubectl(arguments).await;
            state += &said.unwrap_or_else(|error| error.to_string());
        }
        state += &last_lines(&self.log(pod));
        state
    }
}

/// Returns the entries of a folder in order; none if it does not exist.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let mut conditions = status.iter().flat_map(|it| it.conditions.iter().flatten());
    conditions.any(|it| it.type_ == "Ready" && it.status == "True")
}

/// Returns how often containers of a Pod were started again.
pub(crate) fn restarts(pod: &Pod) -> i32 {
    let status = pod.status.as_ref();
    let containers = status
        .iter()
        .flat_map(|it| it.container_statuses.iter().flatten());
    containers.map(|it| it.restart_count).sum()
}
