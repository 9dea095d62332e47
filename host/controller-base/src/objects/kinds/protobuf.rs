//! Decodes nodes in protobuf, as client-go does: encoding the 20 KiB of a typical kubelet's node as
//! JSON costs the API server a tenth of its time whenever nodes change.
//!
//! A version in which nothing has changed that is read is not decoded, see `heartbeat.rs`.
//!
//! The messages have the fields that Skydock reads; all other fields are skipped. The field numbers
//! are those of `generated.proto` in k8s.io/api/core/v1 and k8s.io/apimachinery/pkg/apis/meta/v1.
//!
//! Go writes fields that are not pointers even if they are empty: an empty string, or a time
//! without fields, means that there is no value.
//!
//! A single node that cannot be decoded would make a whole list fail, and a watch could not
//! continue past it. Values that the API server does not validate are therefore accepted as they
//! are: text that is not UTF-8, which a kubelet can send in protobuf, and times that are out of
//! range.

mod heartbeat;

use std::collections::BTreeMap;

use bytes::Bytes;
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1 as core,
    apimachinery::pkg::apis::meta::v1::{self as meta, OwnerReference},
};
use prost::{DecodeError, Message};
use skydock_kube::informer::{Before, Entry};

use self::heartbeat::Heartbeat;
use crate::objects::{constants::NODE_CONDITIONS, kinds::NodeKind};

/// Decodes a node, unless it has not changed since the version before.
pub(super) fn entry(
    raw: Bytes,
    before: &Before<'_, NodeKind>,
) -> Result<Entry<NodeKind>, DecodeError> {
    let heartbeat = Heartbeat::read(&raw);
    let digest = heartbeat.as_ref().map(|it| it.digest);
    if let Some(entry) = heartbeat.and_then(|it| it.after(before)) {
        return Ok(entry);
    }

    let mut entry = Entry::<NodeKind>::new(node(raw)?);
    entry.object.digest = digest;
    Ok(entry)
}

/// Decodes a node. It lacks capacity, volumes, images, managed fields and the conditions that
/// Skydock does not read.
fn node(raw: Bytes) -> Result<core::Node, DecodeError> {
    Node::decode(raw).map(Into::into)
}

