# Generated from wit/ by `cargo run -p skydock-bindings`; do not edit.
"""The interface `volume-attributes`."""

from __future__ import annotations

from typing import cast

from componentize_py_types import Result
from wit_world.imports import skydock_provider_storage_0_1_1 as wit_storage
from wit_world.exports import skydock_provider_volume_attributes_0_1_1 as wit_volume_attributes

import skydock as sdk

from ..._plugin import registered
from .. import convert, volume_errors
from ..call import answer


def sdk_modification(it: wit_volume_attributes.Modification) -> sdk.Modification:
    return sdk.Modification(
        volume=it.volume,
        attributes=dict(it.attributes),
    )


__all__ = ["SkydockProviderVolumeAttributes011"]


class SkydockProviderVolumeAttributes011:
    """The exported functions."""

    def modify_volumes(self, modifications: list[wit_volume_attributes.Modification]) -> list[Result[None, wit_storage.StorageError]]:
        return answer(
            lambda: _provider().modify_volumes([sdk_modification(one) for one in modifications]),
            lambda found: volume_errors.wit_results(found, convert.nothing("modification")),
        )


def _provider() -> sdk.VolumeAttributes:
    return cast(sdk.VolumeAttributes, registered())
