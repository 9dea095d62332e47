//! Routes to Pods: extra routes of a Neutron router, and allowed addresses of the nodes' ports.

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;
use serde::Deserialize;
use serde_json::{Value, json};
use skydock_sdk::{
    Result,
    http::{self, Method},
    routes::{NewRoute, Route},
    types::{AddressKind, CloudError, NodeAddress},
};

use crate::{
    cloud::{CACHED, Cloud, Kind, ServiceRequest, send_all},
    instances::IDS,
    services::network::{ExtraRoute, Port, Router, Subnet},
};

mod pairs;

#[derive(Deserialize)]
struct Answer {
    router: Router,
}

/// Returns the routes of the router to these CIDRs, which are the cluster's, or all routes if there
/// are none.
///
/// # Errors
/// Fails if a request to Neutron fails.
pub fn list(cloud: &Cloud<'_>, cluster_cidrs: &[IpNet]) -> Result<Vec<Route>> {
    let router = router(cloud)?;
    Ok(router
        .routes
        .iter()
        .filter(|route| is_clusters(route, cluster_cidrs))
        .map(to_host)
        .collect())
}

fn is_clusters(route: &ExtraRoute, cluster_cidrs: &[IpNet]) -> bool {
    let inside = |net: IpNet| cluster_cidrs.iter().any(|cidr| cidr.contains(&net));
    cluster_cidrs.is_empty() || route.destination.parse().is_ok_and(inside)
}

/// Converts a route for the host. The name contains the next hop, which is required for the
/// deletion when no node has it.
///
/// The host maps the next hop to a node, because it knows all nodes, including those of other
/// providers.
fn to_host(route: &ExtraRoute) -> Route {
    let hop = NodeAddress {
        kind: AddressKind::InternalIp,
        address: route.nexthop.clone(),
    };

    Route {
        name: format!("{} via {}", route.destination, route.nexthop),
        target_node: None,
        target_addresses: Some(vec![hop]),
        destination_cidr: canonical(&route.destination),
        blackhole: false,
    }
}

/// Returns a network, or an address, in the notation in which it can be compared.
fn canonical(cidr: &str) -> String {
    cidr.parse::<IpNet>()
        .or_else(|_| cidr.parse::<IpAddr>().map(IpNet::from))
        .map_or_else(|_| cidr.to_owned(), |net| net.trunc().to_string())
}

/// Returns true if both are the same route, in whatever notation.
fn is_same_route(one: &ExtraRoute, other: &ExtraRoute) -> bool {
    canonical(&one.destination) == canonical(&other.destination)
        && canonical(&one.nexthop) == canonical(&other.nexthop)
}

/// Returns the route for a name created by [`to_host`].
fn named(name: &str) -> Option<ExtraRoute> {
    let (destination, nexthop) = name.split_once(" via ")?;
    Some(ExtraRoute {
        destination: destination.to_owned(),
        nexthop: nexthop.to_owned(),
    })
}

/// Returns the internal addresses of a node with the destination's family.
fn hops(route: &NewRoute, net: IpNet) -> impl Iterator<Item = (&str, IpAddr)> {
    let is_v6 = net.addr().is_ipv6();
    let internal = route
        .target_addresses
        .iter()
        .filter(|address| address.kind == AddressKind::InternalIp);

    internal
        .filter_map(|address| Some((address.address.as_str(), address.address.parse().ok()?)))
        .filter(move |(_, ip): &(&str, IpAddr)| ip.is_ipv6() == is_v6)
}

/// Returns the route with the first internal address in one of these networks as next hop, or the
/// first one.
fn nexthop(route: &NewRoute, nets: &[IpNet]) -> Result<ExtraRoute> {
    let net: IpNet = route.destination_cidr.parse().map_err(|_| {
        CloudError::invalid(format!("`{}` is not a valid CIDR", route.destination_cidr))
    })?;

    let is_near = |(_, ip): &(&str, IpAddr)| nets.iter().any(|net| net.contains(ip));
    let hop = hops(route, net)
        .find(is_near)
        .or_else(|| hops(route, net).next());

    let (address, _) = hop.ok_or_else(|| {
        CloudError::not_found(format!(
            "node {} has no internal address of the family of {net}",
            route.target_node
        ))
    })?;

    Ok(ExtraRoute {
        destination: route.destination_cidr.clone(),
        nexthop: address.to_owned(),
    })
}

/// Returns the subnets that the router reaches, if nodes have several addresses: Neutron accepts only
/// next hops in these.
fn reached(cloud: &Cloud<'_>, routes: &[NewRoute]) -> Result<Vec<IpNet>> {
    let is_ambiguous = |route: &NewRoute| {
        let net = route.destination_cidr.parse();
        net.is_ok_and(|net| hops(route, net).count() > 1)
    };

    if !routes.iter().any(is_ambiguous) {
        return Ok(Vec::new());
    }

    let interfaces = pairs::interfaces(cloud)?;
    let query: Vec<(&str, &str)> = interfaces
        .iter()
        .map(|(_, subnet)| ("id", subnet.as_str()))
        .filter(|(_, subnet)| !subnet.is_empty())
        .collect();
    if query.is_empty() {
        return Ok(Vec::new());
    }

    let subnets: Vec<Subnet> = cloud.list(Kind::Network, "/subnets", query)?;
    let found = subnets
        .iter()
        .filter(|subnet| interfaces.iter().any(|(_, id)| *id == subnet.id));

    Ok(found
        .filter_map(|subnet| subnet.cidr.parse().ok())
        .collect())
}

