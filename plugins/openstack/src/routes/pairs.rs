//! Allowed address pairs, with which a port may send from the Pod CIDR of its node.

use super::{
    BTreeMap, Cloud, CloudError, ExtraRoute, IDS, Kind, Method, Port, Result, ServiceRequest,
    Value, canonical, is_same_route, json, router, send_all,
};
use crate::{
    instances::ports_of,
    services::network::{AddressPair, FixedIp},
};

/// Adds the destinations of routes to the allowed addresses of the ports at their next hops, or
/// removes them. Returns one result per route.
pub(super) fn set(cloud: &Cloud<'_>, routes: &[ExtraRoute], add: bool) -> Result<Vec<Result<()>>> {
    let [has_pairs] = cloud.extensions(["allowed-address-pairs"])?;
    if !has_pairs || routes.is_empty() {
        return Ok(vec![Ok(()); routes.len()]);
    }

    let ports = ports_at(cloud, routes)?;
    let of_route: Vec<Option<&Port>> = routes
        .iter()
        .map(|route| at(&ports, &route.nexthop))
        .collect();

    let staying = if add {
        Vec::new()
    } else {
        staying(cloud, routes)?
    };

    // A port with several routes is changed once: afterwards, its revision is outdated.
    let mut wanted: BTreeMap<&str, (&Port, Vec<&str>)> = BTreeMap::new();
    for (route, port) in routes.iter().zip(&of_route) {
        if let Some(port) =
            port.filter(|port| port.port_security_enabled && !needs(port, route, &staying))
        {
            let (_, destinations) = wanted.entry(&port.id).or_insert((port, Vec::new()));
            destinations.push(&route.destination);
        }
    }

    let answers = change_ports(cloud, wanted.into_values(), add)?;
    let result = |(route, port): (&ExtraRoute, &Option<&Port>)| match port {
        Some(port) => match answers.get(port.id.as_str()) {
            // The port was deleted with its server.
            Some(Err(CloudError::NotFound(_))) if !add => Ok(()),
            Some(answer) => answer.clone(),
            None => Ok(()),
        },
        // The port of a deleted route may already be gone.
        None if !add => Ok(()),
        None => {
            let hop = &route.nexthop;
            Err(CloudError::not_found(format!(
                "no port has the address {hop} in a network of the router of section `Route`"
            )))
        }
    };
    Ok(routes.iter().zip(&of_route).map(result).collect())
}

/// Adds destinations to the allowed addresses of ports, or removes them. Returns the results by port
/// ID, without ports that need no change.
fn change_ports<'a>(
    cloud: &Cloud<'_>,
    wanted: impl Iterator<Item = (&'a Port, Vec<&'a str>)>,
    add: bool,
) -> Result<BTreeMap<&'a str, Result<()>>> {
    let mut requests: Vec<ServiceRequest> = Vec::new();
    let mut changing: Vec<&str> = Vec::new();
    for (port, destinations) in wanted {
        let Some(pairs) = changed(port, &destinations, add) else {
            continue;
        };
        let what = format!("cannot set the allowed address pairs of port {}", port.id);
        let path = format!("/ports/{}", port.id);
        let request = cloud.request(Method::Put, Kind::Network, &path, what)?;
        requests.push(
            request
                .if_revision(port.revision_number)
                .json(&json!({"port": {"allowed_address_pairs": pairs}}))?,
        );
        changing.push(&port.id);
    }

    let answers = send_all(requests)
        .into_iter()
        .map(|answer| answer.map(|_| ()));
    Ok(changing.into_iter().zip(answers).collect())
}

/// Returns the router's other routes.
fn staying(cloud: &Cloud<'_>, routes: &[ExtraRoute]) -> Result<Vec<ExtraRoute>> {
    let mut staying = router(cloud)?.routes;
    staying.retain(|route| !routes.iter().any(|deleted| is_same_route(deleted, route)));
    Ok(staying)
}

/// Returns true if the port needs the address pair of a deleted route for another route: a port can
/// have several addresses, and the route of a node whose first address changed is replaced by one
/// to the same port.
fn needs(port: &Port, deleted: &ExtraRoute, staying: &[ExtraRoute]) -> bool {
    let here = |route: &ExtraRoute| at(std::slice::from_ref(port), &route.nexthop).is_some();
    let destination = canonical(&deleted.destination);
    staying
        .iter()
        .any(|route| canonical(&route.destination) == destination && here(route))
}

fn at<'a>(ports: &'a [Port], address: &str) -> Option<&'a Port> {
    ports.iter().find(|port| port.is_at(address))
}

/// Returns the pairs of a port with these added or removed, or `None` if nothing changes.
fn changed(port: &Port, destinations: &[&str], add: bool) -> Option<Vec<Value>> {
    let body = |pair: &AddressPair| match &pair.mac_address {
        Some(mac) => json!({"ip_address": pair.ip_address, "mac_address": mac}),
        None => json!({"ip_address": pair.ip_address}),
    };
    // Neutron keeps the notation in which a network was written.
    let is_for = |pair: &AddressPair, destination: &str| {
        canonical(&pair.ip_address) == canonical(destination)
    };

    let pairs = port.allowed_address_pairs.iter();
    let changed: Vec<Value> = if add {
        let new = destinations
            .iter()
            .filter(|destination| !pairs.clone().any(|pair| is_for(pair, destination)))
            .map(|destination| json!({"ip_address": destination}));
        pairs.clone().map(body).chain(new).collect()
    } else {
        let stays = |pair: &&AddressPair| {
            !destinations
                .iter()
                .any(|destination| is_for(pair, destination))
        };
        pairs.clone().filter(stays).map(body).collect()
    };
    (changed.len() != pairs.len()).then_some(changed)
}

