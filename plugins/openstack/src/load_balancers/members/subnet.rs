//! The subnets of load balancers and their members, and the addresses of nodes in them.
//!
//! If the subnet of the members is not configured, it is that of the first node, as in upstream. This
//! also holds if the load balancer has its address in another subnet, because the user has set its
//! port or the load balancer.

use std::{net::IpAddr, time::Duration};

use ipnet::IpNet;
use serde::de::DeserializeOwned;
use serde_json::Value;
use skydock_sdk::{
    Result, http,
    load_balancers::Target,
    types::{CloudError, IpFamily, Service},
};

use crate::{
    cloud::{CACHED, Cloud, Kind},
    instances::ports_of,
    load_balancers::{
        annotation,
        desired_load_balancer::{DesiredLoadBalancer, version},
        members::{MemberNode, is_ambiguous, member_nodes},
    },
    provider_id::{self, Reference},
    services::{
        network::{Subnet, is_same},
        octavia::LoadBalancer,
    },
};

/// When to retry if no node shows which subnet the load balancer should use.
const NO_NODE: Duration = Duration::from_secs(30);

/// Number of nodes that may show the subnet.
const TRIED: usize = 8;

/// Sets the subnets of a new load balancer and its members, and returns its nodes.
///
/// # Errors
/// Fails if the subnet depends on a node and no node shows it, or if no subnet has the IP family.
pub(crate) fn of_new(
    cloud: &Cloud<'_>,
    service: &Service,
    desired: &mut DesiredLoadBalancer,
    targets: &[Target],
) -> Result<Vec<MemberNode>> {
    if desired.vip.network_id.is_empty() && desired.vip.subnet_id.is_empty() {
        let first = member_nodes(targets, desired.family, &[]);
        let subnet = of_nodes(cloud, &first)?;
        if desired.vip.port_id.is_empty() {
            desired.vip.subnet_id = subnet.clone().ok_or_else(|| unknown(cloud, &first))?;
        }
        if desired.member_subnet.is_empty() {
            desired.member_subnet = subnet.unwrap_or_default();
        }
    } else if desired.vip.port_id.is_empty() {
        set_vip(cloud, service, desired, targets)?;
    }

    let is_own =
        |subnet: &str| annotation::text(service, annotation::MEMBER_SUBNET_ID, "") == subnet;
    if let Some(wrong) = set_member_subnet(cloud, desired, &desired.vip.subnet_id.clone(), targets)?
        && is_own(&wrong)
    {
        return Err(of_other_family(annotation::MEMBER_SUBNET_ID, &wrong));
    }

    member_nodes_in_subnet(cloud, desired, targets)
}

/// Sets the subnet of the members of an existing load balancer, and returns its nodes. If no node
/// shows the subnet, the load balancer's own is used.
///
/// # Errors
/// Fails if a request to Neutron fails.
pub(crate) fn of_members(
    cloud: &Cloud<'_>,
    desired: &mut DesiredLoadBalancer,
    targets: &[Target],
    balancer: &LoadBalancer,
) -> Result<Vec<MemberNode>> {
    let of_balancer = balancer.vip_subnet_id.clone().unwrap_or_default();
    if desired.member_subnet.is_empty() && desired.vip.network_id.is_empty() {
        let first = member_nodes(targets, desired.family, &[]);
        desired.member_subnet = of_nodes(cloud, &first)?.unwrap_or(of_balancer);
    } else {
        set_member_subnet(cloud, desired, &of_balancer, targets)?;
    }

    member_nodes_in_subnet(cloud, desired, targets)
}

/// Sets the subnet of the VIP if the configured one has the other IP family, or if Octavia would
/// choose one: it prefers IPv4.
fn set_vip(
    cloud: &Cloud<'_>,
    service: &Service,
    desired: &mut DesiredLoadBalancer,
    targets: &[Target],
) -> Result<()> {
    let Some(family) = desired.family else {
        return Ok(());
    };

    let configured = desired.vip.subnet_id.as_str();
    let network = if configured.is_empty() {
        if family == IpFamily::Ipv4 || !desired.vip.address.is_empty() {
            return Ok(());
        }
        desired.vip.network_id.clone()
    } else {
        match known(cloud, configured)? {
            Some(subnet) if !has(&subnet, family) => subnet.network_id,
            _ => return Ok(()),
        }
    };

    if !configured.is_empty() && annotation::text(service, annotation::SUBNET_ID, "") == configured
    {
        return Err(of_other_family(annotation::SUBNET_ID, configured));
    }

    let subnet = of_family(in_network(cloud, &network)?, family, targets);
    desired.vip.subnet_id = subnet.map(|subnet| subnet.id).ok_or_else(|| {
        let version = version(family);
        CloudError::denied(format!(
            "network {network} has no {version} subnet, which the IP family of the Service requires"
        ))
    })?;
    Ok(())
}

