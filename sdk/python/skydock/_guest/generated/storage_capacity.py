# Generated from wit/ by `cargo run -p skydock-bindings`; do not edit.
"""The interface `storage-capacity`."""

from __future__ import annotations

from typing import cast

from componentize_py_types import Result
from wit_world.imports import skydock_provider_storage_0_1_1 as wit_storage
from wit_world.exports import skydock_provider_storage_capacity_0_1_1 as wit_storage_capacity

import skydock as sdk

from ..._plugin import registered
from ..._wire import number
from .. import volume_errors
from ..call import answer
from . import storage


def sdk_capacity_request(it: wit_storage_capacity.CapacityRequest) -> sdk.CapacityRequest:
    return sdk.CapacityRequest(
        capabilities=[storage.sdk_volume_capability(one) for one in it.capabilities],
        parameters=dict(it.parameters),
        topology=None if it.topology is None else dict(it.topology),
    )


def wit_capacity(it: sdk.Capacity) -> wit_storage_capacity.Capacity:
    return wit_storage_capacity.Capacity(
        available_bytes=number(it.available_bytes, "available bytes", 2**64 - 1),
        maximum_bytes=None if it.maximum_bytes is None else number(it.maximum_bytes, "maximum bytes", 2**64 - 1),
        minimum_bytes=None if it.minimum_bytes is None else number(it.minimum_bytes, "minimum bytes", 2**64 - 1),
    )


__all__ = ["SkydockProviderStorageCapacity011"]


class SkydockProviderStorageCapacity011:
    """The exported functions."""

    def get_capacities(self, requests: list[wit_storage_capacity.CapacityRequest]) -> list[Result[wit_storage_capacity.Capacity, wit_storage.StorageError]]:
        return answer(
            lambda: _provider().get_capacities([sdk_capacity_request(one) for one in requests]),
            lambda found: volume_errors.wit_results(found, wit_capacity),
        )


def _provider() -> sdk.StorageCapacity:
    return cast(sdk.StorageCapacity, registered())
