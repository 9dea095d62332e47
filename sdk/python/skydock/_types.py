"""Kubernetes objects and answers, under their Kubernetes names.

Nodes and Services come from the host's cache; a plugin only reads them. Their other fields are in `Host.node_json` and
`Host.service_json`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

__all__ = [
    "AccessMode",
    "AddressKind",
    "Attachment",
    "Capacity",
    "CapacityRequest",
    "DriverInfo",
    "Expansion",
    "Ingress",
    "Instance",
    "IpFamily",
    "IpFamilyPolicy",
    "IpMode",
    "LoadBalancerStatus",
    "Modification",
    "NewAttachment",
    "NewRoute",
    "NewSnapshot",
    "NewVolume",
    "Node",
    "NodeAddress",
    "NodeChanges",
    "NodeSet",
    "Owner",
    "PortStatus",
    "Presence",
    "Route",
    "RoutePage",
    "Service",
    "ServicePort",
    "Snapshot",
    "SnapshotPage",
    "Taint",
    "TaintEffect",
    "Target",
    "TrafficPolicy",
    "Transport",
    "Volume",
    "VolumeCapability",
    "VolumePage",
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


class AccessMode(Enum):
    """On how many nodes a volume is used, and what for (CSI AccessMode)."""

    #: On one node, for reading and writing.
    SINGLE_NODE_WRITER = "single-node-writer"
    #: On one node, for reading.
    SINGLE_NODE_READER_ONLY = "single-node-reader-only"
    #: On many nodes, for reading.
    MULTI_NODE_READER_ONLY = "multi-node-reader-only"
    #: On many nodes, for reading, and on one of them also for writing.
    MULTI_NODE_SINGLE_WRITER = "multi-node-single-writer"
    #: On many nodes, for reading and writing.
    MULTI_NODE_MULTI_WRITER = "multi-node-multi-writer"


@dataclass(frozen=True, slots=True)
class VolumeCapability:
    """How Pods use a volume."""

    mode: AccessMode = AccessMode.SINGLE_NODE_WRITER
    #: Type of the file system; empty for the default of the driver's node part, None if Pods use it as a block device.
    file_system: str | None = ""


@dataclass(slots=True)
class Owner:
    """The object of a user for which something is created."""

    namespace: str
    name: str
    #: `metadata.annotations`; empty if the host does not know them.
    annotations: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class DriverInfo:
    """The CSI driver whose controller part a plugin is."""

    #: A DNS name in lower case, at most 63 bytes. It is in each PersistentVolume and StorageClass.
    name: str
    #: Keys of the topology of volumes, which the node part of the driver returns, too; none if all nodes can reach all volumes.
    topology_keys: list[str] = field(default_factory=list)
    #: How volumes can be used; at least one.
    access_modes: list[AccessMode] = field(default_factory=lambda: [AccessMode.SINGLE_NODE_WRITER])
    #: Whether a volume can be created as a copy of another one.
    clones: bool = False


@dataclass(slots=True)
class Volume:
    """A volume in the cloud."""

    #: The cloud's ID, `volumeHandle` of the PersistentVolume.
    id: str
    size_bytes: int
    #: The parts of the cloud from which it can be reached: keys and values of node labels.
    topology: list[dict[str, str]] = field(default_factory=list)
    #: What the node part of the driver needs to know about it: no secrets, and the same in each answer.
    context: dict[str, str] = field(default_factory=dict)
    #: CSI node IDs of the nodes that it is attached to.
    nodes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class NewVolume:
    """A volume that the cluster needs."""

    #: Unique, at most 128 bytes. It has to be found again in the cloud.
    name: str
    #: Minimum size; 0 leaves it to the plugin.
    size_bytes: int = 0
    #: Maximum size; None if there is none.
    limit_bytes: int | None = None
    #: It will be used in each of these ways, of which there is at least one.
    capabilities: list[VolumeCapability] = field(default_factory=lambda: [VolumeCapability()])
    #: Of the StorageClass.
    parameters: dict[str, str] = field(default_factory=dict)
    #: Of the VolumeAttributesClass. They take precedence.
    attributes: dict[str, str] = field(default_factory=dict)
    #: ID of the snapshot that it begins with the content of.
    snapshot: str | None = None
    #: ID of the volume that it begins as a copy of.
    original: str | None = None
    #: Parts of the cloud, from one of which it must be reachable; empty if any part will do.
    requisite: list[dict[str, str]] = field(default_factory=list)
    #: Some of them, the best first.
    preferred: list[dict[str, str]] = field(default_factory=list)
    #: Its PersistentVolumeClaim; None if the host does not know it.
    claim: Owner | None = None


@dataclass(slots=True)
class VolumePage:
    """One page of volumes, and the token of the next one: None after the last page."""

    volumes: list[Volume] = field(default_factory=list)
    next: str | None = None


@dataclass(slots=True)
class NewAttachment:
    """An attachment that the cluster needs."""

    #: ID of the volume.
    volume: str
    #: CSI node ID: what the node part of the driver answers to NodeGetInfo.
    node: str
    #: How the volume will be used there.
    capability: VolumeCapability = field(default_factory=VolumeCapability)
    #: That of the volume, as it was when the volume was created.
    context: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Attachment:
    """An attachment that the cluster does not need any more."""

    #: ID of the volume.
    volume: str
    #: CSI node ID; None for all nodes that the volume is attached to.
    node: str | None = None


@dataclass(slots=True)
class Expansion:
    """A size that a volume needs."""

    #: ID of the volume.
    volume: str
    #: Minimum size.
    size_bytes: int
    #: Maximum size; None if there is none.
    limit_bytes: int | None = None


@dataclass(slots=True)
class Modification:
    """The properties that a volume needs."""

    #: ID of the volume.
    volume: str
    #: Of the VolumeAttributesClass.
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Snapshot:
    """A snapshot in the cloud."""

    #: The cloud's ID, `snapshotHandle` of the VolumeSnapshotContent.
    id: str
    #: ID of the volume that it is one of, also if that does not exist any more.
    volume: str
    #: Minimum size of a volume that is created from it.
    size_bytes: int
    #: When it was cut, in seconds since 1970.
    creation_timestamp: int
    #: Whether volumes can be created from it.
    ready: bool = True


@dataclass(slots=True)
class NewSnapshot:
    """A snapshot that the cluster needs."""

    #: Unique, at most 128 bytes. It has to be found again in the cloud.
    name: str
    #: ID of the volume.
    volume: str
    #: Of the VolumeSnapshotClass.
    parameters: dict[str, str] = field(default_factory=dict)
    #: Its VolumeSnapshot; None if the host does not know it.
    owner: Owner | None = None


@dataclass(slots=True)
class SnapshotPage:
    """One page of snapshots, and the token of the next one: None after the last page."""

    snapshots: list[Snapshot] = field(default_factory=list)
    next: str | None = None


@dataclass(slots=True)
class CapacityRequest:
    """What to measure."""

    #: How the volumes would be used; empty if it does not matter.
    capabilities: list[VolumeCapability] = field(default_factory=list)
    #: Of the StorageClass.
    parameters: dict[str, str] = field(default_factory=dict)
    #: The part of the cloud; None for all parts together.
    topology: dict[str, str] | None = None


@dataclass(slots=True)
class Capacity:
    """Room for volumes."""

    #: For all further volumes together.
    available_bytes: int
    #: Maximum size of one volume; None if only `available_bytes` limits it.
    maximum_bytes: int | None = None
    #: Minimum size of one volume; None if there is none.
    minimum_bytes: int | None = None
