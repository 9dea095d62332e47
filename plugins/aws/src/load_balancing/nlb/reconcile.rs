//! Sends the steps that change a network load balancer to what is requested.

use std::collections::{BTreeMap, BTreeSet};

use skydock_sdk::{Result, types::CloudError};

use super::{
    Context, ask,
    desired_load_balancer::{DesiredLoadBalancer, DesiredTargetGroup},
    observed_load_balancer::{self, ObservedLoadBalancer},
    plan,
    steps::{self, Step},
};
use crate::{
    client::api::{
        call::Call,
        elbv2::{self, Found, LoadBalancer, TargetGroup},
        failure::{Answer, Failure},
        partly,
    },
    cloud::Cloud,
    tags::{self, Tags},
};

/// Maximum number of rounds of calls. Creating a load balancer takes three; the others are for
/// concurrent changes by other clients.
const ROUNDS: usize = 10;

/// Sends steps until nothing is left to do. A step that fails stops only the steps that depend on
/// it, except if AWS throttles requests. Returns the errors.
pub(super) fn reconcile(
    context: Context<'_>,
    observed: &mut ObservedLoadBalancer,
    targets: &BTreeSet<String>,
) -> Vec<CloudError> {
    let Context { cloud, desired, .. } = context;
    let vpc = observed.balancer.vpc_id.clone();
    let mut failed = Vec::new();
    let mut errors = Vec::new();
    for _ in 0..ROUNDS {
        let mut steps = plan::plan(desired, observed, targets);
        steps.retain(|step| !failed.contains(step));
        if steps.is_empty() || errors.iter().any(is_throttled) {
            return errors;
        }

        let arn = observed.balancer.load_balancer_arn.clone();
        let calls: Vec<Call> = steps
            .iter()
            .map(|step| steps::call(step, desired, &arn, &vpc))
            .collect();
        let has_room_soon = steps.iter().any(makes_room);

        for (step, answer) in steps
            .iter()
            .zip(observed_load_balancer::send(cloud.wire, &calls))
        {
            // The next round repeats the step, when there is room.
            let waits = has_room_soon && !makes_room(step);
            if waits && answer.as_ref().is_err_and(Failure::is_quota) {
                continue;
            }

            match outcome(context, observed, step, answer) {
                Ok(found) => observed.apply(step, found),
                Err(error) => {
                    failed.push(step.clone());
                    errors.push(error);
                }
            }
        }
    }

    errors.push(CloudError::conflict(format!(
        "load balancer {} keeps changing: check whether another client changes it",
        desired.name
    )));
    errors
}

/// Returns true if a step makes room for others that exceed a quota.
fn makes_room(step: &Step) -> bool {
    matches!(
        step,
        Step::Deregister(..) | Step::DeleteListener(_) | Step::DeleteGroup(_)
    )
}

/// Returns true if AWS throttles requests.
pub(super) fn is_throttled(error: &CloudError) -> bool {
    matches!(error, CloudError::Throttled(_))
}

/// Converts the answer to a step. Some errors mean that the step was done before.
fn outcome(
    context: Context<'_>,
    observed: &mut ObservedLoadBalancer,
    step: &Step,
    answer: Answer<Found>,
) -> Result<Found> {
    let Context {
        cloud,
        service,
        desired,
        ..
    } = context;
    let code = answer
        .as_ref()
        .err()
        .map(Failure::code)
        .unwrap_or_default()
        .to_owned();

    match (step, code.as_str()) {
        (Step::CreateGroup(group), "DuplicateTargetGroupName") => {
            adopt(cloud, desired, observed, group)
        }
        // AWS returns an existing group with the same settings.
        (Step::CreateGroup(_), _) => {
            let found = answer?;
            let mut groups = found.groups.iter();
            groups.try_for_each(|group| check_user(group, &observed.balancer))?;
            Ok(found)
        }
        (Step::AddTags(arns, tags), _) => match answer {
            Err(failure) => {
                let arns = || arns.iter().map(String::as_str);
                let send = |part: &Tags| ask(cloud, &elbv2::add_tags(arns(), part)).map(|_| ());
                partly::add_tags(tags, failure, &send)?;
                Ok(Found::default())
            }
            Ok(found) => Ok(found),
        },
        (Step::DeleteListener(_), "ListenerNotFound")
        | (Step::DeleteGroup(_), "TargetGroupNotFound") => Ok(Found::default()),
        // AWS may need a moment to notice that no listener uses it.
        (Step::DeleteGroup(_), "ResourceInUse") => {
            answer.map_err(|failure| cloud.in_use(service, &failure))
        }
        _ => Ok(answer?),
    }
}

/// Rejects a target group that another load balancer uses.
fn check_user(group: &TargetGroup, balancer: &LoadBalancer) -> Result<()> {
    let mut users = group.load_balancer_arns.items.iter();
    match users.find(|arn| **arn != balancer.load_balancer_arn) {
        None => Ok(()),
        Some(other) => {
            // An ARN ends with `loadbalancer/net/NAME/ID`.
            let other = other.split('/').nth(2).unwrap_or(other);
            Err(taken(group, &format!("belongs to load balancer {other}")))
        }
    }
}

