"""Kubernetes objects and answers, under their Kubernetes names.

Nodes and Services come from the host's cache; a plugin only reads them. Their other fields are in `Host.node_json` and
`Host.service_json`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

__all__ = [
    "AddressKind",
    "Ingress",
    "Instance",
    "IpFamily",
    "IpFamilyPolicy",
    "IpMode",
    "LoadBalancerStatus",
    "NewRoute",
    "Node",
    "NodeAddress",
    "NodeChanges",
    "NodeSet",
    "PortStatus",
    "Presence",
    "Route",
    "RoutePage",
    "Service",
    "ServicePort",
    "Taint",
    "TaintEffect",
    "Target",
    "TrafficPolicy",
    "Transport",
    "Zone",
]


class AddressKind(Enum):
    """Kind of a node address (core/v1 NodeAddressType)."""

    HOSTNAME = "hostname"
    INTERNAL_IP = "internal-ip"
    EXTERNAL_IP = "external-ip"
    INTERNAL_DNS = "internal-dns"
    EXTERNAL_DNS = "external-dns"


@dataclass(frozen=True, slots=True)
class NodeAddress:
    """One address of a node: an IP address for the two IP kinds, otherwise a DNS name."""

    kind: AddressKind
    address: str


class TaintEffect(Enum):
    """Effect of a taint on Pods that do not tolerate it."""

    NO_SCHEDULE = "no-schedule"
    PREFER_NO_SCHEDULE = "prefer-no-schedule"
    NO_EXECUTE = "no-execute"


@dataclass(frozen=True, slots=True)
class Taint:
    """One taint of a node. The value is empty if it has none."""

    key: str
    value: str
    effect: TaintEffect


@dataclass(slots=True)
class Node:
    """A Kubernetes Node."""

    name: str
    uid: str = ""
    #: `spec.providerID`, None until the node is initialized (or preset by the kubelet).
    provider_id: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    taints: list[Taint] = field(default_factory=list)
    addresses: list[NodeAddress] = field(default_factory=list)
    #: `spec.podCIDRs`, one for each IP family.
    pod_cidrs: list[str] = field(default_factory=list)
    #: Whether condition Ready is True.
    ready: bool = False
    unschedulable: bool = False
    system_uuid: str = ""
    machine_id: str = ""
    architecture: str = ""
    operating_system: str = ""
    os_image: str = ""
    #: Seconds since 1970.
    creation_timestamp: int = 0


class Transport(Enum):
    """Transport protocol of a port."""

    TCP = "tcp"
    UDP = "udp"
    SCTP = "sctp"


@dataclass(slots=True)
class ServicePort:
    """One port of a Service."""

    port: int
    #: Empty for the only port of a Service.
    name: str = ""
    transport: Transport = Transport.TCP
    #: `appProtocol`, for example `https` or `kubernetes.io/h2c`.
    app_protocol: str | None = None
    #: Port of the Pods: a number in text, or a port's name.
    target_port: str = ""
    #: Port on every node; 0 if none is allocated.
    node_port: int = 0


class TrafficPolicy(Enum):
    """Which Pods receive traffic from outside or from inside the cluster."""

    CLUSTER = "cluster"
    LOCAL = "local"


class IpFamily(Enum):
    """IP family of an address."""

    IPV4 = "ipv4"
    IPV6 = "ipv6"


class IpFamilyPolicy(Enum):
    """Number of IP families that a Service requires."""

    SINGLE_STACK = "single-stack"
    PREFER_DUAL_STACK = "prefer-dual-stack"
    REQUIRE_DUAL_STACK = "require-dual-stack"


class IpMode(Enum):
    """How traffic to a load balancer's address is handled inside the cluster."""

    VIP = "vip"
    PROXY = "proxy"


@dataclass(slots=True)
class PortStatus:
    """State of one port of an ingress point. The error is a CamelCase reason if the port does not work."""

    port: int
    transport: Transport = Transport.TCP
    error: str | None = None


@dataclass(slots=True)
class Ingress:
    """One point at which a load balancer receives traffic: an IP address or a DNS name."""

    ip: str | None = None
    hostname: str | None = None
    #: Only meaningful with `ip`; if None, the API server's default (`vip`) applies.
    ip_mode: IpMode | None = None
    #: One entry for each port of the Service, or none.
    ports: list[PortStatus] = field(default_factory=list)


@dataclass(slots=True)
class LoadBalancerStatus:
    """The complete `status.loadBalancer`. Empty means that the load balancer exists and does not have an address yet."""

    ingress: list[Ingress] = field(default_factory=list)


