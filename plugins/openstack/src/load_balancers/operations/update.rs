//! Changes the members (nodes) behind the load balancer of a Service, without other changes.

use skydock_sdk::{
    Result,
    types::{CloudError, Service},
};

use crate::{
    cloud::Cloud,
    load_balancers::{
        Context, Nodes, in_progress,
        members::{MemberNode, subnet},
        observed_load_balancer::{
            Ownership, cluster_check,
            find::{Found, find, ownership_of},
            read::{Depth, read},
        },
        operations::create::{self, Purpose},
        plan::{
            Plan, plan_members,
            stored_plan::{self, Outcome},
        },
        requested, reset_retries, security_group, targets, warn_no_members,
    },
    services::octavia::{LoadBalancer, Phase},
};

/// Sets the members of this Service's pools to these nodes.
///
/// # Errors
/// Returns "in progress" while Octavia is working, and "not found" if the load balancer does not
/// exist.
pub fn update_nodes(cloud: &Cloud<'_>, service: &Service, nodes: &dyn Nodes) -> Result<()> {
    let mut desired = requested(cloud, service)?;
    let none = || CloudError::not_found(format!("load balancer {} does not exist", desired.name));
    let found = find(cloud, &desired.id, &desired.name, service)?.ok_or_else(none)?;
    let context = Context {
        cloud,
        service,
        desired: &desired,
    };

    if cluster_check::is_foreign(context, &found, Some(nodes))? {
        return Err(cluster_check::rejection(cloud, &found.load_balancer));
    }

    let Found {
        load_balancer,
        by_name,
    } = found;
    let id = load_balancer.id.as_str();
    match load_balancer.phase() {
        Phase::Active => reset_retries(cloud, id),
        Phase::Pending => return Err(in_progress(cloud, id, "is being changed")),
        Phase::Deleting => return Err(none()),
        Phase::Failed => {
            return Err(CloudError::unavailable(format!(
                "load balancer {id} is in ERROR and cannot be changed: try `openstack loadbalancer failover {id}`"
            )));
        }
    }

    let ownership = ownership_of(context, &load_balancer, by_name)?;
    let targets = targets(nodes, &desired);
    let member_nodes = subnet::of_members(cloud, &mut desired, &targets, &load_balancer)?;
    let context = Context {
        cloud,
        service,
        desired: &desired,
    };
    warn_no_members(context, &targets, &member_nodes);

    let outcome = change_members(context, &member_nodes, &load_balancer, &ownership)?;
    let secured = if !cloud.config.load_balancer.manage_security_groups {
        Ok(())
    } else if desired.rejected.is_some() {
        // Which rules are not needed is unknown.
        security_group::open(context, &load_balancer, &member_nodes)
    } else {
        security_group::ensure(context, &load_balancer, &member_nodes)
    };

    outcome.complete().and(secured)
}

/// Changes the members: continues a stored plan, or makes one.
fn change_members(
    context: Context<'_>,
    member_nodes: &[MemberNode],
    load_balancer: &LoadBalancer,
    ownership: &Ownership,
) -> Result<Outcome> {
    let Context { cloud, desired, .. } = context;
    let id = load_balancer.id.as_str();
    // Its members are not those that it was created with.
    create::forget_creation(cloud, id);

    let digest = create::request_hash(Purpose::UpdateNodes, desired, member_nodes);
    if let Some(outcome) = stored_plan::resume(context, id, digest)? {
        return Ok(outcome);
    }

    let observed = read(context, load_balancer.clone(), ownership, Depth::Members)?;
    let Plan { steps, shortfall } =
        plan_members(desired, member_nodes, &observed, ownership, cloud.cluster);
    if !steps.is_empty() {
        // An error is reported when the group is complete: it does not keep members from others.
        _ = security_group::open(context, load_balancer, member_nodes);
    }
    stored_plan::begin(context, id, digest, &steps, shortfall)
}
