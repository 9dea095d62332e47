"""Servers behind nodes."""

from __future__ import annotations

from typing import Any

import skydock
from skydock import http

from .cloud import AT_ONCE, problem, provider_id, server_id
from .config import Config

#: States of a server. A state that the cloud invents later is an error, and never taken for another one.
STATES = {"running": skydock.Presence.RUNNING, "stopped": skydock.Presence.STOPPED}
KINDS = {"internal": skydock.AddressKind.INTERNAL_IP, "external": skydock.AddressKind.EXTERNAL_IP}


async def check(config: Config, nodes: list[skydock.Node]) -> list[skydock.Presence | skydock.CloudError]:
    """Returns whether the servers of nodes run."""

    async def presence(node: skydock.Node) -> skydock.Presence:
        server = await find(config, node)
        if server is not None:
            return STATES[server["state"]]
        if node.provider_id is not None:
            return skydock.Presence.ABSENT
        # Its server may have another name.
        raise no_server(node)

    return await skydock.each(nodes, presence, parallel=AT_ONCE)


async def describe(config: Config, nodes: list[skydock.Node]) -> list[skydock.Instance | skydock.CloudError]:
    """Describes the servers of nodes."""

    async def instance(node: skydock.Node) -> skydock.Instance:
        server = await find(config, node)
        if server is None:
            raise no_server(node)
        if server["region"] != config.region:
            raise skydock.NotFound(f"the server {server['id']} is in another region: {server['region']}")
        return described(server)

    return await skydock.each(nodes, instance, parallel=AT_ONCE)


async def find(config: Config, node: skydock.Node) -> dict[str, Any] | None:
    """Finds the server of a node: by its provider ID, or else by its name."""
    if node.provider_id is not None:
        answer = await http.get(config.object("servers", server_id(node.provider_id)))
        if problem(answer, 404, "not_found"):
            return None
        server: dict[str, Any] = answer.raise_for_status().json()
        return server
    # Unlike a complete list, the answer does not lag behind.
    answer = await http.get(config.list("servers"), params={"name": node.name})
    servers: list[dict[str, Any]] = answer.raise_for_status().json()["items"]
    if len(servers) > 1:
        raise skydock.Invalid(f"{len(servers)} servers have the name {node.name}: rename all but one")
    return servers[0] if servers else None


def no_server(node: skydock.Node) -> skydock.NotFound:
    """Returns the error for a node without a server."""
    return skydock.NotFound(f"no server belongs to the node {node.name}")


def described(server: dict[str, Any]) -> skydock.Instance:
    """Returns what a node needs to know about a server."""
    addresses = [skydock.NodeAddress(KINDS[it["kind"]], it["address"]) for it in server["addresses"]]
    return skydock.Instance(
        provider_id=provider_id(server["zone"], server["id"]),
        instance_type=server["type"],
        zone=server["zone"],
        region=server["region"],
        addresses=[*addresses, skydock.NodeAddress(skydock.AddressKind.HOSTNAME, server["name"])],
    )
