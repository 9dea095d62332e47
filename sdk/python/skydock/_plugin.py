"""What a provider implements: a class that derives from the capabilities of its cloud, with the decorator `plugin`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from ._errors import CloudError
from ._types import (
    Attachment,
    Capacity,
    CapacityRequest,
    DriverInfo,
    Expansion,
    Instance,
    LoadBalancerStatus,
    Modification,
    NewAttachment,
    NewRoute,
    NewSnapshot,
    NewVolume,
    Node,
    NodeSet,
    Presence,
    Route,
    RoutePage,
    Service,
    Snapshot,
    SnapshotPage,
    Volume,
    VolumePage,
    Zone,
)

__all__ = [
    "Attachments",
    "Instances",
    "LoadBalancers",
    "Maintenance",
    "Overlap",
    "Plugin",
    "PluginInfo",
    "Routes",
    "Settings",
    "Snapshots",
    "StorageCapacity",
    "VolumeAttributes",
    "VolumeExpansion",
    "Volumes",
    "Zones",
    "plugin",
]


@dataclass(slots=True)
class Settings:
    """The cluster and the operator's configuration."""

    #: `--cluster-name`: distinguishes this cluster's resources from those of other clusters in the same account.
    cluster_name: str = "kubernetes"
    #: `--cluster-cidr`: the ranges of Pod addresses, one for each IP family.
    cluster_cidrs: list[str] = field(default_factory=list)
    #: Contents of the file of `--cloud-config`; None if none is set.
    cloud_config: str | None = None
    #: Path of that file, for messages only.
    cloud_config_path: str | None = None
    #: The operator's options for this plugin, without secrets.
    options: dict[str, str] = field(default_factory=dict)


class Overlap(Enum):
    """Which calls may run at the same time."""

    #: Any calls, each in its own instance.
    ANY = "any"
    #: One call at a time for each capability, all in the same instance of that capability.
    PER_INTERFACE = "per-interface"
    #: One call at a time, all in the same instance.
    NONE = "none"


@dataclass(slots=True)
class PluginInfo:
    """Identity of a plugin and its requests to the host."""

    #: Name of the provider: lower-case letters, digits and dashes, at most 63.
    name: str
    #: Version of the plugin, for people; at most 64 bytes.
    version: str
    #: Prefixes of the provider IDs that this plugin owns, each `SCHEME://` or longer; at least one with `Instances`.
    provider_id_prefixes: Sequence[str] = ()
    #: Hosts that the plugin wants to reach, as `scheme://host:port`. The operator's rules decide.
    wanted_hosts: Sequence[str] = ()
    #: Maximum number of nodes, of routes, and of elements of a call about volumes; 0 leaves it to the host (100).
    max_batch: int = 0
    #: Capabilities that this plugin does not support with its configuration, for example `routes`.
    unused: Sequence[str] = ()
    overlap: Overlap = Overlap.ANY
    #: Prefixes of the keys of annotations that this plugin may write, each a domain that ends in `/` or continues.
    annotation_prefixes: Sequence[str] = ()


class Plugin(ABC):
    """Base class of all capabilities."""

    def configure(self, settings: Settings) -> None:
        """Takes and checks the configuration, once, before anything else. It cannot call the cloud.

        Raise `Invalid` with file, line and reason, but never with a value of the configuration.
        """

    @abstractmethod
    def info(self) -> PluginInfo:
        """Returns the identity of the plugin. Called after `configure`."""


class Instances(Plugin):
    """The instances behind the nodes.

    Both functions return one element for each node, in the same order; `each` helps. An element that fails is an error in the
    list. Raise an error only if the call fails as a whole.
    """

    @abstractmethod
    async def check(self, nodes: list[Node]) -> Sequence[Presence | CloudError]:
        """Checks the instances of nodes that are not ready."""

    @abstractmethod
    async def describe(self, nodes: list[Node]) -> Sequence[Instance | CloudError]:
        """Describes the instances of nodes: look for them by provider ID first, then by name, labels or addresses."""


class LoadBalancers(Plugin):
    """Load balancers for Services.

    Every function may be called again with the same arguments, also after an answer was lost, and must then lead to the same
    result. None waits for the cloud to finish: long operations raise `InProgress`.
    """

    @abstractmethod
    async def get(self, service: Service) -> LoadBalancerStatus | None:
        """Returns the load balancer of this Service, or None if it does not exist. Changes nothing."""

    @abstractmethod
    async def ensure(self, service: Service, nodes: NodeSet) -> LoadBalancerStatus:
        """Creates or updates the load balancer, with these nodes as its targets, and returns its complete status."""

    @abstractmethod
    async def update_nodes(self, service: Service, nodes: NodeSet) -> None:
        """Sets the targets of the load balancer, and changes nothing else. Raises `NotFound` if it does not exist."""

    @abstractmethod
    async def ensure_deleted(self, service: Service) -> None:
        """Deletes the load balancer and everything that was created for it. Succeeds if nothing exists."""


class Routes(Plugin):
    """Routes to the Pods of each node."""

    @abstractmethod
    async def list_routes(self, page: str | None) -> RoutePage:
        """Lists all routes of this cluster, page by page: the first page has no token."""

    @abstractmethod
    async def create_routes(self, routes: list[NewRoute]) -> Sequence[CloudError | None]:
        """Creates routes and returns one element for each, None if it exists."""

    @abstractmethod
    async def delete_routes(self, routes: list[Route]) -> Sequence[CloudError | None]:
        """Deletes routes and returns one element for each, None if it does not exist."""


