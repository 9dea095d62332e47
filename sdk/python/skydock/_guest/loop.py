"""An event loop of asyncio that waits with `wasi:io/poll`: timers are those of `wasi:clocks`."""

from __future__ import annotations

import asyncio
from asyncio import base_events
from collections.abc import Coroutine
from typing import Any, TypeVar

from wit_world.imports import wasi_clocks_monotonic_clock_0_2_12 as clock
from wit_world.imports import wasi_io_poll_0_2_12 as wasi_poll

T = TypeVar("T")

#: Seconds after which a loop without timers looks again. It only guards against waiting for nothing.
IDLE = 1.0


class Loop(base_events.BaseEventLoop):
    """A loop for one call. `BaseEventLoop` calls `select` and `_process_events`, as it does with sockets."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = self
        self._waiting: dict[asyncio.Future[None], wasi_poll.Pollable] = {}

    async def wait(self, pollable: wasi_poll.Pollable) -> None:
        """Waits until the pollable is ready. Does not drop it."""
        future = self.create_future()
        self._waiting[future] = pollable
        try:
            await future
        finally:
            del self._waiting[future]

    def select(self, timeout: float | None) -> list[asyncio.Future[None]]:
        """Returns what is ready within these seconds, in one call of the host."""
        futures = list(self._waiting)
        if timeout is None:
            if not futures:
                raise RuntimeError("the provider waits for something that never happens")
            timeout = IDLE
        elif timeout <= 0 and not futures:
            return []
        pollables = list(self._waiting.values())
        with clock.subscribe_duration(max(int(timeout * 1e9), 0)) as timer:
            ready = wasi_poll.poll([*pollables, timer])
        return [futures[index] for index in ready if index < len(futures)]

    def _process_events(self, event_list: list[asyncio.Future[None]]) -> None:
        for future in event_list:
            if not future.done():
                future.set_result(None)

    def _write_to_self(self) -> None:
        """There are no threads that could wake the loop."""


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs the work of a call to its end, and cancels what it has left behind."""
    loop = Loop()
    try:
        return loop.run_until_complete(work)
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
