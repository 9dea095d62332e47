//! Takes a network load balancer away, with all that was made for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use skydock_sdk::{
    Result,
    types::{CloudError, Service},
};

use super::{
    observed::{read_tags, send},
    wish::Wish,
};
use crate::{
    api::{
        elbv2::{self, Found, LoadBalancer, TargetGroup},
        failure::{Answer, Failure},
    },
    balancer::{
        LETTING_GO,
        annotation::{self, Annotations},
        name,
        node_rules::{ClusterGroups, Probes, Traffic},
    },
    cloud::Cloud,
    store,
    tags::{self, Cluster, Tags},
};

/// How long a load balancer is remembered that was looked at: before a Service is deleted, the host asks whether it has one.
const SEEN: Duration = Duration::from_secs(10);

/// How long it is remembered what belonged to a load balancer that goes.
const LEFT: Duration = Duration::from_secs(3600);

/// What belonged to a load balancer that goes, and is to go after it.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Left {
    /// ARNs of target groups.
    groups: BTreeSet<String>,
    /// IDs of security groups. Those that were not made for the Service stay.
    security: BTreeSet<String>,
}

impl Left {
    fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.security.is_empty()
    }
}

fn key(cloud: &Cloud<'_>, name: &str) -> String {
    cloud.key(&format!("seen/{name}"))
}

/// Keeps it for a moment, in case it is to be deleted.
pub(crate) fn remember(cloud: &Cloud<'_>, balancer: Option<&LoadBalancer>) {
    if let Some(balancer) = balancer {
        store::save(cloud.store, &key(cloud, &balancer.load_balancer_name), balancer, SEEN);
    }
}

/// The one that was seen a moment ago, once; or what AWS says. Tells if it is the one that was seen.
fn find(cloud: &Cloud<'_>, name: &str) -> Result<(Option<LoadBalancer>, bool)> {
    let key = key(cloud, name);
    match store::load(cloud.store, &key) {
        Some(balancer) => {
            cloud.store.remove(&key);
            Ok((Some(balancer), true))
        }
        None => Ok((super::find(cloud, name)?, false)),
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
    let (found, seen_before) = find(cloud, &name)?;
    let arn = found.as_ref().map(|balancer| balancer.load_balancer_arn.as_str());
    let Groups { own, stray, checked, of_others } = groups(cloud, service, found.as_ref())?;
    let probes = Probes { shared: cloud.config.shared_probe.as_ref().map(|probe| probe.port), others: Some(checked) };
    let tags = match tags_of(cloud, arn, &stray)? {
        Answered::Tags(tags) => tags,
        // It has gone since then: there may be another one of the name.
        Answered::NoBalancer if seen_before => return delete(cloud, service),
        Answered::NoBalancer => {
            let text = format!("AWS lists load balancer {name}, and has no tags of it: it may be gone already");
            return Err(CloudError::in_progress(LETTING_GO, text));
        }
    };
    if let Some(arn) = arn {
        super::belongs(&name, tags.as_ref().and_then(|tags| tags.get(arn)), &cluster)?;
    }
    let key = cloud.key(&format!("left/{name}"));
    let mut left: Left = store::load(cloud.store, &key).unwrap_or_default();
    // A Service of the same name may have taken one over.
    left.groups.retain(|arn| !of_others.contains(arn));
    left.groups.extend(own);
    left.groups.extend(made_for(cloud, service, &cluster, stray, tags.as_ref()));
    left.security.extend(found.iter().flat_map(|balancer| balancer.security_groups.items.iter().cloned()));
    if !left.is_empty() {
        // Once the load balancer is gone, it tells no more what was its own.
        store::save(cloud.store, &key, &left, LEFT);
    }
    if let Some(arn) = arn {
        answered(cloud, "DeleteLoadBalancer", arn)?;
    }
    let waiting = remove_target_groups(cloud, &left.groups)?;
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
        &Traffic { probes, ..Traffic::default() },
        found.is_some(),
    )?;
    let mut security = left.security;
    if cloud.config.nlb_groups_managed {
        let own = name::network_security_group(&cloud.config.cluster_name, service);
        security.extend(cloud.groups_named(&own, vpc.as_deref(), seen.as_ref())?);
    }
    let security: Vec<String> = security.into_iter().collect();
    let given = Annotations(&service.annotations).list(annotation::SECURITY_GROUPS);
    cloud.remove_groups(&cluster, service, &security, &given)?;
    if waiting {
        return Err(CloudError::in_progress(
            LETTING_GO,
            "target groups are still in use by the load balancer that goes",
        ));
    }
    cloud.store.remove(&key);
    Ok((found.is_some(), seen))
}

