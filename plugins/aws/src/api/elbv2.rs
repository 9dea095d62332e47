//! Requests to Elastic Load Balancing, version 2015 (network load balancers), and their answers,
//! with only the fields that are used.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    answer::Members,
    call::Call,
    failure::{Answer, Failure},
    pages,
    wire::Wire,
};
use crate::{endpoint::Api, tags::Tags};

/// A load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct LoadBalancer {
    pub(crate) load_balancer_arn: String,
    pub(crate) load_balancer_name: String,
    #[serde(rename = "DNSName")]
    pub(crate) dns_name: String,
    /// `internet-facing` or `internal`.
    pub(crate) scheme: String,
    pub(crate) vpc_id: String,
    pub(crate) state: State,
    /// `network`, `application` or `gateway`.
    #[serde(rename = "Type")]
    pub(crate) kind: String,
    pub(crate) availability_zones: Members<Zone>,
    pub(crate) security_groups: Members<String>,
    /// `ipv4` or `dualstack`.
    pub(crate) ip_address_type: String,
}

/// The state of a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct State {
    /// `provisioning`, `active`, `active_impaired` or `failed`.
    pub(crate) code: String,
    pub(crate) reason: String,
}

/// A zone of a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Zone {
    pub(crate) subnet_id: String,
    pub(crate) load_balancer_addresses: Members<Address>,
}

/// A static address of a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Address {
    pub(crate) allocation_id: Option<String>,
    #[serde(rename = "PrivateIPv4Address")]
    pub(crate) private_address: Option<String>,
}

/// A listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Listener {
    pub(crate) listener_arn: String,
    pub(crate) port: u16,
    pub(crate) protocol: String,
    pub(crate) ssl_policy: String,
    pub(crate) certificates: Members<Certificate>,
    pub(crate) default_actions: Members<Action>,
}

/// A certificate of a listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Certificate {
    pub(crate) certificate_arn: String,
}

/// The action of a listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Action {
    pub(crate) target_group_arn: String,
}

/// A target group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct TargetGroup {
    pub(crate) target_group_arn: String,
    pub(crate) target_group_name: String,
    pub(crate) protocol: String,
    pub(crate) port: u16,
    pub(crate) vpc_id: String,
    pub(crate) health_check_protocol: String,
    pub(crate) health_check_port: String,
    pub(crate) health_check_interval_seconds: u32,
    pub(crate) health_check_timeout_seconds: u32,
    pub(crate) healthy_threshold_count: u32,
    pub(crate) unhealthy_threshold_count: u32,
    pub(crate) health_check_path: String,
    pub(crate) load_balancer_arns: Members<String>,
    pub(crate) ip_address_type: String,
}

impl TargetGroup {
    /// Returns the port of the health check, which may be the traffic port.
    pub(crate) fn checked_port(&self) -> u16 {
        self.health_check_port.parse().unwrap_or(self.port)
    }
}

/// The health of one target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct TargetHealth {
    pub(crate) target: Target,
    #[serde(rename = "TargetHealth")]
    pub(crate) health: Health,
}

/// A target.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Target {
    pub(crate) id: String,
    pub(crate) port: u16,
}

/// The state of a target.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Health {
    /// `draining` if the target is being deregistered.
    pub(crate) state: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Pair {
    key: String,
    value: String,
}

fn map(pairs: Members<Pair>) -> BTreeMap<String, String> {
    pairs
        .items
        .into_iter()
        .map(|pair| (pair.key, pair.value))
        .collect()
}

/// `<ActionResponse><ActionResult>` of any action that returns one of these lists.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Root {
    #[serde(
        alias = "DescribeLoadBalancersResult",
        alias = "CreateLoadBalancerResult",
        alias = "DescribeListenersResult",
        alias = "CreateListenerResult",
        alias = "ModifyListenerResult",
        alias = "DescribeTargetGroupsResult",
        alias = "CreateTargetGroupResult",
        alias = "DescribeTargetHealthResult",
        alias = "DescribeLoadBalancerAttributesResult",
        alias = "DescribeTargetGroupAttributesResult",
        alias = "DescribeTagsResult"
    )]
    result: Lists,
}

