"""Exports `instances`."""

from __future__ import annotations

from typing import cast

from componentize_py_types import Result
from wit_world.exports import skydock_provider_instances_0_1_0 as wit
from wit_world.imports import skydock_provider_types_0_1_0 as types

from .._plugin import Instances, registered
from .._types import Instance, Presence
from .._wire import optional, pairs
from . import convert
from .call import answer


class SkydockProviderInstances010:
    """The exported functions."""

    def check(self, nodes: list[types.Node]) -> list[Result[wit.Presence, types.CloudError]]:
        return answer(lambda: _provider().check(convert.nodes(nodes)), lambda found: convert.wit_results(found, _presence))

    def describe(self, nodes: list[types.Node]) -> list[Result[wit.Instance, types.CloudError]]:
        return answer(lambda: _provider().describe(convert.nodes(nodes)), lambda found: convert.wit_results(found, _instance))


def _provider() -> Instances:
    return cast(Instances, registered())


def _presence(it: Presence) -> wit.Presence:
    return wit.Presence[it.name]


def _instance(it: Instance) -> wit.Instance:
    return wit.Instance(
        provider_id=optional(it.provider_id, "provider ID"),
        instance_type=optional(it.instance_type, "instance type"),
        zone=optional(it.zone, "zone"),
        region=optional(it.region, "region"),
        addresses=convert.wit_addresses(it.addresses),
        labels=pairs(it.labels, "label"),
        annotations=pairs(it.annotations, "annotation"),
    )
