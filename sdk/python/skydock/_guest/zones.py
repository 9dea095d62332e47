"""Exports `zones`."""

from __future__ import annotations

from typing import cast

from componentize_py_types import Result
from wit_world.exports import skydock_provider_zones_0_1_0 as wit
from wit_world.imports import skydock_provider_types_0_1_0 as types

from .._plugin import Zones, registered
from .._types import Zone
from .._wire import optional
from . import convert
from .call import answer


class SkydockProviderZones010:
    """The exported functions."""

    def locate(self, nodes: list[types.Node]) -> list[Result[wit.Zone, types.CloudError]]:
        zones = cast(Zones, registered())
        return answer(lambda: zones.locate(convert.nodes(nodes)), lambda found: convert.wit_results(found, _zone))


def _zone(it: Zone) -> wit.Zone:
    return wit.Zone(optional(it.zone, "zone"), optional(it.region, "region"))
