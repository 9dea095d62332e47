"""Exports `maintenance`."""

from __future__ import annotations

from typing import cast

from .._plugin import Maintenance, registered
from .call import answer


class SkydockProviderMaintenance010:
    """The exported functions."""

    def maintain(self) -> int:
        return answer(cast(Maintenance, registered()).maintain(), lambda seconds: max(int(seconds * 1000), 0))
