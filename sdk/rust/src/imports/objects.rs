//! Objects that a plugin may read, and annotations that it may write, beyond the objects that it is
//! given.
use crate::bindings::imports::skydock::provider::objects as host;
use crate::inside_a_plugin;

pub use crate::bindings::imports::skydock::provider::objects::Refusal;

/// Reads one object of the cluster as JSON, if the operator grants it. `kind` is `v1/Secret`,
/// `v1/ConfigMap` or `v1/Namespace`; `namespace` is empty for a Namespace.
///
/// # Errors
///
/// A [`Refusal`] if the object is not granted or does not exist, or if the API server could not be
/// asked.
pub fn read(kind: &str, namespace: &str, name: &str) -> Result<String, Refusal> {
    inside_a_plugin();
    host::read(kind, namespace, name)
}

/// Sets an annotation on a node (`NAME`) or Service (`NAMESPACE/NAME`) of the current call, or
/// removes it. The host writes it after the call, however it ended. Returns false if the plugin may
/// not write it: the key does not have one of its `annotation_prefixes`, the object is not one of
/// the call, or the call changes nothing.
pub fn annotate(name: &str, key: &str, value: Option<&str>) -> bool {
    inside_a_plugin();
    host::annotate(name, key, value)
}
