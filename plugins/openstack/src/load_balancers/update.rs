//! Puts other nodes behind the load balancer of a Service, and changes nothing else of it.

use skydock_sdk::{
    Result,
    types::{CloudError, Service},
};

use super::{
    Nodes, at_work, create,
    find::{Found, find},
    members::backends,
    plan::plan_members,
    read::{Depth, read},
    security, targets,
    todo::{self, Left},
    tree::Ownership,
    waited, wanted,
};
use crate::{cloud::Cloud, octavia::Phase};

/// Brings the members of this Service's pools to these nodes.
///
/// # Errors
/// "In progress" while Octavia is at work; "not found" if there is no load balancer.
pub fn update_nodes(cloud: &Cloud<'_>, service: &Service, nodes: &dyn Nodes) -> Result<()> {
    let mut want = wanted(cloud, service)?;
    let none = || CloudError::not_found(format!("there is no load balancer {}", want.name));
    let Found { load_balancer, by_name } = find(cloud, &want.id, &want.name, service)?.ok_or_else(none)?;
    let id = load_balancer.id.clone();
    match load_balancer.phase() {
        Phase::Active => waited(cloud, &id),
        Phase::Pending => return Err(at_work(cloud, &id, "is being changed")),
        Phase::Going => return Err(none()),
        Phase::Failed => {
            return Err(CloudError::unavailable(format!("load balancer {id} is in ERROR and takes no changes")));
        }
    }
    let ownership = Ownership::of(&load_balancer, &want, service, cloud.cluster, by_name);
    if want.member_subnet.is_empty() && want.vip.network_id.is_empty() {
        want.member_subnet = load_balancer.vip_subnet_id.clone().unwrap_or_default();
    }
    let backends = backends(&targets(nodes, &want), want.family);
    let digest = create::number("update", &want, &backends);
    if todo::resume(cloud, service, &id, digest)? == Left::Unknown {
        let tree = read(cloud, load_balancer.clone(), &want, &ownership, Depth::Members)?;
        todo::begin(cloud, service, &id, digest, &plan_members(&want, &backends, &tree, &ownership))?;
    }
    if cloud.config.load_balancer.manage_security_groups {
        security::ensure(cloud, service, &want, &load_balancer, &backends)?;
    }
    Ok(())
}
