"""Exports `zones`."""

from __future__ import annotations

from typing import cast

from componentize_py_types import Result
from wit_world.exports import skydock_provider_zones_0_1_0 as wit
from wit_world.imports import skydock_provider_types_0_1_0 as types

from .._errors import CloudError
from .._plugin import Zones, registered
from . import convert
from .call import answer


class SkydockProviderZones010:
    """The exported functions."""

    def locate(self, nodes: list[types.Node]) -> list[Result[wit.Zone, types.CloudError]]:
        found = answer(cast(Zones, registered()).locate(convert.nodes(nodes)))
        return [convert.wit_result(it if isinstance(it, CloudError) else wit.Zone(it.zone, it.region)) for it in found]
