//! Classic load balancers, for Services without the annotation `aws-load-balancer-type: nlb`, as in
//! the official provider.

use skydock_sdk::{
    Result,
    types::{Ingress, LoadBalancerStatus, Service},
};

use crate::{
    client::api::{
        self,
        call::Call,
        elb::{self, Description, Found},
        failure::{Answer, Failure},
    },
    cloud::Cloud,
    load_balancing::common::{
        annotation::{self, Annotations},
        targets::Awaited,
    },
};

mod access;
mod changes;
mod create;
mod delete;
mod desired_load_balancer;
mod ensure;
mod health;
mod observed_load_balancer;
mod plan;
mod previous_groups;
mod subnets;
mod update;

pub(crate) use delete::delete;
pub(crate) use ensure::ensure;
pub(crate) use update::update;

/// Returns the classic load balancer with this name, if it exists.
///
/// # Errors
/// Fails if a request to AWS fails.
pub(crate) fn find(cloud: &Cloud<'_>, name: &str) -> Result<Option<Description>> {
    match ask(cloud, &elb::balancer_named(name)) {
        // For a name that does not exist, AWS returns an error instead of an empty list.
        Ok(found) if found.balancers.is_empty() => {
            let reason = "an empty list".into();
            Err(Failure::Unreadable {
                action: "DescribeLoadBalancers",
                reason,
            }
            .into())
        }
        Ok(found) => Ok(found
            .balancers
            .into_iter()
            .find(|one| one.load_balancer_name == name)),
        Err(failure) if is_gone(&failure) => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}

fn is_gone(failure: &Failure) -> bool {
    matches!(
        failure.code(),
        "LoadBalancerNotFound" | "AccessPointNotFound"
    )
}

fn ask(cloud: &Cloud<'_>, call: &Call) -> Answer<Found> {
    elb::read(call, &api::one(cloud.wire, call)?)
}

/// Returns the status of a load balancer: its DNS name, which resolves soon after the creation.
pub(crate) fn status(balancer: &Description) -> LoadBalancerStatus {
    let point = Ingress {
        hostname: Some(balancer.dns_name.clone()),
        ..Ingress::default()
    };
    LoadBalancerStatus {
        ingress: if balancer.dns_name.is_empty() {
            Vec::new()
        } else {
            vec![point]
        },
    }
}

/// Returns the groups that this plugin must not delete.
fn groups_to_keep(cloud: &Cloud<'_>, service: &Service) -> Vec<String> {
    let annotations = Annotations(&service.annotations);
    let mut groups = annotations.list(annotation::SECURITY_GROUPS);
    groups.extend(annotations.list(annotation::EXTRA_SECURITY_GROUPS));
    groups.extend(cloud.config.elb_security_group.clone());
    groups
}

/// Returns the instances behind a load balancer that stay although EC2 does not know them.
fn staying(awaited: &Awaited, current: &Description) -> Vec<String> {
    let behind = current.instances.items.iter().map(|one| &one.instance_id);
    awaited.staying(behind).collect()
}

/// Returns the name of a scheme.
fn scheme(internal: bool) -> &'static str {
    if internal {
        "internal"
    } else {
        "internet-facing"
    }
}
