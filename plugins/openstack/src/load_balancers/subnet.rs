//! The subnet of the members. If it is not configured, it is the subnet of the first node, as in
//! upstream. This also holds if the load balancer has its address in another subnet, because the
//! user has set its port or the load balancer.

use std::time::Duration;

use skydock_sdk::{Result, types::CloudError};

use super::{members::Backend, want::Want};
use crate::{
    cloud::{BELIEVED, Cloud},
    instances::ports_of,
    octavia::LoadBalancer,
    provider_id::{self, Machine},
};

/// When to retry if no node shows which subnet the load balancer should use.
const NO_NODE: Duration = Duration::from_secs(30);

/// Sets the subnets of a new load balancer and its members.
///
/// # Errors
/// Fails if the subnet depends on a node and no node shows it.
pub(super) fn of_new(cloud: &Cloud<'_>, want: &mut Want, backends: &[Backend]) -> Result<()> {
    if !want.vip.network_id.is_empty() || !want.vip.subnet_id.is_empty() {
        return Ok(());
    }
    let subnet = of_nodes(cloud, backends)?;
    if want.vip.port_id.is_empty() {
        want.vip.subnet_id = subnet.clone().ok_or_else(|| unknown(cloud, backends))?;
    }
    if want.member_subnet.is_empty() {
        want.member_subnet = subnet.unwrap_or_default();
    }
    Ok(())
}

/// Sets the subnet of the members of an existing load balancer. If no node shows it, the load
/// balancer's own subnet is used.
///
/// # Errors
/// Fails if a request to Neutron fails.
pub(super) fn of_members(
    cloud: &Cloud<'_>,
    want: &mut Want,
    backends: &[Backend],
    balancer: &LoadBalancer,
) -> Result<()> {
    if want.member_subnet.is_empty() && want.vip.network_id.is_empty() {
        let of_balancer = || balancer.vip_subnet_id.clone().unwrap_or_default();
        want.member_subnet = of_nodes(cloud, backends)?.unwrap_or_else(of_balancer);
    }
    Ok(())
}

/// Returns the first node with a server, and the server's ID.
fn first<'a>(cloud: &Cloud<'_>, backends: &'a [Backend]) -> Option<(&'a Backend, &'a str)> {
    backends.iter().find_map(|backend| {
        match provider_id::read(cloud.config, &backend.provider_id) {
            Machine::Server(id) => Some((backend, id)),
            Machine::NotOurs => None,
        }
    })
}

/// Returns the subnet of the address of the first node with a server, or `None` if no port of the
/// server has the address.
fn of_nodes(cloud: &Cloud<'_>, backends: &[Backend]) -> Result<Option<String>> {
    let Some((backend, server)) = first(cloud, backends) else {
        return Ok(None);
    };
    let key = format!("subnet of {server} {}", backend.address);
    if let Some(kept) = cloud
        .host
        .kept(&key)
        .and_then(|kept| String::from_utf8(kept).ok())
    {
        return Ok(Some(kept));
    }
    let ports = ports_of(cloud, &[server])?;
    let mut fixed = ports.into_iter().flat_map(|port| port.fixed_ips);
    let subnet = fixed
        .find(|fixed| fixed.ip_address == backend.address)
        .map(|fixed| fixed.subnet_id);
    if let Some(subnet) = &subnet {
        cloud.host.keep(&key, subnet.as_bytes(), BELIEVED);
    }
    Ok(subnet)
}

/// Returns the error for nodes that do not show a subnet.
fn unknown(cloud: &Cloud<'_>, backends: &[Backend]) -> CloudError {
    let Some((Backend { name, address, .. }, _)) = first(cloud, backends) else {
        return CloudError::in_progress(
            NO_NODE,
            "no node shows which subnet the load balancer should use: set `subnet-id` or `network-id` in section \
             `LoadBalancer`, or wait for a node",
        );
    };
    CloudError::not_found(format!(
        "no port of node {name} has the address {address}, whose subnet the load balancer would use: set `subnet-id` in section \
         `LoadBalancer`"
    ))
}
