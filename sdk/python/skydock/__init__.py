"""Write cloud providers for Skydock in Python.

A provider is a class that derives from the capabilities of its cloud:

    @skydock.plugin
    class Metal(skydock.Zones):
        def info(self) -> skydock.PluginInfo:
            return skydock.PluginInfo("metal", "1.0.0")

        async def locate(self, nodes: list[skydock.Node]) -> list[skydock.Zone | skydock.CloudError]:
            return [skydock.Zone(zone=node.labels.get("metal.example/rack")) for node in nodes]
"""

from . import _plugin, _types, http
from ._errors import (
    CloudError,
    Conflict,
    Denied,
    Exhausted,
    Exists,
    ImplementedElsewhere,
    Internal,
    InProgress,
    InUse,
    Invalid,
    NotFound,
    OutOfRange,
    RetryLater,
    StorageError,
    Throttled,
    Unavailable,
)
from ._host import Host, NotGranted, NotThere, Severity, host
from ._parallel import each
from ._plugin import *
from ._types import *

__version__ = "0.1.0"

__all__ = [
    "CloudError",
    "Conflict",
    "Denied",
    "Exhausted",
    "Exists",
    "Host",
    "ImplementedElsewhere",
    "InProgress",
    "InUse",
    "Internal",
    "Invalid",
    "NotFound",
    "NotGranted",
    "NotThere",
    "OutOfRange",
    "RetryLater",
    "Severity",
    "StorageError",
    "Throttled",
    "Unavailable",
    "each",
    "host",
    "http",
]
__all__ += _plugin.__all__
__all__ += _types.__all__
