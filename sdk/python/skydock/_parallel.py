"""Work on many elements at the same time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from . import _errors as errors
from ._errors import CloudError, InProgress
from ._host import remaining

In = TypeVar("In")
Out = TypeVar("Out")

#: Seconds that a call keeps to return its answer.
MARGIN = 0.5

_log = logging.getLogger(__name__)


async def each(
    elements: Iterable[In], function: Callable[[In], Awaitable[Out]], *, parallel: int = 16
) -> list[Out | CloudError]:
    """Awaits a function for every element, at most `parallel` at a time. Returns results or errors, in the same order.

    An element that fails does not affect the others. Shortly before the host would end the call, elements that are not finished
    are cancelled, and become `InProgress`.
    """
    slots = asyncio.Semaphore(max(parallel, 1))

    async def one(element: In) -> Out:
        async with slots:
            return await function(element)

    tasks: list[asyncio.Future[Out]] = [asyncio.ensure_future(one(element)) for element in elements]
    if not tasks:
        return []
    left = remaining()
    try:
        await asyncio.wait(tasks, timeout=None if left is None else max(left - 2 * MARGIN, 0))
    finally:
        late = [task for task in tasks if not task.done()]
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
    results: list[Out | CloudError] = []
    for task in tasks:
        if task.cancelled():
            results.append(still_waiting())
            continue
        error = task.exception()
        results.append(task.result() if error is None else told(error))
    return results


def told(error: BaseException) -> CloudError:
    """Returns the error that an exception stands for. One that the provider did not raise on purpose is logged."""
    known = errors.of(error)
    if known is not error and not _is_meant(error):
        _log.error("the provider raised an exception", exc_info=error)
    return known


def _is_meant(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_is_meant(part) for part in error.exceptions)
    return isinstance(error, CloudError)


def still_waiting() -> InProgress:
    """Returns the error of work that was ended because the call has no time left."""
    return InProgress("the provider is still waiting for the cloud", retry_after=5)


async def limited(work: Awaitable[Out]) -> Out:
    """Awaits the work of a call, which is cancelled shortly before the host would end the call.

    Raises:
        InProgress: if it was cancelled.
        CloudError: if it failed.
    """
    left = remaining()
    try:
        async with asyncio.timeout(None if left is None else max(left - MARGIN, 0)) as limit:
            return await work
    except Exception as error:
        if isinstance(error, TimeoutError) and limit.expired():
            raise still_waiting() from None
        known = told(error)
        if known is error:
            raise
        raise known from error
