//! What the annotations of a Service set when its load balancer was last changed, so that it is
//! undone when an annotation is removed.

use std::{collections::BTreeSet, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    cloud::Cloud,
    store,
    tags::{self, Tags},
};

/// How long it is remembered. Each check of a load balancer renews it.
const REMEMBERED: Duration = Duration::from_hours(24);

/// What annotations set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Applied {
    /// The keys of tags.
    #[serde(default)]
    pub(crate) tags: BTreeSet<String>,
    /// The keys of attributes of target groups.
    #[serde(default)]
    pub(crate) group_attributes: BTreeSet<String>,
    /// True if there was a policy for TLS.
    #[serde(default)]
    pub(crate) has_policy: bool,
    /// True if there was a timeout of health checks.
    #[serde(default)]
    pub(crate) has_timeout: bool,
    /// True if there was an address type.
    #[serde(default)]
    pub(crate) has_address_type: bool,
}

impl Applied {
    /// Adds what another one has.
    fn extend(&mut self, other: Self) {
        self.tags.extend(other.tags);
        self.group_attributes.extend(other.group_attributes);
        self.has_policy |= other.has_policy;
        self.has_timeout |= other.has_timeout;
        self.has_address_type |= other.has_address_type;
    }

    /// Returns the keys of tags that are not requested any more. The tags of the cluster stay.
    pub(crate) fn removed_tags(&self, wanted: &Tags) -> BTreeSet<String> {
        let stays = |key: &&String| {
            wanted.contains_key(*key)
                || key.starts_with(tags::CLUSTER_PREFIX)
                || [tags::SERVICE, tags::LEGACY_CLUSTER].contains(&key.as_str())
        };
        self.tags
            .iter()
            .filter(|key| !stays(key))
            .cloned()
            .collect()
    }
}

fn key(cloud: &Cloud<'_>, balancer: &str) -> String {
    cloud.key(&format!("applied/{balancer}"))
}

/// Returns what was set before.
pub(crate) fn before(cloud: &Cloud<'_>, balancer: &str) -> Applied {
    store::load(cloud.store, &key(cloud, balancer)).unwrap_or_default()
}

/// Remembers what is `applied`. Unless all of it `is_complete`, what failed may still have the
/// settings from `before`, which a later call then undoes.
pub(crate) fn remember(
    cloud: &Cloud<'_>,
    balancer: &str,
    applied: &Applied,
    before: &Applied,
    is_complete: bool,
) {
    let mut remembered = applied.clone();
    if !is_complete {
        remembered.extend(before.clone());
    }
    store::save(cloud.store, &key(cloud, balancer), &remembered, REMEMBERED);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tags_of_annotations_are_removed() {
        let applied = Applied {
            tags: ["team", "env", "kubernetes.io/cluster/c", tags::SERVICE]
                .map(str::to_owned)
                .into(),
            ..Applied::default()
        };
        let wanted = Tags::from([("team".into(), "b".into())]);
        let removed: Vec<String> = applied.removed_tags(&wanted).into_iter().collect();
        assert_eq!(removed, ["env"]);
    }
}
