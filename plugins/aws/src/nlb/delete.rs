//! Takes a network load balancer away, with all that was made for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use skydock_sdk::{
    Result,
    types::{CloudError, Service},
};

use super::observed::{read_tags, send};
use crate::{
    api::{
        elbv2::{self, Found, LoadBalancer, TargetGroup},
        failure::{Answer, Failure},
    },
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

/// How long target groups are remembered that were in use still.
const LEFT: Duration = Duration::from_secs(3600);

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
    let tags = tags_of(cloud, arn, &stray)?;
    if let Some(arn) = arn {
        super::belongs(&name, tags.as_ref().and_then(|tags| tags.get(arn)), &cluster)?;
        answered(cloud, "DeleteLoadBalancer", arn)?;
    }
    // Without their tags nobody knows whose the others are.
    let tags = tags.unwrap_or_default();
    let named = name::service(service);
    let ours = |tags: &Tags| cluster.owns(tags) && tags.get(tags::SERVICE) == Some(&named);
    // Those of a load balancer that is gone by now are known to be its own, also without their tags.
    let left = cloud.key(&format!("left/{name}"));
    let groups: BTreeSet<String> = store::load::<Vec<String>>(cloud.store, &left)
        .unwrap_or_default()
        .into_iter()
        .chain(own)
        .chain(stray.into_iter().filter(|arn| tags.get(arn).is_some_and(ours)))
        .collect();
    let calls: Vec<_> = groups.iter().map(|arn| elbv2::on_group("DeleteTargetGroup", arn)).collect();
    let mut waiting = false;
    for answer in send(cloud.wire, &calls) {
        match answer {
            Err(failure) if failure.code() == "ResourceInUse" => waiting = true,
            Err(failure) if !failure.is_not_found() => return Err(failure.into()),
            _ => {}
        }
    }
    if waiting {
        store::save(cloud.store, &left, &groups, LEFT);
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

/// Tags by ARN; none if the credential may not read them. What is gone by now has none: it lets AWS refuse a question about others, too.
fn tags_of(cloud: &Cloud<'_>, balancer: Option<&str>, stray: &[String]) -> Result<Option<BTreeMap<String, Tags>>> {
    let arns: Vec<&str> = balancer.into_iter().chain(stray.iter().map(String::as_str)).collect();
    let calls: Vec<_> = arns.chunks(elbv2::TAGGED).map(|part| elbv2::tags(part.iter().copied())).collect();
    let mut answers = send(cloud.wire, &calls);
    if answers.iter().any(is_gone) {
        let calls: Vec<_> = arns.iter().map(|arn| elbv2::tags([*arn])).collect();
        answers = send(cloud.wire, &calls);
    }
    Ok(read_tags(answers.into_iter().filter(|answer| !is_gone(answer)))?)
}

fn is_gone(answer: &Answer<Found>) -> bool {
    answer.as_ref().is_err_and(Failure::is_not_found)
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::{
        api::{call::Call, failure::Failure, wire::Wire},
        cloud::Setup,
        testing::{Memory, service},
    };

    const OWN: &str = "arn:lb/net/a0123abcd456789abcdef0123456789a/1";

    /// A region in which another Service, whose name begins alike, loses its target group between the list and the question about its tags.
    #[derive(Default)]
    struct Region(RefCell<Vec<&'static str>>);

    impl Wire for Region {
        fn send(&self, calls: &[Call]) -> Vec<std::result::Result<String, Failure>> {
            calls.iter().map(|call| self.answer(call)).collect()
        }
    }

    impl Region {
        fn answer(&self, call: &Call) -> std::result::Result<String, Failure> {
            self.0.borrow_mut().push(call.action);
            match call.action {
                "DescribeLoadBalancers" => Ok(format!(
                    "<DescribeLoadBalancersResponse><DescribeLoadBalancersResult><LoadBalancers><member><LoadBalancerArn>{OWN}\
                     </LoadBalancerArn><LoadBalancerName>a0123abcd456789abcdef0123456789a</LoadBalancerName><Type>network</Type>\
                     <VpcId>v</VpcId></member></LoadBalancers></DescribeLoadBalancersResult></DescribeLoadBalancersResponse>"
                )),
                "DescribeTargetGroups" => Ok("<DescribeTargetGroupsResponse><DescribeTargetGroupsResult><TargetGroups><member>\
                     <TargetGroupArn>arn:other</TargetGroupArn><TargetGroupName>k8s-default-web-0000000000</TargetGroupName>\
                     </member></TargetGroups></DescribeTargetGroupsResult></DescribeTargetGroupsResponse>"
                    .into()),
                "DescribeTags" if call.params.iter().any(|(_, value)| value == "arn:other") => Err(Failure::Refused {
                    action: "DescribeTags",
                    status: 400,
                    code: "TargetGroupNotFound".into(),
                    message: "Target groups 'arn:other' not found".into(),
                }),
                other => Ok(format!("<{other}Response/>")),
            }
        }
    }

    #[test]
    fn a_group_of_another_service_that_vanishes_meanwhile_lets_this_one_not_go() {
        let setup = Setup::read("[Global]\nRegion = eu-west-1\nVPC = v\nKubernetesClusterID = c\n", "f", &[]).unwrap();
        let (region, store) = (Region::default(), Memory::default());
        let none = Vec::new;
        let cloud = Cloud::new(&setup, &region, &store, &none, 0);
        let answer = delete(&cloud, &service(&[]));
        // The host takes `not-found` for "there is no load balancer any more", and lets the Service go.
        assert!(!matches!(answer, Err(CloudError::NotFound(_))), "{answer:?} after {:?}", region.0.borrow());
    }

    /// May not read tags, as by the official provider's policy. Answers of one load balancer with one target group, which is in use for a
    /// moment after the load balancer has gone.
    #[derive(Default)]
    struct Blind {
        gone: std::cell::Cell<bool>,
        left: std::cell::Cell<usize>,
        refused: std::cell::Cell<bool>,
    }

    impl Wire for Blind {
        fn send(&self, calls: &[Call]) -> Vec<std::result::Result<String, Failure>> {
            let refused = |action, code: &str| {
                Err(Failure::Refused { action, status: 400, code: code.into(), message: "words".into() })
            };
            let answer = |call: &Call| match call.action {
                "DescribeTags" => refused("DescribeTags", "AccessDenied"),
                "DescribeLoadBalancers" if self.gone.get() => refused("DescribeLoadBalancers", "LoadBalancerNotFound"),
                "DescribeLoadBalancers" => Region::default().answer(call),
                "DeleteLoadBalancer" => {
                    self.gone.set(true);
                    Ok("<DeleteLoadBalancerResponse/>".into())
                }
                "DescribeTargetGroups" if self.left.get() == 0 => Ok("<DescribeTargetGroupsResponse/>".into()),
                "DescribeTargetGroups" => {
                    let of = if self.gone.get() { String::new() } else { format!("<member>{OWN}</member>") };
                    Ok(format!(
                        "<DescribeTargetGroupsResponse><DescribeTargetGroupsResult><TargetGroups><member><TargetGroupArn>arn:own\
                         </TargetGroupArn><TargetGroupName>k8s-default-web-0000000000</TargetGroupName><LoadBalancerArns>{of}\
                         </LoadBalancerArns></member></TargetGroups></DescribeTargetGroupsResult></DescribeTargetGroupsResponse>"
                    ))
                }
                "DeleteTargetGroup" if !self.refused.replace(true) => refused("DeleteTargetGroup", "ResourceInUse"),
                "DeleteTargetGroup" => {
                    self.left.set(0);
                    Ok("<DeleteTargetGroupResponse/>".into())
                }
                other => Ok(format!("<{other}Response/>")),
            };
            calls.iter().map(answer).collect()
        }
    }

    #[test]
    fn a_group_that_was_in_use_goes_though_tags_may_not_be_read() {
        let setup = Setup::read("[Global]\nRegion = eu-west-1\nVPC = v\nKubernetesClusterID = c\n", "f", &[]).unwrap();
        let (blind, store) = (Blind::default(), Memory::default());
        blind.left.set(1);
        let none = Vec::new;
        let cloud = Cloud::new(&setup, &blind, &store, &none, 0);
        let answers: Vec<_> = (0..4).map(|_| delete(&cloud, &service(&[])).map(|(found, _)| found)).collect();
        assert!(answers[0].is_err() && blind.gone.get());
        assert_eq!(blind.left.get(), 0, "{answers:?}");
    }

    /// A cloud that stands in for AWS and does not know the parameter `Names` lists all load balancers.
    #[test]
    fn a_load_balancer_of_another_name_is_not_deleted() {
        let setup = Setup::read("[Global]\nRegion = eu-west-1\nVPC = v\nKubernetesClusterID = c\n", "f", &[]).unwrap();
        let (blind, store) = (Blind::default(), Memory::default());
        let none = Vec::new;
        let cloud = Cloud::new(&setup, &blind, &store, &none, 0);
        let other = Service { uid: "ffffffff-4567-89ab-cdef-0123456789ab".into(), ..service(&[]) };
        let answer = delete(&cloud, &other);
        assert!(!blind.gone.get(), "{answer:?}");
    }
}
