//! The instances of nodes: whether they exist and run, and how they are described.

use std::collections::BTreeMap;

use skydock_sdk::{
    Result,
    instances::{Instance, Presence},
    types::{CloudError, Node},
};

use crate::{client::api::ec2, cloud::Cloud, tags::Cluster};

pub(crate) mod address;
pub(crate) mod labels;
pub(crate) mod lookup;
pub(crate) mod reference;

use lookup::{Found, Lookup};
use reference::Reference;

/// Age in seconds up to which a node's instance may be unknown to some parts of AWS: according to
/// EC2, an ID may be unknown for minutes after the launch.
pub(crate) const YOUNG: u64 = 300;

impl Cloud<'_> {
    /// Returns the state of the instance of each node.
    ///
    /// # Errors
    /// Fails if a request to AWS fails.
    pub fn check(&self, nodes: &[Node]) -> Result<Vec<Result<Presence>>> {
        let (references, found) = find(self, nodes)?;
        let answer =
            |(node, reference): (&Node, &Reference)| presence(node, found.of(reference)?, self.now);
        Ok(nodes.iter().zip(&references).map(answer).collect())
    }

    /// Returns the metadata of the instance of each node.
    ///
    /// # Errors
    /// Fails if a request to AWS fails.
    pub fn describe(&self, nodes: &[Node]) -> Result<Vec<Result<Instance>>> {
        let (references, found) = find(self, nodes)?;
        let instances: Vec<_> = nodes
            .iter()
            .zip(&references)
            .map(|(node, one)| (node, instance(found.of(one))))
            .collect();
        let known: Vec<(&Node, &ec2::Instance)> = instances
            .iter()
            .filter_map(|(node, instance)| Some((*node, *instance.as_ref().ok()?)))
            .collect();

        let labels = labels::of(self, &known)?;
        let answer = |(node, instance): (&Node, Result<&ec2::Instance>)| {
            let instance = instance?;
            let labels = labels
                .get(&node.name)
                .cloned()
                .unwrap_or_else(|| Ok(Vec::new()))?;
            description(self, node, instance, labels)
        };

        Ok(instances.into_iter().map(answer).collect())
    }
}

fn find(cloud: &Cloud<'_>, nodes: &[Node]) -> Result<(Vec<Reference>, Lookup)> {
    let references: Vec<_> = nodes
        .iter()
        .map(|node| reference::of(node, &cloud.config.region))
        .collect();

    // When searching by name, the cluster's tag distinguishes instances with the same name.
    let by_name = references
        .iter()
        .any(|reference| matches!(reference, Reference::Name(_)));
    let cluster: Option<Cluster> = if by_name {
        Some(cloud.identity()?.cluster)
    } else {
        None
    };

    let found = lookup::find(cloud.wire, &references, cluster.as_ref())?;
    Ok((references, found))
}

fn instance(found: Result<&Found>) -> Result<&ec2::Instance> {
    match found? {
        Found::Instance(instance) if instance.instance_state.name == "terminated" => Err(
            CloudError::not_found(format!("instance {} is terminated", instance.instance_id)),
        ),
        Found::Instance(instance) => Ok(instance),
        Found::Gone => Err(CloudError::not_found("the instance does not exist in EC2")),
    }
}

fn presence(node: &Node, found: &Found, now: u64) -> Result<Presence> {
    match found {
        Found::Instance(instance) => Ok(match instance.instance_state.name.as_str() {
            "terminated" => Presence::Absent,
            "stopped" => Presence::Stopped,
            _ => Presence::Running,
        }),
        // EC2 may not know an instance that was just launched.
        Found::Gone if now < node.creation_timestamp.saturating_add(YOUNG) => Ok(Presence::Running),
        Found::Gone => Ok(Presence::Absent),
    }
}

fn description(
    cloud: &Cloud<'_>,
    node: &Node,
    instance: &ec2::Instance,
    labels: Vec<(String, String)>,
) -> Result<Instance> {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let zone = &instance.placement.availability_zone;
    Ok(Instance {
        // The provider ID of a node cannot change.
        provider_id: Some(
            node.provider_id
                .clone()
                .unwrap_or_else(|| format!("aws:///{zone}/{}", instance.instance_id)),
        ),
        instance_type: some(&instance.instance_type),
        zone: some(zone),
        region: Some(cloud.config.region.clone()),
        addresses: address::of(instance, &cloud.config.families)?,
        labels,
        ..Instance::default()
    })
}

/// Instances by ID.
pub(crate) type InstancesById = BTreeMap<String, ec2::Instance>;

#[cfg(test)]
mod tests;
