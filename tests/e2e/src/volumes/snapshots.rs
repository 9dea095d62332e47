//! The CRDs of snapshots and their controller (snapshot-controller), which are part of the distribution of a
//! cluster.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use skydock_clusters::{Plane as _, RealPlane, go_module, go_tool};
use skydock_support::{Process, checkout};

const CONTROLLER: &str = "snapshot-controller";

/// The kinds of the group `snapshot.storage.k8s.io`.
const KINDS: [&str; 3] = [
    "volumesnapshotclasses",
    "volumesnapshotcontents",
    "volumesnapshots",
];

/// Creates the CRDs of snapshots and starts their controller, with its log in this folder. It is built if it
/// is not in the cache.
///
/// # Errors
/// Fails if it cannot be built or started, or if the API server does not serve the CRDs.
pub async fn start_snapshot_controller(plane: &RealPlane, dir: &Path) -> Result<Process> {
    create_crds(plane).await.context("the CRDs of snapshots")?;

    let package = "github.com/kubernetes-csi/external-snapshotter/v8/cmd/snapshot-controller";
    let mut command = Command::new(go_tool(&module(), package, CONTROLLER).await?);
    let kubeconfig = plane.kubeconfig_path().display();
    command
        .arg(format!("--kubeconfig={kubeconfig}"))
        .arg("--feature-gates=CSIVolumeGroupSnapshot=false")
        .arg("--v=4")
        // It would have precedence.
        .env_remove("KUBECONFIG");
    let log = dir.join(format!("{CONTROLLER}.log"));
    Process::start(CONTROLLER, command, &log).context("start the snapshot-controller")
}

async fn create_crds(plane: &RealPlane) -> Result<()> {
    let client = "github.com/kubernetes-csi/external-snapshotter/client/v8";
    let files = go_module(&module(), client, "snapshot-crds").await?;
    for kind in KINDS {
        let file = files.join(format!("config/crd/snapshot.storage.k8s.io_{kind}.yaml"));
        let file = file.display().to_string();
        let arguments = ["apply", "--server-side", "-f", file.as_str()];
        plane.kubectl(&arguments).await?;

        let crd = format!("crd/{kind}.snapshot.storage.k8s.io");
        let wait = ["wait", "--for=condition=Established", "--timeout=60s"];
        plane
            .kubectl(&[&wait[..], &[crd.as_str()]].concat())
            .await?;
    }
    Ok(())
}

/// Returns the folder of the Go module that requires their release.
fn module() -> PathBuf {
    checkout().join("tests/e2e/sidecars/snapshotter")
}
