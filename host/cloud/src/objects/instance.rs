//! The cloud instance behind a node.

use crate::{NodeAddress, Pairs};

/// State of the cloud instance behind a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Presence {
    /// The instance is running, or its state is uncertain.
    Running,
    /// The instance exists and is stopped.
    Stopped,
    /// The instance certainly does not exist: its Node is to be deleted.
    Absent,
}

/// Properties of a cloud instance that are written to its Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    /// Value of `spec.providerID`.
    pub provider_id: Option<String>,
    /// Value of the instance type labels.
    pub instance_type: Option<String>,
    /// Value of the zone labels.
    pub zone: Option<String>,
    /// Value of the region labels.
    pub region: Option<String>,
    /// Value of `status.addresses`; if empty, the node keeps its addresses.
    pub addresses: Vec<NodeAddress>,
    /// Additional labels.
    pub labels: Pairs,
    /// Annotations to set on the Node.
    pub annotations: Pairs,
}

/// Location of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zone {
    /// Value of the zone labels.
    pub zone: Option<String>,
    /// Value of the region labels.
    pub region: Option<String>,
}
