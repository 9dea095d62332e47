//! Network load balancers.

use std::collections::BTreeMap;

use skydock_sdk::{
    Result, log,
    types::{Ingress, LoadBalancerStatus, Service},
};

use crate::{
    client::api::{
        self,
        call::Call,
        elbv2::{self, Found, LoadBalancer},
        failure::Answer,
    },
    cloud::Cloud,
    load_balancing::common::targets::InstanceNetwork,
    tags::Cluster,
};

mod create;
pub(crate) mod delete;
mod desired_load_balancer;
mod ensure;
mod health;
mod managed_group;
mod observed_load_balancer;
mod plan;
mod reconcile;
mod steps;
mod traffic;
mod update;

pub(crate) use ensure::ensure;
pub(crate) use update::update;

use desired_load_balancer::DesiredLoadBalancer;

/// Returns the network load balancer with this name, if it exists.
///
/// # Errors
/// Fails if a request to AWS fails.
pub(crate) fn find(cloud: &Cloud<'_>, name: &str) -> Result<Option<LoadBalancer>> {
    let call = elbv2::balancer_named(name);
    Ok(elbv2::network(ask(cloud, &call), name)?)
}

fn ask(cloud: &Cloud<'_>, call: &Call) -> Answer<Found> {
    elbv2::read(call, &api::one(cloud.wire, call)?)
}

/// Returns the status of a load balancer. Its DNS name resolves once it is active, one to three
/// minutes after the creation. It is published earlier so that users can see it; clients have to
/// retry until then.
pub(crate) fn status(balancer: &LoadBalancer) -> LoadBalancerStatus {
    let works = balancer.state.code != "failed" && !balancer.dns_name.is_empty();
    let point = Ingress {
        hostname: Some(balancer.dns_name.clone()),
        ..Ingress::default()
    };
    LoadBalancerStatus {
        ingress: if works { vec![point] } else { Vec::new() },
    }
}

/// What is done for a Service.
#[derive(Clone, Copy)]
struct Context<'a> {
    cloud: &'a Cloud<'a>,
    service: &'a Service,
    cluster: &'a Cluster,
    desired: &'a DesiredLoadBalancer,
    /// True if the load balancer was created by this call.
    is_new: bool,
}

/// The nodes behind a load balancer.
#[derive(Clone, Copy)]
struct Nodes<'a> {
    instances: &'a BTreeMap<String, InstanceNetwork>,
    /// True if EC2 does not know the instances of others.
    are_partial: bool,
}

fn in_vpc(id: &str, instance: &InstanceNetwork, vpc: &str) -> bool {
    let fits = instance.vpc == vpc || vpc.is_empty();
    if !fits {
        log::warn(
            "targets",
            format_args!("instance {id} is not in VPC {vpc} and cannot be a target"),
        );
    }
    fits
}
