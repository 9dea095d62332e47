# Generated from wit/ by `cargo run -p skydock-bindings`; do not edit.
"""The interface `volumes`."""

from __future__ import annotations

from typing import cast

from componentize_py_types import Result
from wit_world.imports import skydock_provider_storage_0_1_1 as wit_storage
from wit_world.exports import skydock_provider_volumes_0_1_1 as wit_volumes

import skydock as sdk

from ..._plugin import registered
from ..._wire import number, optional, pairs, text
from .. import convert, volume_errors
from ..call import answer
from . import storage


def wit_driver_info(it: sdk.DriverInfo) -> wit_volumes.DriverInfo:
    return wit_volumes.DriverInfo(
        name=text(it.name, "name of the driver"),
        topology_keys=[text(one, "topology key") for one in it.topology_keys],
        access_modes=[storage.wit_access_mode(one) for one in it.access_modes],
        clones=bool(it.clones),
    )


def wit_volume(it: sdk.Volume) -> wit_volumes.Volume:
    return wit_volumes.Volume(
        id=text(it.id, "ID of a volume"),
        size_bytes=number(it.size_bytes, "size bytes", 2**64 - 1),
        topology=[pairs(one, "topology of a volume") for one in it.topology],
        context=pairs(it.context, "context of a volume"),
        nodes=[text(one, "node") for one in it.nodes],
    )


def sdk_new_volume(it: wit_volumes.NewVolume) -> sdk.NewVolume:
    return sdk.NewVolume(
        name=it.name,
        size_bytes=it.size_bytes,
        limit_bytes=it.limit_bytes,
        capabilities=[storage.sdk_volume_capability(one) for one in it.capabilities],
        parameters=dict(it.parameters),
        attributes=dict(it.attributes),
        snapshot=it.snapshot,
        original=it.original,
        requisite=[dict(one) for one in it.requisite],
        preferred=[dict(one) for one in it.preferred],
        claim=None if it.claim is None else storage.sdk_owner(it.claim),
    )


def wit_volume_page(it: sdk.VolumePage) -> wit_volumes.VolumePage:
    return wit_volumes.VolumePage(
        volumes=[wit_volume(one) for one in it.volumes],
        next=optional(it.next, "token of the next page"),
    )


__all__ = ["SkydockProviderVolumes011"]


class SkydockProviderVolumes011:
    """The exported functions."""

    def driver(self) -> wit_volumes.DriverInfo:
        return wit_driver_info(_provider().driver())

    def create_volumes(self, volumes: list[wit_volumes.NewVolume]) -> list[Result[wit_volumes.Volume, wit_storage.StorageError]]:
        return answer(
            lambda: _provider().create_volumes([sdk_new_volume(one) for one in volumes]),
            lambda found: volume_errors.wit_results(found, wit_volume),
        )

    def get_volumes(self, ids: list[str]) -> list[Result[wit_volumes.Volume, wit_storage.StorageError]]:
        return answer(
            lambda: _provider().get_volumes(ids),
            lambda found: volume_errors.wit_results(found, wit_volume),
        )

    def list_volumes(self, page: str | None) -> wit_volumes.VolumePage:
        return answer(
            lambda: _provider().list_volumes(page),
            wit_volume_page,
        )

    def delete_volumes(self, ids: list[str]) -> list[Result[None, wit_storage.StorageError]]:
        return answer(
            lambda: _provider().delete_volumes(ids),
            lambda found: volume_errors.wit_results(found, convert.nothing("id")),
        )


def _provider() -> sdk.Volumes:
    return cast(sdk.Volumes, registered())
