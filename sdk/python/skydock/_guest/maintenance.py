"""Exports `maintenance`."""

from __future__ import annotations

from typing import cast

from .._plugin import Maintenance, registered
from .._wire import millis
from .call import answer


class SkydockProviderMaintenance010:
    """The exported functions."""

    def maintain(self) -> int:
        return answer(lambda: cast(Maintenance, registered()).maintain(), millis)
