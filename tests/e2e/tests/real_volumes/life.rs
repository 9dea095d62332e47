//! The life of claims: bound, attached, expanded, changed, snapshotted, restored, detached and deleted. No
//! kubelet runs: the test creates the node, what a driver registers there, and the VolumeAttachment.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use skydock_clouds::Aws;
use skydock_clusters::{Plane as _, RealPlane};
use skydock_e2e::{
    AwsSite, Hosts, Site as _,
    volumes::{
        ATTACHMENTS, CLAIMS, Objects, SNAPSHOT_CLASSES, SNAPSHOT_CONTENTS, SNAPSHOTS, VOLUMES,
        object, start_snapshot_controller,
    },
};
use skydock_support::{Host, Process};

use crate::{
    SOON, cloud, start,
    world::{CLASS, Cloud, Disk, FAST, IOPS, Place, World, claim},
};

const CONTROLLERS: &str =
    "--controllers=volume-attach,volume-provision,volume-resize,volume-modify,volume-snapshot";

/// The API of snapshots, and the name of their class.
const VERSION: &str = "snapshot.storage.k8s.io/v1";
const SNAPSHOTS_OF: &str = "snapshots";

const CLAIM: &str = "data";
const COPY: &str = "restored";
const ATTACHMENT: &str = "by-hand";
const SNAPSHOT: &str = "before";

