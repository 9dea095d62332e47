"""Exports `plugin`, which every component does, and prepares the interpreter for its calls."""

from __future__ import annotations

from .. import http
from .._host import install
from . import log, modules, sockets
from .generated.plugin import SkydockProviderPlugin011
from .host import WitHost
from .http import send

install(WitHost())
http.swap_transport(send)
log.install()
sockets.deny()
__all__ = ["SkydockProviderPlugin011", "modules"]
