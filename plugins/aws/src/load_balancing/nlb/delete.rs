//! Deletes a network load balancer and everything that was created for it.

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
    desired_load_balancer::DesiredLoadBalancer,
    observed_load_balancer::{read_tags, send},
};
use crate::{
    client::api::{
        self,
        elbv2::{self, Found, LoadBalancer, TargetGroup},
        failure::{Answer, Failure},
    },
    cloud::Cloud,
    load_balancing::common::{
        annotation::{self, Annotations},
        name,
        node_rules::{ClusterGroups, Expected, Probes, Traffic},
        security_group::RELEASE_TIME,
    },
    store,
    tags::{self, Cluster, Tags},
};

/// How long a load balancer is remembered after it was read. Before the host deletes the load
/// balancer of a Service, it asks whether there is one.
const FOUND: Duration = Duration::from_secs(10);

/// How long the resources of a deleted load balancer are remembered.
const REMAINING: Duration = Duration::from_secs(3600);

/// Resources of a deleted load balancer that must be deleted after it.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Remaining {
    /// ARNs of target groups.
    groups: BTreeSet<String>,
    /// IDs of security groups. Those that were not created for the Service are kept.
    security: BTreeSet<String>,
    /// The cluster, which may be unknown when they are deleted.
    #[serde(default)]
    cluster: Option<Cluster>,
}

impl Remaining {
    fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.security.is_empty()
    }

    /// Adds the resources of a load balancer.
    fn add(&mut self, groups: Groups, balancer: Option<&LoadBalancer>, cluster: Option<&Cluster>) {
        // A Service with the same name may have taken over a target group.
        self.groups.retain(|arn| !groups.of_others.contains(arn));
        self.groups.extend(groups.own);

        let secured = balancer
            .into_iter()
            .flat_map(|balancer| &balancer.security_groups.items);
        self.security.extend(secured.cloned());
        self.cluster = cluster.cloned();
    }
}

fn key(cloud: &Cloud<'_>, name: &str) -> String {
    cloud.key(&format!("seen/{name}"))
}

/// Remembers a load balancer for a short time, in case it is deleted next.
pub(crate) fn remember(cloud: &Cloud<'_>, balancer: Option<&LoadBalancer>) {
    if let Some(balancer) = balancer {
        store::save(
            cloud.store,
            &key(cloud, &balancer.load_balancer_name),
            balancer,
            FOUND,
        );
    }
}

/// Returns the load balancer that was read shortly before (once only), or otherwise reads it. The
/// second value is true if it was read before.
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

/// What was found while a load balancer was deleted.
#[derive(Debug)]
pub(crate) struct Deleted {
    /// The load balancer existed. Otherwise only the lists of AWS, which can be outdated, show what
    /// else remains.
    pub(crate) existed: bool,
    /// The security groups with the cluster's tag, if they were read.
    pub(crate) cluster_groups: Option<ClusterGroups>,
}

/// Deletes the load balancer.
///
/// # Errors
/// Returns `in-progress` if something is still in use. Fails if a request to AWS fails.
pub(crate) fn delete(cloud: &Cloud<'_>, service: &Service) -> Result<Deleted> {
    let name = name::balancer(service);
    let (found, seen_before) = find(cloud, &name)?;
    let arn = found
        .as_ref()
        .map(|balancer| balancer.load_balancer_arn.as_str());

    let groups = groups(cloud, service, found.as_ref())?;
    let tags = match tags_of(cloud, arn, &groups.stray)? {
        Answered::Tags(tags) => tags,
        // The remembered load balancer has been deleted. Another one may have the same name.
        Answered::NoBalancer if seen_before => return delete(cloud, service),
        Answered::NoBalancer => {
            let text = format!(
                "AWS lists load balancer {name} but not its tags: it may have been deleted"
            );
            return Err(CloudError::in_progress(RELEASE_TIME, text));
        }
    };

    let key = cloud.key(&format!("left/{name}"));
    let mut remaining: Remaining = store::load(cloud.store, &key).unwrap_or_default();
    let cluster = cluster_by_tags(cloud, service, arn, tags.as_ref())?;
    let cluster = cluster.or_else(|| remaining.cluster.clone());
    if let (Some(cluster), Some(arn)) = (&cluster, arn) {
        cluster.check(&name, tags.as_ref().and_then(|tags| tags.get(arn)))?;
    }

    let checked_by_others = groups.checked.clone();
    if let Some(cluster) = &cluster {
        let stray = created_for(cloud, service, cluster, &groups.stray, tags.as_ref());
        remaining.groups.extend(stray);
    }
    remaining.add(groups, found.as_ref(), cluster.as_ref());
    if !remaining.is_empty() {
        // After the load balancer is deleted, AWS does not return which resources belonged to it.
        store::save(cloud.store, &key, &remaining, REMAINING);
    }

    if let Some(arn) = arn {
        delete_balancer(cloud, arn)?;
    }
    let waiting = remove_target_groups(cloud, &remaining.groups)?;

    let cluster_groups =
        close_and_remove_groups(cloud, service, found.as_ref(), remaining, checked_by_others)?;

    // Everything else is deleted, so the next call has only these left.
    if let Some(failure) = waiting {
        return Err(cloud.in_use(service, &failure));
    }

    cloud.store.remove(&key);
    Ok(Deleted {
        existed: found.is_some(),
        cluster_groups,
    })
}

