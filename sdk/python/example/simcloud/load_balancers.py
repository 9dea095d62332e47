"""Load balancers of Services.

Each has a name that follows from the Service's UID: a create whose answer was lost is found by it.
"""

from __future__ import annotations

from typing import Any

import skydock
from skydock import http

from .cloud import SCHEME, Cloud, ask, deleted, server_id

#: Seconds until a load balancer that is being created is looked at again.
CREATING = 1.0
KIND = "load-balancers"
#: What can be changed.
CHANGEABLE = ("listeners", "targets", "allowed_cidrs", "health_check_port", "labels")


async def get(cloud: Cloud, service: skydock.Service) -> skydock.LoadBalancerStatus | None:
    """Returns the load balancer of a Service."""
    found = await find_own(cloud, service)
    return None if found is None else status(found)


async def ensure(cloud: Cloud, service: skydock.Service, targets: list[skydock.Target]) -> skydock.LoadBalancerStatus:
    """Creates or updates the load balancer of a Service."""
    wanted = wanted_for(cloud, service, targets)
    current = await find(cloud, service)
    if current is None:
        # If another host creates it at the same time, this is a conflict, and the retry finds it.
        current = await ask("POST", cloud.config.list(KIND), json=wanted)
    elif not cloud.owns(current["labels"]):
        raise skydock.Invalid(f"the load balancer {current['id']} is another cluster's")
    settled(current)
    if current["ip_families"] != wanted["ip_families"]:
        raise skydock.Invalid("the IP families of a load balancer cannot be changed: create the Service again")
    return status(await update(cloud, current, {field: wanted[field] for field in CHANGEABLE}))


async def update_nodes(cloud: Cloud, service: skydock.Service, targets: list[skydock.Target]) -> None:
    """Sets the targets of the load balancer of a Service, and nothing else."""
    current = await find_own(cloud, service)
    if current is None:
        raise skydock.NotFound(f"no load balancer {name(service)}")
    settled(current)
    await update(cloud, current, {"targets": servers(targets)})


async def ensure_deleted(cloud: Cloud, service: skydock.Service) -> None:
    """Deletes the load balancer of a Service, in whatever state it is."""
    current = await find_own(cloud, service)
    if current is not None:
        deleted(await http.delete(cloud.config.object(KIND, current["id"])))


def name(service: skydock.Service) -> str:
    """Returns the name of the load balancer of a Service."""
    return f"k8s-{service.uid}"


async def find(cloud: Cloud, service: skydock.Service) -> dict[str, Any] | None:
    """Finds a load balancer by name: unlike a complete list, the answer does not lag behind."""
    page = await ask("GET", cloud.config.list(KIND), params={"name": name(service)})
    return next(iter(page["items"]), None)


async def find_own(cloud: Cloud, service: skydock.Service) -> dict[str, Any] | None:
    """Finds a load balancer, unless it is another cluster's."""
    found = await find(cloud, service)
    return found if found is not None and cloud.owns(found["labels"]) else None


def wanted_for(cloud: Cloud, service: skydock.Service, targets: list[skydock.Target]) -> dict[str, Any]:
    """Returns the load balancer that a Service asks for."""
    if service.load_balancer_ip is not None:
        raise skydock.Invalid(f"the address {service.load_balancer_ip} cannot be requested: remove loadBalancerIP")
    local = service.external_traffic_policy is skydock.TrafficPolicy.LOCAL
    return {
        "name": name(service),
        "ip_families": [family.value for family in service.ip_families],
        "listeners": [listener(port) for port in service.ports],
        "targets": servers(targets),
        "allowed_cidrs": service.source_ranges,
        "health_check_port": (service.health_check_node_port or None) if local else None,
        "labels": cloud.labels(service=f"{service.namespace}/{service.name}"),
    }


def listener(port: skydock.ServicePort) -> dict[str, Any]:
    """Returns the listener for a port."""
    if port.transport is skydock.Transport.SCTP:
        raise skydock.Invalid(f"port {port.port}: SCTP is not supported")
    if port.node_port == 0:
        raise skydock.Invalid(f"port {port.port} has no node port: set allocateLoadBalancerNodePorts")
    return {"protocol": port.transport.value, "port": port.port, "target_port": port.node_port}


def servers(targets: list[skydock.Target]) -> list[str]:
    """Returns the IDs of the nodes' servers. Nodes without a provider ID come with a later call; others are another cloud's."""
    ids = [target.provider_id for target in targets if target.provider_id is not None]
    return [server_id(id) for id in ids if id.startswith(SCHEME)]


async def update(cloud: Cloud, current: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Sends the changes that are different from the current state, if there are any."""
    changes = {field: value for field, value in changes.items() if current[field] != value}
    if not changes:
        return current
    updated: dict[str, Any] = await ask("PATCH", cloud.config.object(KIND, current["id"]), json=changes)
    return updated


def settled(current: dict[str, Any]) -> None:
    """Checks that the load balancer is neither being created nor broken."""
    match current["status"]:
        case "active":
            return
        case "pending":
            raise skydock.InProgress(f"the load balancer {current['id']} is being created", retry_after=CREATING)
    raise skydock.Unavailable(f"the load balancer {current['id']} is broken: create the Service again")


def status(current: dict[str, Any]) -> skydock.LoadBalancerStatus:
    """Returns the status of a load balancer."""
    return skydock.LoadBalancerStatus([skydock.Ingress(ip=ip) for ip in current["addresses"]])
