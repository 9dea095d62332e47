"""Requests in a component: with `wasi:http`."""

from __future__ import annotations

import asyncio
from typing import cast
from urllib.parse import urlsplit

from componentize_py_types import Err, Ok
from wit_world.imports import wasi_http_outgoing_handler_0_2_12 as handler
from wit_world.imports import wasi_http_types_0_2_12 as wasi
from wit_world.imports import wasi_io_streams_0_2_12 as streams

from .._errors import CloudError, Internal, Unavailable
from .._failure import failure
from .._wire import valid
from ..http import Request, Response
from .loop import Loop

#: Bytes that are read or written at a time.
CHUNK = 16 << 10

_METHODS = {
    name: getattr(wasi, f"Method_{name.capitalize()}")
    for name in ("GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH")
}


async def send(request: Request, timeout: float) -> Response:
    """Sends a request. If it is canceled, all its handles are dropped."""
    loop = cast(Loop, asyncio.get_running_loop())
    outgoing, body = _outgoing(request)
    try:
        future = handler.handle(outgoing, None)
    except Err as error:
        raise _failure(request, error.value) from None
    with future:
        await _upload(loop, request, body)
        with future.subscribe() as pollable:
            await loop.wait(pollable)
        match future.get():
            case Ok(Ok(response)):
                with response:
                    return await _download(loop, request, response)
            case Ok(Err(code)):
                raise _failure(request, code)
    raise Internal(f"{request.shown()}: the host gave no response")


def _outgoing(request: Request) -> tuple[wasi.OutgoingRequest, wasi.OutgoingBody]:
    parts = urlsplit(request.url)
    fields = [(valid(name.lower()), value.encode()) for name, value in request.headers]
    if request.body or request.method not in ("GET", "HEAD", "DELETE"):
        fields.append(("content-length", str(len(request.body)).encode()))
    method = _METHODS.get(request.method)
    try:
        outgoing = wasi.OutgoingRequest(wasi.Fields.from_list(fields))
        outgoing.set_method(method() if method else wasi.Method_Other(valid(request.method)))
        outgoing.set_scheme(wasi.Scheme_Https() if parts.scheme == "https" else wasi.Scheme_Http())
        outgoing.set_authority(parts.netloc)
        outgoing.set_path_with_query((parts.path or "/") + (f"?{parts.query}" if parts.query else ""))
        return outgoing, outgoing.body()
    except Err:
        raise Internal(f"{request.shown()}: the method, the URL or a header is not valid") from None


async def _upload(loop: Loop, request: Request, body: wasi.OutgoingBody) -> None:
    """Writes the body. If the cloud stops reading, its response says why."""
    if request.body:
        with body.write() as stream:
            rest = memoryview(request.body)
            while rest:
                try:
                    allowed = min(stream.check_write(), CHUNK)
                    if allowed:
                        stream.write(bytes(rest[:allowed]))
                        rest = rest[allowed:]
                        continue
                except Err:
                    break
                with stream.subscribe() as pollable:
                    await loop.wait(pollable)
    try:
        wasi.OutgoingBody.finish(body, None)
    except Err:
        return


async def _download(loop: Loop, request: Request, response: wasi.IncomingResponse) -> Response:
    """Reads the response to its end."""
    with response.headers() as fields:
        headers = [(name.lower(), value.decode("utf-8", "replace")) for name, value in fields.entries()]
    read = bytearray()
    with response.consume() as body, body.stream() as stream, stream.subscribe() as pollable:
        while True:
            try:
                chunk = stream.read(CHUNK)
            except Err as error:
                if isinstance(error.value, streams.StreamError_Closed):
                    return Response(response.status(), headers, bytes(read))
                raise _lost(request, error.value) from None
            if chunk:
                read += chunk
            else:
                await loop.wait(pollable)


def _lost(request: Request, error: streams.StreamError_LastOperationFailed) -> CloudError:
    """Returns the error for a response that ends too early."""
    with error.value as failed:
        code = wasi.http_error_code(failed)
    if code is None:
        return Unavailable(f"{request.shown()}: the answer is incomplete")
    return _failure(request, code)


def _failure(request: Request, code: object) -> CloudError:
    return failure(request.shown(), type(code).__name__.removeprefix("ErrorCode_"), getattr(code, "value", None))
