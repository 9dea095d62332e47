//! Routes to Pods: extra routes of a Neutron router, and what the nodes' ports may send.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use ipnet::IpNet;
use serde::Deserialize;
use serde_json::{Value, json};
use skydock_sdk::{
    Result,
    http::{self, Method},
    routes::{NewRoute, Route},
    types::{AddressKind, CloudError, Node, NodeAddress},
};

use crate::{
    cloud::{Ask, BELIEVED, Cloud, Kind, send_all},
    instances::IDS,
    network::{ExtraRoute, Port, Router},
};

mod pairs;

/// When to ask again while the host does not know the nodes yet.
const NODES_UNKNOWN: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
struct Answer {
    router: Router,
}

/// All routes of the router that lead into these CIDRs, which are the cluster's; all there are if none is given.
///
/// # Errors
/// If Neutron cannot be asked, or the host does not know the nodes yet: every route would look as if it led nowhere.
pub fn list(cloud: &Cloud<'_>, cluster_cidrs: &[IpNet]) -> Result<Vec<Route>> {
    let unknown = || CloudError::in_progress(NODES_UNKNOWN, "the host does not know the nodes yet");
    let nodes = cloud.host.nodes().ok_or_else(unknown)?;
    let router = router(cloud)?;
    Ok(router
        .routes
        .iter()
        .filter(|route| is_clusters(route, cluster_cidrs))
        .map(|route| told(route, &nodes))
        .collect())
}

fn is_clusters(route: &ExtraRoute, cluster_cidrs: &[IpNet]) -> bool {
    let inside = |net: IpNet| cluster_cidrs.iter().any(|cidr| cidr.contains(&net));
    cluster_cidrs.is_empty() || route.destination.parse().is_ok_and(inside)
}

/// A route as the host knows it. Its name holds the next hop, which is needed to delete it when no node has it any more.
fn told(route: &ExtraRoute, nodes: &[Node]) -> Route {
    let has = |node: &&Node| node.addresses.iter().any(|address| is_same(&address.address, &route.nexthop));
    let node = nodes.iter().find(has);
    Route {
        name: format!("{} via {}", route.destination, route.nexthop),
        target_node: node.map(|node| node.name.clone()),
        target_addresses: None,
        destination_cidr: canonical(&route.destination),
        blackhole: node.is_none(),
    }
}

fn canonical(cidr: &str) -> String {
    cidr.parse::<IpNet>().map_or_else(|_| cidr.to_owned(), |net| net.trunc().to_string())
}

fn is_same(one: &str, other: &str) -> bool {
    one == other || one.parse::<IpAddr>().is_ok_and(|ip| other.parse() == Ok(ip))
}

/// The route of a name that [`told`] has made.
fn named(name: &str) -> Option<ExtraRoute> {
    let (destination, nexthop) = name.split_once(" via ")?;
    Some(ExtraRoute { destination: destination.to_owned(), nexthop: nexthop.to_owned() })
}

/// The first internal address of the family of the destination.
fn nexthop(route: &NewRoute) -> Result<ExtraRoute> {
    let net: IpNet = route
        .destination_cidr
        .parse()
        .map_err(|_| CloudError::invalid(format!("`{}` is no CIDR", route.destination_cidr)))?;
    let fits = |address: &&NodeAddress| {
        address.kind == AddressKind::InternalIp
            && address.address.parse().is_ok_and(|ip: IpAddr| ip.is_ipv6() == net.addr().is_ipv6())
    };
    let address = route.target_addresses.iter().find(fits).ok_or_else(|| {
        CloudError::not_found(format!("node {} has no internal address of the family of {net}", route.target_node))
    })?;
    Ok(ExtraRoute { destination: route.destination_cidr.clone(), nexthop: address.address.clone() })
}

/// Makes routes: one answer each.
#[must_use]
pub fn create(cloud: &Cloud<'_>, routes: &[NewRoute]) -> Vec<Result<()>> {
    each(routes, nexthop, |wanted| {
        // First what ports may send: a route whose packets are dropped would look as if it were complete.
        let allowed = pairs::set(cloud, wanted, true)?;
        let ready: Vec<ExtraRoute> = wanted
            .iter()
            .zip(&allowed)
            .filter(|(_, allowed)| allowed.is_ok())
            .map(|(route, _)| route.clone())
            .collect();
        change(cloud, &ready, true)?;
        Ok(allowed)
    })
}

