//! Takes a network load balancer away, with all that was made for it.

use std::collections::{BTreeMap, BTreeSet};

use skydock_sdk::{
    Result,
    types::{CloudError, Service},
};

use super::observed::{read_tags, send};
use crate::{
    api::{
        ec2::network,
        elbv2::{self, TargetGroup},
        failure::Answer,
    },
    balancer::{
        LETTING_GO,
        annotation::{self, Annotations},
        name,
        node_rules::Traffic,
    },
    cloud::Cloud,
    tags::{self, Cluster, Tags},
};

/// Takes it away. False if there was no load balancer: then nobody but AWS' lists, which may be old, tells what else there is.
///
/// # Errors
/// `in-progress` if something is still in use; or if AWS refuses.
pub(crate) fn delete(cloud: &Cloud<'_>, service: &Service) -> Result<bool> {
    let cluster = cloud.identity()?.cluster;
    let name = name::balancer(service);
    let found = super::find(cloud, &name)?;
    let mut groups = leftovers(cloud, service, &cluster)?;
    let mut security = Vec::new();
    let mut vpc = None;
    if let Some(balancer) = &found {
        let arn = balancer.load_balancer_arn.as_str();
        let mut answers = send(cloud.wire, &[elbv2::groups_of(arn), elbv2::tags([arn])]).into_iter();
        let own = answers.next().map(elbv2::groups).transpose()?.unwrap_or_default();
        let tags = read_tags(answers)?;
        super::belongs(&name, tags.as_ref().and_then(|tags| tags.get(arn)), &cluster)?;
        answered(cloud, "DeleteLoadBalancer", arn)?;
        groups.extend(own.into_iter().map(|group| group.target_group_arn));
        security.clone_from(&balancer.security_groups.items);
        vpc = Some(balancer.vpc_id.clone());
    }
    let calls: Vec<_> = groups.iter().map(|arn| elbv2::on_group("DeleteTargetGroup", arn)).collect();
    let mut waiting = false;
    for answer in send(cloud.wire, &calls) {
        match answer {
            Err(failure) if failure.code() == "ResourceInUse" => waiting = true,
            Err(failure) if !failure.is_not_found() => return Err(failure.into()),
            _ => {}
        }
    }
    let vpc = match vpc {
        Some(vpc) => Some(vpc),
        None => cloud.known_vpc()?,
    };
    // Of a cluster whose last machines are gone nobody knows the VPC; the nodes' groups bear the cluster's tag in any.
    cloud.sync_node_rules(&cluster, vpc.as_deref(), &name, &BTreeMap::new(), &Traffic::default(), found.is_some())?;
    if cloud.config.nlb_groups_managed {
        let own = name::network_security_group(&cloud.config.cluster_name, service);
        let in_vpc = vpc.map(|vpc| ("vpc-id", vec![vpc]));
        let named = network::groups_by(std::iter::once(("group-name", vec![own])).chain(in_vpc));
        security.extend(network::groups(cloud.wire, &named)?.into_iter().map(|group| group.group_id));
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
    Ok(found.is_some())
}

fn answered(cloud: &Cloud<'_>, action: &'static str, arn: &str) -> Result<()> {
    match crate::api::one(cloud.wire, &elbv2::on_balancer(action, arn)) {
        Err(failure) if !failure.is_not_found() => Err(failure.into()),
        _ => Ok(()),
    }
}

/// Target groups that were made for this Service and never came to a load balancer, or are left of one. For a while AWS shows them as
/// those of a load balancer that is gone.
fn leftovers(cloud: &Cloud<'_>, service: &Service, cluster: &Cluster) -> Result<BTreeSet<String>> {
    let prefix = name::group_prefix(service);
    let own = format!("/{}/", name::balancer(service));
    let all = elbv2::all_groups(cloud.wire)?;
    let of_nobody_else = |group: &&TargetGroup| {
        group.target_group_name.starts_with(&prefix)
            && group.load_balancer_arns.items.iter().all(|arn| arn.contains(&own))
    };
    let arns: Vec<String> = all.iter().filter(of_nobody_else).map(|group| group.target_group_arn.clone()).collect();
    let calls: Vec<_> = arns.chunks(elbv2::TAGGED).map(|part| elbv2::tags(part.iter().map(String::as_str))).collect();
    let tags: Answer<Option<BTreeMap<String, Tags>>> = read_tags(send(cloud.wire, &calls).into_iter());
    // Without their tags nobody knows whose they are.
    let tags = tags?.unwrap_or_default();
    let named = name::service(service);
    let ours = |tags: &Tags| cluster.owns(tags) && tags.get(tags::SERVICE) == Some(&named);
    Ok(tags.into_iter().filter(|(_, tags)| ours(tags)).map(|(arn, _)| arn).collect())
}
