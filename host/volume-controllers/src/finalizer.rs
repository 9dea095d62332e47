//! Patches that add and remove a finalizer. Those of others are not touched, whatever has changed since
//! the object was read: sidecars had to learn it (`addFinalizerPatch` of csi-attacher).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

/// Returns true if an object has a finalizer.
pub(crate) fn has(metadata: &ObjectMeta, finalizer: &str) -> bool {
    let mut all = metadata.finalizers.iter().flatten();
    all.any(|it| it == finalizer)
}

/// Returns the strategic merge patch that adds a finalizer to this object, and to no other of its name.
pub(crate) fn added(metadata: &ObjectMeta, finalizer: &str) -> Value {
    json!({"metadata": {"uid": metadata.uid, "finalizers": [finalizer]}})
}

/// Returns the strategic merge patch that removes a finalizer.
pub(crate) fn removed(metadata: &ObjectMeta, finalizer: &str) -> Value {
    json!({"metadata": {"uid": metadata.uid, "$deleteFromPrimitiveList/finalizers": [finalizer]}})
}
