"""Requests outside of a component, with the standard library."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

from ._errors import Unavailable
from .http import Request, Response


def exchange(request: Request, timeout: float) -> Response:
    """Sends a request, and waits for the response.

    Raises:
        Unavailable: if there is no complete response.
    """
    parts = urlsplit(request.url)
    secure = parts.scheme == "https"
    connect = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = connect(parts.hostname or "", parts.port, timeout=timeout)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.putrequest(request.method, target, skip_accept_encoding=True)
        for name, value in request.headers:
            connection.putheader(name, value)
        if request.body or request.method not in ("GET", "HEAD", "DELETE"):
            connection.putheader("content-length", str(len(request.body)))
        connection.endheaders(request.body or None)
        answer = connection.getresponse()
        headers = [(name.lower(), value) for name, value in answer.getheaders()]
        return Response(answer.status, headers, answer.read())
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(f"{request.shown()}: {type(error).__name__}: {error}") from error
    finally:
        connection.close()
