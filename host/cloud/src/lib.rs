//! The interface between Kubernetes controllers and a cloud: nodes and Services as input,
//! instances, load balancers, routes and volumes as output, and the errors of a cloud.
//!
//! This crate connects the controllers, which know Kubernetes but no cloud, with
//! implementations of [`CloudProvider`], which know a cloud but use no Kubernetes client. It does
//! no I/O and depends on no runtime.
//!
//! The documentation of the plugin contract (`wit/`) defines the meaning of the types that it has as
//! well.

#![forbid(unsafe_code)]

mod annotations;
mod capability;
mod cluster;
mod error;
mod function;
pub mod names;
mod objects;
mod provider;
pub mod reason;
pub mod text;
pub mod units;

pub use annotations::{MAX_ANNOTATION_BYTES, MAX_ANNOTATIONS, has_room};
pub use capability::{CallKind, Capability, PerKind};
pub use cluster::{
    Cluster, ForeignKind, ForeignObject, NamedBy, ObjectAnnotations, ObjectEvent, ObjectKind,
    ObjectName, ReadError, Severity,
};
pub use error::{CloudError, Retry, StorageError};
pub use function::{Answer, ArgumentKind, Arguments, Call, Function};
pub use objects::*;
pub use provider::{Answers, CloudProvider, ProviderInfo};

use std::collections::BTreeMap;

/// Labels or annotations. The map is ordered, so that everything derived from it is deterministic.
pub type Pairs = BTreeMap<String, String>;
