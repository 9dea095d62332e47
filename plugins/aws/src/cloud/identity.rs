//! The identity of this cluster in the account and its VPC, from the configuration or otherwise
//! from the nodes' instances.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use skydock_sdk::{Result, types::CloudError};

use crate::{
    client::api::ec2::{self, Instance},
    cloud::Cloud,
    instances::reference::{self, Reference},
    store,
    tags::{self, Cluster, Tags},
};

/// How long the information from the instances is cached.
const CACHED: Duration = Duration::from_secs(3600);

/// Maximum number of instances that are read.
const ASKED: usize = 50;

/// The identity of this cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The tag of the cluster.
    pub(crate) cluster: Cluster,
}

/// The clusters and VPCs of the nodes' instances.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Discovered {
    clusters: BTreeMap<String, bool>,
    vpcs: BTreeSet<String>,
}

impl Cloud<'_> {
    /// Returns the identity of this cluster.
    ///
    /// # Errors
    /// Fails if neither the configuration nor the instances identify the cluster.
    pub(crate) fn identity(&self) -> Result<Identity> {
        if let Some(id) = &self.config.cluster_id {
            return Ok(Identity {
                cluster: Cluster {
                    id: id.clone(),
                    legacy: self.config.legacy_tags,
                },
            });
        }

        let discovered = self.discovered()?;
        let mut clusters = discovered.clusters.into_iter();
        match (clusters.next(), clusters.next()) {
            (Some((id, legacy)), None) => Ok(Identity {
                cluster: Cluster { id, legacy },
            }),
            (None, _) => Err(CloudError::internal(format!(
                "no node's instance has a tag {}ID: tag the instances, or set KubernetesClusterID",
                tags::CLUSTER_PREFIX
            ))),
            (Some((first, _)), Some((second, _))) => Err(CloudError::internal(format!(
                "the instances of the nodes have tags of several clusters ({first}, {second}): set KubernetesClusterID"
            ))),
        }
    }

    /// Returns the cluster of resources that are deleted. The nodes can be gone before: then it is
    /// the one that the resources' own tags name, or `None` if they name none.
    ///
    /// # Errors
    /// Fails if the instances of the nodes cannot be read, and no tags tell the cluster.
    pub(crate) fn cluster_of<'t>(
        &self,
        tags: impl IntoIterator<Item = &'t Tags>,
    ) -> Result<Option<Cluster>> {
        let error = match self.identity() {
            Ok(identity) => return Ok(Some(identity.cluster)),
            Err(error) => error,
        };

        let named = tags.into_iter().find_map(tags::only_cluster);
        match error {
            // The answers of AWS do not tell the cluster.
            CloudError::Internal(_) => Ok(named),
            error => named.map_or(Err(error), |cluster| Ok(Some(cluster))),
        }
    }

    /// Returns the VPC of the cluster.
    ///
    /// # Errors
    /// Fails if neither the configuration nor the instances determine the VPC.
    pub(crate) fn vpc(&self) -> Result<String> {
        let none = || {
            CloudError::internal(
                "the VPC is not known from any node's instance yet: wait, or set VPC",
            )
        };
        self.known_vpc()?.ok_or_else(none)
    }

    /// Returns the VPC of the cluster, or `None` if it is unknown.
    ///
    /// # Errors
    /// Fails if the instances are in several VPCs, or if a request to AWS fails.
    pub(crate) fn known_vpc(&self) -> Result<Option<String>> {
        if self.config.vpc.is_some() {
            return Ok(self.config.vpc.clone());
        }

        let mut vpcs = self.discovered()?.vpcs.into_iter();
        match (vpcs.next(), vpcs.next()) {
            (vpc, None) => Ok(vpc),
            (None, Some(vpc)) => Ok(Some(vpc)),
            (Some(first), Some(second)) => Err(CloudError::internal(format!(
                "the instances of the nodes are in several VPCs ({first}, {second}): set VPC"
            ))),
        }
    }

    fn discovered(&self) -> Result<Discovered> {
        let key = self.key("identity");
        if let Some(discovered) = store::load(self.store, &key) {
            return Ok(discovered);
        }

        // Another call may be reading it. If that takes too long, a duplicate request is better
        // than none.
        let _lock = self.lock("identity");
        if let Some(discovered) = store::load(self.store, &key) {
            return Ok(discovered);
        }

        let discovered = discover(&self.some_instances()?);
        // What is still unknown is read again by the next call.
        if !discovered.clusters.is_empty() && !discovered.vpcs.is_empty() {
            store::save(self.store, &key, &discovered, CACHED);
        }
        Ok(discovered)
    }

    fn some_instances(&self) -> Result<Vec<Instance>> {
        let mut ids = Vec::new();
        let mut names = Vec::new();
        for node in (self.nodes)() {
            match reference::of(&node, &self.config.region) {
                Reference::Id(id) => ids.push(id),
                Reference::Name(name) => names.push(name),
                Reference::None(_) => {}
            }
        }

        let (filter, mut values) = if ids.is_empty() {
            ("private-dns-name", names)
        } else {
            ("instance-id", ids)
        };
        values.truncate(ASKED);
        if values.is_empty() {
            return Ok(Vec::new());
        }

        let call = ec2::instances_by_filter(filter, values.iter().map(String::as_str));
        Ok(ec2::instances(self.wire, &call)?)
    }
}

fn discover(instances: &[Instance]) -> Discovered {
    let mut discovered = Discovered::default();
    for instance in instances
        .iter()
        .filter(|instance| instance.instance_state.name != "terminated")
    {
        for (id, legacy) in tags::clusters(&instance.tags()) {
            *discovered.clusters.entry(id.to_owned()).or_default() |= legacy;
        }
        if !instance.vpc_id.is_empty() {
            discovered.vpcs.insert(instance.vpc_id.clone());
        }
    }
    discovered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(state: &str, vpc: &str, tags: &[(&str, &str)]) -> Instance {
        let tags: String = tags
            .iter()
            .map(|(key, value)| format!("<item><key>{key}</key><value>{value}</value></item>"))
            .collect();
        let text = format!(
            "<item><instanceId>i-1</instanceId><vpcId>{vpc}</vpcId><instanceState><name>{state}</name></instanceState>\
             <tagSet>{tags}</tagSet></item>"
        );
        quick_xml::de::from_str(&text).unwrap()
    }

    #[test]
    fn cluster_and_vpc_come_from_the_instances() {
        let discovered = discover(&[
            instance(
                "running",
                "vpc-1",
                &[
                    ("kubernetes.io/cluster/a", "owned"),
                    ("KubernetesCluster", "a"),
                ],
            ),
            instance("stopped", "vpc-1", &[("Name", "x")]),
            instance(
                "terminated",
                "vpc-9",
                &[("kubernetes.io/cluster/z", "owned")],
            ),
        ]);

        assert_eq!(
            discovered.clusters,
            BTreeMap::from([("a".to_owned(), true)])
        );
        assert_eq!(discovered.vpcs, BTreeSet::from(["vpc-1".to_owned()]));
    }
}
