//! Converts Kubernetes objects for providers, and the providers' answers for Kubernetes.

mod node;
mod selector;
mod service;
mod status;

pub(crate) use self::{node::is_ready, selector::node_selector, service::service};
pub use self::{
    node::node, selector::is_qualified_name, service::ConvertError, status::status_json,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

fn text(value: Option<&String>) -> String {
    value.cloned().unwrap_or_default()
}

/// Returns `None` if the text is missing or empty.
fn filled(value: Option<&String>) -> Option<String> {
    value.filter(|value| !value.is_empty()).cloned()
}

fn created(meta: &ObjectMeta) -> u64 {
    meta.creation_timestamp
        .as_ref()
        .map_or(0, |time| u64::try_from(time.0.as_second()).unwrap_or(0))
}
