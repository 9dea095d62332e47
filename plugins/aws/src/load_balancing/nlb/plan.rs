//! Computes the next calls that change a network load balancer to what is requested.
//!
//! The calls of one plan are independent and sent at once. Their results are applied to the
//! observed state, and the next plan is computed from it, until nothing is left to do. A lost or
//! incomplete call is therefore continued where it stopped.
//!
//! A listener keeps its target group until the next one has its attributes and targets.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    desired_load_balancer::{
        DesiredListener, DesiredLoadBalancer, DesiredTargetGroup, Security, attributes,
    },
    observed_load_balancer::ObservedLoadBalancer,
    steps::Step,
};
use crate::{
    client::api::elbv2::{Listener, TAGGED, Target, TargetGroup},
    tags::Tags,
};

/// Maximum number of targets changed by one call, the limit of the official provider.
const CHUNK: usize = 100;

/// Returns the next steps, or an empty list if nothing is left to do.
pub(crate) fn plan(
    desired: &DesiredLoadBalancer,
    observed: &ObservedLoadBalancer,
    instances: &BTreeSet<String>,
) -> Vec<Step> {
    let mut steps = Vec::new();
    for wanted in &desired.listeners {
        steps.extend(of_listener(desired, wanted, observed, instances));
    }
    steps.extend(removals(desired, observed));
    steps.extend(of_balancer(desired, observed));
    steps
}

/// Returns the steps for a listener and its target group.
fn of_listener(
    desired: &DesiredLoadBalancer,
    wanted: &DesiredListener,
    observed: &ObservedLoadBalancer,
    instances: &BTreeSet<String>,
) -> Vec<Step> {
    let mut listeners = observed.listeners.iter();
    let listener = listeners.find(|listener| listener.port == wanted.port);
    let Some(group) = group_for(&wanted.group, listener, observed) else {
        // The steps that need its ARN are in the next plan.
        return vec![Step::CreateGroup(wanted.group.clone())];
    };

    let arn = &group.target_group_arn;
    let (gone, fresh) = target_changes(group, observed, instances);
    let set = difference(
        &desired.group_attributes,
        observed.group_attributes.get(arn),
    );

    let mut steps = Vec::new();
    match listener {
        None => steps.push(Step::CreateListener(wanted.clone(), arn.clone())),
        Some(listener) if differs(wanted, listener, arn) => {
            // Another certificate or policy does not have to wait for the group.
            let stays = group_of(listener) == Some(arn);
            let is_ready = fresh.is_empty() && set.is_empty();
            if stays || (is_ready && may_take_over(arn, observed, instances)) {
                steps.push(Step::ModifyListener(
                    listener.listener_arn.clone(),
                    wanted.clone(),
                    arn.clone(),
                ));
            }
        }
        Some(_) => {}
    }

    if health_differs(&wanted.group, group) {
        steps.push(Step::ModifyGroup(arn.clone(), wanted.group.clone()));
    }

    let deregister = |part: &[Target]| Step::Deregister(arn.clone(), part.to_vec());
    steps.extend(gone.chunks(CHUNK).map(deregister));
    let register = |part: &[Target]| Step::Register(arn.clone(), part.to_vec());
    steps.extend(fresh.chunks(CHUNK).map(register));

    if !set.is_empty() {
        steps.push(Step::SetGroupAttributes(arn.clone(), set));
    }
    steps
}

/// Returns the targets to deregister from a group, and those to register. Targets that AWS has
/// rejected are not registered again.
fn target_changes(
    group: &TargetGroup,
    observed: &ObservedLoadBalancer,
    instances: &BTreeSet<String>,
) -> (Vec<Target>, Vec<Target>) {
    let arn = &group.target_group_arn;
    let nobody = BTreeSet::new();
    let nothing = BTreeMap::new();
    let there = observed.targets.get(arn).unwrap_or(&nobody);
    let rejected = observed.rejected.get(arn).unwrap_or(&nothing);

    let wanted: BTreeSet<Target> = instances
        .iter()
        .map(|id| Target {
            id: id.clone(),
            port: group.port,
        })
        .collect();
    let gone = there.difference(&wanted).cloned().collect();
    let fresh = wanted
        .difference(there)
        .filter(|target| !rejected.contains_key(target));
    (gone, fresh.cloned().collect())
}