/// Returns a subnet of this family, preferably one in which nodes have addresses.
fn of_family(mut subnets: Vec<Subnet>, family: IpFamily, targets: &[Target]) -> Option<Subnet> {
    subnets.retain(|subnet| has(subnet, family));

    let addresses: Vec<IpAddr> = targets
        .iter()
        .flat_map(|target| &target.addresses)
        .filter_map(|address| address.address.parse().ok())
        .collect();

    let is_far = |subnet: &Subnet| {
        let net: Option<IpNet> = subnet.cidr.parse().ok();
        !net.is_some_and(|net| addresses.iter().any(|ip| net.contains(ip)))
    };
    subnets.into_iter().min_by_key(is_far)
}

/// Replaces the subnet of the members if it has the other IP family, by another one in its network,
/// or by that of the load balancer. Returns the subnet that was replaced.
fn set_member_subnet(
    cloud: &Cloud<'_>,
    desired: &mut DesiredLoadBalancer,
    of_balancer: &str,
    targets: &[Target],
) -> Result<Option<String>> {
    let Some(family) = desired.family.filter(|_| !desired.member_subnet.is_empty()) else {
        return Ok(None);
    };

    let Some(subnet) = known(cloud, &desired.member_subnet)?.filter(|subnet| !has(subnet, family))
    else {
        return Ok(None);
    };

    let other = of_family(in_network(cloud, &subnet.network_id)?, family, targets)
        .map_or_else(|| of_balancer.to_owned(), |subnet| subnet.id);
    Ok(Some(std::mem::replace(&mut desired.member_subnet, other)))
}

/// Returns the nodes, each with its address in the subnet of the members, or in the network of the
/// load balancer if Octavia chooses the subnet.
fn member_nodes_in_subnet(
    cloud: &Cloud<'_>,
    desired: &DesiredLoadBalancer,
    targets: &[Target],
) -> Result<Vec<MemberNode>> {
    // Subnets are read only if they decide which address is used.
    let is_clear = !is_ambiguous(targets, desired.family) && !desired.is_member_subnet_set;
    let subnets = if is_clear {
        Vec::new()
    } else if !desired.member_subnet.is_empty() {
        known(cloud, &desired.member_subnet)?.into_iter().collect()
    } else if !desired.vip.network_id.is_empty() {
        in_network(cloud, &desired.vip.network_id)?
    } else {
        Vec::new()
    };

    let nets: Vec<IpNet> = subnets
        .iter()
        .filter_map(|subnet| subnet.cidr.parse().ok())
        .collect();

    let mut member_nodes = member_nodes(targets, desired.family, &nets);
    if desired.is_member_subnet_set && !nets.is_empty() {
        set_port_addresses(cloud, &desired.member_subnet, &nets, &mut member_nodes)?;
    }

    Ok(member_nodes)
}

/// Sets the addresses of nodes that only the ports of their servers have: `internal-network-name`
/// may exclude the subnet of the members.
fn set_port_addresses(
    cloud: &Cloud<'_>,
    subnet: &str,
    nets: &[IpNet],
    member_nodes: &mut [MemberNode],
) -> Result<()> {
    let is_outside = |node: &&mut MemberNode| {
        let ip = node.address.parse();
        ip.is_ok_and(|ip: IpAddr| !nets.iter().any(|net| net.contains(&ip)))
    };

    let key = |server: &str| format!("address of {server} in {subnet}");
    let mut unknown = Vec::new();
    for node in member_nodes.iter_mut().filter(is_outside) {
        let Reference::Server(server) = provider_id::read(cloud.config, &node.provider_id) else {
            continue;
        };
        let server = server.to_owned();
        match cloud.host.cached(&key(&server)).map(String::from_utf8) {
            Some(Ok(cached)) => node.address = cached,
            _ => unknown.push((server, node)),
        }
    }

    let servers: Vec<&str> = unknown.iter().map(|(server, _)| server.as_str()).collect();
    let ports = ports_of(cloud, &servers)?;
    for (server, node) in &mut unknown {
        let mut fixed = ports
            .iter()
            .filter(|port| port.device_id == *server)
            .flat_map(|port| &port.fixed_ips);
        // A port may be added to a server later, so its absence is not cached.
        if let Some(found) = fixed.find(|fixed| fixed.subnet_id == subnet) {
            let address = found.ip_address.as_str();
            cloud.host.cache(&key(server), address.as_bytes(), CACHED);
            address.clone_into(&mut node.address);
        }
    }

    Ok(())
}

