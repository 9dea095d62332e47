//! A cluster with two nodes in two zones of a cloud, the accounts of Skydock and its sidecars, and what
//! the distribution of a cluster has for volumes.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use skydock_clusters::{NodeSpec, Plane as _, RealPlane};
use skydock_e2e::volumes::{
    ATTRIBUTES, CLASSES, DRIVERS, Objects, SNAPSHOT_CLASSES, object, start_snapshot_controller,
};
use skydock_support::{Process, checkout};
use tempfile::TempDir;

use crate::{
    LIMIT,
    cloud::{Cloud, Kind, Server},
    replica::Replica,
    sidecars::{Sidecar, tail},
};

/// Classes of claims that are bound at once, or when a Pod uses them.
pub(crate) const IMMEDIATE: &str = "immediate";
pub(crate) const LATE: &str = "late";
/// Classes of attributes.
pub(crate) const SLOW: &str = "slow";
pub(crate) const FAST: &str = "fast";
/// The class of snapshots.
pub(crate) const SNAPSHOTS_OF: &str = "snapshots";

const NAMESPACE: &str = "kube-system";
/// The account of Skydock.
pub(crate) const SKYDOCK: &str = "skydock";

/// What does the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The sidecars of CSI.
    Sidecars,
    /// Controllers in Skydock.
    Controllers,
}

impl By {
    /// Returns the components of `deploy/` for volumes, and for snapshots.
    pub(crate) fn components(self) -> [&'static str; 2] {
        match self {
            Self::Sidecars => ["csi", "csi-snapshots"],
            Self::Controllers => ["csi/controllers", "csi/controllers/snapshots"],
        }
    }
}

/// The cluster and the cloud.
pub(crate) struct Lab {
    pub(crate) by: By,
    pub(crate) objects: Objects,
    pub(crate) cloud: Cloud,
    /// None if controllers do their work.
    pub(crate) sidecars: Vec<Sidecar>,
    /// The kubeconfigs of accounts by name.
    kubeconfigs: BTreeMap<String, PathBuf>,
    snapshot_controller: Process,
    plane: RealPlane,
    dir: TempDir,
}

impl Lab {
    /// Starts everything but Skydock.
    pub(crate) async fn start(kind: Kind, by: By) -> Result<Self> {
        let sidecars = match by {
            By::Sidecars => Sidecar::all().await?,
            By::Controllers => Vec::new(),
        };
        let cloud = Cloud::start(kind).await?;
        let plane = RealPlane::start().await?;
        let dir = tempfile::Builder::new().prefix("skydock-csi-").tempdir()?;

        let deploy = checkout().join("deploy");
        apply(&plane, &deploy.join("base/rbac.yaml")).await?;
        for component in by.components() {
            let file = format!("components/{component}/rbac.yaml");
            apply(&plane, &deploy.join(file)).await?;
        }
        let mut kubeconfigs = BTreeMap::new();
        for sidecar in &sidecars {
            give_role(&plane, sidecar.name).await?;
        }
        let accounts = sidecars.iter().map(|it| it.name).chain([SKYDOCK]);
        for account in accounts {
            let file = kubeconfig(&plane, account, dir.path()).await?;
            kubeconfigs.insert(account.to_owned(), file);
        }

        let snapshot_controller = start_snapshot_controller(&plane, dir.path()).await?;
        let objects = Objects::new(plane.client(), LIMIT);
        create_classes(&objects, &cloud).await?;
        for server in &cloud.servers {
            let spec = NodeSpec::new(server.node.as_str())
                .without_provider_id()
                .with_label(cloud.zone, server.zone);
            plane.start_node(&spec).await?;
            register_driver(&plane, dir.path(), &cloud, server).await?;
        }
        Ok(Self {
            by,
            objects,
            cloud,
            sidecars,
            kubeconfigs,
            snapshot_controller,
            plane,
            dir,
        })
    }

    /// Returns the kubeconfig of an account.
    pub(crate) fn kubeconfig(&self, account: &str) -> Result<&Path> {
        let file = self.kubeconfigs.get(account);
        let file = file.with_context(|| format!("no account {account}"))?;
        Ok(file)
    }

    /// Checks that the cloud holds nothing that was created for claims and snapshots.
    pub(crate) async fn is_empty(&self) -> Result<()> {
        for kind in ["volumes", "snapshots"] {
            let left = self.cloud.has(kind).await?;
            ensure!(left.is_empty(), "{kind} are left: {left:?}");
        }
        Ok(())
    }

    /// Checks that the API server has denied nothing to Skydock and its sidecars.
    pub(crate) fn nothing_was_denied(&self) -> Result<()> {
        let log = fs::read_to_string(self.plane.audit_log())?;
        // The API server may be writing the last line.
        let (complete, _) = log.rsplit_once('\n').unwrap_or_default();
        let mut denied = Vec::new();
        for line in complete.lines() {
            let event: Value = serde_json::from_str(line)?;
            let user = event["user"]["username"].as_str().unwrap_or_default();
            let is_ours = user
                .rsplit(':')
                .next()
                .is_some_and(|name| self.kubeconfigs.contains_key(name));
            let decision = &event["annotations"]["authorization.k8s.io/decision"];
            if is_ours && decision == "forbid" {
                denied.push(format!("{user}: {} {}", event["verb"], event["requestURI"]));
            }
        }
        denied.sort();
        denied.dedup();
        ensure!(denied.is_empty(), "denied: {denied:#?}");
        Ok(())
    }

