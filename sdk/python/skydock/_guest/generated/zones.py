# Generated from wit/ by `cargo run -p skydock-bindings`; do not edit.
"""The interface `zones`."""

from __future__ import annotations

from typing import cast

from componentize_py_types import Result
from wit_world.imports import skydock_provider_types_0_1_1 as wit_types
from wit_world.exports import skydock_provider_zones_0_1_1 as wit_zones

import skydock as sdk

from ..._plugin import registered
from ..._wire import optional
from .. import convert
from ..call import answer
from . import types


def wit_zone(it: sdk.Zone) -> wit_zones.Zone:
    return wit_zones.Zone(
        zone=optional(it.zone, "zone"),
        region=optional(it.region, "region"),
    )


__all__ = ["SkydockProviderZones011"]


class SkydockProviderZones011:
    """The exported functions."""

    def locate(self, nodes: list[wit_types.Node]) -> list[Result[wit_zones.Zone, wit_types.CloudError]]:
        return answer(
            lambda: _provider().locate([types.sdk_node(one) for one in nodes]),
            lambda found: convert.wit_results(found, wit_zone),
        )


def _provider() -> sdk.Zones:
    return cast(sdk.Zones, registered())
