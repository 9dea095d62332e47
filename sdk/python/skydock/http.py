"""Requests to the cloud.

They need no token: the host adds it. The operator's egress rules decide what is reachable. Redirects are not followed. Many
requests can be in flight: use `skydock.each` or `asyncio.gather`.
"""

from __future__ import annotations

import asyncio
import json as json_
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from ._said import sentence
from ._wire import parse
from ._errors import (
    CloudError,
    Conflict,
    Denied,
    Internal,
    Invalid,
    NotFound,
    Throttled,
    Unavailable,
)
from ._host import remaining

#: Seconds that a plugin keeps to return its result after its last request.
MARGIN = 1.0
#: Time limit of a request natively, where there is no call.
UNKNOWN = 25.0
#: Delay in seconds after a 429 that does not state one.
THROTTLED = 5.0


@dataclass(slots=True)
class Request:
    """A request."""

    method: str
    #: An absolute URL.
    url: str
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""

    def shown(self) -> str:
        """Returns the request for messages: without its query, which may contain secrets."""
        return f"{self.method} {self.url.partition('?')[0]}"


@dataclass(slots=True)
class Response:
    """A complete response."""

    status: int
    #: Names in lower case, and values, in the order of the response.
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""

    @property
    def ok(self) -> bool:
        """Whether the status is from 200 to 299."""
        return 200 <= self.status < 300

    def header(self, name: str) -> str | None:
        """Returns the first header with this name, ignoring case."""
        return next((value for other, value in self.headers if other.lower() == name.lower()), None)

    def json(self) -> Any:
        """Parses the body.

        Raises:
            Internal: if it is not JSON.
        """
        try:
            return parse(self.body)
        except ValueError as error:
            raise Internal(f"HTTP {self.status}: the answer's JSON is not valid: {error}") from error

    def text(self) -> str:
        """Returns the body as text. Bytes that are not valid UTF-8 are replaced."""
        return self.body.decode("utf-8", "replace")

    def raise_for_status(self) -> Response:
        """Returns the response if it is a success, and raises `error` otherwise."""
        if not self.ok:
            raise self.error()
        return self

    def error(self) -> CloudError:
        """Returns the error that the status stands for, with the cloud's message from the body.

        429, and any status from 400 on with a `Retry-After`: Throttled. 401, 402, 403, 407: Denied. 404, 410: NotFound. 409, 412,
        423: Conflict. 408, 425, from 500 on: Unavailable. Others from 400 on: Invalid. Below 400: Internal. If a status means
        something else for your cloud, check it before you call this.
        """
        message = f"HTTP {self.status}"
        said = sentence(self.header("content-type") or "", self.body)
        if said:
            message += f": {said}"
        after = retry_after(self.header("retry-after"), self.header("date"))
        match self.status:
            case status if status >= 400 and after is not None:
                return Throttled(message, retry_after=after)
            case 429:
                return Throttled(message, retry_after=THROTTLED)
            case 401 | 402 | 403 | 407:
                return Denied(message)
            case 404 | 410:
                return NotFound(message)
            case 409 | 412 | 423:
                return Conflict(message)
            case 408 | 425:
                return Unavailable(message)
            case status if status >= 500:
                return Unavailable(message)
            case status if status >= 400:
                return Invalid(message)
            case status if status >= 300:
                return Internal(f"{message}: redirects are not followed")
        return Internal(f"{message} where an error was expected")


#: Sends a request within a number of seconds.
Transport = Callable[[Request, float], Awaitable[Response]]


async def native(request: Request, timeout: float) -> Response:
    """Sends a request outside of a component: with the standard library, in a thread."""
    from . import _native

    sent = (request.shown(), request.method, request.url, request.headers, request.body)
    return Response(*await asyncio.to_thread(_native.exchange, *sent, timeout))


_transport: Transport = native


def swap_transport(transport: Transport) -> Transport:
    """Sets how requests are sent, and returns how they were. For the SDK itself: in a test, use `skydock.testing.Host`."""
    global _transport
    before, _transport = _transport, transport
    return before