/// Returns the ports at the next hops in the networks of the router.
fn ports_at(cloud: &Cloud<'_>, routes: &[ExtraRoute]) -> Result<Vec<Port>> {
    let networks = networks(cloud)?;
    // Without networks, Neutron would search all networks, in which another server may have the
    // address.
    if networks.is_empty() {
        return Ok(Vec::new());
    }

    let hops: Vec<String> = routes
        .iter()
        .map(|route| format!("ip_address={}", route.nexthop))
        .collect();

    let query = |hops: &[String]| {
        let hops = hops.iter().map(|hop| ("fixed_ips", hop.clone()));
        hops.chain(
            networks
                .iter()
                .map(|network| ("network_id", network.clone())),
        )
        .collect::<Vec<_>>()
    };

    // An address and a network together are about as long as two IDs.
    let queries: Vec<Vec<(&str, String)>> = hops.chunks(IDS / 2).map(query).collect();
    let queries = queries.iter().map(|query| {
        query
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect()
    });

    let found = cloud
        .lists::<Port>(Kind::Network, "/ports", &queries.collect::<Vec<_>>())?
        .into_iter()
        .flatten();

    Ok(found
        .filter(|port| networks.contains(&port.network_id))
        .collect())
}

/// Returns the networks of the router.
fn networks(cloud: &Cloud<'_>) -> Result<Vec<String>> {
    let interfaces = interfaces(cloud)?;
    let mut networks: Vec<String> = interfaces.into_iter().map(|(network, _)| network).collect();
    networks.retain(|network| !network.is_empty());
    networks.dedup();
    Ok(networks)
}

/// Returns the networks and subnets in which the router has an address.
pub(super) fn interfaces(cloud: &Cloud<'_>) -> Result<Vec<(String, String)>> {
    let router = cloud.config.router_id.as_str();
    let key = format!("interfaces of router {router}");

    let cached = cloud.host.cached(&key);
    if let Some(cached) = cached.and_then(|cached| serde_json::from_slice(&cached).ok()) {
        return Ok(cached);
    }

    let ports = ports_of(cloud, &[router])?;
    let mut interfaces: Vec<(String, String)> = ports
        .into_iter()
        .filter(|port| port.device_id == router)
        .flat_map(|port| {
            let mut fixed = port.fixed_ips;
            if fixed.is_empty() {
                // A port without an address still shows its network.
                fixed.push(FixedIp::default());
            }
            let network = port.network_id;
            fixed
                .into_iter()
                .map(move |fixed| (network.clone(), fixed.subnet_id))
        })
        .collect();

    interfaces.sort();
    interfaces.dedup();

    // A router without interfaces is not cached: its first one may be added at any time.
    if !interfaces.is_empty() {
        let cached = json!(interfaces).to_string();
        cloud.host.cache(&key, cached.as_bytes(), super::CACHED);
    }

    Ok(interfaces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_pairs_are_added_once_and_others_are_kept() {
        let pair = |ip: &str, mac: Option<&str>| AddressPair {
            ip_address: ip.into(),
            mac_address: mac.map(Into::into),
        };
        let port = Port {
            allowed_address_pairs: vec![
                pair("192.0.2.1", Some("fa:16:3e:00:00:01")),
                pair("10.244.0.0/24", None),
            ],
            ..Port::default()
        };
        let other = json!({"ip_address": "192.0.2.1", "mac_address": "fa:16:3e:00:00:01"});
        assert_eq!(changed(&port, &["10.244.0.0/24"], true), None);

        let more = changed(&port, &["10.244.0.0/24", "2001:db8::/64"], true).unwrap();
        assert_eq!(
            more,
            [
                other.clone(),
                json!({"ip_address": "10.244.0.0/24"}),
                json!({"ip_address": "2001:db8::/64"})
            ]
        );
        assert_eq!(changed(&port, &["10.244.0.0/24"], false), Some(vec![other]));
        assert_eq!(changed(&port, &["10.244.9.0/24"], false), None);
    }

    #[test]
    fn an_address_is_a_network_with_one_address() {
        let port = Port {
            allowed_address_pairs: ["192.0.2.1", "2001:0db8::1"]
                .map(|address| AddressPair {
                    ip_address: address.to_owned(),
                    mac_address: None,
                })
                .into(),
            ..Port::default()
        };
        let both = ["192.0.2.1/32", "2001:db8::1/128"];
        assert_eq!(changed(&port, &both, true), None);
        assert_eq!(changed(&port, &both, false), Some(vec![]));
        assert_eq!(changed(&port, &["192.0.2.2/32"], false), None);
    }

    #[test]
    fn a_network_in_another_notation_is_the_same() {
        let port = Port {
            allowed_address_pairs: vec![AddressPair {
                ip_address: "2001:0db8:0::/64".to_owned(),
                mac_address: None,
            }],
            ..Port::default()
        };
        assert_eq!(changed(&port, &["2001:db8::/64"], true), None);
        assert_eq!(changed(&port, &["2001:db8::/64"], false), Some(vec![]));
        assert_eq!(changed(&port, &["2001:db8:1::/64"], false), None);
    }
}
