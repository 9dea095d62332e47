"""Write cloud providers for Skydock in Python.

A provider is a class that derives from the capabilities of its cloud:

    @skydock.plugin
    class Metal(skydock.Zones):
        def info(self) -> skydock.PluginInfo:
            return skydock.PluginInfo("metal", "1.0.0")

        async def locate(self, nodes: list[skydock.Node]) -> list[skydock.Zone | skydock.CloudError]:
            return [skydock.Zone(zone=node.labels.get("metal.example/rack")) for node in nodes]
"""

from . import http
from ._errors import (
    CloudError,
    Conflict,
    Denied,
    ImplementedElsewhere,
    Internal,
    InProgress,
    Invalid,
    NotFound,
    RetryLater,
    Throttled,
    Unavailable,
)
from ._host import Host, NotGranted, NotThere, Severity, host
from ._parallel import each
from ._plugin import (
    Instances,
    LoadBalancers,
    Maintenance,
    Overlap,
    Plugin,
    PluginInfo,
    Routes,
    Settings,
    Zones,
    plugin,
)
from ._types import (
    AddressKind,
    Ingress,
    Instance,
    IpFamily,
    IpFamilyPolicy,
    IpMode,
    LoadBalancerStatus,
    NewRoute,
    Node,
    NodeAddress,
    NodeChanges,
    NodeSet,
    PortStatus,
    Presence,
    Route,
    RoutePage,
    Service,
    ServicePort,
    Taint,
    TaintEffect,
    Target,
    TrafficPolicy,
    Transport,
    Zone,
)

__version__ = "0.1.0"

__all__ = [
    "AddressKind",
    "CloudError",
    "Conflict",
    "Denied",
    "Host",
    "ImplementedElsewhere",
    "InProgress",
    "Ingress",
    "Instance",
    "Instances",
    "Internal",
    "Invalid",
    "IpFamily",
    "IpFamilyPolicy",
    "IpMode",
    "LoadBalancerStatus",
    "LoadBalancers",
    "Maintenance",
    "NewRoute",
    "Node",
    "NodeAddress",
    "NodeChanges",
    "NodeSet",
    "NotFound",
    "NotGranted",
    "NotThere",
    "Overlap",
    "Plugin",
    "PluginInfo",
    "PortStatus",
    "Presence",
    "RetryLater",
    "Route",
    "RoutePage",
    "Routes",
    "Service",
    "ServicePort",
    "Settings",
    "Severity",
    "Taint",
    "TaintEffect",
    "Target",
    "Throttled",
    "TrafficPolicy",
    "Transport",
    "Unavailable",
    "Zone",
    "Zones",
    "each",
    "host",
    "http",
    "plugin",
]