/// Closes the nodes to the load balancer, and deletes its security groups. Returns the security
/// groups with the cluster's tag, if they were read.
fn close_and_remove_groups(
    cloud: &Cloud<'_>,
    service: &Service,
    found: Option<&LoadBalancer>,
    remaining: Remaining,
    checked_by_others: BTreeSet<u16>,
) -> Result<Option<ClusterGroups>> {
    // The VPC is unknown if the last instances of the cluster are gone.
    let vpc = match found {
        Some(balancer) => Some(balancer.vpc_id.clone()),
        None => cloud.known_vpc().unwrap_or_default(),
    };
    let location = Location {
        cluster: remaining.cluster.as_ref(),
        vpc: vpc.as_deref(),
    };
    let expected = if found.is_some() {
        Expected::Outdated
    } else {
        Expected::UpToDate
    };

    let seen = close_nodes(cloud, service, location, checked_by_others, expected)?;
    remove_security_groups(cloud, service, location, remaining.security, seen.as_ref())?;
    Ok(seen)
}

/// Where the resources of a load balancer are, as far as it is known.
#[derive(Clone, Copy)]
struct Location<'a> {
    cluster: Option<&'a Cluster>,
    vpc: Option<&'a str>,
}

/// Returns the cluster. After the nodes are gone, the tags of the resources tell it.
fn cluster_by_tags(
    cloud: &Cloud<'_>,
    service: &Service,
    balancer: Option<&str>,
    tags: Option<&BTreeMap<String, Tags>>,
) -> Result<Option<Cluster>> {
    let of_balancer = balancer.and_then(|arn| tags?.get(arn));
    let of_service = Some(name::service(service));
    let of_stray = tags
        .into_iter()
        .flat_map(BTreeMap::values)
        .filter(|tags| tags.get(tags::SERVICE) == of_service.as_ref());
    cloud.cluster_of(of_balancer.into_iter().chain(of_stray))
}

/// Removes the rules for the load balancer from the nodes' security groups. Returns the groups with
/// the cluster's tag, if they were read.
fn close_nodes(
    cloud: &Cloud<'_>,
    service: &Service,
    location: Location<'_>,
    checked_by_others: BTreeSet<u16>,
    expected: Expected,
) -> Result<Option<ClusterGroups>> {
    let Some(cluster) = location.cluster else {
        return Ok(None);
    };

    let probes = Probes {
        shared: cloud.config.shared_probe.as_ref().map(|probe| probe.port),
        others: Some(checked_by_others),
    };
    let traffic = Traffic {
        probes,
        ..Traffic::default()
    };
    // Without the VPC, the nodes' groups are found in any VPC by the cluster's tag.
    cloud.sync_node_rules(
        service,
        cluster,
        location.vpc,
        &BTreeMap::new(),
        &traffic,
        expected,
    )
}

/// Deletes those of these security groups that were created for the Service, and the group with the
/// name of the one that the plugin creates.
fn remove_security_groups(
    cloud: &Cloud<'_>,
    service: &Service,
    location: Location<'_>,
    mut groups: BTreeSet<String>,
    seen: Option<&ClusterGroups>,
) -> Result<()> {
    if cloud.config.nlb_groups_managed {
        let own = name::network_security_group(&cloud.config.cluster_name, service);
        groups.extend(cloud.groups_named(&own, location.vpc, seen)?);
    }
    let groups: Vec<String> = groups.into_iter().collect();
    let given = Annotations(&service.annotations).list(annotation::SECURITY_GROUPS);
    cloud.remove_groups(location.cluster, service, &groups, &given)
}

/// Returns the stray target groups that were created for the Service. If the credentials do not
/// allow reading tags, they are identified by their names, which are derived from everything that
/// the Service requests.
fn created_for(
    cloud: &Cloud<'_>,
    service: &Service,
    cluster: &Cluster,
    stray: &[Stray],
    tags: Option<&BTreeMap<String, Tags>>,
) -> Vec<String> {
    let named = name::service(service);
    let tagged = |tags: &Tags| cluster.owns(tags) && tags.get(tags::SERVICE) == Some(&named);

    // An invalid Service has no such groups.
    let desired = DesiredLoadBalancer::of(service, cluster, cloud.config);
    let ours = |one: &&Stray| match tags {
        Some(tags) => tags.get(&one.arn).is_some_and(tagged),
        None => desired.as_ref().is_ok_and(|desired| {
            desired
                .listeners
                .iter()
                .any(|listener| listener.group.name == one.name)
        }),
    };

    stray
        .iter()
        .filter(ours)
        .map(|one| one.arn.clone())
        .collect()
}

