//! Answers for nodes, from Nova and Neutron.

use std::collections::BTreeMap;

use skydock_sdk::{
    Result,
    instances::{Instance, Presence},
    types::{CloudError, Node},
};

use crate::{
    cloud::{Cloud, Kind},
    provider_id,
    services::{
        compute::{Flavor, Server},
        network::{Network, Port},
    },
};

pub mod addresses;
mod find;
pub mod label;

use addresses::{Subport, addresses};
use find::{Found, find};

/// Number of IDs in one query: 47 bytes each, in the 8 KiB that the host allows for a URL.
pub(crate) const IDS: usize = 120;

/// The prefix of labels of nodes.
pub const LABELS: &str = "topology.openstack.org/";

/// The label with an opaque ID of the compute host, which tells nodes on the same host.
const HOST_ID: &str = "topology.openstack.org/host-id";

/// When to retry for a server without an address.
const NO_ADDRESS_YET: std::time::Duration = std::time::Duration::from_secs(5);

/// Returns the state of the servers of these nodes.
///
/// # Errors
/// Fails if Nova cannot be reached.
pub fn check(cloud: &Cloud<'_>, nodes: &[Node]) -> Result<Vec<Result<Presence>>> {
    let found = find(cloud, nodes)?;
    Ok(found
        .into_iter()
        .zip(nodes)
        .map(|(found, node)| found.and_then(|found| presence(node, &found)))
        .collect())
}

/// Only a request by ID that fails with 404 proves that a server is gone: a list omits servers
/// whose cell is down.
fn presence(node: &Node, found: &Found) -> Result<Presence> {
    match found {
        // The only state in which volumes can be detached at once.
        Found::Server(server) if server.status == "SHUTOFF" => Ok(Presence::Stopped),
        Found::Server(_) => Ok(Presence::Running),
        Found::Gone => Ok(Presence::Absent),
        Found::Unknown => Err(unknown(node)),
    }
}

fn unknown(node: &Node) -> CloudError {
    CloudError::not_found(format!("Nova has no server `{}`", node.name))
}

/// Returns the metadata of the servers of these nodes.
///
/// # Errors
/// Fails if Nova or Neutron cannot be reached.
pub fn describe(cloud: &Cloud<'_>, nodes: &[Node]) -> Result<Vec<Result<Instance>>> {
    let found = find(cloud, nodes)?;
    let servers: Vec<&Server> = found
        .iter()
        .filter_map(|found| found.as_ref().ok()?.server())
        .collect();

    let ids: Vec<&str> = servers.iter().map(|server| server.id.as_str()).collect();
    let ports = ports_of(cloud, &ids)?;
    let subports = subports(cloud, &ports)?;
    let flavors = flavors(cloud, &servers)?;

    let describe = |(found, node): (Result<Found>, &Node)| {
        let found = found?;
        let server = found.server().ok_or_else(|| unknown(node))?;
        instance(cloud, server, &ports, &subports, &flavors)
    };
    Ok(found.into_iter().zip(nodes).map(describe).collect())
}

fn instance(
    cloud: &Cloud<'_>,
    server: &Server,
    ports: &[Port],
    subports: &BTreeMap<String, Subport>,
    flavors: &[Flavor],
) -> Result<Instance> {
    let own: Vec<&Port> = ports
        .iter()
        .filter(|port| port.device_id == server.id)
        .collect();

    let addresses = addresses(server, &own, subports, &cloud.config.networking);
    if addresses.is_empty() {
        let message = format!("server `{}` has no address yet", server.name);
        return Err(CloudError::in_progress(NO_ADDRESS_YET, message));
    }

    Ok(Instance {
        provider_id: Some(provider_id::of(cloud.config, &server.id)),
        instance_type: instance_type(server, flavors),
        zone: label::sanitized(server.availability_zone.as_deref().unwrap_or_default()),
        region: Some(cloud.config.global.region.clone())
            .filter(|region| label::is_value(region) && !region.is_empty()),
        addresses,
        labels: host_id(server),
        ..Instance::default()
    })
}

/// Returns the label with the compute host, which upstream sets since #3166.
fn host_id(server: &Server) -> Vec<(String, String)> {
    let id = Some(server.host_id.clone()).filter(|id| label::is_value(id) && !id.is_empty());
    id.map(|id| (HOST_ID.to_owned(), id)).into_iter().collect()
}

/// Returns the name of the flavor, or its ID if the name is not a valid label value.
fn instance_type(server: &Server, flavors: &[Flavor]) -> Option<String> {
    let name = &server.flavor.original_name;
    if name.is_empty() {
        return None;
    }

    if label::is_value(name) {
        return Some(name.clone());
    }

    let flavor = flavors.iter().find(|flavor| flavor.name == *name);
    flavor
        .map(|flavor| flavor.id.clone())
        .filter(|id| label::is_value(id))
        .or_else(|| label::sanitized(name))
}

/// Returns all flavors if the name of one is not a valid label value.
fn flavors(cloud: &Cloud<'_>, servers: &[&Server]) -> Result<Vec<Flavor>> {
    let odd = |server: &&Server| !label::is_value(&server.flavor.original_name);
    if servers.iter().any(odd) {
        cloud.list(Kind::Compute, "/flavors", vec![])
    } else {
        Ok(Vec::new())
    }
}

/// Returns the ports of these devices, in Neutron's order.
///
/// # Errors
/// Fails if a request to Neutron fails.
pub(crate) fn ports_of(cloud: &Cloud<'_>, devices: &[&str]) -> Result<Vec<Port>> {
    let queries = filters("device_id", devices);
    Ok(cloud
        .lists(Kind::Network, "/ports", &queries)?
        .into_iter()
        .flatten()
        .collect())
}

/// Returns the subports of trunks by ID. Subports that cannot be read are omitted, as in upstream.
fn subports(cloud: &Cloud<'_>, ports: &[Port]) -> Result<BTreeMap<String, Subport>> {
    let ids: Vec<&str> = ports
        .iter()
        .filter_map(|port| port.trunk_details.as_ref())
        .flat_map(|trunk| &trunk.sub_ports)
        .map(|port| port.port_id.as_str())
        .collect();
    if ids.is_empty() {
        return Ok(BTreeMap::new());
    }

    let ports: Vec<Port> = cloud
        .lists(Kind::Network, "/ports", &filters("id", &ids))?
        .into_iter()
        .flatten()
        .collect();

    let mut networks: Vec<&str> = ports.iter().map(|port| port.network_id.as_str()).collect();
    networks.sort_unstable();
    networks.dedup();

    // Nova lists addresses by the name of the network, so that of subports is needed, too.
    let networks: Vec<Network> = cloud
        .lists(Kind::Network, "/networks", &filters("id", &networks))?
        .into_iter()
        .flatten()
        .collect();

    let name = |id: &str| {
        Some(
            networks
                .iter()
                .find(|network| network.id == id)?
                .name
                .clone(),
        )
    };

    Ok(ports
        .into_iter()
        .filter_map(|port| {
            let addresses = port
                .fixed_ips
                .into_iter()
                .map(|fixed| fixed.ip_address)
                .collect();
            Some((
                port.id,
                Subport {
                    network: name(&port.network_id)?,
                    addresses,
                },
            ))
        })
        .collect())
}

/// Returns queries for resources with one of these values, with several values per query.
pub(crate) fn filters<'a>(name: &'static str, values: &[&'a str]) -> Vec<Vec<(&'a str, &'a str)>> {
    values
        .chunks(IDS)
        .map(|values| values.iter().map(|value| (name, *value)).collect())
        .collect()
}

#[cfg(test)]
mod tests;
