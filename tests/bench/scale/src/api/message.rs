//! The mutable part of a node, with the same structure in memory, in protobuf, and in JSON. Tags
//! are those of `generated.proto` in k8s.io/api/core/v1 and k8s.io/apimachinery/pkg/apis/meta/v1.

use std::collections::BTreeMap;

use prost::Message;
use serde::{Deserialize, Serialize};

use crate::clock::Time;

/// Declares messages that are also JSON objects. Empty fields are omitted.
macro_rules! messages {
    ($($(#[$about:meta])* $name:ident { $(#[$kind:meta] $(#[$json:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$about])*
        #[derive(Clone, PartialEq, Message, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub(crate) struct $name {
            $(#[$kind] #[serde(skip_serializing_if = "is_empty")] $(#[$json])* pub(crate) $field: $type,)*
        }
    )*};
}

messages! {
    /// The part of a node that Skydock and orders change.
    Node {
        #[prost(message, required, tag = "1")] metadata: Meta,
        #[prost(message, required, tag = "2")] spec: Spec,
        #[prost(message, required, tag = "3")] status: Status,
    }
    Meta {
        #[prost(string, tag = "1")] name: String,
        #[prost(string, tag = "5")] uid: String,
        #[prost(string, tag = "6")] resource_version: String,
        #[prost(message, optional, tag = "8")] creation_timestamp: Option<Time>,
        #[prost(btree_map = "string, string", tag = "11")] labels: BTreeMap<String, String>,
        #[prost(btree_map = "string, string", tag = "12")] annotations: BTreeMap<String, String>,
    }
    Spec {
        #[prost(string, tag = "1")] #[serde(rename = "podCIDR")] pod_cidr: String,
        #[prost(string, tag = "3")] #[serde(rename = "providerID")] provider_id: String,
        #[prost(message, repeated, tag = "5")] taints: Vec<Taint>,
        #[prost(string, repeated, tag = "7")] #[serde(rename = "podCIDRs")] pod_cidrs: Vec<String>,
    }
    Taint {
        #[prost(string, tag = "1")] key: String,
        #[prost(string, tag = "2")] value: String,
        #[prost(string, tag = "3")] effect: String,
        #[prost(message, optional, tag = "4")] time_added: Option<Time>,
    }
    Status {
        #[prost(message, repeated, tag = "4")] conditions: Vec<Condition>,
        #[prost(message, repeated, tag = "5")] addresses: Vec<Address>,
    }
    Condition {
        #[prost(string, tag = "1")] r#type: String,
        #[prost(string, tag = "2")] status: String,
        #[prost(message, optional, tag = "3")] last_heartbeat_time: Option<Time>,
        #[prost(message, optional, tag = "4")] last_transition_time: Option<Time>,
        #[prost(string, tag = "5")] reason: String,
        #[prost(string, tag = "6")] message: String,
    }
    Address {
        #[prost(string, tag = "1")] r#type: String,
        #[prost(string, tag = "2")] address: String,
    }
}

/// Returns whether a message is empty.
fn is_empty<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Node {
    /// Returns the condition of this type.
    pub(crate) fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status
            .conditions
            .iter()
            .find(|condition| condition.r#type == kind)
    }
}