class Zones(Plugin):
    """Locations of nodes, for plugins that know them independently of `Instances`."""

    @abstractmethod
    async def locate(self, nodes: list[Node]) -> Sequence[Zone | CloudError]:
        """Returns one element for each node, in the same order."""


class Maintenance(Plugin):
    """Periodic work that no object asks for."""

    @abstractmethod
    async def maintain(self) -> float:
        """Does some of the work, and returns the seconds until the next call."""


class Volumes(Plugin):
    """Volumes: the controller part of a CSI driver, together with `Attachments`, `VolumeExpansion`, `VolumeAttributes`, `Snapshots`
    and `StorageCapacity`, which need it.

    Every function of these may be called again with the same arguments, and must then lead to the same result. None waits for the
    cloud to finish: an element is `InProgress`, and is asked about again. They return one element for each of the list, in the same
    order; `each` helps. After `Exists`, `Exhausted`, `OutOfRange`, `InUse`, `NotFound` and `Invalid`, Kubernetes forgets what it
    asked for: an element that creates something must only be one of these if nothing of it is left in the cloud. What belongs to
    another cluster is never listed or changed.
    """

    @abstractmethod
    def driver(self) -> DriverInfo:
        """Returns the CSI driver whose controller part the plugin is. Called after `info`. It cannot call the cloud."""

    @abstractmethod
    async def create_volumes(self, volumes: list[NewVolume]) -> Sequence[Volume | CloudError]:
        """Creates volumes. An element succeeds as soon as its volume can be attached.

        There is never a second volume with the same name: one that is as requested is returned, and another one is `Exists`.
        """

    @abstractmethod
    async def get_volumes(self, ids: list[str]) -> Sequence[Volume | CloudError]:
        """Returns volumes by their IDs."""

    @abstractmethod
    async def list_volumes(self, page: str | None) -> VolumePage:
        """Lists all volumes of this cluster that this driver has created, page by page: the first page has no token."""

    @abstractmethod
    async def delete_volumes(self, ids: list[str]) -> Sequence[CloudError | None]:
        """Deletes volumes by their IDs: None when it does not exist. One that is attached is never deleted, but is `InUse`."""


class Attachments(Plugin):
    """Attachments of volumes to the instances of nodes."""

    @abstractmethod
    async def attach_volumes(self, attachments: list[NewAttachment]) -> Sequence[dict[str, str] | CloudError]:
        """Attaches volumes. An element is what the node part of the driver needs to find the device, when the instance has it."""

    @abstractmethod
    async def detach_volumes(self, attachments: list[Attachment]) -> Sequence[CloudError | None]:
        """Detaches volumes: None when the instance does not have the device. Other attachments of the volume must stay."""


class VolumeExpansion(Plugin):
    """Larger volumes."""

    @abstractmethod
    async def expand_volumes(self, expansions: list[Expansion]) -> Sequence[int | CloudError]:
        """Expands volumes, and returns their sizes. Volumes never shrink."""


class VolumeAttributes(Plugin):
    """Properties of existing volumes."""

    @abstractmethod
    async def modify_volumes(self, modifications: list[Modification]) -> Sequence[CloudError | None]:
        """Modifies volumes. An unknown property must change nothing: the error is `Invalid`."""


class Snapshots(Plugin):
    """Snapshots of volumes, and volumes that are created from them."""

    @abstractmethod
    async def create_snapshots(self, snapshots: list[NewSnapshot]) -> Sequence[Snapshot | CloudError]:
        """Creates snapshots. An element succeeds as soon as it is cut. There is never a second one with the same name."""

    @abstractmethod
    async def get_snapshots(self, ids: list[str]) -> Sequence[Snapshot | CloudError]:
        """Returns snapshots by their IDs."""

    @abstractmethod
    async def list_snapshots(self, page: str | None) -> SnapshotPage:
        """Lists all snapshots of this cluster that this driver has created, page by page."""

    @abstractmethod
    async def delete_snapshots(self, ids: list[str]) -> Sequence[CloudError | None]:
        """Deletes snapshots by their IDs: None when it does not exist."""


class StorageCapacity(Plugin):
    """How much room there is for volumes."""

    @abstractmethod
    async def get_capacities(self, requests: list[CapacityRequest]) -> Sequence[Capacity | CloudError]:
        """Measures capacities."""


#: The capabilities, by the names of their interfaces.
CAPABILITIES: dict[str, type] = {
    "instances": Instances,
    "load-balancers": LoadBalancers,
    "routes": Routes,
    "zones": Zones,
    "maintenance": Maintenance,
    "volumes": Volumes,
    "attachments": Attachments,
    "volume-expansion": VolumeExpansion,
    "volume-attributes": VolumeAttributes,
    "snapshots": Snapshots,
    "storage-capacity": StorageCapacity,
}

P = TypeVar("P", bound=Plugin)

_registered: Plugin | None = None


def plugin(provider: type[P]) -> type[P]:
    """Makes a class the plugin, which exports the capabilities that the class derives from. It is created without arguments."""
    global _registered
    _registered = provider()
    return provider


def registered() -> Plugin:
    """Returns the plugin.

    Raises:
        RuntimeError: if no class has the decorator `plugin`.
    """
    if _registered is None:
        raise RuntimeError("no plugin: the module of the project has no class with the decorator @skydock.plugin")
    return _registered


def capabilities(of: Plugin) -> list[str]:
    """Returns the capabilities of a plugin, by the names of their interfaces."""
    return [name for name, base in CAPABILITIES.items() if isinstance(of, base)]