/// The lists that an action can return. All lists except the requested one are empty.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Lists {
    load_balancers: Members<LoadBalancer>,
    listeners: Members<Listener>,
    target_groups: Members<TargetGroup>,
    target_health_descriptions: Members<TargetHealth>,
    attributes: Members<Pair>,
    tag_descriptions: Members<TagDescription>,
    next_marker: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct TagDescription {
    resource_arn: String,
    tags: Members<Pair>,
}

/// The answer of any of these actions: one of the lists.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) balancers: Vec<LoadBalancer>,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) groups: Vec<TargetGroup>,
    /// The targets that are not draining.
    pub(crate) targets: Vec<Target>,
    /// The targets that AWS rejected while it accepted the others, and why.
    pub(crate) rejected: Vec<(Target, Failure)>,
    pub(crate) attributes: BTreeMap<String, String>,
    /// Tags by ARN.
    pub(crate) tags: BTreeMap<String, Tags>,
}

/// Parses an answer.
///
/// # Errors
/// Fails if the answer does not have the expected structure.
pub(crate) fn read(call: &Call, body: &str) -> Answer<Found> {
    let Root { result } = super::read(call, body)?;
    let staying = result
        .target_health_descriptions
        .items
        .into_iter()
        .filter(|one| one.health.state != "draining");

    Ok(Found {
        balancers: result.load_balancers.items,
        listeners: result.listeners.items,
        groups: result.target_groups.items,
        targets: staying.map(|one| one.target).collect(),
        rejected: Vec::new(),
        attributes: map(result.attributes),
        tags: result
            .tag_descriptions
            .items
            .into_iter()
            .map(|one| (one.resource_arn, map(one.tags)))
            .collect(),
    })
}

fn call(action: &'static str) -> Call {
    Call::new(Api::Elbv2, action)
}

/// Creates a `DescribeLoadBalancers` request by name.
pub(crate) fn balancer_named(name: &str) -> Call {
    call("DescribeLoadBalancers").list("Names", [name])
}

/// Returns the network load balancer with this name from the answer to a request by that name, if
/// it exists.
///
/// # Errors
/// See [`super::failure::Failure`]. It is not an error if the load balancer does not exist.
pub(crate) fn network(answer: Answer<Found>, name: &str) -> Answer<Option<LoadBalancer>> {
    match answer {
        // For a name that does not exist, AWS returns an error instead of an empty list.
        Ok(found) if found.balancers.is_empty() => Err(Failure::Unreadable {
            action: "DescribeLoadBalancers",
            reason: "an empty list".into(),
        }),
        // An AWS emulation may ignore the parameter and list all load balancers.
        Ok(found) => Ok(found
            .balancers
            .into_iter()
            .find(|one| one.kind == "network" && one.load_balancer_name == name)),
        Err(failure) if failure.code() == "LoadBalancerNotFound" => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Returns the target groups of a load balancer. It is not an error if it has none.
///
/// # Errors
/// See [`super::failure::Failure`].
pub(crate) fn groups(answer: Answer<Found>) -> Answer<Vec<TargetGroup>> {
    match answer {
        Ok(found) => Ok(found.groups),
        Err(failure) if failure.code() == "TargetGroupNotFound" => Ok(Vec::new()),
        Err(failure) => Err(failure),
    }
}

/// Creates a `DescribeListeners` request. A load balancer has at most 50 listeners, which fit into
/// one page.
pub(crate) fn listeners(balancer: &str) -> Call {
    call("DescribeListeners").with("LoadBalancerArn", balancer)
}

/// Creates a `DescribeTargetGroups` request for a load balancer.
pub(crate) fn groups_of(balancer: &str) -> Call {
    call("DescribeTargetGroups").with("LoadBalancerArn", balancer)
}

/// Creates a `DescribeTargetGroups` request by name.
pub(crate) fn group_named(name: &str) -> Call {
    call("DescribeTargetGroups").list("Names", [name])
}

/// Returns all target groups of the region.
///
/// # Errors
/// See [`super::failure::Failure`].
pub(crate) fn all_groups(wire: &dyn Wire) -> Answer<Vec<TargetGroup>> {
    let call = call("DescribeTargetGroups").with("PageSize", 400);
    let pages = pages(wire, &call, |root: &Root| root.result.next_marker.clone())?;
    Ok(pages
        .into_iter()
        .flat_map(|root| root.result.target_groups.items)
        .collect())
}

/// Creates a `DescribeTargetHealth` request for all targets of a group.
pub(crate) fn targets(group: &str) -> Call {
    call("DescribeTargetHealth").with("TargetGroupArn", group)
}

/// Creates a `DescribeLoadBalancerAttributes` request.
pub(crate) fn attributes(balancer: &str) -> Call {
    call("DescribeLoadBalancerAttributes").with("LoadBalancerArn", balancer)
}

/// Creates a `DescribeTargetGroupAttributes` request.
pub(crate) fn group_attributes(group: &str) -> Call {
    call("DescribeTargetGroupAttributes").with("TargetGroupArn", group)
}

/// Maximum number of resources in one request that reads or adds tags.
pub(crate) const TAGGED: usize = 20;

/// Creates a `DescribeTags` request for at most [`TAGGED`] resources.
pub(crate) fn tags<'a>(arns: impl IntoIterator<Item = &'a str>) -> Call {
    call("DescribeTags").list("ResourceArns", arns)
}

pub(crate) fn add_tags<'a>(arns: impl IntoIterator<Item = &'a str>, tags: &Tags) -> Call {
    call("AddTags")
        .list("ResourceArns", arns)
        .tags("Tags", tags)
}

