//! Identity and capabilities of a provider.

use std::collections::BTreeSet;

use crate::{Capability, CsiDriver};

/// Identity and capabilities of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderInfo {
    /// Name, for example `static`.
    pub name: String,
    /// Version, for people.
    pub version: String,
    /// Capabilities that the provider has with its configuration.
    pub capabilities: BTreeSet<Capability>,
    /// Prefixes of the provider IDs it owns.
    pub provider_id_prefixes: Vec<String>,
    /// Prefixes of the annotation keys it may write.
    pub annotation_prefixes: Vec<String>,
    /// Maximum number of nodes, of routes, and of volumes in one call; at least 1.
    pub max_batch: usize,
    /// The CSI driver whose controller part it is, if it has [`Capability::Volumes`].
    pub driver: Option<CsiDriver>,
}

impl ProviderInfo {
    /// Returns true if the provider ID starts with one of the provider's prefixes.
    #[must_use]
    pub fn owns(&self, provider_id: &str) -> bool {
        self.provider_id_prefixes
            .iter()
            .any(|prefix| provider_id.starts_with(prefix.as_str()))
    }

    /// Returns true if the provider may write this annotation.
    #[must_use]
    pub fn may_annotate(&self, key: &str) -> bool {
        let has = |prefix: &String| key.len() > prefix.len() && key.starts_with(prefix);
        self.annotation_prefixes.iter().any(has)
    }

    /// Returns true if the provider has this capability.
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
            driver: None,
        }
    }

    #[test]
    fn a_provider_owns_ids_with_one_of_its_prefixes() {
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
        assert!(
            !ProviderInfo {
                provider_id_prefixes: Vec::new(),
                ..info()
            }
            .owns("static://n1")
        );
    }

    #[test]
    fn a_capability_needs_its_interface() {
        let able: Vec<_> = Capability::ALL
            .into_iter()
            .filter(|capability| info().can(*capability))
            .collect();
        assert_eq!(able, [Capability::Routes]);
    }
}
