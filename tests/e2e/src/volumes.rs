//! Volumes in a cluster: objects as JSON, what the distribution of a cluster has for snapshots, and failures of
//! the cloud.

mod failures;
mod objects;
mod snapshots;

pub use failures::{failure, seed};
pub use objects::{
    ATTACHMENTS, ATTRIBUTES, CLAIMS, CLASSES, CSI_NODES, DRIVERS, EVENTS, Objects, PODS,
    SNAPSHOT_CLASSES, SNAPSHOT_CONTENTS, SNAPSHOTS, VOLUMES, object,
};
pub use snapshots::start_snapshot_controller;