/// Returns true if a listener can change to this group, whose targets are registered: if there are
/// nodes, some of them have to be targets.
fn may_take_over(arn: &str, observed: &ObservedLoadBalancer, instances: &BTreeSet<String>) -> bool {
    let has_targets = observed
        .targets
        .get(arn)
        .is_some_and(|there| there.iter().any(|target| instances.contains(&target.id)));
    !observed.keeps_target_groups && (instances.is_empty() || has_targets)
}

/// Returns true if a listener will get another target group.
pub(super) fn changes_target_group(
    desired: &DesiredLoadBalancer,
    observed: &ObservedLoadBalancer,
) -> bool {
    desired.listeners.iter().any(|wanted| {
        let of_port = |listener: &&Listener| listener.port == wanted.port;
        observed
            .listeners
            .iter()
            .find(of_port)
            .is_some_and(|listener| {
                let group = group_for(&wanted.group, Some(listener), observed);
                group.map(|group| group.target_group_arn.as_str()) != group_of(listener)
            })
    })
}

/// Returns the target group for a listener: one with the right immutable properties, preferably the
/// current one of the listener.
fn group_for<'a>(
    wanted: &DesiredTargetGroup,
    listener: Option<&Listener>,
    observed: &'a ObservedLoadBalancer,
) -> Option<&'a TargetGroup> {
    let current = listener.and_then(group_of);
    let mut fitting: Vec<&TargetGroup> = observed
        .groups
        .iter()
        .filter(|group| fits(wanted, group))
        .collect();
    // `false` is less than `true`, so the current group is the first.
    fitting.sort_by_key(|group| Some(group.target_group_arn.as_str()) != current);
    fitting.first().copied()
}

/// Returns true if the immutable properties of a target group are as requested.
pub(super) fn fits(wanted: &DesiredTargetGroup, group: &TargetGroup) -> bool {
    group.port == wanted.port
        && group.protocol == wanted.protocol
        && group
            .health_check_protocol
            .eq_ignore_ascii_case(wanted.health.protocol)
        && group.health_check_interval_seconds == wanted.health.interval
        && (group.ip_address_type == "ipv6") == wanted.ipv6
}

/// Returns the ARN of the target group that a listener forwards to.
pub(crate) fn group_of(listener: &Listener) -> Option<&str> {
    listener
        .default_actions
        .items
        .first()
        .map(|action| action.target_group_arn.as_str())
}

fn differs(wanted: &DesiredListener, listener: &Listener, group: &str) -> bool {
    let certificate = listener
        .certificates
        .items
        .first()
        .map(|one| one.certificate_arn.as_str());

    listener.protocol != wanted.protocol
        || group_of(listener) != Some(group)
        || wanted
            .certificate
            .as_deref()
            .is_some_and(|wanted| Some(wanted) != certificate)
        || wanted
            .policy
            .as_deref()
            .is_some_and(|wanted| wanted != listener.ssl_policy)
}

fn health_differs(wanted: &DesiredTargetGroup, group: &TargetGroup) -> bool {
    let health = &wanted.health;
    health.port != group.health_check_port
        || health.healthy != group.healthy_threshold_count
        || health.unhealthy != group.unhealthy_threshold_count
        || health
            .path
            .as_ref()
            .is_some_and(|path| *path != group.health_check_path)
        || health
            .timeout
            .is_some_and(|timeout| timeout != group.health_check_timeout_seconds)
}

/// Returns the listeners that are not requested: those that forward to a target group of the
/// Service, and those of users.
pub(super) fn unrequested<'a>(
    desired: &DesiredLoadBalancer,
    observed: &'a ObservedLoadBalancer,
) -> (Vec<&'a Listener>, Vec<&'a Listener>) {
    let listeners = observed.listeners.iter();
    let unrequested = listeners.filter(|listener| {
        !desired
            .listeners
            .iter()
            .any(|wanted| wanted.port == listener.port)
    });
    unrequested.partition(|listener| {
        let mut groups = observed.groups.iter();
        groups.any(|group| group_of(listener) == Some(group.target_group_arn.as_str()))
    })
}

