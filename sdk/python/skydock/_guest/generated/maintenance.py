# Generated from wit/ by `cargo run -p skydock-bindings`; do not edit.
"""The interface `maintenance`."""

from __future__ import annotations

from typing import cast

import skydock as sdk

from ..._plugin import registered
from ..._wire import millis
from ..call import answer


__all__ = ["SkydockProviderMaintenance011"]


class SkydockProviderMaintenance011:
    """The exported functions."""

    def maintain(self) -> int:
        return answer(
            lambda: _provider().maintain(),
            millis,
        )


def _provider() -> sdk.Maintenance:
    return cast(sdk.Maintenance, registered())
