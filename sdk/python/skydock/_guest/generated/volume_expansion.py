# Generated from wit/ by `cargo run -p skydock-bindings`; do not edit.
"""The interface `volume-expansion`."""

from __future__ import annotations

from typing import cast

from componentize_py_types import Result
from wit_world.imports import skydock_provider_storage_0_1_1 as wit_storage
from wit_world.exports import skydock_provider_volume_expansion_0_1_1 as wit_volume_expansion

import skydock as sdk

from ..._plugin import registered
from ..._wire import number
from .. import volume_errors
from ..call import answer


def sdk_expansion(it: wit_volume_expansion.Expansion) -> sdk.Expansion:
    return sdk.Expansion(
        volume=it.volume,
        size_bytes=it.size_bytes,
        limit_bytes=it.limit_bytes,
    )


__all__ = ["SkydockProviderVolumeExpansion011"]


class SkydockProviderVolumeExpansion011:
    """The exported functions."""

    def expand_volumes(self, expansions: list[wit_volume_expansion.Expansion]) -> list[Result[int, wit_storage.StorageError]]:
        return answer(
            lambda: _provider().expand_volumes([sdk_expansion(one) for one in expansions]),
            lambda found: volume_errors.wit_results(found, lambda found: number(found, "size of a volume", 2**64 - 1)),
        )


def _provider() -> sdk.VolumeExpansion:
    return cast(sdk.VolumeExpansion, registered())
