"""Exports `maintenance`."""

from __future__ import annotations

from typing import cast

from .._plugin import Maintenance, registered
from .call import answer


class SkydockProviderMaintenance010:
    """The exported functions."""

    def maintain(self) -> int:
        return max(int(answer(cast(Maintenance, registered()).maintain()) * 1000), 0)
