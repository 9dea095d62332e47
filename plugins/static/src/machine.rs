//! Machines of the inventory, and which one a node runs on.

use std::{collections::HashMap, net::IpAddr};

use serde::Deserialize;

/// What the inventory says has become of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// In service.
    #[default]
    Running,
    /// Switched off, and to come back.
    Stopped,
    /// Gone for good: its node is to be deleted.
    Absent,
}

/// Kinds of node addresses, as in core/v1 NodeAddress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[allow(missing_docs)] // Kubernetes' own words
pub enum AddressType {
    Hostname,
    InternalIP,
    ExternalIP,
    InternalDNS,
    ExternalDNS,
}

/// What tells the node of a machine, besides its provider ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// The node has this name.
    NodeName(String),
    /// Nothing else: the kubelet sets the provider ID.
    ProviderId,
    /// The node has this address.
    Address(IpAddr),
}

/// One machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Unique in the inventory.
    pub name: String,
    /// What tells its node.
    pub key: Key,
    /// Its provider ID, if the inventory gives one.
    pub provider_id: Option<String>,
    /// Label `node.kubernetes.io/instance-type`.
    pub instance_type: Option<String>,
    /// Label `topology.kubernetes.io/zone`.
    pub zone: Option<String>,
    /// Label `topology.kubernetes.io/region`.
    pub region: Option<String>,
    /// The node's `status.addresses`.
    pub addresses: Vec<(AddressType, String)>,
    /// Further labels.
    pub labels: Vec<(String, String)>,
    /// What has become of it.
    pub state: State,
}

impl Machine {
    /// `static://NAME`: what its node gets if neither inventory nor kubelet give a provider ID, and is known by for good,
    /// because a provider ID that a node has cannot be changed.
    #[must_use]
    pub fn own_id(&self) -> String {
        format!("{}{}", crate::SCHEME, self.name)
    }
}

/// A node says it is another machine than the one its name or address stands for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node has provider ID {actual}, but the inventory gives {expected} to its machine `{machine}`")]
pub struct Mismatch {
    /// Name of the machine.
    pub machine: String,
    /// Its provider ID.
    pub expected: String,
    /// The node's.
    pub actual: String,
}

/// All machines, found by what a node says of itself.
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
            all.by_provider_id.extend(machine.provider_id.clone().map(|id| (id, index)));
            match &machine.key {
                Key::NodeName(name) => _ = all.by_node_name.insert(name.clone(), index),
                Key::Address(address) => _ = all.by_address.insert(*address, index),
                Key::ProviderId => {}
            }
        }
        Self { machines, ..all }
    }

    /// All of them, in the order of the inventory.
    #[must_use]
    pub fn all(&self) -> &[Machine] {
        &self.machines
    }

    /// The machine a node runs on: by provider ID, then by name, then by address.
    ///
    /// # Errors
    /// If name or address stand for a machine with another provider ID than the node's: then nothing is sure.
    pub fn find(
        &self,
        provider_id: Option<&str>,
        node_name: &str,
        mut addresses: impl Iterator<Item = IpAddr>,
    ) -> Result<Option<&Machine>, Mismatch> {
        let get = |index: &usize| self.machines.get(*index);
        if let Some(machine) = provider_id.and_then(|id| self.by_provider_id.get(id)).and_then(get) {
            return Ok(Some(machine));
        }
        let by_name = self.by_node_name.get(node_name);
        let found = by_name.or_else(|| addresses.find_map(|address| self.by_address.get(&address))).and_then(get);
        match (found, provider_id) {
            // Whatever ID the node has, it is not this one: that would have been found above.
            (Some(Machine { provider_id: Some(expected), name, .. }), Some(actual)) => {
                Err(Mismatch { machine: name.clone(), expected: expected.clone(), actual: actual.to_owned() })
            }
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
        machines().find(id, name, addresses).map(|found| found.map(|machine| machine.name.clone()))
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
            assert_eq!(find(id, name, addresses).unwrap().as_deref(), machine, "{id:?} {name} {addresses:?}");
        }
    }

    #[test]
    fn a_node_with_an_id_of_its_own_is_the_machine_of_its_name_if_that_has_none() {
        assert_eq!(find(Some("kubemark://plain"), "plain", &[]).unwrap().as_deref(), Some("plain"));
    }

    #[test]
    fn a_node_with_another_id_than_its_machine_is_nobody() {
        let mismatch = find(Some("metal://6"), "node-7", &[]).unwrap_err();
        assert_eq!(
            mismatch.to_string(),
            "the node has provider ID metal://6, but the inventory gives metal://7 to its machine `renamed`"
        );
    }
}
