use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Service, Taint},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time},
};
use kube::core::Selector;
use skydock_cloud::Pairs;

use super::{Entry, Identity, Kind, read::Read};
use crate::{
    constants::NODE_CONDITIONS,
    convert::{self, ConvertError},
};

/// What of a node its view leaves out. Capacity, volumes, images, managed fields, and conditions that nobody here reads are
/// not kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeptNode {
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.deletionTimestamp`.
    pub deletion_timestamp: Option<Time>,
    /// `spec.taints`, of which the view leaves out those of effects that it does not know.
    pub taints: Vec<Taint>,
    /// Of `status.conditions`, `Ready` and `NetworkUnavailable`.
    pub conditions: Vec<NodeCondition>,
    /// What only [`Kind::whole`] shows.
    rest: Box<Rest>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Rest {
    owner_references: Option<Vec<OwnerReference>>,
    finalizers: Option<Vec<String>>,
    pod_cidr: Option<String>,
    /// Those that are not in the view.
    node_info: Option<NodeSystemInfo>,
    /// If one of them is not in the view.
    addresses: Option<Vec<NodeAddress>>,
}

impl Kind for Node {
    type Read = Self;
    type View = Arc<skydock_cloud::Node>;
    type Kept = KeptNode;

    fn split(self) -> (KeptNode, Self::View) {
        let view = convert::node(&self);
        let Self { metadata, spec, status } = self;
        let (spec, status) = (spec.unwrap_or_default(), status.unwrap_or_default());
        let mut conditions = status.conditions.unwrap_or_default();
        conditions.retain(|condition| NODE_CONDITIONS.contains(&condition.type_.as_str()));
        let kept = KeptNode {
            resource_version: metadata.resource_version.unwrap_or_default(),
            deletion_timestamp: metadata.deletion_timestamp,
            taints: spec.taints.unwrap_or_default(),
            conditions,
            rest: Box::new(Rest {
                owner_references: metadata.owner_references,
                finalizers: metadata.finalizers,
                pod_cidr: spec.pod_cidr,
                node_info: status.node_info.map(|info| NodeSystemInfo {
                    architecture: String::new(),
                    machine_id: String::new(),
                    operating_system: String::new(),
                    os_image: String::new(),
                    system_uuid: String::new(),
                    ..info
                }),
                addresses: status.addresses.filter(|addresses| addresses.len() != view.addresses.len()),
            }),
        };
        (kept, Arc::new(view))
    }

    fn identity(entry: &Entry<Self>) -> Identity<'_> {
        Identity {
            namespace: "",
            name: &entry.view.name,
            uid: &entry.view.uid,
            resource_version: &entry.object.resource_version,
        }
    }

    fn whole(entry: &Entry<Self>) -> Self {
        let (KeptNode { rest, .. }, view) = (&entry.object, &*entry.view);
        let addresses = view.addresses.iter();
        let addresses =
            addresses.map(|it| NodeAddress { type_: it.kind.as_str().to_owned(), address: it.address.clone() });
        Self {
            metadata: ObjectMeta {
                name: filled(&view.name),
                uid: filled(&view.uid),
                resource_version: filled(&entry.object.resource_version),
                creation_timestamp: time(view.creation_timestamp),
                deletion_timestamp: entry.object.deletion_timestamp.clone(),
                labels: pairs(&view.labels),
                annotations: pairs(&view.annotations),
                owner_references: rest.owner_references.clone(),
                finalizers: rest.finalizers.clone(),
                ..ObjectMeta::default()
            },
            spec: Some(NodeSpec {
                pod_cidr: rest.pod_cidr.clone(),
                pod_cidrs: list(view.pod_cidrs.clone()),
                provider_id: view.provider_id.clone(),
                taints: list(entry.object.taints.clone()),
                unschedulable: view.unschedulable.then_some(true),
                ..NodeSpec::default()
            }),
            status: Some(NodeStatus {
                addresses: rest.addresses.clone().or_else(|| list(addresses.collect())),
                conditions: list(entry.object.conditions.clone()),
                node_info: rest.node_info.clone().map(|info| NodeSystemInfo {
                    architecture: view.architecture.clone(),
                    machine_id: view.machine_id.clone(),
                    operating_system: view.operating_system.clone(),
                    os_image: view.os_image.clone(),
                    system_uuid: view.system_uuid.clone(),
                    ..info
                }),
                ..NodeStatus::default()
            }),
        }
    }
}

/// Kubernetes keeps times to the second.
fn time(seconds: u64) -> Option<Time> {
    let seconds = i64::try_from(seconds).ok().filter(|seconds| *seconds != 0)?;
    Timestamp::from_second(seconds).ok().map(Time)
}

pub(super) fn filled(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

fn pairs(pairs: &Pairs) -> Option<Pairs> {
    Some(pairs.clone()).filter(|pairs| !pairs.is_empty())
}

fn list<T>(list: Vec<T>) -> Option<Vec<T>> {
    Some(list).filter(|list| !list.is_empty())
}

/// A service as a provider sees it.
#[derive(Clone, Debug)]
pub struct ServiceView {
    /// The service.
    pub service: Arc<skydock_cloud::Service>,
    /// The nodes that it wants behind its load balancer.
    pub node_selector: Selector,
    /// What it asks for and no provider can be told.
    pub problem: Option<ConvertError>,
}

impl Kind for Service {
    type Read = Read<Service>;
    type View = ServiceView;
    type Kept = Self;

    fn split(mut self) -> (Self, ServiceView) {
        self.metadata.managed_fields = None;
        let (service, problem) = convert::service(&self);
        let (node_selector, bad_selector) = match convert::node_selector(&self) {
            Ok(selector) => (selector, None),
            Err(error) => (Selector::default(), Some(error)),
        };
        (self, ServiceView { service: Arc::new(service), node_selector, problem: problem.or(bad_selector) })
    }

    fn identity(entry: &Entry<Self>) -> Identity<'_> {
        let ObjectMeta { namespace, name, uid, resource_version, .. } = &entry.object.metadata;
        Identity {
            namespace: namespace.as_deref().unwrap_or_default(),
            name: name.as_deref().unwrap_or_default(),
            uid: uid.as_deref().unwrap_or_default(),
            resource_version: resource_version.as_deref().unwrap_or_default(),
        }
    }

    fn whole(entry: &Entry<Self>) -> Self {
        entry.object.clone()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_is_kept_without_what_nobody_reads_and_can_be_shown_whole() {
        let mut object = json!({
            "kind": "Node", "apiVersion": "v1",
            "metadata": {
                "name": "n", "uid": "u", "resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z",
                "deletionTimestamp": "2026-01-02T00:00:00Z", "labels": {"a": "b"}, "annotations": {"c": "d"},
                "finalizers": ["f"], "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "v"}],
            },
            "spec": {
                "podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"], "providerID": "x://n", "unschedulable": true,
                "taints": [{"key": "k", "value": "v", "effect": "NoExecute"}, {"key": "odd", "effect": "Maybe"}],
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
        let full: Node = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(Node::whole(&Entry::new(full)), expected);

        object["status"]["addresses"] =
            json!([{"type": "Odd", "address": "x"}, {"type": "InternalIP", "address": "10.0.0.1"}]);
        let odd: Node = serde_json::from_value(object.clone()).unwrap();
        let expected = odd.status.clone().unwrap().addresses;
        assert_eq!(Node::whole(&Entry::new(odd)).status.unwrap().addresses, expected);
        let empty = Node { spec: Some(NodeSpec::default()), status: Some(NodeStatus::default()), ..Node::default() };
        assert_eq!(Node::whole(&Entry::new(Node::default())), empty);
    }

    #[test]
    fn managed_fields_of_a_service_are_not_kept() {
        let service =
            json!({"metadata": {"name": "s", "managedFields": [{"manager": "kubectl", "operation": "Update"}]}});
        let entry = Entry::<Service>::new(serde_json::from_value(service).unwrap());
        assert_eq!(Service::whole(&entry).metadata.managed_fields, None);
    }
}
