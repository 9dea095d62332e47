//! Ownership of resources: the tags that the official provider adds to everything it creates.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use skydock_sdk::{Result, types::CloudError};

/// The tags of one resource.
pub(crate) type Tags = BTreeMap<String, String>;

/// The prefix of the tag that names a cluster. Its value is `owned` or `shared`.
pub(crate) const CLUSTER_PREFIX: &str = "kubernetes.io/cluster/";
/// The tag of clusters created before Kubernetes 1.6. Its value is the cluster's ID.
pub(crate) const LEGACY_CLUSTER: &str = "KubernetesCluster";
/// The tag of load balancers and target groups with the `NAMESPACE/NAME` of the Service.
pub(crate) const SERVICE: &str = "kubernetes.io/service-name";

/// The identity of this cluster in the account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cluster {
    /// The ID, which is part of the key of the tag.
    pub(crate) id: String,
    /// True if created resources also get [`LEGACY_CLUSTER`].
    pub(crate) legacy: bool,
}

/// The owner of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// This cluster.
    Ours,
    /// Another cluster.
    Others,
    /// Unknown: the resource has no cluster tag.
    Nobody,
}

impl Cluster {
    /// Returns the key of the cluster's tag.
    pub(crate) fn key(&self) -> String {
        format!("{CLUSTER_PREFIX}{}", self.id)
    }

    /// Returns true if the resource belongs to this cluster, or is shared with it.
    pub(crate) fn has(&self, tags: &Tags) -> bool {
        tags.get(LEGACY_CLUSTER) == Some(&self.id) || tags.contains_key(&self.key())
    }

    /// Returns true if the resource was created for this cluster and may be deleted with it.
    pub(crate) fn owns(&self, tags: &Tags) -> bool {
        tags.get(LEGACY_CLUSTER) == Some(&self.id)
            || tags.get(&self.key()).is_some_and(|value| value == "owned")
    }

    /// Returns the owner of a resource.
    pub(crate) fn owner(&self, tags: &Tags) -> Owner {
        if self.has(tags) {
            Owner::Ours
        } else if has_cluster(tags) {
            Owner::Others
        } else {
            Owner::Nobody
        }
    }

    /// Rejects a load balancer with the tag of another cluster. A load balancer without a cluster
    /// tag belongs to this cluster, because its name contains the UID of the Service.
    pub(crate) fn check(&self, name: &str, tags: Option<&Tags>) -> Result<()> {
        match tags.map_or(Owner::Nobody, |tags| self.owner(tags)) {
            Owner::Others => Err(CloudError::internal(format!(
                "load balancer {name} has the tag of another cluster and is not changed: add the tag {}, or remove the \
                 tags of other clusters",
                self.key()
            ))),
            Owner::Ours | Owner::Nobody => Ok(()),
        }
    }

    /// Returns the tags of a resource that is created for this cluster.
    pub(crate) fn owned(&self, additional: &Tags) -> Tags {
        let mut tags = additional.clone();
        if self.legacy {
            tags.insert(LEGACY_CLUSTER.into(), self.id.clone());
        }
        tags.insert(self.key(), "owned".into());
        tags
    }
}

/// Returns true if the resource has the tag of any cluster.
pub(crate) fn has_cluster(tags: &Tags) -> bool {
    tags.contains_key(LEGACY_CLUSTER) || tags.keys().any(|key| key.starts_with(CLUSTER_PREFIX))
}

/// Returns the only cluster that the tags name.
pub(crate) fn only_cluster(tags: &Tags) -> Option<Cluster> {
    let mut only: Option<Cluster> = None;
    for (id, legacy) in clusters(tags) {
        match &mut only {
            Some(cluster) if cluster.id != id => return None,
            Some(cluster) => cluster.legacy |= legacy,
            None => {
                only = Some(Cluster {
                    id: id.to_owned(),
                    legacy,
                });
            }
        }
    }
    only
}

/// Returns the clusters that the tags name. The second value is true for the legacy tag.
pub(crate) fn clusters(tags: &Tags) -> impl Iterator<Item = (&str, bool)> {
    tags.iter()
        .filter_map(|(key, value)| match key.strip_prefix(CLUSTER_PREFIX) {
            Some(id) => Some((id, false)),
            None if key == LEGACY_CLUSTER => Some((value.as_str(), true)),
            None => None,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(pairs: &[(&str, &str)]) -> Tags {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn tags_determine_the_owner_of_a_resource() {
        let cluster = Cluster {
            id: "c1".into(),
            legacy: false,
        };

        for (pairs, owner, owned) in [
            (&[][..], Owner::Nobody, false),
            (&[("Name", "c1")], Owner::Nobody, false),
            (&[("kubernetes.io/cluster/c1", "owned")], Owner::Ours, true),
            (
                &[("kubernetes.io/cluster/c1", "shared")],
                Owner::Ours,
                false,
            ),
            (
                &[
                    ("kubernetes.io/cluster/c1", "shared"),
                    ("kubernetes.io/cluster/c2", "owned"),
                ],
                Owner::Ours,
                false,
            ),
            (
                &[("kubernetes.io/cluster/c12", "owned")],
                Owner::Others,
                false,
            ),
            (&[("KubernetesCluster", "c1")], Owner::Ours, true),
            (&[("KubernetesCluster", "c2")], Owner::Others, false),
        ] {
            let tags = tags(pairs);
            assert_eq!(
                (cluster.owner(&tags), cluster.owns(&tags)),
                (owner, owned),
                "{pairs:?}"
            );
        }
    }

    #[test]
    fn created_resources_have_the_cluster_tags() {
        let extra = tags(&[("team", "a"), ("kubernetes.io/cluster/c1", "shared")]);
        let created = |legacy| {
            Cluster {
                id: "c1".into(),
                legacy,
            }
            .owned(&extra)
        };

        assert_eq!(
            created(false),
            tags(&[("team", "a"), ("kubernetes.io/cluster/c1", "owned")])
        );

        let old = tags(&[
            ("team", "a"),
            ("kubernetes.io/cluster/c1", "owned"),
            ("KubernetesCluster", "c1"),
        ]);

        assert_eq!(created(true), old);
    }

    #[test]
    fn tags_of_one_cluster_identify_it() {
        let only = |pairs: &[(&str, &str)]| {
            only_cluster(&tags(pairs)).map(|cluster| (cluster.id, cluster.legacy))
        };
        let (c1, c2) = (
            ("kubernetes.io/cluster/c1", "owned"),
            ("kubernetes.io/cluster/c2", "owned"),
        );

        assert_eq!(only(&[]), None);
        assert_eq!(only(&[c1, ("Name", "c2")]), Some(("c1".into(), false)));
        assert_eq!(only(&[c1, c2]), None);
        assert_eq!(
            only(&[c1, ("KubernetesCluster", "c1")]),
            Some(("c1".into(), true))
        );
        assert_eq!(only(&[c1, ("KubernetesCluster", "c2")]), None);
    }

    #[test]
    fn load_balancers_of_other_clusters_are_rejected() {
        let cluster = Cluster {
            id: "c1".into(),
            legacy: false,
        };

        for allowed in [
            None,
            Some(tags(&[])),
            Some(tags(&[("kubernetes.io/cluster/c1", "owned")])),
        ] {
            assert_eq!(cluster.check("lb", allowed.as_ref()), Ok(()), "{allowed:?}");
        }

        let others = tags(&[("kubernetes.io/cluster/c2", "owned")]);
        assert!(
            matches!(cluster.check("lb", Some(&others)), Err(CloudError::Internal(text)) if text.contains("lb"))
        );
    }
}