/// Creates routes and returns one result per route.
#[must_use]
pub fn create(cloud: &Cloud<'_>, routes: &[NewRoute]) -> Vec<Result<()>> {
    match reached(cloud, routes) {
        Ok(nets) => each(
            routes,
            |route| nexthop(route, &nets),
            |wanted| set(cloud, wanted, true),
        ),
        Err(error) => vec![Err(error); routes.len()],
    }
}

/// Deletes routes and returns one result per route.
#[must_use]
pub fn delete(cloud: &Cloud<'_>, routes: &[Route]) -> Vec<Result<()>> {
    let read = |route: &Route| {
        named(&route.name).ok_or_else(|| {
            CloudError::internal(format!("`{}` is not a valid route name", route.name))
        })
    };
    each(routes, read, |wanted| set(cloud, wanted, false))
}

/// Changes the ports first, then the router: an existing route is considered complete, and a
/// deleted route is not processed again.
fn set(cloud: &Cloud<'_>, routes: &[ExtraRoute], add: bool) -> Result<Vec<Result<()>>> {
    let ports = pairs::set(cloud, routes, add)?;
    let ready: Vec<ExtraRoute> = routes
        .iter()
        .zip(&ports)
        .filter(|(_, port)| port.is_ok())
        .map(|(route, _)| route.clone())
        .collect();
    change(cloud, &ready, add)?;
    Ok(ports)
}

/// Processes all valid routes at once, or individually if that fails as a whole.
fn each<T>(
    routes: &[T],
    read: impl Fn(&T) -> Result<ExtraRoute>,
    act: impl Fn(&[ExtraRoute]) -> Result<Vec<Result<()>>>,
) -> Vec<Result<()>> {
    let read: Vec<Result<ExtraRoute>> = routes.iter().map(read).collect();
    let good: Vec<ExtraRoute> = read
        .iter()
        .filter_map(|route| route.as_ref().ok().cloned())
        .collect();

    let answers = match act(&good) {
        Ok(answers) => answers,
        Err(CloudError::Invalid(_) | CloudError::NotFound(_) | CloudError::Denied(_))
            if good.len() > 1 =>
        {
            // One route that Neutron rejects makes it reject all of them.
            let one = |route: &ExtraRoute| {
                act(std::slice::from_ref(route)).and_then(|answers| answers.into_iter().collect())
            };
            good.iter().map(one).collect()
        }
        Err(error) => vec![Err(error); good.len()],
    };

    let mut answers = answers.into_iter();
    let lost = || Err(CloudError::internal("no answer for a route"));

    read.into_iter()
        .map(|route| route.and_then(|_| answers.next().unwrap_or_else(lost)))
        .collect()
}

fn path(cloud: &Cloud<'_>, action: &str) -> Result<String> {
    let id = &cloud.config.router_id;
    if id.is_empty() {
        return Err(CloudError::invalid(
            "no router is configured: set `router-id` in section `Route`",
        ));
    }
    Ok(format!("/routers/{}{action}", http::segment(id)?))
}

fn router(cloud: &Cloud<'_>) -> Result<Router> {
    let answer: Answer = cloud.get(
        Kind::Network,
        &path(cloud, "")?,
        "cannot read the router of section `Route`",
    )?;
    Ok(answer.router)
}

/// Adds routes to the router or removes them, with one request.
fn change(cloud: &Cloud<'_>, routes: &[ExtraRoute], add: bool) -> Result<()> {
    if routes.is_empty() {
        return Ok(());
    }

    let [atomic, plain] = cloud.extensions(["extraroute-atomic", "extraroute"])?;
    let what = if add {
        "cannot add routes to the router"
    } else {
        "cannot remove routes from the router"
    };

    if atomic {
        let action = if add {
            "/add_extraroutes"
        } else {
            "/remove_extraroutes"
        };
        let request = cloud.request(Method::Put, Kind::Network, &path(cloud, action)?, what)?;
        return request
            .json(&json!({"router": {"routes": body(routes)}}))?
            .send()
            .map(|_| ());
    }

    if !plain {
        return Err(CloudError::denied(
            "Neutron does not support extra routes: the extension `extraroute` is missing",
        ));
    }

    // The complete list is replaced. If another client changes it in the meantime, Neutron rejects
    // the request, and the retry starts with the current list.
    let router = router(cloud)?;
    let changed = changed(&router.routes, routes, add);
    if changed == router.routes {
        return Ok(());
    }

    let request = cloud.request(Method::Put, Kind::Network, &path(cloud, "")?, what)?;
    let request = request
        .if_revision(router.revision_number)
        .json(&json!({"router": {"routes": body(&changed)}}))?;
    request.send().map(|_| ())
}

/// Returns a router's routes with these added or removed.
fn changed(there: &[ExtraRoute], routes: &[ExtraRoute], add: bool) -> Vec<ExtraRoute> {
    let is_in = |routes: &[ExtraRoute], route: &ExtraRoute| {
        routes.iter().any(|other| is_same_route(other, route))
    };

    let mut changed = there.to_vec();
    if add {
        let new = routes.iter().filter(|route| !is_in(there, route));
        changed.extend(new.cloned());
    } else {
        changed.retain(|route| !is_in(routes, route));
    }

    changed
}

fn body(routes: &[ExtraRoute]) -> Vec<Value> {
    routes
        .iter()
        .map(|route| json!({"destination": route.destination, "nexthop": route.nexthop}))
        .collect()
}

#[cfg(test)]
mod tests;
