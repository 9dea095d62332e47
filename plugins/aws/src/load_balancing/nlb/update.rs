//! Changes the nodes behind a network load balancer, without other changes.

use std::collections::{BTreeMap, BTreeSet};

use skydock_sdk::{
    Result,
    types::{CloudError, Service},
};

use super::{
    observed_load_balancer::{DEREGISTER, REGISTER, groups_of_service, read_tags, send},
    traffic,
};
use crate::{
    client::api::{
        call::Call,
        elbv2::{self, TargetGroup},
        failure::Failure,
    },
    cloud::Cloud,
    load_balancing::common::{
        errors, name,
        node_rules::Expected,
        targets::{self, Awaited, Target, Targets},
        warning,
    },
};

/// Maximum number of targets changed by one call, the limit of the official provider.
const CHUNK: usize = 100;

/// Puts these nodes behind the load balancer, without other changes.
///
/// # Errors
/// Fails if the load balancer does not exist, or if a request to AWS fails.
pub(crate) fn update(cloud: &Cloud<'_>, service: &Service, nodes: &Targets) -> Result<()> {
    let cluster = cloud.identity()?.cluster;
    let name = name::balancer(service);
    let none = || CloudError::not_found(format!("load balancer {name} does not exist"));
    let balancer = super::find(cloud, &name)?.ok_or_else(none)?;
    let arn = balancer.load_balancer_arn.as_str();

    let calls = [elbv2::groups_of(arn), elbv2::tags([arn])];
    let mut answers = send(cloud.wire, &calls).into_iter();
    let groups = answers
        .next()
        .map(|answer| groups_of_service(answer, service))
        .transpose()?
        .unwrap_or_default();
    let tags = read_tags(answers)?;
    cluster.check(&name, tags.as_ref().and_then(|tags| tags.get(arn)))?;

    let ids = targets::ids(&nodes.all, &service.annotations);
    let mut instances = cloud.target_instances(&ids)?;
    instances.retain(|id, instance| super::in_vpc(id, instance, &balancer.vpc_id));
    let awaited = cloud.awaited(&ids);
    let wanted: BTreeSet<&str> = instances.keys().map(String::as_str).collect();

    let changes = nodes
        .changes
        .as_ref()
        .filter(|_| !targets::selects_by_label(&service.annotations));
    let calls = match changes {
        Some((added, removed)) => known(&groups, &ids_of(added), &ids_of(removed), &ids, &wanted),
        None => compared(cloud, &groups, &wanted, &awaited)?,
    };

    let (rejected, mut errors) = change(cloud, &calls);

    // The same groups have their rules since an earlier call.
    if !traffic::are_groups_open(cloud, &name, &instances) {
        let opened =
            traffic::current(cloud, service, &balancer, &groups).and_then(|mut traffic| {
                traffic.is_partial = !awaited.ids.is_empty();
                let vpc = Some(balancer.vpc_id.as_str());
                cloud.sync_node_rules(
                    service,
                    &cluster,
                    vpc,
                    &instances,
                    &traffic,
                    Expected::UpToDate,
                )
            });
        let unclear = cloud.still_warned(service, warning::NODE_GROUP_UNCLEAR);
        match opened {
            Ok(_) if unclear.is_none() => traffic::remember_groups(cloud, &name, &instances),
            opened => errors.extend(opened.err().into_iter().chain(unclear)),
        }
    }

    errors.extend(warn_rejected(cloud, service, &rejected));
    errors.extend(awaited.error(cloud, service));
    errors::join(errors).map_or(Ok(()), Err)
}

