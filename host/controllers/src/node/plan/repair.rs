//! What is written to update an initialized node: addresses, labels, annotations.

use skydock_cloud::{Instance, Node, NodeAddress};

use super::{
    addresses::{self, ProvidedIpError},
    labels::{self, KeyPlan},
};

/// Which parts of an initialized node are kept up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncedFields {
    /// Its addresses.
    pub addresses: bool,
    /// Its labels.
    pub labels: bool,
}

/// Everything that is written to update an initialized node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    /// New value of `status.addresses`; `None` leaves them unchanged.
    pub addresses: Option<Vec<NodeAddress>>,
    /// Changes of labels.
    pub labels: KeyPlan,
    /// Changes of annotations.
    pub annotations: KeyPlan,
    /// Why the addresses are not changed although the cloud reports some.
    pub rejected: Option<ProvidedIpError>,
}

/// Returns what to write to update an initialized node.
#[must_use]
pub fn repair(node: &Node, instance: &Instance, kept: SyncedFields) -> Repair {
    let mut repair = Repair::default();
    if kept.addresses {
        match addresses::wanted(node, &instance.addresses) {
            Ok(wanted) => repair.addresses = wanted,
            Err(error) => repair.rejected = Some(error),
        }
    }

    if kept.labels {
        repair.labels = labels::plan(node, instance);
        repair.annotations = labels::annotations(node, instance);
    }

    repair
}