/// Those of the stray target groups that were made for the Service. Without the right to read tags, their names have to do, which have
/// all in them that the Service asks for.
fn made_for(
    cloud: &Cloud<'_>,
    service: &Service,
    cluster: &Cluster,
    stray: Vec<Stray>,
    tags: Option<&BTreeMap<String, Tags>>,
) -> Vec<String> {
    let named = name::service(service);
    let tagged = |tags: &Tags| cluster.owns(tags) && tags.get(tags::SERVICE) == Some(&named);
    // A Service that asks for what cannot be has no such groups.
    let wish = Wish::of(service, cluster, cloud.config);
    let ours = |one: &Stray| match tags {
        Some(tags) => tags.get(&one.arn).is_some_and(tagged),
        None => wish.as_ref().is_ok_and(|wish| wish.fronts.iter().any(|front| front.group.name == one.name)),
    };
    stray.into_iter().filter(ours).map(|one| one.arn).collect()
}

/// True if some are still in use.
fn remove_target_groups(cloud: &Cloud<'_>, groups: &BTreeSet<String>) -> Result<bool> {
    let calls: Vec<_> = groups.iter().map(|arn| elbv2::on_group("DeleteTargetGroup", arn)).collect();
    let mut waiting = false;
    for answer in send(cloud.wire, &calls) {
        match answer {
            Err(failure) if failure.code() == "ResourceInUse" => waiting = true,
            Err(failure) if !failure.is_not_found() => return Err(failure.into()),
            _ => {}
        }
    }
    Ok(waiting)
}

fn answered(cloud: &Cloud<'_>, action: &'static str, arn: &str) -> Result<()> {
    match crate::api::one(cloud.wire, &elbv2::on_balancer(action, arn)) {
        Err(failure) if !failure.is_not_found() => Err(failure.into()),
        _ => Ok(()),
    }
}

/// What AWS says of the tags of a load balancer and of target groups.
enum Answered {
    /// They are these, by ARN; none if the credential may not read them.
    Tags(Option<BTreeMap<String, Tags>>),
    /// There is no such load balancer.
    NoBalancer,
}

/// What is gone by now has no tags: it lets AWS refuse a question about others, too.
fn tags_of(cloud: &Cloud<'_>, balancer: Option<&str>, stray: &[Stray]) -> Result<Answered> {
    let arns: Vec<&str> = balancer.into_iter().chain(stray.iter().map(|one| one.arn.as_str())).collect();
    let calls: Vec<_> = arns.chunks(elbv2::TAGGED).map(|part| elbv2::tags(part.iter().copied())).collect();
    let mut answers = send(cloud.wire, &calls);
    if answers.iter().any(is_gone) {
        let calls: Vec<_> = arns.iter().map(|arn| elbv2::tags([*arn])).collect();
        answers = send(cloud.wire, &calls);
        if balancer.is_some() && answers.first().is_some_and(is_gone) {
            return Ok(Answered::NoBalancer);
        }
    }
    Ok(Answered::Tags(read_tags(answers.into_iter().filter(|answer| !is_gone(answer)))?))
}

fn is_gone(answer: &Answer<Found>) -> bool {
    answer.as_ref().is_err_and(Failure::is_not_found)
}

/// A target group that has no load balancer, or none that is there.
struct Stray {
    arn: String,
    name: String,
}

/// Target groups.
struct Groups {
    /// ARNs of those of the load balancer.
    own: Vec<String>,
    /// Those that have the Service's name, and were made for it if their tags say so too: they never came to a load balancer, or are left
    /// of one. For a while AWS shows them as those of a load balancer that is gone.
    stray: Vec<Stray>,
    /// Ports at which all others in the VPC check their targets.
    checked: BTreeSet<u16>,
    /// ARNs of those of other load balancers.
    of_others: BTreeSet<String>,
}

fn groups(cloud: &Cloud<'_>, service: &Service, balancer: Option<&LoadBalancer>) -> Result<Groups> {
    let prefix = name::group_prefix(service);
    let own_name = format!("/{}/", name::balancer(service));
    let mut groups =
        Groups { own: Vec::new(), stray: Vec::new(), checked: BTreeSet::new(), of_others: BTreeSet::new() };
    for group in elbv2::all_groups(cloud.wire)? {
        let checked = group.health_check_port.parse().unwrap_or(group.port);
        let elsewhere = balancer.is_some_and(|balancer| balancer.vpc_id != group.vpc_id);
        let TargetGroup { target_group_arn, target_group_name, load_balancer_arns, .. } = group;
        let of = &load_balancer_arns.items;
        if balancer.is_some_and(|balancer| of.contains(&balancer.load_balancer_arn)) {
            groups.own.push(target_group_arn);
        } else if target_group_name.starts_with(&prefix) && of.iter().all(|arn| arn.contains(&own_name)) {
            groups.stray.push(Stray { arn: target_group_arn, name: target_group_name });
        } else {
            if !of.is_empty() && of.iter().all(|arn| !arn.contains(&own_name)) {
                groups.of_others.insert(target_group_arn);
            }
            if !elsewhere {
                groups.checked.insert(checked);
            }
        }
    }
    Ok(groups)
}

#[cfg(test)]
mod tests;