/// Deletes routes: one answer each.
#[must_use]
pub fn delete(cloud: &Cloud<'_>, routes: &[Route]) -> Vec<Result<()>> {
    let read = |route: &Route| {
        named(&route.name).ok_or_else(|| CloudError::internal(format!("`{}` is no name of a route", route.name)))
    };
    each(routes, read, |wanted| {
        change(cloud, wanted, false)?;
        pairs::set(cloud, wanted, false)
    })
}

/// Does all that can be read at once; if that fails as a whole, each by itself.
fn each<T>(
    routes: &[T],
    read: impl Fn(&T) -> Result<ExtraRoute>,
    act: impl Fn(&[ExtraRoute]) -> Result<Vec<Result<()>>>,
) -> Vec<Result<()>> {
    let read: Vec<Result<ExtraRoute>> = routes.iter().map(read).collect();
    let good: Vec<ExtraRoute> = read.iter().filter_map(|route| route.as_ref().ok().cloned()).collect();
    let answers = match act(&good) {
        Ok(answers) => answers,
        Err(CloudError::Invalid(_) | CloudError::NotFound(_) | CloudError::Denied(_)) if good.len() > 1 => {
            let one =
                |route: &ExtraRoute| act(std::slice::from_ref(route)).and_then(|answers| answers.into_iter().collect());
            good.iter().map(one).collect()
        }
        Err(error) => vec![Err(error); good.len()],
    };
    let mut answers = answers.into_iter();
    let lost = || Err(CloudError::internal("a route was not answered for"));
    read.into_iter().map(|route| route.and_then(|_| answers.next().unwrap_or_else(lost))).collect()
}

fn path(cloud: &Cloud<'_>, action: &str) -> Result<String> {
    let id = &cloud.config.router_id;
    if id.is_empty() {
        return Err(CloudError::invalid("no router is configured: set `router-id` in section `Route`"));
    }
    Ok(format!("/routers/{}{action}", http::segment(id)?))
}

fn router(cloud: &Cloud<'_>) -> Result<Router> {
    let answer: Answer = cloud.get(Kind::Network, &path(cloud, "")?, "cannot read the router of section `Route`")?;
    Ok(answer.router)
}

/// Adds routes to the router or takes them off, all with one request.
fn change(cloud: &Cloud<'_>, routes: &[ExtraRoute], add: bool) -> Result<()> {
    if routes.is_empty() {
        return Ok(());
    }
    let [atomic, plain] = cloud.extensions(["extraroute-atomic", "extraroute"])?;
    let what = if add { "cannot add routes to the router" } else { "cannot take routes off the router" };
    if atomic {
        let action = if add { "/add_extraroutes" } else { "/remove_extraroutes" };
        let ask = cloud.ask(Method::Put, Kind::Network, &path(cloud, action)?, what)?;
        return ask.json(&json!({"router": {"routes": body(routes)}}))?.send().map(|_| ());
    }
    if !plain {
        return Err(CloudError::invalid("Neutron has no extra routes: the extension `extraroute` is missing"));
    }
    // The whole list; if somebody else changes it meanwhile, Neutron refuses, and the next try starts from the new one.
    let router = router(cloud)?;
    let changed = changed(&router.routes, routes, add);
    if changed == router.routes {
        return Ok(());
    }
    let ask = cloud.ask(Method::Put, Kind::Network, &path(cloud, "")?, what)?;
    let ask = ask.if_revision(router.revision_number).json(&json!({"router": {"routes": body(&changed)}}))?;
    ask.send().map(|_| ())
}

/// A router's routes with these, or without.
fn changed(there: &[ExtraRoute], routes: &[ExtraRoute], add: bool) -> Vec<ExtraRoute> {
    let mut changed = there.to_vec();
    if add {
        changed.extend(routes.iter().filter(|route| !there.contains(route)).cloned());
    } else {
        changed.retain(|route| !routes.contains(route));
    }
    changed
}

fn body(routes: &[ExtraRoute]) -> Vec<Value> {
    routes.iter().map(|route| json!({"destination": route.destination, "nexthop": route.nexthop})).collect()
}

#[cfg(test)]
mod tests;
