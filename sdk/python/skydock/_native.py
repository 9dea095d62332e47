"""Requests outside of a component, with the standard library."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

from ._errors import Unavailable


def exchange(
    shown: str, method: str, url: str, sent: list[tuple[str, str]], body: bytes, timeout: float
) -> tuple[int, list[tuple[str, str]], bytes]:
    """Sends a request, which messages name as `shown`, and returns status, headers and body of its response.

    Raises:
        Unavailable: if there is no complete response.
    """
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    connect = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = connect(parts.hostname or "", parts.port, timeout=timeout)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.putrequest(method, target, skip_accept_encoding=True)
        for name, value in sent:
            connection.putheader(name, value)
        if body or method not in ("GET", "HEAD", "DELETE"):
            connection.putheader("content-length", str(len(body)))
        connection.endheaders(body or None)
        answer = connection.getresponse()
        headers = [(name.lower(), value) for name, value in answer.getheaders()]
        return answer.status, headers, answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(f"{shown}: {type(error).__name__}: {error}") from error
    finally:
        connection.close()
