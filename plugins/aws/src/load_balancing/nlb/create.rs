//! Creates a network load balancer, without listeners and target groups.

use skydock_sdk::{Result, types::CloudError};

use super::{
    ask,
    desired_load_balancer::{DesiredLoadBalancer, IpAddressType, Security},
    managed_group,
};
use crate::{
    client::api::{
        call::Call,
        elbv2::{self, LoadBalancer},
    },
    cloud::{Cloud, invalid},
    load_balancing::common::{annotation, subnet::SubnetRanges},
    tags::Cluster,
};

/// Creates the load balancer, without listeners and target groups.
pub(super) fn create(
    cloud: &Cloud<'_>,
    desired: &DesiredLoadBalancer,
    cluster: &Cluster,
    has_classic: bool,
) -> Result<LoadBalancer> {
    if has_classic {
        return Err(CloudError::internal(
            "the Service has a classic load balancer, and its type cannot be changed: delete and recreate the Service",
        ));
    }

    let vpc = cloud.vpc()?;
    let security = match &desired.security {
        Security::Unchanged => Vec::new(),
        Security::Given(groups) => groups.clone(),
        Security::Managed(name) => {
            vec![managed_group::ensure(cloud, cluster, &vpc, name, desired)?]
        }
    };

    let create = |subnets: &[SubnetRanges]| {
        let call = creation(desired, subnets)?.list("SecurityGroups", &security);
        Ok(ask(cloud, &call))
    };
    let found = cloud.create_in(cluster, &vpc, &desired.subnets, desired.need(), &create)?;

    let mut balancer = found
        .balancers
        .into_iter()
        .next()
        .ok_or_else(|| CloudError::internal("CreateLoadBalancer returned no load balancer"))?;
    if balancer.vpc_id.is_empty() {
        balancer.vpc_id = vpc;
    }

    Ok(balancer)
}

/// Returns the call that creates the load balancer in these subnets, without security groups.
fn creation(desired: &DesiredLoadBalancer, subnets: &[SubnetRanges]) -> Result<Call> {
    let mut call = elbv2::create_balancer(&desired.name).tags("Tags", &desired.tags);
    if desired.internal {
        call = call.with("Scheme", "internal");
    }

    for (what, values) in [
        ("eip-allocations", &desired.allocations),
        ("private-ipv4-addresses", &desired.private_addresses),
    ] {
        if !values.is_empty() && values.len() != subnets.len() {
            let text = format!(
                "annotation {} has {} values, but the load balancer has {} subnets: set one value for each, and set the subnets",
                annotation::key(what),
                values.len(),
                subnets.len()
            );
            // Without names, the number of subnets depends on AWS.
            return Err(if desired.subnets.is_empty() {
                CloudError::internal(text)
            } else {
                invalid(text)
            });
        }
    }

    for (index, (id, _)) in subnets.iter().enumerate() {
        let item = format!("SubnetMappings.member.{}", index + 1);
        call = call
            .with(format!("{item}.SubnetId"), id)
            .with_some(
                &format!("{item}.AllocationId"),
                desired.allocations.get(index),
            )
            .with_some(
                &format!("{item}.PrivateIPv4Address"),
                desired.private_addresses.get(index),
            );
    }

    let all_v6 = subnets.iter().all(|(_, ranges)| ranges.v6.is_some());
    if desired.ip_address_type == IpAddressType::Dualstack
        || (desired.ip_address_type == IpAddressType::DualstackIfPossible && all_v6)
    {
        call = call.with("IpAddressType", "dualstack");
    }

    Ok(call)
}
