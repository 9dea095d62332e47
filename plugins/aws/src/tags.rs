//! Whose a resource is: the tags that the official provider puts on everything it makes.

use std::collections::BTreeMap;

/// Tags of one resource.
pub(crate) type Tags = BTreeMap<String, String>;

/// Beginning of the tag that names a cluster; its value is `owned` or `shared`.
pub(crate) const CLUSTER_PREFIX: &str = "kubernetes.io/cluster/";
/// The tag of clusters made before Kubernetes 1.6; its value is the cluster's ID.
pub(crate) const LEGACY_CLUSTER: &str = "KubernetesCluster";
/// On load balancers and target groups: NAMESPACE/NAME of the Service.
pub(crate) const SERVICE: &str = "kubernetes.io/service-name";

/// Who this cluster is in the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cluster {
    /// Its ID, in the key of the tag.
    pub(crate) id: String,
    /// True if what is made also bears [`LEGACY_CLUSTER`].
    pub(crate) legacy: bool,
}

/// Whose something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// This cluster's.
    Ours,
    /// Another cluster's.
    Others,
    /// Nobody says.
    Nobody,
}

impl Cluster {
    /// Key of the cluster's tag.
    pub(crate) fn key(&self) -> String {
        format!("{CLUSTER_PREFIX}{}", self.id)
    }

    /// True if the resource is this cluster's, or shared with it.
    pub(crate) fn has(&self, tags: &Tags) -> bool {
        tags.get(LEGACY_CLUSTER) == Some(&self.id) || tags.contains_key(&self.key())
    }

    /// True if it was made for this cluster and may be deleted with it.
    pub(crate) fn owns(&self, tags: &Tags) -> bool {
        tags.get(LEGACY_CLUSTER) == Some(&self.id) || tags.get(&self.key()).is_some_and(|value| value == "owned")
    }

    /// Whose a resource is.
    pub(crate) fn owner(&self, tags: &Tags) -> Owner {
        if self.has(tags) {
            Owner::Ours
        } else if has_cluster(tags) {
            Owner::Others
        } else {
            Owner::Nobody
        }
    }

    /// The tags of something that is made for this cluster.
    pub(crate) fn owned(&self, additional: &Tags) -> Tags {
        let mut tags = additional.clone();
        if self.legacy {
            tags.insert(LEGACY_CLUSTER.into(), self.id.clone());
        }
        tags.insert(self.key(), "owned".into());
        tags
    }
}

/// True if any cluster has put its name on it.
pub(crate) fn has_cluster(tags: &Tags) -> bool {
    tags.contains_key(LEGACY_CLUSTER) || tags.keys().any(|key| key.starts_with(CLUSTER_PREFIX))
}

/// The clusters that tags name; the second is true for the old form.
pub(crate) fn clusters(tags: &Tags) -> impl Iterator<Item = (&str, bool)> {
    tags.iter().filter_map(|(key, value)| match key.strip_prefix(CLUSTER_PREFIX) {
        Some(id) => Some((id, false)),
        None if key == LEGACY_CLUSTER => Some((value.as_str(), true)),
        None => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(pairs: &[(&str, &str)]) -> Tags {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn tags_tell_whose_a_resource_is() {
        let cluster = Cluster { id: "c1".into(), legacy: false };
        for (pairs, owner, owned) in [
            (&[][..], Owner::Nobody, false),
            (&[("Name", "c1")], Owner::Nobody, false),
            (&[("kubernetes.io/cluster/c1", "owned")], Owner::Ours, true),
            (&[("kubernetes.io/cluster/c1", "shared")], Owner::Ours, false),
            (&[("kubernetes.io/cluster/c1", "shared"), ("kubernetes.io/cluster/c2", "owned")], Owner::Ours, false),
            (&[("kubernetes.io/cluster/c12", "owned")], Owner::Others, false),
            (&[("KubernetesCluster", "c1")], Owner::Ours, true),
            (&[("KubernetesCluster", "c2")], Owner::Others, false),
        ] {
            let tags = tags(pairs);
            assert_eq!((cluster.owner(&tags), cluster.owns(&tags)), (owner, owned), "{pairs:?}");
        }
    }

    #[test]
    fn what_is_made_bears_the_clusters_tags() {
        let extra = tags(&[("team", "a"), ("kubernetes.io/cluster/c1", "shared")]);
        let made = |legacy| Cluster { id: "c1".into(), legacy }.owned(&extra);
        assert_eq!(made(false), tags(&[("team", "a"), ("kubernetes.io/cluster/c1", "owned")]));
        let old = tags(&[("team", "a"), ("kubernetes.io/cluster/c1", "owned"), ("KubernetesCluster", "c1")]);
        assert_eq!(made(true), old);
    }
}
