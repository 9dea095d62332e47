//! The objects that the controllers watch, and what they keep of each.

mod protobuf;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{
        Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo, Service, Taint,
    },
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time},
};
use kube::core::Selector;
use skydock_cloud::Pairs;
use skydock_kube::informer::{Entry, FromProtobuf, Identity, Kind, Read};

use crate::objects::{
    constants::NODE_CONDITIONS,
    convert::{self, ConvertError},
};

/// The part of a node that is not in its view. Capacity, volumes, images, managed fields and the
/// conditions that Skydock does not read are not kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeptNode {
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.deletionTimestamp`.
    pub deletion_timestamp: Option<Time>,
    /// `spec.taints`; the view omits taints with unknown effects.
    pub taints: Vec<Taint>,
    /// The conditions `Ready` and `NetworkUnavailable` of `status.conditions`.
    pub conditions: Vec<NodeCondition>,
    /// Hash by which a version that has not changed is recognized; `None` if it was read from JSON.
    digest: Option<u64>,
    /// Fields that only [`NodeKind::whole`] returns.
    rest: Arc<Rest>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Rest {
    owner_references: Option<Vec<OwnerReference>>,
    finalizers: Option<Vec<String>>,
    pod_cidr: Option<String>,
    /// The fields that are not in the view.
    node_info: Option<NodeSystemInfo>,
    /// Only set if the view omits some of them.
    addresses: Option<Vec<NodeAddress>>,
}

/// A version of a node in the cache.
pub type NodeEntry = Arc<Entry<NodeKind>>;

/// Nodes, which are read as protobuf. What their view lacks is kept as a [`KeptNode`].
#[derive(Debug)]
pub struct NodeKind;

impl Kind for NodeKind {
    type Object = Node;
    type Read = Node;
    type View = Arc<skydock_cloud::Node>;
    type Kept = KeptNode;

    // It calls `split` by `Entry::new`, except for a heartbeat, which keeps the view before it.
    const PROTOBUF: Option<FromProtobuf<Self>> = Some(protobuf::entry);

    fn split(mut node: Node) -> (KeptNode, Self::View) {
        // They are most of a node, and moved instead of cloned.
        let labels = node.metadata.labels.take();
        let annotations = node.metadata.annotations.take();
        let mut view = convert::node(&node);
        (view.labels, view.annotations) =
            (labels.unwrap_or_default(), annotations.unwrap_or_default());

        let Node {
            metadata,
            spec,
            status,
        } = node;
        let spec = spec.unwrap_or_default();
        let status = status.unwrap_or_default();

        let mut conditions = status.conditions.unwrap_or_default();
        conditions.retain(|condition| NODE_CONDITIONS.contains(&condition.type_.as_str()));
        let mut taints = spec.taints.unwrap_or_default();

        // Decoding leaves room for more, which would be a tenth of the cache.
        conditions.shrink_to_fit();
        taints.shrink_to_fit();

        let kept = KeptNode {
            resource_version: metadata.resource_version.unwrap_or_default(),
            deletion_timestamp: metadata.deletion_timestamp,
            taints,
            conditions,
            digest: None,
            rest: Arc::new(Rest {
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
                addresses: status
                    .addresses
                    .filter(|addresses| addresses.len() != view.addresses.len()),
            }),
        };

        (kept, Arc::new(view))
    }

    /// Also of a version that was decoded, only what is not in the view may have changed.
    fn share(new: &mut Entry<Self>, old: &Entry<Self>) {
        if new.view == old.view {
            new.view = Arc::clone(&old.view);
        }
    }

    fn identity(entry: &Entry<Self>) -> Identity<'_> {
        Identity {
            namespace: "",
            name: &entry.view.name,
            uid: &entry.view.uid,
            resource_version: &entry.object.resource_version,
        }
    }
}

impl NodeKind {
    /// The node, as far as it was kept.
    pub fn whole(entry: &Entry<Self>) -> Node {
        let KeptNode { rest, .. } = &entry.object;
        let view = &*entry.view;
        let addresses = view.addresses.iter();
        let addresses = addresses.map(|it| NodeAddress {
            type_: it.kind.as_str().to_owned(),
            address: it.address.clone(),
        });

        Node {
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

/// Converts a time; Kubernetes stores times in whole seconds.
fn time(seconds: u64) -> Option<Time> {
    let seconds = i64::try_from(seconds)
        .ok()
        .filter(|seconds| *seconds != 0)?;
    Timestamp::from_second(seconds).ok().map(Time)
}

fn filled(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

fn pairs(pairs: &Pairs) -> Option<Pairs> {
    Some(pairs.clone()).filter(|pairs| !pairs.is_empty())
}

fn list<T>(list: Vec<T>) -> Option<Vec<T>> {
    Some(list).filter(|list| !list.is_empty())
}

/// A Service as a provider sees it, and data derived from it.
#[derive(Clone, Debug)]
pub struct ServiceView {
    /// The Service for the provider.
    pub service: Arc<skydock_cloud::Service>,
    /// Selects the nodes behind the load balancer.
    pub node_selector: Selector,
    /// An invalid value in the Service, which cannot be passed to a provider.
    pub problem: Option<ConvertError>,
}

/// Services, which are read as JSON.
#[derive(Debug)]
pub struct ServiceKind;

impl Kind for ServiceKind {
    type Object = Service;
    type Read = Read<Service>;
    type View = ServiceView;
    type Kept = Service;

    fn split(mut object: Service) -> (Service, ServiceView) {
        // They are a large part of an object, and nothing reads them from the cache.
        object.metadata.managed_fields = None;
        let (service, problem) = convert::service(&object);
        let (node_selector, bad_selector) = match convert::node_selector(&object) {
            Ok(selector) => (selector, None),
            Err(error) => (Selector::default(), Some(error)),
        };

        (
            object,
            ServiceView {
                service: Arc::new(service),
                node_selector,
                problem: problem.or(bad_selector),
            },
        )
    }

    fn identity(entry: &Entry<Self>) -> Identity<'_> {
        let ObjectMeta {
            namespace,
            name,
            uid,
            resource_version,
            ..
        } = &entry.object.metadata;

        Identity {
            namespace: namespace.as_deref().unwrap_or_default(),
            name: name.as_deref().unwrap_or_default(),
            uid: uid.as_deref().unwrap_or_default(),
            resource_version: resource_version.as_deref().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::json;
    use skydock_kube::informer::{Change, Informer};

    use super::*;
    use crate::testing::{node, with};

    #[test]
    fn a_node_is_kept_without_unused_fields_and_can_be_rebuilt() {
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
            (
                "/status",
                "images",
                json!([{"names": ["i"], "sizeBytes": 1}]),
            ),
            ("/status", "capacity", json!({"cpu": "4"})),
            ("/status", "allocatable", json!({"cpu": "4"})),
            ("/status", "volumesInUse", json!(["v"])),
            (
                "/status",
                "volumesAttached",
                json!([{"name": "v", "devicePath": "d"}]),
            ),
        ] {
            object.pointer_mut(path).unwrap()[key] = value;
        }
        let pressure = json!({"type": "MemoryPressure", "status": "False"});
        object["status"]["conditions"]
            .as_array_mut()
            .unwrap()
            .push(pressure);
        let full: Node = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(NodeKind::whole(&Entry::new(full)), expected);

        object["status"]["addresses"] =
            json!([{"type": "Odd", "address": "x"}, {"type": "InternalIP", "address": "10.0.0.1"}]);
        let odd: Node = serde_json::from_value(object.clone()).unwrap();
        let expected = odd.status.clone().unwrap().addresses;
        assert_eq!(
            NodeKind::whole(&Entry::new(odd)).status.unwrap().addresses,
            expected
        );
        let empty = Node {
            spec: Some(NodeSpec::default()),
            status: Some(NodeStatus::default()),
            ..Node::default()
        };
        assert_eq!(NodeKind::whole(&Entry::new(Node::default())), empty);
    }

    #[test]
    fn a_heartbeat_shares_the_view() {
        let informer = Informer::<NodeKind>::default();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        informer.subscribe(move |change| {
            if let Change::Updated(old, new) = change {
                log.lock().unwrap().push(Arc::ptr_eq(&old.view, &new.view));
            }
        });

        let apply = |change| informer.apply(with(&node("a"), &change));
        apply(json!({}));
        let pressure = json!([{"type": "MemoryPressure", "status": "False"}]);
        apply(json!({"metadata": {"resourceVersion": "2"}, "status": {"conditions": pressure}}));
        apply(json!({"metadata": {"resourceVersion": "3", "labels": {"a": "b"}}}));
        assert_eq!(*seen.lock().unwrap(), [true, false]);

        let entry = informer.get("a").unwrap();
        assert_eq!(entry.resource_version(), "3");
        assert_eq!(entry.view.labels["a"], "b");
    }

    #[test]
    fn managed_fields_of_a_service_are_not_kept() {
        let service = json!({"metadata": {"name": "s", "managedFields": [{"manager": "kubectl", "operation": "Update"}]}});
        let entry = Entry::<ServiceKind>::new(serde_json::from_value(service).unwrap());
        assert_eq!(entry.object.metadata.managed_fields, None);
    }
}
