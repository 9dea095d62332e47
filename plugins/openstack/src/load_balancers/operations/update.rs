//! Changes the nodes behind the load balancer of a Service, without other changes.

use skydock_sdk::{
    Result,
    types::{CloudError, Service},
};

use crate::{
    cloud::Cloud,
    load_balancers::{
        Nodes, in_progress,
        members::subnet,
        observed_load_balancer::{
            cluster_check,
            find::{Found, find, ownership_of},
            read::{Depth, read},
        },
        operations::create,
        plan::{plan_members, stored_plan},
        requested, reset_retries, security_group, targets, warn_no_members,
    },
    services::octavia::Phase,
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

    if cluster_check::is_foreign(cloud, service, &desired, &found, Some(nodes))? {
        return Err(cluster_check::rejection(cloud, &found.load_balancer));
    }

    let Found {
        load_balancer,
        by_name,
    } = found;
    let id = load_balancer.id.clone();
    match load_balancer.phase() {
        Phase::Active => reset_retries(cloud, &id),
        Phase::Pending => return Err(in_progress(cloud, &id, "is being changed")),
        Phase::Deleting => return Err(none()),
        Phase::Failed => {
            return Err(CloudError::unavailable(format!(
                "load balancer {id} is in ERROR and cannot be changed: try `openstack loadbalancer failover {id}`"
            )));
        }
    }

    let ownership = ownership_of(cloud, &load_balancer, &desired, service, by_name)?;
    let targets = targets(nodes, &desired);
    let member_nodes = subnet::of_members(cloud, &mut desired, &targets, &load_balancer)?;
    warn_no_members(cloud, service, &desired, &targets, &member_nodes);

    // Its members are not those that it was created with.
    create::forget_creation(cloud, &id);
    let digest = create::request_hash("update", &desired, &member_nodes);

    let outcome = if let Some(outcome) = stored_plan::resume(cloud, service, &id, digest)? {
        outcome
    } else {
        let observed = read(
            cloud,
            load_balancer.clone(),
            &desired,
            &ownership,
            Depth::Members,
        )?;
        let (steps, missing) = plan_members(
            &desired,
            &member_nodes,
            &observed,
            &ownership,
            cloud.cluster,
        );
        if !steps.is_empty() {
            // An error is reported when the group is complete: it does not keep members from others.
            _ = security_group::open(cloud, service, &desired, &load_balancer, &member_nodes);
        }
        stored_plan::begin(cloud, service, &id, digest, &steps, missing)?
    };

    let secured = if !cloud.config.load_balancer.manage_security_groups {
        Ok(())
    } else if desired.rejected.is_some() {
        // Which rules are not needed is unknown.
        security_group::open(cloud, service, &desired, &load_balancer, &member_nodes)
    } else {
        security_group::ensure(cloud, service, &desired, &load_balancer, &member_nodes)
    };

    outcome.complete().and(secured)
}