/// Returns the steps that delete listeners that are not requested, and target groups that no
/// listener uses.
fn removals(desired: &DesiredLoadBalancer, observed: &ObservedLoadBalancer) -> Vec<Step> {
    let (unwanted, _) = unrequested(desired, observed);
    let mut steps: Vec<Step> = unwanted
        .into_iter()
        .map(|one| Step::DeleteListener(one.listener_arn.clone()))
        .collect();

    let led_to: BTreeSet<&str> = observed.listeners.iter().filter_map(group_of).collect();

    // A wanted group has no listener yet while its targets are registered.
    let wanted: BTreeSet<&str> = desired
        .listeners
        .iter()
        .filter_map(|wanted| {
            let listener = observed
                .listeners
                .iter()
                .find(|listener| listener.port == wanted.port);
            Some(
                group_for(&wanted.group, listener, observed)?
                    .target_group_arn
                    .as_str(),
            )
        })
        .collect();

    let idle = observed
        .groups
        .iter()
        .map(|group| group.target_group_arn.as_str());
    let idle = idle.filter(|arn| !led_to.contains(arn) && !wanted.contains(arn));
    steps.extend(idle.map(|arn| Step::DeleteGroup(arn.to_owned())));
    steps
}

/// Returns the steps that change the load balancer itself.
fn of_balancer(desired: &DesiredLoadBalancer, observed: &ObservedLoadBalancer) -> Vec<Step> {
    let mut steps = Vec::new();
    // AWS may reject the bucket of the logs, which has nothing to do with the other attributes.
    let (logs, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
        difference(&desired.attributes, Some(&observed.attributes))
            .into_iter()
            .partition(|(key, _)| key.starts_with(attributes::LOGS));
    let sets = [others, logs].into_iter().filter(|set| !set.is_empty());
    steps.extend(sets.map(Step::SetAttributes));

    if let Some(tags) = &observed.tags {
        steps.extend(tag_changes(desired, tags));
    }

    let there: BTreeSet<&String> = observed.balancer.security_groups.items.iter().collect();
    let wanted = match (&desired.security, &observed.managed_group) {
        (Security::Given(groups), _) => groups.clone(),
        (Security::Managed(_), Some(group)) => vec![group.clone()],
        // Without a managed group, which could not be prepared, the current groups stay.
        (Security::Managed(_), None) | (Security::Unchanged, _) => Vec::new(),
    };
    // AWS accepts no security groups for a load balancer that was created without any.
    if !there.is_empty() && !wanted.is_empty() && wanted.iter().collect::<BTreeSet<_>>() != there {
        steps.push(Step::SetSecurityGroups(wanted));
    }

    let kind = observed.balancer.ip_address_type.as_str();
    let other = |wanted: &&str| *wanted != kind && !kind.is_empty();
    steps.extend(
        desired
            .ip_address_type
            .requested()
            .filter(other)
            .map(Step::SetIpAddressType),
    );
    steps
}

/// Returns the steps that add missing tags to resources, and remove others.
fn tag_changes(desired: &DesiredLoadBalancer, there: &BTreeMap<String, Tags>) -> Vec<Step> {
    let lacks_any = |tags: &Tags| {
        let mut wanted = desired.tags.iter();
        wanted.any(|(key, value)| tags.get(key) != Some(value))
    };
    let has_excess = |tags: &Tags| {
        let mut removed = desired.removed_tags.iter();
        removed.any(|key| tags.contains_key(key))
    };
    let arns = |is_meant: &dyn Fn(&Tags) -> bool| -> Vec<String> {
        let meant = there.iter().filter(|(_, tags)| is_meant(tags));
        meant.map(|(arn, _)| arn.clone()).collect()
    };

    let lacking = arns(&lacks_any);
    let add = |part: &[String]| Step::AddTags(part.to_vec(), desired.tags.clone());
    let excess = arns(&has_excess);
    let remove = |part: &[String]| Step::RemoveTags(part.to_vec(), desired.removed_tags.clone());
    lacking
        .chunks(TAGGED)
        .map(add)
        .chain(excess.chunks(TAGGED).map(remove))
        .collect()
}

/// Returns the requested values that differ from the current ones.
fn difference(
    wanted: &BTreeMap<String, String>,
    there: Option<&BTreeMap<String, String>>,
) -> BTreeMap<String, String> {
    let same = |key: &String, value: &String| there.and_then(|there| there.get(key)) == Some(value);
    wanted
        .iter()
        .filter(|(key, value)| !same(key, value))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests;
