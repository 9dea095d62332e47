//! What a plugin may read and note beyond the objects that it is given: nothing but what the operator grants.
use crate::bindings::imports::skydock::provider::objects as host;
use crate::inside_a_plugin;

pub use crate::bindings::imports::skydock::provider::objects::Refusal;

/// Reads one object of the cluster as JSON. `kind` is `v1/Secret`, `v1/ConfigMap` or `v1/Namespace`; `namespace` is empty for a
/// Namespace.
///
/// # Errors
///
/// [`Refusal`], if it is not granted, does not exist, or the API server could not be asked.
pub fn read(kind: &str, namespace: &str, name: &str) -> Result<String, Refusal> {
    inside_a_plugin();
    host::read(kind, namespace, name)
}

/// Sets an annotation on a node (`NAME`) or service (`NAMESPACE/NAME`) of the running call, or removes it. The host writes it when
/// the call has ended, however it ended. False if it is not the plugin's to write: the key is under none of its
/// `annotation_prefixes`, the object is none of the call's, or the call changes nothing.
pub fn annotate(name: &str, key: &str, value: Option<&str>) -> bool {
    inside_a_plugin();
    host::annotate(name, key, value)
}