@dataclass(slots=True)
class Service:
    """A Kubernetes Service of type LoadBalancer."""

    namespace: str
    name: str
    #: Use it in the names of cloud resources, because a name may be used again for another Service.
    uid: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    ports: list[ServicePort] = field(default_factory=list)
    #: `spec.loadBalancerIP`: the address that the user requests.
    load_balancer_ip: str | None = None
    load_balancer_class: str | None = None
    #: CIDRs of the clients that are allowed; empty means all.
    source_ranges: list[str] = field(default_factory=list)
    external_traffic_policy: TrafficPolicy = TrafficPolicy.CLUSTER
    internal_traffic_policy: TrafficPolicy = TrafficPolicy.CLUSTER
    #: Port on which nodes answer `/healthz` for local traffic; 0 if there is none.
    health_check_node_port: int = 0
    #: Seconds for which a client keeps its Pod under session affinity ClientIP; None without affinity.
    client_ip_affinity_seconds: int | None = None
    #: The first is the primary one.
    ip_families: list[IpFamily] = field(default_factory=lambda: [IpFamily.IPV4])
    ip_family_policy: IpFamilyPolicy = IpFamilyPolicy.SINGLE_STACK
    allocate_node_ports: bool = True
    publish_not_ready_addresses: bool = False
    cluster_ips: list[str] = field(default_factory=list)
    external_ips: list[str] = field(default_factory=list)
    selector: dict[str, str] = field(default_factory=dict)
    #: The current `status.loadBalancer`.
    status: LoadBalancerStatus = field(default_factory=LoadBalancerStatus)
    #: Whether `metadata.deletionTimestamp` is set.
    deleting: bool = False


@dataclass(slots=True)
class Target:
    """The fields of a node that most clouds need to identify its instance."""

    name: str
    provider_id: str | None = None
    zone: str | None = None
    addresses: list[NodeAddress] = field(default_factory=list)


@dataclass(slots=True)
class NodeChanges:
    """Difference from an earlier set of nodes: a node that has changed is in both lists."""

    added: list[Target] = field(default_factory=list)
    removed: list[Target] = field(default_factory=list)


class NodeSet(Protocol):
    """Nodes that the host lends for one call. It must not be used after it."""

    def __len__(self) -> int:
        """Returns the number of nodes."""

    def targets(self) -> list[Target]:
        """Returns the most important fields of all nodes, at a tenth of the cost of `nodes`, or less if they were lent before."""

    def nodes(self) -> list[Node]:
        """Returns all nodes."""

    def changes(self) -> NodeChanges | None:
        """Returns the difference from the last successful call for the same Service. None if the host does not know it."""


class Presence(Enum):
    """State of the instance behind a node."""

    #: It runs, or starts, or the cloud is not sure: the host does nothing.
    RUNNING = "running"
    #: It exists and is stopped.
    STOPPED = "stopped"
    #: The cloud is certain that it does not exist: **the host deletes the node**. Never return it as a guess, or after a query
    #: that failed or returned nothing.
    ABSENT = "absent"


@dataclass(slots=True)
class Instance:
    """What a node needs to know about its instance. None and empty mean: not known, keep what the node has."""

    #: Used if the node has none; it must have one of the plugin's prefixes.
    provider_id: str | None = None
    instance_type: str | None = None
    zone: str | None = None
    region: str | None = None
    addresses: list[NodeAddress] = field(default_factory=list)
    #: Additional labels of the node, which the host keeps up to date; at most 64.
    labels: dict[str, str] = field(default_factory=dict)
    #: Annotations of the node, with keys that have one of the plugin's prefixes; at most 64.
    annotations: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Zone:
    """Location of a node."""

    zone: str | None = None
    region: str | None = None


@dataclass(slots=True)
class Route:
    """A route in the cloud."""

    #: The cloud's own name or ID of the route; the host passes it back to delete the route.
    name: str
    destination_cidr: str
    #: Name of the node that the route leads to; None if the cloud does not know.
    target_node: str | None = None
    #: Addresses of the node that the route was created with; None if the cloud does not know.
    target_addresses: list[NodeAddress] | None = None
    #: Whether the route leads nowhere because its instance does not exist.
    blackhole: bool = False


@dataclass(slots=True)
class NewRoute:
    """A route that the cluster needs."""

    #: `metadata.uid` of the node; the routes of both IP families of a node share it.
    name_hint: str
    target_node: str
    destination_cidr: str
    target_provider_id: str | None = None
    target_addresses: list[NodeAddress] = field(default_factory=list)


@dataclass(slots=True)
class RoutePage:
    """One page of routes, and the token of the next one: None after the last page."""

    routes: list[Route] = field(default_factory=list)
    next: str | None = None
