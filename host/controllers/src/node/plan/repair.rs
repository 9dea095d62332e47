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

impl Repair {
    /// Returns true if there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.addresses.is_none() && self.labels.is_empty() && self.annotations.is_empty()
    }
}

/// Returns what to write to update an initialized node.
#[must_use]
pub fn repair(node: &Node, instance: &Instance, reconciled: SyncedFields) -> Repair {
    let mut repair = Repair::default();
    if reconciled.addresses {
        match addresses::wanted(node, &instance.addresses) {
            Ok(wanted) => repair.addresses = wanted,
            Err(error) => repair.rejected = Some(error),
        }
    }

    if reconciled.labels {
        repair.labels = labels::plan(node, instance);
        repair.annotations = labels::annotations(node, instance);
    }

    repair
}

#[cfg(test)]
mod tests {
    use skydock_cloud::AddressKind;
    use skydock_controller_base::testing::pairs;

    use super::*;

    #[test]
    fn a_node_that_is_as_the_cloud_says_is_not_written() {
        let addresses = |address: &str| {
            vec![NodeAddress {
                kind: AddressKind::InternalIp,
                address: address.to_owned(),
            }]
        };
        let node = Node {
            addresses: addresses("10.0.0.1"),
            ..Node::default()
        };
        let same = Instance {
            addresses: addresses("10.0.0.1"),
            ..Instance::default()
        };
        let fields = SyncedFields {
            addresses: true,
            labels: true,
        };
        assert!(repair(&node, &same, fields).is_empty());

        for instance in [
            Instance {
                addresses: addresses("10.0.0.2"),
                ..same.clone()
            },
            Instance {
                zone: Some("z".to_owned()),
                ..same.clone()
            },
            Instance {
                annotations: pairs(&[("x.example/a", "1")]),
                ..same.clone()
            },
        ] {
            assert!(!repair(&node, &instance, fields).is_empty(), "{instance:?}");
        }
    }
}
