//! The life of claims: bound, attached, expanded, changed, snapshotted, restored, detached and deleted. No
//! kubelet runs: the test creates the node, what a driver registers there, and the VolumeAttachment.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use skydock_clusters::{Plane as _, RealPlane};
use skydock_e2e::{
    Hosts,
    volumes::{
        ATTACHMENTS, CLAIMS, Objects, SNAPSHOT_CLASSES, SNAPSHOT_CONTENTS, SNAPSHOTS, VOLUMES,
        object, start_snapshot_controller,
    },
};

use crate::{
    DRIVER, KEY, SOON, cloud, start,
    world::{CLASS, FAST, NODE, SERVER, World, ZONE, claim},
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
async fn claims_live_and_end_without_sidecars() {
    let plane = RealPlane::start().await.unwrap();
    let world = World {
        objects: Objects::new(plane.client(), SOON),
        cloud: cloud(),
    };
    let dir = tempfile::tempdir().unwrap();
    let _controller = start_snapshot_controller(&plane, dir.path()).await.unwrap();
    world.prepare().await.unwrap();

    let (_hosts, host) = start(&world.cloud, &plane, &[CONTROLLERS]).await;
    let lived = Box::pin(world.live()).await;
    if let Err(error) = lived {
        let warnings = world.objects.warnings().await;
        panic!("{error:?}\n{warnings}\n{}", host.last_words());
    }
    Hosts::stop(host).await.unwrap();
}

impl World {
    async fn live(&self) -> Result<()> {
        let attributes = ("volumeAttributesClassName", json!(CLASS));
        let volume = self.bound(&claim(CLAIM, 2, attributes)).await;
        let volume = volume.context("bound")?;
        self.attached(&volume).await.context("attached")?;
        self.expanded(&volume).await.context("expanded")?;
        self.changed(&volume).await.context("changed")?;
        self.snapshotted().await.context("snapshotted")?;
        self.restored().await.context("restored")?;
        self.detached(&volume).await.context("detached")?;
        self.deleted().await.context("deleted")
    }

    /// Creates a claim, and returns the name of its PersistentVolume.
    async fn bound(&self, claim: &Value) -> Result<String> {
        self.objects.create(CLAIMS, claim).await?;
        let name = claim["metadata"]["name"].as_str().unwrap_or_default();
        let is_bound = |it: &Value| it["status"]["phase"] == "Bound";
        let path = format!("{CLAIMS}/{name}");
        let bound = self.objects.becomes(&path, "bound", is_bound).await?;
        let name = bound["spec"]["volumeName"].as_str().context("no volume")?;

        let object = self.objects.get(&format!("{VOLUMES}/{name}")).await?;
        let object = object.context("no PersistentVolume")?;
        let volume = self.volume(name)?;
        let terms = &object["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
        let wanted =
            json!([{"matchExpressions": [{"key": KEY, "operator": "In", "values": [ZONE]}]}]);
        ensure!(
            object["spec"]["csi"]["volumeHandle"] == volume["id"]
                && *terms == wanted
                && volume["zone"] == ZONE,
            "{object} {volume}"
        );
        Ok(name.to_owned())
    }

    async fn attached(&self, volume: &str) -> Result<()> {
        ensure!(self.volume(volume)?["iops"] == 500, "another class");
        let source = json!({"persistentVolumeName": volume});
        let spec = json!({"spec": {"attacher": DRIVER, "nodeName": NODE, "source": source}});
        let version = "storage.k8s.io/v1";
        let attachment = object(version, "VolumeAttachment", ATTACHMENT, spec);
        self.objects.create(ATTACHMENTS, &attachment).await?;

        let path = format!("{ATTACHMENTS}/{ATTACHMENT}");
        let is_attached = |it: &Value| it["status"]["attached"] == true;
        let attachment = self.objects.becomes(&path, "attached", is_attached).await?;
        let volume = self.volume(volume)?;
        let device = &attachment["status"]["attachmentMetadata"]["devicePath"];
        ensure!(
            volume["status"] == "in-use"
                && volume["server"] == SERVER
                && *device == volume["device"],
            "{attachment} {volume}"
        );
        Ok(())
    }

    async fn expanded(&self, volume: &str) -> Result<()> {
        let path = format!("{CLAIMS}/{CLAIM}");
        let larger = json!({"spec": {"resources": {"requests": {"storage": "3Gi"}}}});
        self.objects.patch(&path, &larger).await?;
        let waits_for_node = |it: &Value| {
            let conditions = it["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|it| it["type"] == "FileSystemResizePending" && it["status"] == "True")
        };
        let wanted = "expanded up to the file system";
        self.objects.becomes(&path, wanted, waits_for_node).await?;

        let object = self.objects.get(&format!("{VOLUMES}/{volume}")).await?;
        let object = object.context("no PersistentVolume")?;
        let capacity = &object["spec"]["capacity"]["storage"];
        let volume = self.volume(volume)?;
        ensure!(
            *capacity == "3Gi" && volume["size_gib"] == 3,
            "{capacity} {volume}"
        );
        Ok(())
    }

    async fn changed(&self, volume: &str) -> Result<()> {
        let path = format!("{CLAIMS}/{CLAIM}");
        let class = json!({"spec": {"volumeAttributesClassName": FAST}});
        self.objects.patch(&path, &class).await?;
        let has_class = |it: &Value| it["status"]["currentVolumeAttributesClassName"] == FAST;
        self.objects.becomes(&path, FAST, has_class).await?;

        let volume = self.volume(volume)?;
        ensure!(volume["iops"] == 5000, "{volume}");
        Ok(())
    }

    async fn snapshotted(&self) -> Result<()> {
        let class = json!({"driver": DRIVER, "deletionPolicy": "Delete"});
        let class = object(VERSION, "VolumeSnapshotClass", SNAPSHOTS_OF, class);
        self.objects.create(SNAPSHOT_CLASSES, &class).await?;
        let source = json!({"persistentVolumeClaimName": CLAIM});
        let spec = json!({"spec": {"volumeSnapshotClassName": SNAPSHOTS_OF, "source": source}});
        let snapshot = object(VERSION, "VolumeSnapshot", SNAPSHOT, spec);
        self.objects.create(SNAPSHOTS, &snapshot).await?;

        let path = format!("{SNAPSHOTS}/{SNAPSHOT}");
        let is_ready = |it: &Value| it["status"]["readyToUse"] == true;
        let snapshot = self.objects.becomes(&path, "ready", is_ready).await?;
        ensure!(snapshot["status"]["restoreSize"] == "3Gi", "{snapshot}");
        let all = self.has("snapshots");
        ensure!(all.len() == 1, "not one snapshot: {all:?}");
        Ok(())
    }

    async fn restored(&self) -> Result<()> {
        let source = json!({
            "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": SNAPSHOT,
        });
        let name = self.bound(&claim(COPY, 4, ("dataSource", source))).await?;
        let volume = self.volume(&name)?;
        let snapshots = self.has("snapshots");
        ensure!(
            snapshots.iter().any(|it| it["id"] == volume["snapshot"]) && volume["size_gib"] == 4,
            "{volume} {snapshots:?}"
        );
        Ok(())
    }

    async fn detached(&self, volume: &str) -> Result<()> {
        let path = format!("{ATTACHMENTS}/{ATTACHMENT}");
        self.objects.delete(&path).await?;
        self.objects.is_gone(&path).await?;
        let volume = self.volume(volume)?;
        ensure!(
            volume["status"] == "available" && volume["server"].is_null(),
            "{volume}"
        );
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
        for kind in ["volumes", "snapshots"] {
            let left = self.has(kind);
            ensure!(left.is_empty(), "{kind} are left: {left:?}");
        }
        Ok(())
    }
}
