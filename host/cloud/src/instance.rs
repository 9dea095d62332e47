//! The machine behind a node.

use crate::{NodeAddress, Pairs};

/// What has become of the machine behind a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Presence {
    /// It runs, or nobody is sure.
    Running,
    /// It exists and is stopped.
    Stopped,
    /// It is gone for sure: its Node is to be deleted.
    Absent,
}

/// What a node is to know about its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    /// For `spec.providerID`.
    pub provider_id: Option<String>,
    /// For the instance-type labels.
    pub instance_type: Option<String>,
    /// For the zone labels.
    pub zone: Option<String>,
    /// For the region labels.
    pub region: Option<String>,
    /// For `status.addresses`; empty keeps what is there.
    pub addresses: Vec<NodeAddress>,
    /// Further labels.
    pub labels: Pairs,
    /// Annotations.
    pub annotations: Pairs,
}

/// Where a node is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zone {
    /// For the zone labels.
    pub zone: Option<String>,
    /// For the region labels.
    pub region: Option<String>,
}
