//! Takes a network load balancer away, with all that was made for it.

use std::{collections::BTreeMap, time::Duration};

use skydock_sdk::{
    Result,
    types::{CloudError, Service},
};

use super::observed::{read_tags, send};
use crate::{
    api::elbv2::{self, LoadBalancer, TargetGroup},
    balancer::{
        LETTING_GO,
        annotation::{self, Annotations},
        name,
        node_rules::{ClusterGroups, Traffic},
    },
    cloud::Cloud,
    store,
    tags::{self, Tags},
};

/// How long a load balancer is remembered that was looked at: before a Service is deleted, the host asks whether it has one.
const SEEN: Duration = Duration::from_secs(10);

fn key(cloud: &Cloud<'_>, name: &str) -> String {
    cloud.key(&format!("seen/{name}"))
}

/// Keeps it for a moment, in case it is to be deleted.
pub(crate) fn remember(cloud: &Cloud<'_>, balancer: Option<&LoadBalancer>) {
    if let Some(balancer) = balancer {
        store::save(cloud.store, &key(cloud, &balancer.load_balancer_name), balancer, SEEN);
    }
}

/// The one that was seen a moment ago, once; or what AWS says.
fn find(cloud: &Cloud<'_>, name: &str) -> Result<Option<LoadBalancer>> {
    let key = key(cloud, name);
    match store::load(cloud.store, &key) {
        Some(balancer) => {
            cloud.store.remove(&key);
            Ok(Some(balancer))
        }
        None => super::find(cloud, name),
    }
}

/// Takes it away. False if there was no load balancer: then nobody but AWS' lists, which may be old, tells what else there is. Tells too
/// which security groups bear the cluster's tag, if that was asked for.
///
/// # Errors
/// `in-progress` if something is still in use; or if AWS refuses.
pub(crate) fn delete(cloud: &Cloud<'_>, service: &Service) -> Result<(bool, Option<ClusterGroups>)> {
    let cluster = cloud.identity()?.cluster;
    let name = name::balancer(service);
    let found = find(cloud, &name)?;
    let arn = found.as_ref().map(|balancer| balancer.load_balancer_arn.as_str());
    let Groups { own, stray } = groups(cloud, service, arn)?;
    let arns: Vec<&str> = arn.into_iter().chain(stray.iter().map(String::as_str)).collect();
    let calls: Vec<_> = arns.chunks(elbv2::TAGGED).map(|part| elbv2::tags(part.iter().copied())).collect();
    let tags = read_tags(send(cloud.wire, &calls).into_iter())?;
    if let Some(arn) = arn {
        super::belongs(&name, tags.as_ref().and_then(|tags| tags.get(arn)), &cluster)?;
        answered(cloud, "DeleteLoadBalancer", arn)?;
    }
    // Without their tags nobody knows whose the others are.
    let tags = tags.unwrap_or_default();
    let named = name::service(service);
    let ours = |tags: &Tags| cluster.owns(tags) && tags.get(tags::SERVICE) == Some(&named);
    let groups = own.into_iter().chain(stray.into_iter().filter(|arn| tags.get(arn).is_some_and(ours)));
    let calls: Vec<_> = groups.map(|arn| elbv2::on_group("DeleteTargetGroup", &arn)).collect();
    let mut waiting = false;
    for answer in send(cloud.wire, &calls) {
        match answer {
            Err(failure) if failure.code() == "ResourceInUse" => waiting = true,
            Err(failure) if !failure.is_not_found() => return Err(failure.into()),
            _ => {}
        }
    }
    let vpc = match &found {
        Some(balancer) => Some(balancer.vpc_id.clone()),
        None => cloud.known_vpc()?,
    };
    // Of a cluster whose last machines are gone nobody knows the VPC; the nodes' groups bear the cluster's tag in any.
    let seen = cloud.sync_node_rules(
        &cluster,
        vpc.as_deref(),
        &name,
        &BTreeMap::new(),
        &Traffic::default(),
        found.is_some(),
    )?;
    let mut security = found.as_ref().map(|balancer| balancer.security_groups.items.clone()).unwrap_or_default();
    if cloud.config.nlb_groups_managed {
        let own = name::network_security_group(&cloud.config.cluster_name, service);
        security.extend(cloud.groups_named(&own, vpc.as_deref(), seen.as_ref())?);
    }
    security.sort();
    security.dedup();
    let given = Annotations(&service.annotations).list(annotation::SECURITY_GROUPS);
    cloud.remove_groups(&cluster, &security, &given)?;
    if waiting {
        return Err(CloudError::in_progress(
            LETTING_GO,
            "target groups are still in use by the load balancer that goes",
        ));
    }
    Ok((found.is_some(), seen))
}

fn answered(cloud: &Cloud<'_>, action: &'static str, arn: &str) -> Result<()> {
    match crate::api::one(cloud.wire, &elbv2::on_balancer(action, arn)) {
        Err(failure) if !failure.is_not_found() => Err(failure.into()),
        _ => Ok(()),
    }
}

/// Target groups by ARN.
struct Groups {
    /// Those of the load balancer.
    own: Vec<String>,
    /// Those that have the Service's name, and were made for it if their tags say so too: they never came to a load balancer, or are left
    /// of one. For a while AWS shows them as those of a load balancer that is gone.
    stray: Vec<String>,
}

fn groups(cloud: &Cloud<'_>, service: &Service, balancer: Option<&str>) -> Result<Groups> {
    let prefix = name::group_prefix(service);
    let own_name = format!("/{}/", name::balancer(service));
    let mut groups = Groups { own: Vec::new(), stray: Vec::new() };
    for TargetGroup { target_group_arn, target_group_name, load_balancer_arns, .. } in elbv2::all_groups(cloud.wire)? {
        let of = &load_balancer_arns.items;
        if balancer.is_some_and(|arn| of.iter().any(|one| one == arn)) {
            groups.own.push(target_group_arn);
        } else if target_group_name.starts_with(&prefix) && of.iter().all(|arn| arn.contains(&own_name)) {
            groups.stray.push(target_group_arn);
        }
    }
    Ok(groups)
}
