//! What a plugin owns (prefixes of provider IDs, annotations), and what it is permitted.

use std::sync::Arc;

use arc_swap::ArcSwap;
use skydock_cloud::{Node, ProviderInfo};

use crate::grants::permissions::{ObjectGrant, Permissions};

/// Prefixes that a plugin owns, and what else it is permitted; nothing until it has described
/// itself.
///
/// The operator can take permissions away from a generation in service: a configuration with which
/// it cannot be loaded again applies to it all the same. What the configuration adds is only for
/// the next generation.
#[derive(Debug, Default)]
pub(crate) struct Owned {
    provider_ids: Vec<String>,
    annotations: Vec<String>,
    topology_keys: Vec<String>,
    /// What was permitted when the generation was loaded.
    loaded: Arc<Permissions>,
    /// What is permitted now.
    now: Arc<ArcSwap<Permissions>>,
}

impl Owned {
    /// Returns what a provider with these prefixes owns, which it was permitted to.
    pub(crate) fn new(
        provider: &ProviderInfo,
        loaded: Arc<Permissions>,
        now: Arc<ArcSwap<Permissions>>,
    ) -> Self {
        Self {
            provider_ids: provider.provider_id_prefixes.clone(),
            annotations: provider.annotation_prefixes.clone(),
            topology_keys: provider
                .driver
                .as_ref()
                .map(|driver| driver.topology_keys.clone())
                .unwrap_or_default(),
            loaded,
            now,
        }
    }

    /// Returns the prefixes of the provider IDs that it owns.
    pub(crate) fn provider_ids(&self) -> Vec<&str> {
        let now = self.now.load();
        let prefixes = self.provider_ids.iter().map(String::as_str);
        prefixes
            .filter(|prefix| now.permits_provider_ids(prefix))
            .collect()
    }

    /// Returns the keys of the topology of its volumes.
    pub(crate) fn topology_keys(&self) -> &[String] {
        &self.topology_keys
    }

    /// Returns true if the plugin owns the node's provider ID, or if the node has none.
    pub(crate) fn may_see(&self, node: &Node) -> bool {
        let owned = |id: &str| self.provider_ids().iter().any(|it| id.starts_with(it));
        node.provider_id.as_deref().is_none_or(owned)
    }

    /// Returns true if the annotation has a prefix of the plugin.
    pub(crate) fn has_annotation(&self, key: &str) -> bool {
        let mut prefixes = self.annotations.iter();
        prefixes.any(|prefix| key.len() > prefix.len() && key.starts_with(prefix))
    }

    /// Returns true if the plugin may write the annotation. With one that grants an object, it could
    /// grant itself any.
    pub(crate) fn may_annotate(&self, key: &str) -> bool {
        let now = self.now.load();
        self.has_annotation(key)
            && now.permits_keys(key)
            && !self.loaded.grants_by(key)
            && !now.grants_by(key)
    }

    /// Returns true if the plugin may write the label.
    pub(crate) fn may_label(&self, key: &str) -> bool {
        self.loaded.permits_label(key) && self.now.load().permits_label(key)
    }

    /// Returns the objects that the plugin may read.
    pub(crate) fn grants(&self) -> Vec<&ObjectGrant> {
        let now = self.now.load();
        let grants = self.loaded.objects.iter();
        grants.filter(|grant| now.objects.contains(grant)).collect()
    }

    /// Returns this description without the prefixes that are not permitted any more.
    pub(crate) fn permitted(&self, provider: &Arc<ProviderInfo>) -> Arc<ProviderInfo> {
        let now = self.now.load();
        let ids = &provider.provider_id_prefixes;
        let keys = &provider.annotation_prefixes;

        if now.permit(ids, keys).is_ok() {
            return Arc::clone(provider);
        }

        let mut less = ProviderInfo::clone(provider);
        less.provider_id_prefixes
            .retain(|it| now.permits_provider_ids(it));
        less.annotation_prefixes.retain(|it| now.permits_keys(it));

        Arc::new(less)
    }
}

#[cfg(test)]
impl Owned {
    /// Returns what a provider with these prefixes owns with permissions that do not change.
    pub(crate) fn with(provider_ids: &[&str], annotations: &[&str], all: Permissions) -> Self {
        let list = |of: &[&str]| of.iter().map(ToString::to_string).collect();
        let all = Arc::new(all);
        Self {
            provider_ids: list(provider_ids),
            annotations: list(annotations),
            topology_keys: Vec::new(),
            loaded: Arc::clone(&all),
            now: Arc::new(ArcSwap::new(all)),
        }
    }
}

#[cfg(test)]
mod tests {
    use skydock_cloud::{ForeignKind, ForeignObject};

    use super::*;

    // Holds: SEC-27
    #[test]
    fn only_what_is_still_permitted_is_owned() {
        let provider = Arc::new(ProviderInfo {
            name: "a".into(),
            version: "1".into(),
            capabilities: [].into(),
            max_batch: 1,
            driver: None,
            provider_id_prefixes: vec!["a://".into(), "b://x/".into()],
            annotation_prefixes: vec!["a.example/".into(), "b.example/".into()],
        });
        let grant = |name: &str| {
            ObjectGrant::Exact(ForeignObject {
                kind: ForeignKind::parse("v1/ConfigMap").unwrap(),
                namespace: "ns".into(),
                name: name.into(),
            })
        };
        let named_by = |annotation: &str| ObjectGrant::NamedBy {
            kind: ForeignKind::parse("v1/ConfigMap").unwrap(),
            annotation: annotation.into(),
        };
        let permissions = |ids: &[&str], domains: &[&str], objects: Vec<ObjectGrant>| Permissions {
            provider_ids: ids.iter().map(ToString::to_string).collect(),
            keys: domains.iter().map(|it| it.parse().unwrap()).collect(),
            labels: vec!["rack".into()],
            objects,
            ..Permissions::default()
        };
        let both = ["a.example", "b.example"];
        let loaded = permissions(&["a://", "b://"], &both, vec![grant("one"), grant("two")]);
        let now = Arc::new(ArcSwap::from_pointee(loaded.clone()));
        let owned = Owned::new(&provider, Arc::new(loaded), Arc::clone(&now));
        let seen = || {
            (
                owned.provider_ids(),
                both.map(|domain| owned.may_annotate(&format!("{domain}/x"))),
                ["rack", "b.example/x"].map(|key| owned.may_label(key)),
                owned.grants().len(),
            )
        };
        assert_eq!(seen(), (vec!["a://", "b://x/"], [true; 2], [true; 2], 2));
        assert!(Arc::ptr_eq(&owned.permitted(&provider), &provider));

        // What is granted in addition is for the next generation.
        let less = permissions(
            &["a://"],
            &["a.example"],
            vec![grant("two"), grant("three")],
        );
        now.store(Arc::new(less));
        assert_eq!(seen(), (vec!["a://"], [true, false], [true, false], 1));
        let left = owned.permitted(&provider);
        assert_eq!(left.provider_id_prefixes, ["a://"]);
        assert_eq!(left.annotation_prefixes, ["a.example/"]);
        let node = |id: &str| Node {
            provider_id: Some(id.into()),
            ..Node::default()
        };
        assert!(owned.may_see(&node("a://1")) && !owned.may_see(&node("b://x/1")));

        // An annotation that will grant an object to the next one is not this one's to write.
        now.store(Arc::new(permissions(
            &[],
            &both,
            vec![named_by("a.example/x")],
        )));
        assert_eq!(seen(), (vec![], [false, true], [true; 2], 0));
        now.store(Arc::default());
        assert_eq!(seen(), (vec![], [false; 2], [false; 2], 0));
    }
}
