//! Which cluster this is in the account, and which VPC it is in: the configuration says, else the nodes' machines do.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use skydock_sdk::{Result, types::CloudError};

use crate::{
    api::ec2::{self, Instance},
    cloud::Cloud,
    instances::reference::{self, Reference},
    store,
    tags::{self, Cluster},
};

/// How long what the machines say is believed.
const KEPT: Duration = Duration::from_secs(3600);

/// How many machines are asked.
const ASKED: usize = 50;

/// Who this cluster is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Its tag.
    pub(crate) cluster: Cluster,
}

/// What the machines of the nodes say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Said {
    clusters: BTreeMap<String, bool>,
    vpcs: BTreeSet<String>,
}

impl Cloud<'_> {
    /// Who this cluster is.
    ///
    /// # Errors
    /// If neither the configuration nor the machines say.
    pub(crate) fn identity(&self) -> Result<Identity> {
        if let Some(id) = &self.config.cluster_id {
            return Ok(Identity { cluster: Cluster { id: id.clone(), legacy: self.config.legacy_tags } });
        }
        let said = self.said()?;
        let mut clusters = said.clusters.into_iter();
        match (clusters.next(), clusters.next()) {
            (Some((id, legacy)), None) => Ok(Identity { cluster: Cluster { id, legacy } }),
            (None, _) => Err(CloudError::internal(format!(
                "no machine of a node has a tag {}ID; tag them, or set KubernetesClusterID",
                tags::CLUSTER_PREFIX
            ))),
            (Some((first, _)), Some((second, _))) => Err(CloudError::invalid(format!(
                "the machines of the nodes are tagged for several clusters ({first}, {second}): set KubernetesClusterID"
            ))),
        }
    }

    /// The VPC the cluster is in.
    ///
    /// # Errors
    /// If neither the configuration nor the machines say.
    pub(crate) fn vpc(&self) -> Result<String> {
        let none = || CloudError::internal("no machine of a node tells the VPC yet; it can be set by VPC");
        self.known_vpc()?.ok_or_else(none)
    }

    /// The VPC the cluster is in; none if nobody says.
    ///
    /// # Errors
    /// If the machines say several things, or AWS cannot be asked.
    pub(crate) fn known_vpc(&self) -> Result<Option<String>> {
        if self.config.vpc.is_some() {
            return Ok(self.config.vpc.clone());
        }
        let mut vpcs = self.said()?.vpcs.into_iter();
        match (vpcs.next(), vpcs.next()) {
            (vpc, None) => Ok(vpc),
            (None, Some(vpc)) => Ok(Some(vpc)),
            (Some(first), Some(second)) => Err(CloudError::invalid(format!(
                "the machines of the nodes are in several VPCs ({first}, {second}): set VPC"
            ))),
        }
    }

    fn said(&self) -> Result<Said> {
        let key = self.key("identity");
        if let Some(said) = store::load(self.store, &key) {
            return Ok(said);
        }
        // Others are asking already. If they take long, better twice than not at all.
        let _turn = self.turn("identity");
        if let Some(said) = store::load(self.store, &key) {
            return Ok(said);
        }
        let said = hear(&self.some_machines()?);
        if !said.clusters.is_empty() && !said.vpcs.is_empty() {
            store::save(self.store, &key, &said, KEPT);
        }
        Ok(said)
    }

    fn some_machines(&self) -> Result<Vec<Instance>> {
        let (mut ids, mut names) = (Vec::new(), Vec::new());
        for node in (self.nodes)() {
            match reference::of(&node, &self.config.region) {
                Reference::Id(id) => ids.push(id),
                Reference::Name(name) => names.push(name),
                Reference::None(_) => {}
            }
        }
        let (filter, mut values) = if ids.is_empty() { ("private-dns-name", names) } else { ("instance-id", ids) };
        values.truncate(ASKED);
        if values.is_empty() {
            return Ok(Vec::new());
        }
        let call = ec2::instances_by_filter(filter, values.iter().map(String::as_str));
        Ok(ec2::instances(self.wire, &call)?)
    }
}

fn hear(machines: &[Instance]) -> Said {
    let mut said = Said::default();
    for machine in machines.iter().filter(|machine| machine.instance_state.name != "terminated") {
        for (id, legacy) in tags::clusters(&machine.tags()) {
            *said.clusters.entry(id.to_owned()).or_default() |= legacy;
        }
        if !machine.vpc_id.is_empty() {
            said.vpcs.insert(machine.vpc_id.clone());
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(state: &str, vpc: &str, tags: &[(&str, &str)]) -> Instance {
        let tags: String =
            tags.iter().map(|(key, value)| format!("<item><key>{key}</key><value>{value}</value></item>")).collect();
        let text = format!(
            "<item><instanceId>i-1</instanceId><vpcId>{vpc}</vpcId><instanceState><name>{state}</name></instanceState>\
             <tagSet>{tags}</tagSet></item>"
        );
        quick_xml::de::from_str(&text).unwrap()
    }

    #[test]
    fn machines_tell_the_cluster_and_the_vpc() {
        let said = hear(&[
            machine("running", "vpc-1", &[("kubernetes.io/cluster/a", "owned"), ("KubernetesCluster", "a")]),
            machine("stopped", "vpc-1", &[("Name", "x")]),
            machine("terminated", "vpc-9", &[("kubernetes.io/cluster/z", "owned")]),
        ]);
        assert_eq!(said.clusters, BTreeMap::from([("a".to_owned(), true)]));
        assert_eq!(said.vpcs, BTreeSet::from(["vpc-1".to_owned()]));
    }
}