/// Sends calls that change targets. Returns the targets that AWS rejected, and the errors of calls.
fn change(
    cloud: &Cloud<'_>,
    calls: &[Call],
) -> (BTreeMap<elbv2::Target, Failure>, Vec<CloudError>) {
    let mut rejected = BTreeMap::new();
    let mut errors = Vec::new();
    let mut later = Vec::new();
    let makes_room = calls.iter().any(|call| call.action != REGISTER);

    for (call, answer) in calls.iter().zip(send(cloud.wire, calls)) {
        match answer {
            Ok(found) => rejected.extend(found.rejected),
            Err(failure) if makes_room && failure.is_quota() => later.push(call.clone()),
            Err(failure) => errors.push(failure.into()),
        }
    }

    // After others have been deregistered, there is room.
    for answer in send(cloud.wire, &later) {
        match answer {
            Ok(found) => rejected.extend(found.rejected),
            Err(failure) => errors.push(failure.into()),
        }
    }

    (rejected, errors)
}

/// Publishes which instances AWS rejected as targets. Returns the error with which the call is
/// retried, or `None` if there are none.
pub(super) fn warn_rejected<'a>(
    cloud: &Cloud<'_>,
    service: &Service,
    rejected: impl IntoIterator<Item = (&'a elbv2::Target, &'a Failure)>,
) -> Option<CloudError> {
    let rejected = rejected
        .into_iter()
        .map(|(target, failure)| (target.id.clone(), failure.clone()));
    cloud.warn_rejected(service, &rejected.collect())
}

fn ids_of(nodes: &[Target]) -> BTreeSet<String> {
    targets::ids(nodes, &[])
}

/// Returns the calls for the changes that the host reports.
fn known(
    groups: &[TargetGroup],
    added: &BTreeSet<String>,
    removed: &BTreeSet<String>,
    all: &BTreeSet<String>,
    wanted: &BTreeSet<&str>,
) -> Vec<Call> {
    let mut calls = Vec::new();
    for group in groups {
        let target = |id: &str| elbv2::Target {
            id: id.to_owned(),
            port: group.port,
        };

        // A node with changed addresses is both added and removed.
        let gone: Vec<elbv2::Target> = removed
            .iter()
            .filter(|id| !all.contains(*id))
            .map(|id| target(id))
            .collect();
        let fresh: Vec<elbv2::Target> = added
            .iter()
            .filter(|id| wanted.contains(id.as_str()))
            .map(|id| target(id))
            .collect();

        calls.extend(both(&group.target_group_arn, &gone, &fresh));
    }
    calls
}

/// Returns the calls for the differences to the current targets of the load balancer.
fn compared(
    cloud: &Cloud<'_>,
    groups: &[TargetGroup],
    wanted: &BTreeSet<&str>,
    awaited: &Awaited,
) -> Result<Vec<Call>> {
    let questions: Vec<Call> = groups
        .iter()
        .map(|group| elbv2::targets(&group.target_group_arn))
        .collect();

    let mut calls = Vec::new();
    for (group, found) in groups.iter().zip(send(cloud.wire, &questions)) {
        let there: BTreeSet<elbv2::Target> = found?.targets.into_iter().collect();
        let wanted: BTreeSet<elbv2::Target> = wanted
            .iter()
            .map(|id| elbv2::Target {
                id: (*id).to_owned(),
                port: group.port,
            })
            .collect();

        // EC2 can forget an instance of a node for a moment.
        let gone = there.difference(&wanted);
        let gone: Vec<elbv2::Target> = gone
            .filter(|target| !awaited.ids.contains(&target.id))
            .cloned()
            .collect();
        let fresh: Vec<elbv2::Target> = wanted.difference(&there).cloned().collect();

        calls.extend(both(&group.target_group_arn, &gone, &fresh));
    }
    Ok(calls)
}

fn both(group: &str, gone: &[elbv2::Target], fresh: &[elbv2::Target]) -> Vec<Call> {
    let deregistered = gone
        .chunks(CHUNK)
        .map(|part| elbv2::change_targets(DEREGISTER, group, part));
    let into = fresh
        .chunks(CHUNK)
        .map(|part| elbv2::change_targets(REGISTER, group, part));
    deregistered.chain(into).collect()
}