/// Returns the error for a target group of somebody else with the name of one for the Service.
fn taken(group: &TargetGroup, whose: &str) -> CloudError {
    CloudError::internal(format!(
        "target group {}, which has the name that a port of the Service needs, {whose}: delete it if it is not in use, otherwise \
         change the node port",
        group.target_group_name
    ))
}

/// Returns an existing target group with the right name if nobody else uses it.
fn adopt(
    cloud: &Cloud<'_>,
    desired: &DesiredLoadBalancer,
    observed: &mut ObservedLoadBalancer,
    wanted: &DesiredTargetGroup,
) -> Result<Found> {
    let name = &wanted.name;
    let mut found = ask(cloud, &elbv2::group_named(name))?;
    found
        .groups
        .retain(|group| group.target_group_name == *name);
    let Some(group) = found.groups.first() else {
        return Err(CloudError::conflict(format!(
            "target group {name} exists but is not listed"
        )));
    };

    check_user(group, &observed.balancer)?;
    let vpc = &observed.balancer.vpc_id;
    if !group.vpc_id.is_empty() && group.vpc_id != *vpc {
        return Err(taken(
            group,
            &format!("is in another VPC, {}", group.vpc_id),
        ));
    }

    // Only what AWS cannot change counts. The next rounds set the rest.
    if !plan::fits(wanted, group) {
        return Err(CloudError::internal(format!(
            "target group {name} was changed by another client: its health check is {} every {} s, but the Service requires {} every {} s; \
             set it back, or delete it",
            group.health_check_protocol,
            group.health_check_interval_seconds,
            wanted.health.protocol,
            wanted.health.interval
        )));
    }

    let arn = group.target_group_arn.clone();
    let tags =
        observed_load_balancer::read_tags([ask(cloud, &elbv2::tags([arn.as_str()]))].into_iter())?;
    let tags: BTreeMap<String, Tags> = tags.unwrap_or_default();
    let is_others = |tags: &Tags| {
        tags.get(tags::SERVICE) != desired.tags.get(tags::SERVICE)
            || desired.clusters().all(|key| !tags.contains_key(key))
    };
    if tags.get(&arn).is_some_and(is_others) {
        return Err(taken(group, "has the tags of another Service or cluster"));
    }

    // Without them, the next round would not deregister surplus targets.
    let targets = ask(cloud, &elbv2::targets(&arn))?.targets;
    observed.targets.insert(arn, targets.into_iter().collect());
    Ok(found)
}

#[cfg(test)]
mod tests {
    use skydock_sdk::types::Transport;

    use super::*;
    use crate::{
        client::api::elbv2::{Action, Listener},
        testing::{Memory, Scripted, nothing, rejection, service, setup},
    };

    /// Returns the errors and the number of calls of each action if AWS has a quota for this action,
    /// while a listener and its target group are deleted.
    fn rejected(action: &str) -> (Vec<CloudError>, Vec<&'static str>) {
        let (setup, store, none) = (setup(), Memory::default(), Vec::new);
        let wire = Scripted::new(|call: &Call| {
            if call.action == action {
                rejection(call, "TooManyThings")
            } else {
                nothing(call)
            }
        });
        let cloud = Cloud::new(&setup, &wire, &store, &none, 0);
        let cluster = cloud.identity().unwrap().cluster;
        let service = service(&[("", Transport::Tcp, 80, 30080)]);
        let desired = DesiredLoadBalancer {
            listeners: Vec::new(),
            attributes: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
            ..DesiredLoadBalancer::of(&service, &cluster, cloud.config).unwrap()
        };
        let group = TargetGroup {
            target_group_arn: "tg".into(),
            ..TargetGroup::default()
        };
        let forward = Action {
            target_group_arn: "tg".into(),
        };
        let listener = Listener {
            listener_arn: "l".into(),
            port: 80,
            default_actions: vec![forward].into(),
            ..Listener::default()
        };
        let mut observed = ObservedLoadBalancer {
            groups: vec![group],
            listeners: vec![listener],
            ..ObservedLoadBalancer::default()
        };

        let context = Context {
            cloud: &cloud,
            service: &service,
            cluster: &cluster,
            desired: &desired,
            is_new: false,
        };
        let errors = reconcile(context, &mut observed, &BTreeSet::new());
        let sent = wire.sent.borrow();
        (errors, sent.iter().map(|call| call.action).collect())
    }

    #[test]
    fn a_step_that_exceeds_a_quota_waits_for_deletions() {
        let (errors, sent) = rejected("ModifyLoadBalancerAttributes");
        assert!(
            matches!(errors.as_slice(), [CloudError::Denied(_)]),
            "{errors:?}"
        );
        let times = sent
            .iter()
            .filter(|action| **action == "ModifyLoadBalancerAttributes");
        assert_eq!(times.count(), 3, "{sent:?}");
    }

    #[test]
    fn a_quota_of_a_deletion_is_reported_as_such() {
        let (errors, sent) = rejected("DeleteListener");
        assert!(
            matches!(errors.as_slice(), [CloudError::Denied(_)]),
            "{errors:?}"
        );
        let times = sent.iter().filter(|action| **action == "DeleteListener");
        assert_eq!(times.count(), 1, "{sent:?}");
    }
}