#[tokio::test(flavor = "multi_thread")]
async fn claims_live_without_sidecars_on_simcloud() {
    let (cloud, dir) = (cloud(), tempfile::tempdir().unwrap());
    let (plane, _controller) = plane(dir.path()).await;
    let world = World {
        objects: Objects::new(plane.client(), SOON),
        cloud: &cloud,
        place: Place::of_simcloud(),
    };
    world.prepare().await.unwrap();
    let (_hosts, host) = start(&cloud, &plane, &[CONTROLLERS]).await;
    Box::pin(world.lives(host)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes five minutes"]
async fn claims_live_without_sidecars_on_ebs() {
    let (cloud, dir) = (Aws::start().await.unwrap(), tempfile::tempdir().unwrap());
    let (plane, _controller) = plane(dir.path()).await;
    let keys = cloud.verify_signatures().await.unwrap();
    let mut site = AwsSite::new(&cloud, keys, "volumes", 1).await.unwrap();
    let machine = site.add(1).await.unwrap().remove(0);
    let world = World {
        objects: Objects::new(plane.client(), SOON),
        cloud: &cloud,
        place: Place {
            driver: "ebs.csi.aws.com",
            node: machine.node,
            server: machine.id,
            key: "topology.kubernetes.io/zone",
            zone: "us-east-1a",
        },
    };
    world.prepare().await.unwrap();

    let kubeconfig = plane.kubeconfig_path();
    let mut hosts = Hosts::of_site(&site, "volumes", kubeconfig, &[CONTROLLERS]).unwrap();
    hosts
        .edit(|document| document["plugins"][0]["options"]["volumes"] = json!("true"))
        .unwrap();
    let host = hosts.start().await.unwrap();
    Box::pin(world.lives(host)).await;
}

/// Starts a control plane with snapshots.
async fn plane(dir: &Path) -> (RealPlane, Process) {
    let plane = RealPlane::start().await.unwrap();
    let controller = start_snapshot_controller(&plane, dir).await.unwrap();
    (plane, controller)
}

impl<C: Cloud> World<'_, C> {
    async fn lives(&self, host: Host) {
        if let Err(error) = self.live().await {
            let warnings = self.objects.warnings().await;
            panic!("{error:?}\n{warnings}\n{}", host.last_words());
        }
        Hosts::stop(host).await.unwrap();
    }

    async fn live(&self) -> Result<()> {
        let attributes = ("volumeAttributesClassName", json!(CLASS));
        let volume = self.bound(&claim(CLAIM, 10, attributes)).await;
        let volume = volume.context("bound")?;
        self.attached(&volume).await.context("attached")?;
        self.expanded(&volume).await.context("expanded")?;
        self.changed(&volume).await.context("changed")?;
        self.snapshotted().await.context("snapshotted")?;
        self.restored().await.context("restored")?;
        self.detached(&volume).await.context("detached")?;
        self.deleted().await.context("deleted")
    }

    /// Returns a PersistentVolume, and the volume.
    async fn current(&self, name: &str) -> Result<(Value, Disk)> {
        let object = self.objects.get(&format!("{VOLUMES}/{name}")).await?;
        let object = object.context("no PersistentVolume")?;
        let disk = self.disk(&object).await?;
        Ok((object, disk))
    }

    /// Creates a claim, and returns the name of its PersistentVolume.
    async fn bound(&self, claim: &Value) -> Result<String> {
        self.objects.create(CLAIMS, claim).await?;
        let name = claim["metadata"]["name"].as_str().unwrap_or_default();
        let is_bound = |it: &Value| it["status"]["phase"] == "Bound";
        let path = format!("{CLAIMS}/{name}");
        let bound = self.objects.becomes(&path, "bound", is_bound).await?;
        let name = bound["spec"]["volumeName"].as_str().context("no volume")?;

        let (object, disk) = self.current(name).await?;
        let Place {
            driver, key, zone, ..
        } = &self.place;
        let spec = &object["spec"];
        let wanted = json!({"key": key, "operator": "In", "values": [zone]});
        let terms = &spec["nodeAffinity"]["required"]["nodeSelectorTerms"];
        ensure!(
            spec["csi"]["driver"] == *driver
                && terms[0]["matchExpressions"] == json!([wanted])
                && disk.zone == *zone
                && disk.server.is_none(),
            "{object} {disk:?}"
        );
        Ok(name.to_owned())
    }

    async fn attached(&self, volume: &str) -> Result<()> {
        let Place {
            driver,
            node,
            server,
            ..
        } = &self.place;
        let source = json!({"persistentVolumeName": volume});
        let spec = json!({"spec": {"attacher": driver, "nodeName": node, "source": source}});
        let version = "storage.k8s.io/v1";
        let attachment = object(version, "VolumeAttachment", ATTACHMENT, spec);
        self.objects.create(ATTACHMENTS, &attachment).await?;

        let path = format!("{ATTACHMENTS}/{ATTACHMENT}");
        let is_attached = |it: &Value| it["status"]["attached"] == true;
        let attachment = self.objects.becomes(&path, "attached", is_attached).await?;
        let (_, disk) = self.current(volume).await?;
        let device = &attachment["status"]["attachmentMetadata"]["devicePath"];
        ensure!(
            disk.server.as_ref() == Some(server)
                && disk.device.is_some()
                && device.as_str() == disk.device.as_deref(),
            "{attachment} {disk:?}"
        );
        Ok(())
    }

    async fn expanded(&self, volume: &str) -> Result<()> {
        let path = format!("{CLAIMS}/{CLAIM}");
        let larger = json!({"spec": {"resources": {"requests": {"storage": "12Gi"}}}});
        self.objects.patch(&path, &larger).await?;
        let waits_for_node = |it: &Value| {
            let conditions = it["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|it| it["type"] == "FileSystemResizePending" && it["status"] == "True")
        };
        let wanted = "expanded up to the file system";
        self.objects.becomes(&path, wanted, waits_for_node).await?;

        let (object, disk) = self.current(volume).await?;
        let capacity = &object["spec"]["capacity"]["storage"];
        ensure!(*capacity == "12Gi" && disk.gib == 12, "{capacity} {disk:?}");
        Ok(())
    }

    async fn changed(&self, volume: &str) -> Result<()> {
        let [(_, usual), (_, fast)] = IOPS;
        let (_, disk) = self.current(volume).await?;
        ensure!(disk.iops == usual, "{disk:?}");

        let path = format!("{CLAIMS}/{CLAIM}");
        let class = json!({"spec": {"volumeAttributesClassName": FAST}});
        self.objects.patch(&path, &class).await?;
        let has_class = |it: &Value| it["status"]["currentVolumeAttributesClassName"] == FAST;
        self.objects.becomes(&path, FAST, has_class).await?;

        let (_, disk) = self.current(volume).await?;
        ensure!(disk.iops == fast, "{disk:?}");
        Ok(())
    }

    async fn snapshotted(&self) -> Result<()> {
        let class = json!({"driver": self.place.driver, "deletionPolicy": "Delete"});
        let class = object(VERSION, "VolumeSnapshotClass", SNAPSHOTS_OF, class);
        self.objects.create(SNAPSHOT_CLASSES, &class).await?;
        let source = json!({"persistentVolumeClaimName": CLAIM});
        let spec = json!({"spec": {"volumeSnapshotClassName": SNAPSHOTS_OF, "source": source}});
        let snapshot = object(VERSION, "VolumeSnapshot", SNAPSHOT, spec);
        self.objects.create(SNAPSHOTS, &snapshot).await?;

        let path = format!("{SNAPSHOTS}/{SNAPSHOT}");
        let is_ready = |it: &Value| it["status"]["readyToUse"] == true;
        let snapshot = self.objects.becomes(&path, "ready", is_ready).await?;
        ensure!(snapshot["status"]["restoreSize"] == "12Gi", "{snapshot}");
        let all = self.cloud.snapshots().await?;
        ensure!(all.len() == 1, "not one snapshot: {all:?}");
        Ok(())
    }

    async fn restored(&self) -> Result<()> {
        let source = json!({
            "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": SNAPSHOT,
        });
        let name = self.bound(&claim(COPY, 14, ("dataSource", source))).await?;
        let (_, disk) = self.current(&name).await?;
        let snapshots = self.cloud.snapshots().await?;
        ensure!(
            disk.gib == 14 && disk.snapshot.as_ref() == snapshots.first(),
            "{disk:?} {snapshots:?}"
        );
        Ok(())
    }

    async fn detached(&self, volume: &str) -> Result<()> {
        let path = format!("{ATTACHMENTS}/{ATTACHMENT}");
        self.objects.delete(&path).await?;
        self.objects.is_gone(&path).await?;
        let (_, disk) = self.current(volume).await?;
        ensure!(disk.server.is_none(), "{disk:?}");
        Ok(())
    }

    async fn deleted(&self) -> Result<()> {
        let snapshot = format!("{SNAPSHOTS}/{SNAPSHOT}");
        self.objects.delete(&snapshot).await?;
        self.objects.is_gone(&snapshot).await?;
        self.objects.is_gone(SNAPSHOT_CONTENTS).await?;
        self.objects.delete(CLAIMS).await?;
        self.objects.is_gone(CLAIMS).await?;
        self.objects.is_gone(VOLUMES).await?;
        let (disks, snapshots) = (self.cloud.disks().await?, self.cloud.snapshots().await?);
        ensure!(
            disks.is_empty() && snapshots.is_empty(),
            "left: {disks:?} {snapshots:?}"
        );
        Ok(())
    }
}
