//! Machines of the inventory, and how the machine of a node is found.

use std::{collections::HashMap, net::IpAddr};

use serde::Deserialize;

/// The state of a machine according to the inventory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// The machine is in use.
    #[default]
    Running,
    /// The machine is switched off and will return.
    Stopped,
    /// The machine is gone permanently; its node is deleted.
    Absent,
}

/// Kinds of node addresses, as in core/v1 NodeAddress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[allow(missing_docs)] // the names of the Kubernetes API
pub enum AddressType {
    Hostname,
    InternalIP,
    ExternalIP,
    InternalDNS,
    ExternalDNS,
}

/// How the node of a machine is found, besides by its provider ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// By the name of the node.
    NodeName(String),
    /// Only by the provider ID, which the kubelet sets.
    ProviderId,
    /// By an address of the node.
    Address(IpAddr),
}

/// A machine of the inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The name, which is unique in the inventory.
    pub name: String,
    /// How its node is found.
    pub key: Key,
    /// Its provider ID, if the inventory gives one.
    pub provider_id: Option<String>,
    /// The label `node.kubernetes.io/instance-type`.
    pub instance_type: Option<String>,
    /// The label `topology.kubernetes.io/zone`.
    pub zone: Option<String>,
    /// The label `topology.kubernetes.io/region`.
    pub region: Option<String>,
    /// The node's `status.addresses`.
    pub addresses: Vec<(AddressType, String)>,
    /// Additional labels.
    pub labels: Vec<(String, String)>,
    /// Its state.
    pub state: State,
}

impl Machine {
    /// Returns `static://NAME`, the provider ID of the node if neither the inventory nor the
    /// kubelet gives one. The node is identified by it permanently, because the provider ID of a
    /// node is immutable.
    #[must_use]
    pub fn own_id(&self) -> String {
        format!("{}{}", crate::SCHEME, self.name)
    }
}

/// The provider ID of a node differs from that of the machine found by the node's name or address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the node has provider ID {actual}, but machine `{machine}` has {expected} in the inventory: fix the inventory, or delete the \
     Node if the machine was replaced"
)]
pub struct Mismatch {
    /// The name of the machine.
    pub machine: String,
    /// The provider ID of the machine.
    pub expected: String,
    /// The provider ID of the node.
    pub actual: String,
}

/// All machines, indexed by the properties of nodes.
#[derive(Clone, Debug, Default)]
pub struct Machines {
    machines: Vec<Machine>,
    by_provider_id: HashMap<String, usize>,
    by_node_name: HashMap<String, usize>,
    by_address: HashMap<IpAddr, usize>,
}

impl Machines {
    /// Indexes machines whose names, keys and provider IDs are unique.
    #[must_use]
    pub fn new(machines: Vec<Machine>) -> Self {
        let mut all = Self::default();
        for (index, machine) in machines.iter().enumerate() {
            all.by_provider_id.insert(machine.own_id(), index);
            all.by_provider_id
                .extend(machine.provider_id.clone().map(|id| (id, index)));
            match &machine.key {
                Key::NodeName(name) => _ = all.by_node_name.insert(name.clone(), index),
                Key::Address(address) => _ = all.by_address.insert(*address, index),
                Key::ProviderId => {}
            }
        }

        Self { machines, ..all }
    }

    /// Returns all machines, in the order of the inventory.
    #[must_use]
    pub fn all(&self) -> &[Machine] {
        &self.machines
    }

    /// Finds the machine that a node runs on: by provider ID, then by name, then by address.
    ///
    /// # Errors
    /// Returns [`Mismatch`] if the machine found by name or address has another provider ID than
    /// the node, so that the machine cannot be determined.
    pub fn find(
        &self,
        provider_id: Option<&str>,
        node_name: &str,
        mut addresses: impl Iterator<Item = IpAddr>,
    ) -> Result<Option<&Machine>, Mismatch> {
        let get = |index: &usize| self.machines.get(*index);
        if let Some(machine) = provider_id
            .and_then(|id| self.by_provider_id.get(id))
            .and_then(get)
        {
            return Ok(Some(machine));
        }

        let by_name = self.by_node_name.get(node_name);
        let found = by_name
            .or_else(|| addresses.find_map(|address| self.by_address.get(&address)))
            .and_then(get);

        match (found, provider_id) {
            // The provider ID of the node differs from `expected`: otherwise it would have been
            // found above.
            (
                Some(Machine {
                    provider_id: Some(expected),
                    name,
                    ..
                }),
                Some(actual),
            ) => Err(Mismatch {
                machine: name.clone(),
                expected: expected.clone(),
                actual: actual.to_owned(),
            }),
            (found, _) => Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str, key: Key, provider_id: Option<&str>) -> Machine {
        Machine {
            name: name.into(),
            key,
            provider_id: provider_id.map(Into::into),
            instance_type: None,
            zone: None,
            region: None,
            addresses: Vec::new(),
            labels: Vec::new(),
            state: State::Running,
        }
    }

    fn machines() -> Machines {
        Machines::new(vec![
            machine("plain", Key::NodeName("plain".into()), None),
            machine("renamed", Key::NodeName("node-7".into()), Some("metal://7")),
            machine("preset", Key::ProviderId, Some("metal://8")),
            machine("by-address", Key::Address([10, 0, 0, 9].into()), None),
        ])
    }

    fn find(id: Option<&str>, name: &str, addresses: &[&str]) -> Result<Option<String>, Mismatch> {
        let addresses = addresses.iter().map(|address| address.parse().unwrap());
        machines()
            .find(id, name, addresses)
            .map(|found| found.map(|machine| machine.name.clone()))
    }

    #[test]
    fn a_node_is_found_by_provider_id_then_name_then_address() {
        for (id, name, addresses, machine) in [
            (None, "plain", &[][..], Some("plain")),
            (Some("static://plain"), "other", &[], Some("plain")),
            (None, "node-7", &[], Some("renamed")),
            (Some("metal://7"), "node-7", &[], Some("renamed")),
            (Some("static://renamed"), "node-7", &[], Some("renamed")),
            (None, "renamed", &[], None),
            (Some("metal://8"), "whatever", &[], Some("preset")),
            (None, "preset", &[], None),
            (None, "x", &["10.0.0.1", "10.0.0.9"], Some("by-address")),
            (None, "plain", &["10.0.0.9"], Some("plain")),
            (Some("metal://8"), "plain", &["10.0.0.9"], Some("preset")),
            (None, "unknown", &["10.0.0.1"], None),
            (Some("static://unknown"), "unknown", &[], None),
        ] {
            assert_eq!(
                find(id, name, addresses).unwrap().as_deref(),
                machine,
                "{id:?} {name} {addresses:?}"
            );
        }
    }

    #[test]
    fn a_node_with_an_id_matches_a_same_named_machine_without_id() {
        assert_eq!(
            find(Some("kubemark://plain"), "plain", &[])
                .unwrap()
                .as_deref(),
            Some("plain")
        );
    }

    #[test]
    fn a_node_with_another_id_than_its_machine_is_an_error() {
        let mismatch = find(Some("metal://6"), "node-7", &[]).unwrap_err();
        assert_eq!(
            mismatch.to_string(),
            "the node has provider ID metal://6, but machine `renamed` has metal://7 in the inventory: fix the inventory, or delete the \
             Node if the machine was replaced"
        );
    }
}
