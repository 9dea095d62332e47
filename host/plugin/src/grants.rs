//! What the operator grants a plugin beyond what every plugin has.

use skydock_cloud::{ForeignKind, ForeignObject};

/// Objects of the cluster that a plugin may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectGrant {
    /// This one.
    Exact(ForeignObject),
    /// The one that an annotation of the service of the running call names, in the namespace of that service.
    NamedBy {
        /// What it is.
        kind: ForeignKind,
        /// Key of the annotation.
        annotation: String,
    },
}

/// What the operator grants a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// Objects of the cluster that it may read.
    pub objects: Vec<ObjectGrant>,
    /// Interfaces that a replacement may import although the one before it does not, without version.
    pub imports: Vec<String>,
    /// Hosts that a replacement may wish to reach although the one before it does not.
    pub hosts: Vec<String>,
    /// Prefixes of provider IDs and annotations that a replacement may own although the one before it does not.
    pub prefixes: Vec<String>,
}
