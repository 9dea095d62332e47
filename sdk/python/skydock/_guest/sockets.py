"""There are no sockets in a component. A library that opens one gets an error, which says what to use."""

from __future__ import annotations

import socket
from typing import Any, NoReturn


def deny() -> None:
    """Makes sockets and name lookups fail."""
    socket.socket.__init__ = _denied  # type: ignore[method-assign]
    for name in ("getaddrinfo", "gethostbyname", "gethostbyaddr", "getnameinfo"):
        setattr(socket, name, _denied)


def _denied(*_: Any, **__: Any) -> NoReturn:
    raise OSError("sockets are not available in a plugin: send requests with skydock.http")
