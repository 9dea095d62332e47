//! Changes the nodes behind the load balancer of a Service, without other changes.

use skydock_sdk::{
    Result,
    types::{CloudError, Service},
};

use super::{
    Nodes, at_work, create,
    find::{Found, find, whose},
    plan::plan_members,
    proof,
    read::{Depth, read},
    security, subnet, targets, tell_no_members,
    todo::{self, Left},
    waited, wanted,
};
use crate::{cloud::Cloud, services::octavia::Phase};

/// Sets the members of this Service's pools to these nodes.
///
/// # Errors
/// Returns "in progress" while Octavia is working, and "not found" if the load balancer does not
/// exist.
pub fn update_nodes(cloud: &Cloud<'_>, service: &Service, nodes: &dyn Nodes) -> Result<()> {
    let mut want = wanted(cloud, service)?;
    let none = || CloudError::not_found(format!("load balancer {} does not exist", want.name));
    let found = find(cloud, &want.id, &want.name, service)?.ok_or_else(none)?;

    if proof::is_foreign(cloud, service, &want, &found, Some(nodes))? {
        return Err(proof::rejection(cloud, &found.load_balancer));
    }

    let Found {
        load_balancer,
        by_name,
    } = found;
    let id = load_balancer.id.clone();
    match load_balancer.phase() {
        Phase::Active => waited(cloud, &id),
        Phase::Pending => return Err(at_work(cloud, &id, "is being changed")),
        Phase::Going => return Err(none()),
        Phase::Failed => {
            return Err(CloudError::unavailable(format!(
                "load balancer {id} is in ERROR and cannot be changed: try `openstack loadbalancer failover {id}`"
            )));
        }
    }

    let ownership = whose(cloud, &load_balancer, &want, service, by_name)?;
    let targets = targets(nodes, &want);
    let backends = subnet::of_members(cloud, &mut want, &targets, &load_balancer)?;
    tell_no_members(cloud, service, &want, &targets, &backends);

    // Its members are not those that it was created with.
    create::forget_made(cloud, &id);
    let digest = create::number("update", &want, &backends);

    let mut left = todo::resume(cloud, service, &id, digest)?;
    if left == Left::Unknown {
        let tree = read(
            cloud,
            load_balancer.clone(),
            &want,
            &ownership,
            Depth::Members,
        )?;
        let (steps, missing) = plan_members(&want, &backends, &tree, &ownership, cloud.cluster);
        if !steps.is_empty() {
            // An error is reported when the group is complete: it does not keep members from others.
            _ = security::open(cloud, service, &want, &load_balancer, &backends);
        }
        left = todo::begin(cloud, service, &id, digest, &steps, missing)?;
    }

    let secured = if !cloud.config.load_balancer.manage_security_groups {
        Ok(())
    } else if want.rejected.is_some() {
        // Which rules are not needed is unknown.
        security::open(cloud, service, &want, &load_balancer, &backends)
    } else {
        security::ensure(cloud, service, &want, &load_balancer, &backends)
    };

    left.complete().and(secured)
}
