//! A cluster and a cloud.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use skydock_e2e::volumes::{ATTRIBUTES, CLASSES, CSI_NODES, DRIVERS, Objects, object};
use skydock_simcloud::Simcloud;

use crate::{DRIVER, KEY};

/// The node, its server, and the zone of that.
pub(crate) const NODE: &str = "node-1";
pub(crate) const SERVER: &str = "srv-1";
pub(crate) const ZONE: &str = "zone-a";
/// The name of the class of volumes, and of the usual one of attributes.
pub(crate) const CLASS: &str = "sim";
/// The VolumeAttributesClass with more operations per second.
pub(crate) const FAST: &str = "fast";

/// The cluster and the cloud.
pub(crate) struct World {
    pub(crate) objects: Objects,
    pub(crate) cloud: Simcloud,
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

impl World {
    /// Creates a node with the driver, and classes.
    pub(crate) async fn prepare(&self) -> Result<()> {
        let node = json!({"metadata": {"name": NODE, "labels": {KEY: ZONE}}});
        let node = object("v1", "Node", NODE, node);
        self.objects.create("/api/v1/nodes", &node).await?;

        let storage = |kind, name, rest| object("storage.k8s.io/v1", kind, name, rest);
        let driver = json!({"name": DRIVER, "nodeID": SERVER, "topologyKeys": [KEY]});
        let node = json!({"spec": {"drivers": [driver]}});
        let node = storage("CSINode", NODE, node);
        self.objects.create(CSI_NODES, &node).await?;
        let driver = json!({"spec": {"attachRequired": true}});
        let driver = storage("CSIDriver", DRIVER, driver);
        self.objects.create(DRIVERS, &driver).await?;

        let class = json!({"provisioner": DRIVER, "allowVolumeExpansion": true});
        let class = storage("StorageClass", CLASS, class);
        self.objects.create(CLASSES, &class).await?;
        for (name, iops) in [(CLASS, "500"), (FAST, "5000")] {
            let class = json!({"driverName": DRIVER, "parameters": {"iops": iops}});
            let class = storage("VolumeAttributesClass", name, class);
            self.objects.create(ATTRIBUTES, &class).await?;
        }
        Ok(())
    }

    /// Returns everything of a kind that the cloud has.
    pub(crate) fn has(&self, kind: &str) -> Vec<Value> {
        let (_, state) = self.cloud.request("GET", "/_sim/state", &Value::Null);
        state[kind].as_array().cloned().unwrap_or_default()
    }

    /// Returns what the cloud has of a PersistentVolume.
    pub(crate) fn volume(&self, name: &str) -> Result<Value> {
        let mut all = self.has("volumes").into_iter();
        let found = all.find(|it| it["name"] == name);
        found.with_context(|| format!("{name} is not in the cloud"))
    }
}
