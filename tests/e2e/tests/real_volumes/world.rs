//! A cluster and a cloud.

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use serde_json::{Value, json};
use skydock_clouds::{Aws, xml};
use skydock_e2e::volumes::{ATTRIBUTES, CLASSES, CSI_NODES, DRIVERS, Objects, object};
use skydock_simcloud::Simcloud;

use crate::{DRIVER, KEY};

/// The name of the class of volumes, and of the usual one of attributes.
pub(crate) const CLASS: &str = "usual";
/// The VolumeAttributesClass with more operations per second.
pub(crate) const FAST: &str = "fast";
/// The operations per second of each.
pub(crate) const IOPS: [(&str, u64); 2] = [(CLASS, 3500), (FAST, 4000)];

/// A volume as the cloud has it.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) id: String,
    pub(crate) gib: u64,
    pub(crate) iops: u64,
    pub(crate) zone: String,
    /// Where it is attached, or will be.
    pub(crate) server: Option<String>,
    pub(crate) device: Option<String>,
    /// The snapshot that it began as.
    pub(crate) snapshot: Option<String>,
}

/// What a cloud has for claims.
#[async_trait(?Send)]
pub(crate) trait Cloud {
    /// Returns all volumes.
    async fn disks(&self) -> Result<Vec<Disk>>;

    /// Returns the IDs of all snapshots.
    async fn snapshots(&self) -> Result<Vec<String>>;
}

#[async_trait(?Send)]
impl Cloud for Simcloud {
    async fn disks(&self) -> Result<Vec<Disk>> {
        let disk = |it: &Value| {
            let text = |key: &str| it[key].as_str().map(str::to_owned);
            Disk {
                id: text("id").unwrap_or_default(),
                gib: it["size_gib"].as_u64().unwrap_or_default(),
                iops: it["iops"].as_u64().unwrap_or_default(),
                zone: text("zone").unwrap_or_default(),
                server: text("server"),
                device: text("device"),
                snapshot: text("snapshot"),
            }
        };
        Ok(state(self, "volumes").iter().map(disk).collect())
    }

    async fn snapshots(&self) -> Result<Vec<String>> {
        let all = state(self, "snapshots");
        let ids = all.iter().filter_map(|it| it["id"].as_str());
        Ok(ids.map(str::to_owned).collect())
    }
}

/// Returns everything of a kind that simcloud has.
fn state(cloud: &Simcloud, kind: &str) -> Vec<Value> {
    let (_, state) = cloud.request("GET", "/_sim/state", &Value::Null);
    state[kind].as_array().cloned().unwrap_or_default()
}

/// EBS: without the volumes that instances begin with.
#[async_trait(?Send)]
impl Cloud for Aws {
    async fn disks(&self) -> Result<Vec<Disk>> {
        let answer = self.call("ec2", "DescribeVolumes", &[]).await?;
        let all = xml::items(&answer, "volumeSet").into_iter();
        let ours = all.filter(|it| it.contains("CSIVolumeName"));
        let disk = |it: &str| {
            let text = |name| xml::first(it, name).filter(|text| !text.is_empty());
            let number = |name| anyhow::Ok(text(name).context("no number")?.parse::<u64>()?);
            let owned = |name| text(name).map(str::to_owned);
            anyhow::Ok(Disk {
                id: owned("volumeId").unwrap_or_default(),
                gib: number("size")?,
                iops: number("iops")?,
                zone: owned("availabilityZone").unwrap_or_default(),
                server: owned("instanceId"),
                device: owned("device"),
                snapshot: owned("snapshotId"),
            })
        };
        ours.map(disk).collect()
    }

    async fn snapshots(&self) -> Result<Vec<String>> {
        let answer = self.call("ec2", "DescribeSnapshots", &[]).await?;
        let all = xml::items(&answer, "snapshotSet").into_iter();
        let ours = all.filter(|it| it.contains("CSIVolumeSnapshotName"));
        let ids = ours.filter_map(|it| xml::first(it, "snapshotId"));
        Ok(ids.map(str::to_owned).collect())
    }
}

/// A node, and how the driver knows it.
pub(crate) struct Place {
    pub(crate) driver: &'static str,
    pub(crate) node: String,
    /// ID of its server in the cloud.
    pub(crate) server: String,
    /// Key of the label with the zone.
    pub(crate) key: &'static str,
    pub(crate) zone: &'static str,
}

impl Place {
    /// Returns the node of the first server of simcloud.
    pub(crate) fn of_simcloud() -> Self {
        Self {
            driver: DRIVER,
            node: "node-1".to_owned(),
            server: "srv-1".to_owned(),
            key: KEY,
            zone: "zone-a",
        }
    }
}

/// The cluster and the cloud.
pub(crate) struct World<'a, C> {
    pub(crate) objects: Objects,
    pub(crate) cloud: &'a C,
    pub(crate) place: Place,
}

/// Returns a claim for this many GiB, with more fields of its spec.
pub(crate) fn claim(name: &str, gib: u32, more: (&str, Value)) -> Value {
    let (key, value) = more;
    let spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": CLASS,
        "resources": {"requests": {"storage": format!("{gib}Gi")}},
        key: value,
    });
    object("v1", "PersistentVolumeClaim", name, json!({"spec": spec}))
}

impl<C: Cloud> World<'_, C> {
    /// Creates a node with the driver, and classes.
    pub(crate) async fn prepare(&self) -> Result<()> {
        let Place {
            driver,
            node: name,
            server,
            key,
            zone,
        } = &self.place;
        let mut node = object("v1", "Node", name, json!({}));
        node["metadata"]["labels"] = json!({(*key): zone});
        self.objects.create("/api/v1/nodes", &node).await?;

        let version = "storage.k8s.io/v1";
        let registered = json!({"name": driver, "nodeID": server, "topologyKeys": [key]});
        let drivers = json!({"spec": {"drivers": [registered]}});
        let node = object(version, "CSINode", name, drivers);
        self.objects.create(CSI_NODES, &node).await?;
        let spec = json!({"spec": {"attachRequired": true}});
        let csi_driver = object(version, "CSIDriver", driver, spec);
        self.objects.create(DRIVERS, &csi_driver).await?;

        let class = json!({"provisioner": driver, "allowVolumeExpansion": true});
        let class = object(version, "StorageClass", CLASS, class);
        self.objects.create(CLASSES, &class).await?;
        for (name, iops) in IOPS {
            let parameters = json!({"iops": iops.to_string()});
            let class = json!({"driverName": driver, "parameters": parameters});
            let class = object(version, "VolumeAttributesClass", name, class);
            self.objects.create(ATTRIBUTES, &class).await?;
        }
        Ok(())
    }

    /// Returns the volume of a PersistentVolume.
    pub(crate) async fn disk(&self, object: &Value) -> Result<Disk> {
        let id = &object["spec"]["csi"]["volumeHandle"];
        let mut all = self.cloud.disks().await?.into_iter();
        let found = all.find(|it| *id == it.id.as_str());
        found.with_context(|| format!("not in the cloud: {object}"))
    }
}
