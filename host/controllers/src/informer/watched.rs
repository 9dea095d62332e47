//! Nodes as they are read off a list or watch: what nobody here reads is skipped, not parsed. Of the 10 to 20 KiB that a
//! kubelet's node has, most is container images and managed fields.

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::{
    api::core::v1::{Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time},
};
use kube::{Resource, core::ClusterResourceScope};
use serde::{Deserialize, Deserializer};

/// The conditions that are read: whether the node is ready, and whether it has routes.
const CONDITIONS: [&str; 2] = ["Ready", "NetworkUnavailable"];

/// A node without capacity, volumes, images, managed fields, and conditions that nobody here reads.
#[derive(Clone, Debug, Deserialize)]
pub struct WatchedNode {
    #[serde(default, deserialize_with = "metadata")]
    metadata: ObjectMeta,
    spec: Option<NodeSpec>,
    status: Option<Status>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    addresses: Option<Vec<NodeAddress>>,
    conditions: Option<Vec<NodeCondition>>,
    node_info: Option<NodeSystemInfo>,
}

fn metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        name: Option<String>,
        uid: Option<String>,
        resource_version: Option<String>,
        creation_timestamp: Option<Time>,
        deletion_timestamp: Option<Time>,
        labels: Option<BTreeMap<String, String>>,
        annotations: Option<BTreeMap<String, String>>,
        finalizers: Option<Vec<String>>,
        owner_references: Option<Vec<OwnerReference>>,
    }
    let it = Metadata::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: it.name,
        uid: it.uid,
        resource_version: it.resource_version,
        creation_timestamp: it.creation_timestamp,
        deletion_timestamp: it.deletion_timestamp,
        labels: it.labels,
        annotations: it.annotations,
        finalizers: it.finalizers,
        owner_references: it.owner_references,
        ..ObjectMeta::default()
    })
}

impl From<WatchedNode> for Node {
    fn from(WatchedNode { metadata, spec, status }: WatchedNode) -> Self {
        let status = status.map(|Status { addresses, conditions, node_info }| NodeStatus {
            addresses,
            conditions: conditions
                .map(|all| all.into_iter().filter(|it| CONDITIONS.contains(&it.type_.as_str())).collect()),
            node_info,
            ..NodeStatus::default()
        });
        Self { metadata, spec, status }
    }
}

/// That of nodes.
impl Resource for WatchedNode {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Node::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        Node::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        Node::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        Node::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_is_read_but_capacity_volumes_images_managed_fields_and_other_conditions() {
        let mut object = json!({
            "kind": "Node", "apiVersion": "v1",
            "metadata": {
                "name": "n", "uid": "u", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z",
                "deletionTimestamp": "2026-01-02T00:00:00Z", "labels": {"a": "b"}, "annotations": {"c": "d"},
                "finalizers": ["f"], "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "v"}],
            },
            "spec": {
                "podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"], "providerID": "x://n", "unschedulable": true,
                "taints": [{"key": "k", "value": "v", "effect": "NoExecute"}],
            },
            "status": {
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
                "conditions": [{"type": "Ready", "status": "True", "reason": "r", "message": "m",
                    "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
                "nodeInfo": {
                    "architecture": "arm64", "bootID": "b", "containerRuntimeVersion": "c", "kernelVersion": "k",
                    "kubeProxyVersion": "", "kubeletVersion": "v1", "machineID": "m", "operatingSystem": "linux",
                    "osImage": "o", "systemUUID": "s",
                },
            },
        });
        let expected: Node = serde_json::from_value(object.clone()).unwrap();
        for (path, key, value) in [
            (
                "/metadata",
                "managedFields",
                json!([{"manager": "m", "operation": "Update", "fieldsV1": {"f:status": {}}}]),
            ),
            ("/status", "images", json!([{"names": ["i"], "sizeBytes": 1}])),
            ("/status", "capacity", json!({"cpu": "4"})),
            ("/status", "allocatable", json!({"cpu": "4"})),
            ("/status", "volumesInUse", json!(["v"])),
            ("/status", "volumesAttached", json!([{"name": "v", "devicePath": "d"}])),
        ] {
            object.pointer_mut(path).unwrap()[key] = value;
        }
        let pressure = json!({"type": "MemoryPressure", "status": "False"});
        object["status"]["conditions"].as_array_mut().unwrap().push(pressure);
        let watched: WatchedNode = serde_json::from_value(object).unwrap();
        assert_eq!(Node::from(watched), expected);
        let empty: WatchedNode = serde_json::from_value(json!({})).unwrap();
        assert_eq!(Node::from(empty), Node::default());
    }
}
