//! The external network and the subnets that a floating IP comes from.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::Deserialize;
use skydock_sdk::{Result, types::CloudError};

use crate::{
    cloud::{CACHED, Cloud, Kind},
    load_balancers::{
        desired_load_balancer::{FloatingIpSettings, SubnetSpec},
        members::subnet,
    },
    services::network::{FloatingIp, Network, Subnet},
};

#[derive(Deserialize)]
struct SubnetAnswer {
    subnet: Subnet,
}

/// Returns the networks in which the floating IP can be created.
pub(super) fn networks(cloud: &Cloud<'_>, settings: &FloatingIpSettings) -> Result<Vec<String>> {
    let FloatingIpSettings {
        network_id, subnet, ..
    } = settings;
    match network_of(cloud, &subnet.id)? {
        Some(network) if network_id.is_empty() || *network_id == network => Ok(vec![network]),
        Some(_) => Err(CloudError::invalid(format!(
            "subnet {} of the floating IP is not in network {network_id}",
            subnet.id
        ))),
        None if network_id.is_empty() => external_networks(cloud),
        None => Ok(vec![network_id.clone()]),
    }
}

/// Returns the network of the configured subnet, or `None` if none is configured.
fn network_of(cloud: &Cloud<'_>, subnet: &str) -> Result<Option<String>> {
    if subnet.is_empty() {
        return Ok(None);
    }

    let what = "cannot read the floating IP's subnet";
    let path = format!("/subnets/{}", skydock_sdk::http::segment(subnet)?);
    let answer: SubnetAnswer = cloud.get(Kind::Network, &path, what)?;
    Ok(Some(answer.subnet.network_id))
}

/// Returns the key under which the network is cached in which a floating IP was created.
pub(super) fn external_key(cloud: &Cloud<'_>) -> Result<String> {
    Ok(format!(
        "external network {}",
        cloud.url(Kind::Network, "")?
    ))
}

/// Returns the external networks with an IPv4 subnet, or with a subnet that is not visible, or only
/// the one in which a floating IP was created.
fn external_networks(cloud: &Cloud<'_>) -> Result<Vec<String>> {
    let cached = cloud.host.cached(&external_key(cloud)?);
    if let Some(cached) = cached.and_then(|cached| String::from_utf8(cached).ok()) {
        return Ok(vec![cached]);
    }

    let networks: Vec<Network> = cloud.list(
        Kind::Network,
        "/networks",
        vec![("router:external", "true")],
    )?;

    let ids: Vec<(&str, &str)> = networks
        .iter()
        .map(|network| ("network_id", network.id.as_str()))
        .collect();
    let subnets: Vec<Subnet> = if ids.is_empty() {
        Vec::new()
    } else {
        cloud.list(Kind::Network, "/subnets", ids)?
    };

    let fits = |network: &&Network| {
        let version = |id: &String| {
            subnets
                .iter()
                .find(|subnet| subnet.id == *id)
                .map(|subnet| subnet.ip_version)
        };
        network.external
            && network
                .subnets
                .iter()
                .any(|id| version(id).is_none_or(|version| version == 4))
    };

    Ok(networks
        .iter()
        .filter(fits)
        .map(|network| network.id.clone())
        .collect())
}

/// Returns false if a floating IP is known to be in none of the subnets that match.
pub(super) fn is_in_subnet(
    cloud: &Cloud<'_>,
    floating: &FloatingIp,
    spec: &SubnetSpec,
) -> Result<bool> {
    let address = &floating.floating_ip_address;
    let SubnetSpec { id, pattern, tags } = spec;
    let key = format!("{address} in subnet {id}, name {pattern}, tags {tags}");
    if let Some(cached) = cloud.host.cached(&key) {
        return Ok(cached == [1]);
    }

    let subnets = if id.is_empty() {
        matching(cloud, spec, &floating.floating_network_id)?
    } else {
        subnet::known(cloud, id)?.into_iter().collect()
    };

    let ip: Option<IpAddr> = address.parse().ok();
    let holds = |subnet: &Subnet| {
        let net: Option<IpNet> = subnet.cidr.parse().ok();
        net.zip(ip).is_none_or(|(net, ip)| net.contains(&ip))
    };

    // Neutron may not show a subnet that exists.
    let is_there = subnets.is_empty() || subnets.iter().any(holds);
    cloud.host.cache(&key, &[u8::from(is_there)], CACHED);
    Ok(is_there)
}

/// Returns the subnets of a network that match.
pub(super) fn matching(cloud: &Cloud<'_>, spec: &SubnetSpec, network: &str) -> Result<Vec<Subnet>> {
    let tags = spec.tag_filter();
    let mut query = vec![("network_id", network)];
    query.extend(tags.as_ref().map(|(name, tags)| (*name, tags.as_str())));
    let subnets: Vec<Subnet> = cloud.list(Kind::Network, "/subnets", query)?;
    let mut matching = Vec::new();

    for subnet in subnets {
        if subnet.ip_version != 6 && spec.fits(&subnet.name).map_err(CloudError::invalid)? {
            matching.push(subnet);
        }
    }
    Ok(matching)
}
