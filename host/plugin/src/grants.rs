//! Permissions that the operator grants a plugin in addition to those of every plugin.

use skydock_cloud::{ForeignKind, ForeignObject};

/// Objects of the cluster that a plugin may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectGrant {
    /// This object.
    Exact(ForeignObject),
    /// The object that an annotation of the current call's Service names, in the namespace of that
    /// Service.
    NamedBy {
        /// Kind of the object.
        kind: ForeignKind,
        /// Key of the annotation.
        annotation: String,
    },
}

/// All permissions that the operator grants a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// Objects of the cluster that the plugin may read.
    pub objects: Vec<ObjectGrant>,
    /// Interfaces that a replacement may import although the previous plugin does not, without
    /// their versions.
    pub imports: Vec<String>,
    /// Hosts that a replacement may request although the previous plugin does not.
    pub hosts: Vec<String>,
    /// Prefixes of provider IDs and annotations that a replacement may own although the previous
    /// plugin does not.
    pub prefixes: Vec<String>,
}