pub(crate) fn remove_tags<'a>(
    arns: impl IntoIterator<Item = &'a str>,
    keys: impl IntoIterator<Item = &'a String>,
) -> Call {
    call("RemoveTags")
        .list("ResourceArns", arns)
        .list("TagKeys", keys)
}

/// Creates a request that changes a load balancer.
pub(crate) fn on_balancer(action: &'static str, arn: &str) -> Call {
    call(action).with("LoadBalancerArn", arn)
}

/// Creates a request that changes a target group.
pub(crate) fn on_group(action: &'static str, arn: &str) -> Call {
    call(action).with("TargetGroupArn", arn)
}

/// Creates a request that changes a listener.
pub(crate) fn on_listener(action: &'static str, arn: &str) -> Call {
    call(action).with("ListenerArn", arn)
}

/// Creates a `CreateLoadBalancer` request for a network load balancer.
pub(crate) fn create_balancer(name: &str) -> Call {
    call("CreateLoadBalancer")
        .with("Name", name)
        .with("Type", "network")
}

pub(crate) fn create_group(name: &str) -> Call {
    call("CreateTargetGroup").with("Name", name)
}

/// Adds attributes to a request.
pub(crate) fn with_attributes(mut call: Call, attributes: &BTreeMap<String, String>) -> Call {
    for (index, (key, value)) in attributes.iter().enumerate() {
        let item = format!("Attributes.member.{}", index + 1);
        call = call
            .with(format!("{item}.Key"), key)
            .with(format!("{item}.Value"), value);
    }
    call
}

/// Creates a `RegisterTargets` or `DeregisterTargets` request.
pub(crate) fn change_targets<'a>(
    action: &'static str,
    group: &str,
    targets: impl IntoIterator<Item = &'a Target>,
) -> Call {
    let mut call = on_group(action, group);
    for (index, target) in targets.into_iter().enumerate() {
        let item = format!("Targets.member.{}", index + 1);
        call = call
            .with(format!("{item}.Id"), &target.id)
            .with(format!("{item}.Port"), target.port);
    }
    call
}

/// Returns the targets of a `RegisterTargets` request.
pub(crate) fn targets_in(call: &Call) -> Vec<Target> {
    let values = |suffix: &'static str| {
        let fits = move |key: &str| key.starts_with("Targets.member.") && key.ends_with(suffix);
        call.params
            .iter()
            .filter(move |(key, _)| fits(key))
            .map(|(_, value)| value)
    };

    let targets = values(".Id").zip(values(".Port"));
    targets
        .filter_map(|(id, port)| {
            Some(Target {
                id: id.clone(),
                port: port.parse().ok()?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_targets_of_a_request_are_read_back() {
        let targets = ["i-1", "i-2"].map(|id| Target {
            id: id.to_owned(),
            port: 30080,
        });
        let call = change_targets("RegisterTargets", "arn:group", &targets);
        assert_eq!(targets_in(&call), targets);
    }
}
