//! Routes to the Pods of nodes.

use std::time::Duration;

use skydock_sdk::{
    Result,
    http::{Request, Response},
    routes::{NewRoute, Route, RoutePage},
    types::{CloudError, Node},
};

use crate::{
    api::{self, Page, RouteSpec},
    cloud::{Cloud, ask, deleted, problem, send_all, server_id},
};

const KIND: &str = "routes";
/// Label with the name of the node.
const NODE: &str = "node";
/// How long a node usually takes to get its provider ID.
const INITIALIZING: Duration = Duration::from_secs(5);

/// Lists a page of the routes of this cluster. The token of a page is the cloud's.
pub(crate) fn list(cloud: &Cloud<'_>, nodes: &[Node], page: Option<&str>) -> Result<RoutePage> {
    let page: Page<api::Route> = cloud.page(KIND, page)?;

    let route = |route: api::Route| Route {
        name: route.id,
        target_node: target(&route.spec, nodes),
        // It leads to a server, and not to an address: it may stay if that changes.
        target_addresses: None,
        destination_cidr: route.spec.cidr,
        blackhole: route.blackhole,
    };

    Ok(RoutePage {
        routes: page.items.into_iter().map(route).collect(),
        next: page.next,
    })
}

/// Returns the node to which a route leads: that of the server. The name in the label may be that
/// of another server by now, so it counts only until the node has a provider ID.
fn target(route: &RouteSpec, nodes: &[Node]) -> Option<String> {
    let is_target = |node: &&Node| match node.provider_id.as_deref() {
        Some(id) => server_id(id) == Some(&route.target),
        None => route.labels.get(NODE) == Some(&node.name),
    };
    nodes.iter().find(is_target).map(|node| node.name.clone())
}

pub(crate) fn create(cloud: &Cloud<'_>, routes: &[NewRoute]) -> Vec<Result<()>> {
    let wanted: Vec<Result<RouteSpec>> = routes.iter().map(|route| wanted(cloud, route)).collect();

    let request = |spec: &Result<RouteSpec>| {
        Request::post(cloud.config.list(KIND)).json(spec.as_ref().map_err(Clone::clone)?)
    };

    let answers = send_all(wanted.iter().map(request).collect());
    wanted
        .into_iter()
        .zip(answers)
        .map(|(spec, answer)| created(cloud, &spec?, answer?))
        .collect()
}

pub(crate) fn delete(cloud: &Cloud<'_>, routes: &[Route]) -> Vec<Result<()>> {
    let request = |route: &Route| Ok(Request::delete(cloud.config.object(KIND, &route.name)?));
    send_all(routes.iter().map(request).collect())
        .into_iter()
        .map(|answer| deleted(answer?))
        .collect()
}

/// Returns the route to create. The name follows from the node's UID and the IP family, of which a
/// node has one CIDR each.
fn wanted(cloud: &Cloud<'_>, route: &NewRoute) -> Result<RouteSpec> {
    let node = &route.target_node;
    let id = route.target_provider_id.as_deref();
    let id = id.ok_or_else(|| {
        CloudError::in_progress(
            INITIALIZING,
            format!("the node {node} has no provider ID yet"),
        )
    })?;

    let target = server_id(id)
        .ok_or_else(|| CloudError::invalid(format!("{id} is not a valid provider ID")))?;

    let family = if route.destination_cidr.contains(':') {
        "ipv6"
    } else {
        "ipv4"
    };

    Ok(RouteSpec {
        name: format!("k8s-{}-{family}", route.name_hint),
        cidr: route.destination_cidr.clone(),
        target: target.to_owned(),
        labels: cloud.labels([(NODE, node)]),
    })
}

/// Reads the answer to a create. A route with the same name may be the one of an earlier create
/// whose answer was lost, or that the list did not show yet.
fn created(cloud: &Cloud<'_>, spec: &RouteSpec, answer: Response) -> Result<()> {
    let Some(id) = problem(&answer, 409, "exists").and_then(|problem| problem.id) else {
        return answer.success().map(|_| ());
    };

    let existing: api::Route = ask(Request::get(cloud.config.object(KIND, &id)?))?;
    if existing.spec == *spec {
        Ok(())
    } else {
        Err(CloudError::conflict(format!(
            "the route {id} is in the way"
        )))
    }
}

#[cfg(test)]
mod tests;