fn of_other_family(key: &str, subnet: &str) -> CloudError {
    CloudError::invalid(format!(
        "annotation {key}: subnet {subnet} does not have the first IP family of the Service"
    ))
}

fn has(subnet: &Subnet, family: IpFamily) -> bool {
    (subnet.ip_version == 6) == (family == IpFamily::Ipv6)
}

/// Returns a subnet. `None` if Neutron does not show it: only Octavia can tell whether it can be
/// used.
pub(crate) fn known(cloud: &Cloud<'_>, id: &str) -> Result<Option<Subnet>> {
    let read = || {
        let path = format!("/subnets/{}", http::segment(id)?);
        match cloud.get::<Value>(Kind::Network, &path, "cannot read the subnet") {
            Ok(mut answer) => Ok(answer.get_mut("subnet").map(Value::take)),
            Err(CloudError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    };
    cached(cloud, &format!("subnet {id}"), read)
}

fn in_network(cloud: &Cloud<'_>, network: &str) -> Result<Vec<Subnet>> {
    let read = || {
        let found: Vec<Value> =
            cloud.list(Kind::Network, "/subnets", vec![("network_id", network)])?;
        Ok(Some(Value::Array(found)))
    };
    Ok(cached(cloud, &format!("subnets of {network}"), read)?.unwrap_or_default())
}

fn cached<T: DeserializeOwned>(
    cloud: &Cloud<'_>,
    key: &str,
    read: impl FnOnce() -> Result<Option<Value>>,
) -> Result<Option<T>> {
    let cached = cloud.host.cached(key);
    if let Some(cached) = cached.and_then(|cached| serde_json::from_slice(&cached).ok()) {
        return Ok(Some(cached));
    }

    let Some(value) = read()? else {
        return Ok(None);
    };

    cloud.host.cache(key, value.to_string().as_bytes(), CACHED);
    serde_json::from_value(value)
        .map(Some)
        .map_err(|error| CloudError::internal(format!("cannot read a subnet: {error}")))
}

/// Returns the nodes with a server, and its ID.
fn servers<'a>(
    cloud: &Cloud<'_>,
    member_nodes: &'a [MemberNode],
) -> impl Iterator<Item = (&'a MemberNode, &'a str)> {
    member_nodes.iter().filter_map(|node| {
        match provider_id::read(cloud.config, &node.provider_id) {
            Reference::Server(id) => Some((node, id)),
            Reference::NotOurs => None,
        }
    })
}

/// Returns the subnet of the address of the first node with a server, or `None` if no port of the
/// server has the address. The server of the first node may just have been deleted: the next nodes
/// are tried, too.
fn of_nodes(cloud: &Cloud<'_>, member_nodes: &[MemberNode]) -> Result<Option<String>> {
    let tried: Vec<(&MemberNode, &str)> = servers(cloud, member_nodes).take(TRIED).collect();
    let Some((node, server)) = tried.first() else {
        return Ok(None);
    };

    let key = format!("subnet of {server} {}", node.address);
    if let Some(cached) = cloud
        .host
        .cached(&key)
        .and_then(|cached| String::from_utf8(cached).ok())
    {
        return Ok(Some(cached));
    }

    let ids: Vec<&str> = tried.iter().map(|(_, server)| *server).collect();
    let ports = ports_of(cloud, &ids)?;
    let subnet = tried.iter().find_map(|(node, server)| {
        ports
            .iter()
            .filter(|port| port.device_id == *server)
            .flat_map(|port| &port.fixed_ips)
            .find(|fixed| is_same(&fixed.ip_address, &node.address))
            .map(|fixed| fixed.subnet_id.clone())
    });

    if let Some(subnet) = &subnet {
        cloud.host.cache(&key, subnet.as_bytes(), CACHED);
    }

    Ok(subnet)
}

/// Returns the error for nodes that do not show a subnet.
fn unknown(cloud: &Cloud<'_>, member_nodes: &[MemberNode]) -> CloudError {
    let Some((MemberNode { name, address, .. }, _)) = servers(cloud, member_nodes).next() else {
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
