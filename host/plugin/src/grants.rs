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
