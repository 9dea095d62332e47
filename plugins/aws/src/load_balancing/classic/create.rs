//! Creates a classic load balancer.

use std::collections::BTreeSet;

use skydock_sdk::Result;

use super::{
    ask, desired_load_balancer::DesiredLoadBalancer, observed_load_balancer::ObservedLoadBalancer,
    scheme,
};
use crate::{
    client::api::elb::{self, Attributes, Description, Listener, ListenerDescription, Settings},
    cloud::Cloud,
    load_balancing::common::subnet::SubnetRanges,
    tags::Cluster,
};

/// Creates the load balancer with these security groups, and returns its state.
///
/// # Errors
/// Fails if there is no subnet, or if a request to AWS fails.
pub(super) fn create(
    cloud: &Cloud<'_>,
    desired: &DesiredLoadBalancer,
    cluster: &Cluster,
    vpc: &str,
    groups: &[String],
) -> Result<ObservedLoadBalancer> {
    let create = |subnets: &[SubnetRanges]| {
        let subnets: BTreeSet<&String> = subnets.iter().map(|(id, _)| id).collect();
        let call = elb::with_listeners(
            elb::on("CreateLoadBalancer", &desired.name),
            &desired.listeners,
        )
        .with_some("Scheme", desired.internal.then_some("internal"))
        .list("Subnets", &subnets)
        .list("SecurityGroups", groups)
        .tags("Tags", &desired.tags);
        let subnets: Vec<String> = subnets.into_iter().cloned().collect();
        Ok(ask(cloud, &call).map(|found| (found.dns_name, subnets)))
    };
    let (dns_name, subnets) =
        cloud.create_in(cluster, vpc, &desired.subnets, desired.need(), &create)?;

    // AWS returns only the DNS name. The rest is as requested.
    let described = |listener: &Listener| ListenerDescription {
        listener: listener.clone(),
        ..Default::default()
    };
    let balancer = Description {
        load_balancer_name: desired.name.clone(),
        dns_name,
        vpc_id: vpc.to_owned(),
        scheme: scheme(desired.internal).to_owned(),
        listener_descriptions: desired
            .listeners
            .iter()
            .map(described)
            .collect::<Vec<_>>()
            .into(),
        subnets: subnets.into(),
        security_groups: groups.to_vec().into(),
        ..Description::default()
    };

    // The attributes of a new load balancer in AWS.
    let attributes = Attributes {
        connection_settings: Settings {
            idle_timeout: Some(60),
        },
        ..Attributes::default()
    };

    Ok(ObservedLoadBalancer {
        balancer,
        attributes,
        tags: Some(desired.tags.clone()),
    })
}
