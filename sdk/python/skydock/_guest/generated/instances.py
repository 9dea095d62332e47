# Generated from wit/ by `cargo run -p skydock-bindings`; do not edit.
"""The interface `instances`."""

from __future__ import annotations

from typing import cast

from componentize_py_types import Result
from wit_world.imports import skydock_provider_types_0_1_1 as wit_types
from wit_world.exports import skydock_provider_instances_0_1_1 as wit_instances

import skydock as sdk

from ..._plugin import registered
from ..._wire import optional, pairs
from .. import convert
from ..call import answer
from . import types


def wit_presence(it: sdk.Presence) -> wit_instances.Presence:
    return wit_instances.Presence[sdk.Presence(it).name]


def wit_instance(it: sdk.Instance) -> wit_instances.Instance:
    return wit_instances.Instance(
        provider_id=optional(it.provider_id, "provider ID"),
        instance_type=optional(it.instance_type, "instance type"),
        zone=optional(it.zone, "zone"),
        region=optional(it.region, "region"),
        addresses=[types.wit_node_address(one) for one in it.addresses],
        labels=pairs(it.labels, "label"),
        annotations=pairs(it.annotations, "annotation"),
    )


__all__ = ["SkydockProviderInstances011"]


class SkydockProviderInstances011:
    """The exported functions."""

    def check(self, nodes: list[wit_types.Node]) -> list[Result[wit_instances.Presence, wit_types.CloudError]]:
        return answer(
            lambda: _provider().check([types.sdk_node(one) for one in nodes]),
            lambda found: convert.wit_results(found, wit_presence),
        )

    def describe(self, nodes: list[wit_types.Node]) -> list[Result[wit_instances.Instance, wit_types.CloudError]]:
        return answer(
            lambda: _provider().describe([types.sdk_node(one) for one in nodes]),
            lambda found: convert.wit_results(found, wit_instance),
        )


def _provider() -> sdk.Instances:
    return cast(sdk.Instances, registered())
