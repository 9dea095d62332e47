"""Routes to the Pods of nodes."""

from __future__ import annotations

from typing import Any

import skydock
from skydock import http

from .cloud import AT_ONCE, OWNER, SCHEME, Cloud, ask, deleted, problem, server_id

KIND = "routes"
#: Label with the name of the node.
NODE = "node"


async def list_page(cloud: Cloud, nodes: list[skydock.Node], page: str | None) -> skydock.RoutePage:
    """Lists a page of the routes of this cluster. The token of a page is the cloud's."""
    params = {"label": f"{OWNER}={cloud.cluster}", "limit": "100"}
    if page is not None:
        params["page_token"] = page
    answer = await ask("GET", cloud.config.list(KIND), params=params)

    def route(it: dict[str, Any]) -> skydock.Route:
        # It leads to a server, and not to an address: it may stay if that changes.
        return skydock.Route(it["id"], it["cidr"], target(it, nodes), None, it["blackhole"])

    return skydock.RoutePage([route(it) for it in answer["items"]], answer["next"])


def target(route: dict[str, Any], nodes: list[skydock.Node]) -> str | None:
    """Returns the node to which a route leads: that of the server.

    The name in the label may be that of another server by now, so it counts only until the node has a provider ID.
    """
    for node in nodes:
        if node.provider_id is None:
            found = route["labels"].get(NODE) == node.name
        else:
            found = node.provider_id.startswith(SCHEME) and server_id(node.provider_id) == route["target"]
        if found:
            return node.name
    return None


async def create(cloud: Cloud, routes: list[skydock.NewRoute]) -> list[skydock.CloudError | None]:
    """Creates routes."""

    async def one(new: skydock.NewRoute) -> None:
        wanted = wanted_for(cloud, new)
        answer = await http.post(cloud.config.list(KIND), json=wanted)
        existing = problem(answer, 409, "exists")
        if existing is None:
            answer.raise_for_status()
            return
        # It may be the one of an earlier create whose answer was lost, or that the list did not show yet.
        found = await ask("GET", cloud.config.object(KIND, existing["id"]))
        if any(found[field] != value for field, value in wanted.items()):
            raise skydock.Conflict(f"the route {found['id']} is in the way")

    return await skydock.each(routes, one, parallel=AT_ONCE)


async def delete(cloud: Cloud, routes: list[skydock.Route]) -> list[skydock.CloudError | None]:
    """Deletes routes."""

    async def one(route: skydock.Route) -> None:
        deleted(await http.delete(cloud.config.object(KIND, route.name)))

    return await skydock.each(routes, one, parallel=AT_ONCE)


def wanted_for(cloud: Cloud, new: skydock.NewRoute) -> dict[str, Any]:
    """Returns the route to create. The name follows from the node's UID and the IP family, of which a node has one CIDR each."""
    if new.target_provider_id is None:
        raise skydock.NotFound(f"the node {new.target_node} has no provider ID yet")
    family = "ipv6" if ":" in new.destination_cidr else "ipv4"
    return {
        "name": f"k8s-{new.name_hint}-{family}",
        "cidr": new.destination_cidr,
        "target": server_id(new.target_provider_id),
        "labels": cloud.labels(**{NODE: new.target_node}),
    }