    /// Returns what helps to understand a failure, and keeps all logs.
    pub(crate) async fn report(&mut self, replicas: &mut [Replica]) -> String {
        self.dir.disable_cleanup(true);
        let mut parts: Vec<String> = replicas.iter_mut().map(Replica::report).collect();
        parts.push(tail(&self.snapshot_controller));
        parts.push(format!("warnings:\n{}", self.objects.warnings().await));
        for kind in ["volumes", "snapshots"] {
            let mut all = self.cloud.has(kind).await.unwrap_or_default();
            let count = all.len();
            all.truncate(10);
            parts.push(format!("the cloud has {count} {kind}: {all:?}"));
        }
        parts.push(format!("logs: {}", self.dir.path().display()));
        parts.join("\n\n")
    }
}

async fn apply(plane: &RealPlane, file: &Path) -> Result<()> {
    let file = file.display().to_string();
    let arguments = ["apply", "--server-side", "--namespace", NAMESPACE, "-f"];
    plane
        .kubectl(&[&arguments[..], &[file.as_str()]].concat())
        .await?;
    Ok(())
}

/// Creates an account with the role of a sidecar, and no other: in the Pod, all share one.
async fn give_role(plane: &RealPlane, sidecar: &str) -> Result<()> {
    let run = async |arguments: &[&str]| plane.kubectl(arguments).await;
    run(&["create", "serviceaccount", sidecar, "-n", NAMESPACE]).await?;
    let role = format!("--clusterrole=skydock-{sidecar}");
    let account = format!("--serviceaccount={NAMESPACE}:{sidecar}");
    let binding = format!("only-{sidecar}");
    run(&["create", "clusterrolebinding", &binding, &role, &account]).await?;
    Ok(())
}

/// Writes a kubeconfig with a token of an account. It is JSON, which is valid YAML.
async fn kubeconfig(plane: &RealPlane, account: &str, dir: &Path) -> Result<PathBuf> {
    let arguments = [
        "create",
        "token",
        account,
        "-n",
        NAMESPACE,
        "--duration=12h",
    ];
    let token = plane.kubectl(&arguments).await?;
    let admin = Kubeconfig::read_from(plane.kubeconfig_path())?;
    let cluster = admin
        .clusters
        .into_iter()
        .next()
        .and_then(|named| named.cluster)
        .context("no cluster")?;
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "plane",
        "clusters": [{"name": "plane", "cluster": cluster}],
        "users": [{"name": "account", "user": {"token": token.trim()}}],
        "contexts": [{"name": "plane", "context": {"cluster": "plane", "user": "account"}}],
    });
    let file = dir.join(format!("{account}.kubeconfig"));
    fs::write(&file, kubeconfig.to_string())?;
    Ok(file)
}

/// Creates the object that the vendor of the driver delivers, and classes.
async fn create_classes(objects: &Objects, cloud: &Cloud) -> Result<()> {
    let storage = "storage.k8s.io/v1";
    let spec = json!({"spec": {"attachRequired": true, "podInfoOnMount": false}});
    let driver = object(storage, "CSIDriver", cloud.driver, spec);
    objects.create(DRIVERS, &driver).await?;

    for (name, mode) in [(IMMEDIATE, "Immediate"), (LATE, "WaitForFirstConsumer")] {
        let class = json!({
            "provisioner": cloud.driver, "volumeBindingMode": mode, "allowVolumeExpansion": true,
        });
        let class = object(storage, "StorageClass", name, class);
        objects.create(CLASSES, &class).await?;
    }
    let attributes = [(SLOW, "500"), (FAST, "5000")];
    for (name, iops) in attributes.into_iter().filter(|_| cloud.has_attributes()) {
        let class = json!({"driverName": cloud.driver, "parameters": {"iops": iops}});
        let class = object(storage, "VolumeAttributesClass", name, class);
        objects.create(ATTRIBUTES, &class).await?;
    }
    let class = json!({"driver": cloud.driver, "deletionPolicy": "Delete"});
    let version = "snapshot.storage.k8s.io/v1";
    let class = object(version, "VolumeSnapshotClass", SNAPSHOTS_OF, class);
    objects.create(SNAPSHOT_CLASSES, &class).await
}

/// Makes the driver known on a node, as its kubelet does for the node part of the vendor.
async fn register_driver(
    plane: &RealPlane,
    dir: &Path,
    cloud: &Cloud,
    server: &Server,
) -> Result<()> {
    let node = server.node.as_str();
    let driver = json!({
        "name": cloud.driver, "nodeID": server.id, "topologyKeys": [cloud.zone],
    });
    let spec = json!({"spec": {"drivers": [driver]}});
    let object = object("storage.k8s.io/v1", "CSINode", node, spec);
    let file = dir.join(format!("{node}.json"));
    fs::write(&file, object.to_string())?;
    apply(plane, &file).await
}