async def request(
    method: str,
    url: str,
    *,
    params: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    json: Any = None,
    body: bytes = b"",
    timeout: float | None = None,
) -> Response:
    """Sends a request, and returns the complete response, whatever its status.

    Args:
        method: for example GET.
        url: an absolute URL with the scheme http or https.
        params: added to the query.
        headers: names and values.
        json: sent as the body, unless it is None, with a content type unless there is one in the headers.
        body: sent as it is.
        timeout: seconds. The request ends before the call does in any case.

    Raises:
        Unavailable: if there is no complete response in time.
        Denied: if the egress rules do not allow the request.
        Internal: if the request is wrong, or something exceeds a limit.
    """
    if params:
        url += ("&" if "?" in url else "?") + urlencode(params)
    check(url)
    fields = list(headers.items() if isinstance(headers, Mapping) else headers)
    if json is not None:
        body = json_.dumps(json, separators=(",", ":")).encode()
        if not any(name.lower() == "content-type" for name, _ in fields):
            fields.append(("content-type", "application/json"))
    return await send(Request(method, url, fields, body), timeout=timeout)


async def send(request: Request, *, timeout: float | None = None) -> Response:
    """Sends a request. See `request`."""
    check(request.url)
    left = limit(timeout, remaining())
    if left <= 0:
        raise Unavailable(f"{request.shown()}: the call has no time left for a request")
    try:
        async with asyncio.timeout(left) as ended:
            return await _transport(request, left)
    except TimeoutError as error:
        if ended.expired():
            raise Unavailable(f"{request.shown()}: no complete answer within {left:.0f} s") from error
        raise


async def get(url: str, **options: Any) -> Response:
    """Sends a GET. The options are those of `request`, as in the following functions."""
    return await request("GET", url, **options)


async def post(url: str, **options: Any) -> Response:
    """Sends a POST."""
    return await request("POST", url, **options)


async def put(url: str, **options: Any) -> Response:
    """Sends a PUT."""
    return await request("PUT", url, **options)


async def patch(url: str, **options: Any) -> Response:
    """Sends a PATCH."""
    return await request("PATCH", url, **options)


async def delete(url: str, **options: Any) -> Response:
    """Sends a DELETE."""
    return await request("DELETE", url, **options)


def segment(text: str) -> str:
    """Returns text as one segment of a path, percent-encoded.

    Raises:
        Invalid: if no segment can stand for it.
    """
    if text in ("", ".", ".."):
        raise Invalid(f"{text!r} cannot be part of a URL")
    return quote(text, safe="")


def check(url: str) -> None:
    """Checks a URL.

    Raises:
        Internal: if it cannot be requested.
    """
    shown = url.partition("?")[0]
    if not (url.isascii() and url.isprintable()) or " " in url:
        raise Internal(f"{shown!r} has a character that must be percent-encoded")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Internal(f"{shown!r} is not a valid URL: {error}") from error
    if parts.scheme not in ("http", "https"):
        raise Internal(f"{shown!r} is not absolute, as in https://cloud.example/path")
    if not parts.hostname or port == 0:
        raise Internal(f"{shown!r} has no valid host and port")
    if "@" in parts.netloc:
        raise Internal("a URL contains a user; Skydock adds credentials")


def limit(asked: float | None, left: float | None) -> float:
    """Returns the time limit of a request that is sent now, given the remaining time of the current call."""
    if left is None:
        return UNKNOWN if asked is None else asked
    most = left - MARGIN
    return most if asked is None else min(asked, most)


def retry_after(value: str | None, date: str | None) -> float | None:
    """Parses `Retry-After` (RFC 9110, 10.2.3). A date is relative to that of the response, so that clocks do not need to agree."""
    value = (value or "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    until = _seconds(value)
    if until is None:
        return None
    begin = _seconds(date or "")
    return max(until - (time.time() if begin is None else begin), 0.0)


def _seconds(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp()
    except (OverflowError, TypeError, ValueError):
        return None