/// Declares protobuf messages.
macro_rules! messages {
    ($($name:ident { $(#[$kind:meta] $field:ident: $type:ty,)* })*) => {$(
        #[derive(Clone, PartialEq, Message)]
        struct $name { $(#[$kind] $field: $type,)* }
    )*};
}

messages! {
    Node {
        #[prost(message, optional, tag = "1")] metadata: Option<ObjectMeta>,
        #[prost(message, optional, tag = "2")] spec: Option<NodeSpec>,
        #[prost(message, optional, tag = "3")] status: Option<NodeStatus>,
    }
    ObjectMeta {
        #[prost(string, tag = "1")] name: String,
        #[prost(string, tag = "5")] uid: String,
        #[prost(string, tag = "6")] resource_version: String,
        #[prost(message, optional, tag = "8")] creation_timestamp: Option<Time>,
        #[prost(message, optional, tag = "9")] deletion_timestamp: Option<Time>,
        #[prost(btree_map = "string, bytes", tag = "11")] labels: BTreeMap<String, Vec<u8>>,
        #[prost(btree_map = "string, bytes", tag = "12")] annotations: BTreeMap<String, Vec<u8>>,
        #[prost(message, repeated, tag = "13")] owner_references: Vec<Owner>,
        #[prost(string, repeated, tag = "14")] finalizers: Vec<String>,
    }
    Owner {
        #[prost(bytes = "bytes", tag = "1")] kind: Bytes,
        #[prost(bytes = "bytes", tag = "3")] name: Bytes,
        #[prost(bytes = "bytes", tag = "4")] uid: Bytes,
        #[prost(bytes = "bytes", tag = "5")] api_version: Bytes,
        #[prost(bool, optional, tag = "6")] controller: Option<bool>,
        #[prost(bool, optional, tag = "7")] block_owner_deletion: Option<bool>,
    }
    Time {
        #[prost(int64, optional, tag = "1")] seconds: Option<i64>,
        #[prost(int32, optional, tag = "2")] nanos: Option<i32>,
    }
    NodeSpec {
        #[prost(string, tag = "1")] pod_cidr: String,
        #[prost(bytes = "bytes", tag = "3")] provider_id: Bytes,
        #[prost(bool, tag = "4")] unschedulable: bool,
        #[prost(message, repeated, tag = "5")] taints: Vec<Taint>,
        #[prost(string, repeated, tag = "7")] pod_cidrs: Vec<String>,
    }
    Taint {
        #[prost(string, tag = "1")] key: String,
        #[prost(string, tag = "2")] value: String,
        #[prost(string, tag = "3")] effect: String,
        #[prost(message, optional, tag = "4")] time_added: Option<Time>,
    }
    NodeStatus {
        #[prost(message, repeated, tag = "4")] conditions: Vec<NodeCondition>,
        #[prost(message, repeated, tag = "5")] addresses: Vec<NodeAddress>,
        #[prost(message, optional, tag = "7")] node_info: Option<NodeSystemInfo>,
    }
    NodeCondition {
        #[prost(bytes = "bytes", tag = "1")] r#type: Bytes,
        #[prost(bytes = "bytes", tag = "2")] status: Bytes,
        #[prost(message, optional, tag = "3")] last_heartbeat_time: Option<Time>,
        #[prost(message, optional, tag = "4")] last_transition_time: Option<Time>,
        #[prost(bytes = "bytes", tag = "5")] reason: Bytes,
        #[prost(bytes = "bytes", tag = "6")] message: Bytes,
    }
    NodeAddress {
        #[prost(bytes = "bytes", tag = "1")] r#type: Bytes,
        #[prost(bytes = "bytes", tag = "2")] address: Bytes,
    }
    NodeSystemInfo {
        #[prost(bytes = "bytes", tag = "1")] machine_id: Bytes,
        #[prost(bytes = "bytes", tag = "2")] system_uuid: Bytes,
        #[prost(bytes = "bytes", tag = "3")] boot_id: Bytes,
        #[prost(bytes = "bytes", tag = "4")] kernel_version: Bytes,
        #[prost(bytes = "bytes", tag = "5")] os_image: Bytes,
        #[prost(bytes = "bytes", tag = "6")] container_runtime_version: Bytes,
        #[prost(bytes = "bytes", tag = "7")] kubelet_version: Bytes,
        #[prost(bytes = "bytes", tag = "8")] kube_proxy_version: Bytes,
        #[prost(bytes = "bytes", tag = "9")] operating_system: Bytes,
        #[prost(bytes = "bytes", tag = "10")] architecture: Bytes,
        #[prost(message, optional, tag = "11")] swap: Option<NodeSwapStatus>,
    }
    NodeSwapStatus {
        #[prost(int64, optional, tag = "1")] capacity: Option<i64>,
    }
}

fn text(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn list<T, U: From<T>>(list: Vec<T>) -> Option<Vec<U>> {
    Some(list)
        .filter(|list| !list.is_empty())
        .map(|list| list.into_iter().map(Into::into).collect())
}

/// Decodes text that was not validated; invalid UTF-8 is replaced.
fn free(text: impl AsRef<[u8]>) -> String {
    String::from_utf8_lossy(text.as_ref()).into_owned()
}

fn map(pairs: BTreeMap<String, Vec<u8>>) -> Option<BTreeMap<String, String>> {
    let text = |value| String::from_utf8(value).unwrap_or_else(|error| free(error.as_bytes()));
    Some(pairs).filter(|it| !it.is_empty()).map(|it| {
        it.into_iter()
            .map(|(key, value)| (key, text(value)))
            .collect()
    })
}

/// Converts a time; returns `None` if it is missing or out of range.
fn time(time: Option<Time>) -> Option<meta::Time> {
    let reported = time.filter(|it| it.seconds.is_some() || it.nanos.is_some())?;
    Timestamp::new(
        reported.seconds.unwrap_or_default(),
        reported.nanos.unwrap_or_default(),
    )
    .ok()
    .map(meta::Time)
}

impl From<Node> for core::Node {
    fn from(
        Node {
            metadata,
            spec,
            status,
        }: Node,
    ) -> Self {
        Self {
            metadata: metadata.unwrap_or_default().into(),
            spec: spec.map(Into::into),
            status: status.map(Into::into),
        }
    }
}

impl From<ObjectMeta> for meta::ObjectMeta {
    fn from(it: ObjectMeta) -> Self {
        Self {
            name: text(it.name),
            uid: text(it.uid),
            resource_version: text(it.resource_version),
            creation_timestamp: time(it.creation_timestamp),
            deletion_timestamp: time(it.deletion_timestamp),
            labels: map(it.labels),
            annotations: map(it.annotations),
            owner_references: list(it.owner_references),
            finalizers: list(it.finalizers),
            ..Self::default()
        }
    }
}

impl From<Owner> for OwnerReference {
    fn from(
        Owner {
            kind,
            name,
            uid,
            api_version,
            controller,
            block_owner_deletion,
        }: Owner,
    ) -> Self {
        let kind = free(kind);
        let name = free(name);
        let uid = free(uid);
        let api_version = free(api_version);

        Self {
            kind,
            name,
            uid,
            api_version,
            controller,
            block_owner_deletion,
        }
    }
}

impl From<NodeSpec> for core::NodeSpec {
    fn from(it: NodeSpec) -> Self {
        Self {
            pod_cidr: text(it.pod_cidr),
            pod_cidrs: list(it.pod_cidrs),
            provider_id: text(free(it.provider_id)),
            unschedulable: it.unschedulable.then_some(true),
            taints: list(it.taints),
            ..Self::default()
        }
    }
}

impl From<Taint> for core::Taint {
    fn from(
        Taint {
            key,
            value,
            effect,
            time_added,
        }: Taint,
    ) -> Self {
        Self {
            key,
            value: text(value),
            effect,
            time_added: time(time_added),
        }
    }
}

impl From<NodeStatus> for core::NodeStatus {
    fn from(it: NodeStatus) -> Self {
        Self {
            conditions: list(it.conditions.into_iter().filter(is_read).collect()),
            addresses: list(it.addresses),
            node_info: it.node_info.map(Into::into),
            ..Self::default()
        }
    }
}

/// Returns true for the conditions that Skydock reads.
fn is_read(condition: &NodeCondition) -> bool {
    NODE_CONDITIONS.iter().any(|kind| condition.r#type == *kind)
}

impl From<NodeCondition> for core::NodeCondition {
    fn from(it: NodeCondition) -> Self {
        Self {
            type_: free(it.r#type),
            status: free(it.status),
            last_heartbeat_time: time(it.last_heartbeat_time),
            last_transition_time: time(it.last_transition_time),
            reason: text(free(it.reason)),
            message: text(free(it.message)),
        }
    }
}

impl From<NodeAddress> for core::NodeAddress {
    fn from(NodeAddress { r#type, address }: NodeAddress) -> Self {
        Self {
            type_: free(r#type),
            address: free(address),
        }
    }
}

impl From<NodeSystemInfo> for core::NodeSystemInfo {
    fn from(it: NodeSystemInfo) -> Self {
        Self {
            machine_id: free(it.machine_id),
            system_uuid: free(it.system_uuid),
            boot_id: free(it.boot_id),
            kernel_version: free(it.kernel_version),
            os_image: free(it.os_image),
            container_runtime_version: free(it.container_runtime_version),
            kubelet_version: free(it.kubelet_version),
            kube_proxy_version: free(it.kube_proxy_version),
            operating_system: free(it.operating_system),
            architecture: free(it.architecture),
            swap: it
                .swap
                .map(|NodeSwapStatus { capacity }| core::NodeSwapStatus { capacity }),
        }
    }
}

#[cfg(test)]
mod tests;