/// Deletes target groups. Returns the answer of AWS if some are still in use.
fn remove_target_groups(cloud: &Cloud<'_>, groups: &BTreeSet<String>) -> Result<Option<Failure>> {
    let calls: Vec<_> = groups
        .iter()
        .map(|arn| elbv2::on_group("DeleteTargetGroup", arn))
        .collect();

    let mut waiting = None;
    for answer in send(cloud.wire, &calls) {
        match answer {
            // AWS may need a moment to notice that the load balancer is gone.
            Err(failure) if failure.code() == "ResourceInUse" => waiting = Some(failure),
            Err(failure) if !failure.is_not_found() => return Err(failure.into()),
            _ => {}
        }
    }

    Ok(waiting)
}

/// Deletes the load balancer itself, which fails at once if another service of AWS uses it, for
/// example an endpoint service: somebody has to know and to change that.
fn delete_balancer(cloud: &Cloud<'_>, arn: &str) -> Result<()> {
    match api::one(cloud.wire, &elbv2::on_balancer("DeleteLoadBalancer", arn)) {
        Err(failure) if !failure.is_not_found() => Err(failure.into()),
        _ => Ok(()),
    }
}

/// The answer to a request for the tags of a load balancer and of target groups.
enum Answered {
    /// The tags by ARN, or `None` if the credentials do not allow reading them.
    Tags(Option<BTreeMap<String, Tags>>),
    /// The load balancer does not exist.
    NoBalancer,
}

/// Reads tags. AWS rejects the complete request if one resource does not exist, so each one is then
/// requested individually, and missing ones are left out.
fn tags_of(cloud: &Cloud<'_>, balancer: Option<&str>, stray: &[Stray]) -> Result<Answered> {
    let arns: Vec<&str> = balancer
        .into_iter()
        .chain(stray.iter().map(|one| one.arn.as_str()))
        .collect();

    let calls: Vec<_> = arns
        .chunks(elbv2::TAGGED)
        .map(|part| elbv2::tags(part.iter().copied()))
        .collect();

    let mut answers = send(cloud.wire, &calls);
    if answers.iter().any(is_gone) {
        let calls: Vec<_> = arns.iter().map(|arn| elbv2::tags([*arn])).collect();
        answers = send(cloud.wire, &calls);
        if balancer.is_some() && answers.first().is_some_and(is_gone) {
            return Ok(Answered::NoBalancer);
        }
    }

    Ok(Answered::Tags(read_tags(
        answers.into_iter().filter(|answer| !is_gone(answer)),
    )?))
}

fn is_gone(answer: &Answer<Found>) -> bool {
    answer.as_ref().is_err_and(Failure::is_not_found)
}

/// A target group without a load balancer, or of one that does not exist.
struct Stray {
    arn: String,
    name: String,
}

/// The target groups of the region.
struct Groups {
    /// The ARNs of the load balancer's target groups, without those of the user.
    own: Vec<String>,
    /// Target groups with the prefix of the Service's names, which were created for it if their
    /// tags agree: they were never attached to a load balancer, or their load balancer was deleted.
    /// For some time, AWS still lists them with the deleted load balancer.
    stray: Vec<Stray>,
    /// The ports on which all other target groups in the VPC check their targets.
    checked: BTreeSet<u16>,
    /// The ARNs of target groups of other load balancers.
    of_others: BTreeSet<String>,
}

fn groups(cloud: &Cloud<'_>, service: &Service, balancer: Option<&LoadBalancer>) -> Result<Groups> {
    let prefix = name::group_prefix(service);
    // In ARNs, a load balancer's name is between slashes.
    let own_name = format!("/{}/", name::balancer(service));
    let mut groups = Groups {
        own: Vec::new(),
        stray: Vec::new(),
        checked: BTreeSet::new(),
        of_others: BTreeSet::new(),
    };

    for group in elbv2::all_groups(cloud.wire)? {
        let checked = group.checked_port();
        let elsewhere = balancer.is_some_and(|balancer| balancer.vpc_id != group.vpc_id);
        let TargetGroup {
            target_group_arn,
            target_group_name,
            load_balancer_arns,
            ..
        } = group;

        let of = &load_balancer_arns.items;
        let is_own = balancer.is_some_and(|balancer| of.contains(&balancer.load_balancer_arn));
        if is_own && name::is_group(&target_group_name, service) {
            groups.own.push(target_group_arn);
        } else if target_group_name.starts_with(&prefix)
            && of.iter().all(|arn| arn.contains(&own_name))
        {
            groups.stray.push(Stray {
                arn: target_group_arn,
                name: target_group_name,
            });
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
