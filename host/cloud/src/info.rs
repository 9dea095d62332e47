//! Who a provider is and what it can do.

use std::{collections::BTreeSet, fmt};

/// Something a provider can do: an interface that its plugin exports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Capability {
    /// Knows the machines behind nodes.
    Instances,
    /// Makes load balancers for services.
    LoadBalancers,
    /// Makes routes to Pods.
    Routes,
    /// Knows where nodes are.
    Zones,
    /// Has work to do now and then.
    Maintenance,
}

impl Capability {
    /// All there are.
    pub const ALL: [Self; 5] = [Self::Instances, Self::LoadBalancers, Self::Routes, Self::Zones, Self::Maintenance];

    /// The name of the interface in the contract.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Instances => "instances",
            Self::LoadBalancers => "load-balancers",
            Self::Routes => "routes",
            Self::Zones => "zones",
            Self::Maintenance => "maintenance",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Who a provider is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderInfo {
    /// Name, such as `static`.
    pub name: String,
    /// Version, for people.
    pub version: String,
    /// What it can do with its configuration.
    pub capabilities: BTreeSet<Capability>,
    /// Prefixes of the provider IDs it owns.
    pub provider_id_prefixes: Vec<String>,
    /// Prefixes of the annotation keys it may write.
    pub annotation_prefixes: Vec<String>,
    /// Most nodes in one call; at least 1.
    pub max_batch: usize,
}

impl ProviderInfo {
    /// True if the provider ID is under one of the provider's own prefixes.
    #[must_use]
    pub fn owns(&self, provider_id: &str) -> bool {
        self.provider_id_prefixes.iter().any(|prefix| provider_id.starts_with(prefix.as_str()))
    }

    /// True if the provider can do this.
    #[must_use]
    pub fn can(&self, capability: Capability) -> bool {
        self.capabilities.contains(&capability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> ProviderInfo {
        ProviderInfo {
            name: "static".into(),
            version: "1".into(),
            capabilities: [Capability::Routes].into(),
            provider_id_prefixes: vec!["static://".into(), "old://eu/".into()],
            annotation_prefixes: Vec::new(),
            max_batch: 1,
        }
    }

    #[test]
    fn a_provider_owns_what_is_under_one_of_its_prefixes() {
        let table = [
            ("static://n1", true),
            ("old://eu/n1", true),
            ("old://us/n1", false),
            ("static:/n1", false),
            ("xstatic://n1", false),
            ("STATIC://n1", false),
            ("", false),
        ];
        for (provider_id, owned) in table {
            assert_eq!(info().owns(provider_id), owned, "{provider_id}");
        }
        assert!(!ProviderInfo { provider_id_prefixes: Vec::new(), ..info() }.owns("static://n1"));
    }

    #[test]
    fn a_provider_can_do_what_it_has_the_interface_for() {
        let able: Vec<_> = Capability::ALL.into_iter().filter(|capability| info().can(*capability)).collect();
        assert_eq!(able, [Capability::Routes]);
    }

    #[test]
    fn a_capability_is_called_as_in_the_contract() {
        let names = Capability::ALL.map(|capability| capability.to_string());
        assert_eq!(names, ["instances", "load-balancers", "routes", "zones", "maintenance"]);
    }
}
