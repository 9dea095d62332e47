"""Exports `instances`."""

from __future__ import annotations

from typing import cast

from componentize_py_types import Result
from wit_world.exports import skydock_provider_instances_0_1_0 as wit
from wit_world.imports import skydock_provider_types_0_1_0 as types

from .._plugin import Instances, registered
from .._types import Instance, Presence
from . import convert
from .call import answer


class SkydockProviderInstances010:
    """The exported functions."""

    def check(self, nodes: list[types.Node]) -> list[Result[wit.Presence, types.CloudError]]:
        return answer(_provider().check(convert.nodes(nodes)), lambda found: convert.wit_results(found, _presence))

    def describe(self, nodes: list[types.Node]) -> list[Result[wit.Instance, types.CloudError]]:
        return answer(_provider().describe(convert.nodes(nodes)), lambda found: convert.wit_results(found, _instance))


def _provider() -> Instances:
    return cast(Instances, registered())


def _presence(it: Presence) -> wit.Presence:
    return wit.Presence[it.name]


def _instance(it: Instance) -> wit.Instance:
    return wit.Instance(
        provider_id=it.provider_id,
        instance_type=it.instance_type,
        zone=it.zone,
        region=it.region,
        addresses=convert.wit_addresses(it.addresses),
        labels=list(it.labels.items()),
        annotations=list(it.annotations.items()),
    )
