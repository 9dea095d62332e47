import asyncio
import sys
import time
import types
import unittest
from typing import Any
from unittest import mock


class Pollable:
    """An event at a time."""

    alive = 0

    def __init__(self, after: float) -> None:
        self.at = time.monotonic() + after

    def __enter__(self) -> "Pollable":
        Pollable.alive += 1
        return self

    def __exit__(self, *_: object) -> None:
        Pollable.alive -= 1


def poll(pollables: list[Pollable]) -> list[int]:
    """Waits for the first events."""
    time.sleep(max(min(it.at for it in pollables) - time.monotonic(), 0))
    return [index for index, it in enumerate(pollables) if it.at <= time.monotonic()]


def bindings() -> dict[str, types.ModuleType]:
    """Returns the bindings that the loop uses."""
    clock: Any = types.ModuleType("clock")
    clock.subscribe_duration = lambda nanoseconds: Pollable(nanoseconds / 1e9)
    wasi_poll: Any = types.ModuleType("poll")
    wasi_poll.poll, wasi_poll.Pollable = poll, Pollable
    imports: Any = types.ModuleType("wit_world.imports")
    imports.wasi_clocks_monotonic_clock_0_2_12 = clock
    imports.wasi_io_poll_0_2_12 = wasi_poll
    return {"wit_world": types.ModuleType("wit_world"), "wit_world.imports": imports}


with mock.patch.dict(sys.modules, bindings()):
    from skydock._guest.loop import Loop, run


async def wait(after: float) -> float:
    """Waits for an event of the host."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Loop)
    with Pollable(after) as pollable:
        fake: Any = pollable
        await loop.wait(fake)
    return after


class LoopTest(unittest.TestCase):
    def setUp(self) -> None:
        Pollable.alive = 0

    def test_many_events_and_timers_are_waited_for(self) -> None:
        async def work() -> list[Any]:
            return list(await asyncio.gather(wait(0.03), asyncio.sleep(0.02, "slept"), wait(0.01)))

        begin = time.monotonic()
        self.assertEqual(run(work()), [0.03, "slept", 0.01])
        self.assertLess(time.monotonic() - begin, 0.3)
        self.assertEqual(Pollable.alive, 0)

    def test_a_timeout_drops_what_it_waited_for(self) -> None:
        async def work() -> None:
            async with asyncio.timeout(0.01):
                await wait(60)

        with self.assertRaises(TimeoutError):
            run(work())
        self.assertEqual(Pollable.alive, 0)

    def test_what_a_call_leaves_behind_is_canceled(self) -> None:
        tasks = []

        async def work() -> int:
            tasks.append(asyncio.ensure_future(wait(60)))
            await asyncio.sleep(0)
            return 7

        self.assertEqual(run(work()), 7)
        self.assertTrue(tasks[0].cancelled())
        self.assertEqual(Pollable.alive, 0)

    def test_waiting_for_nothing_is_an_error(self) -> None:
        async def work() -> None:
            await asyncio.get_running_loop().create_future()

        with self.assertRaises(RuntimeError):
            run(work())

    def test_events_are_seen_while_others_are_busy(self) -> None:
        async def busy() -> int:
            rounds = 0
            event = asyncio.ensure_future(wait(0.01))
            while not event.done():
                rounds += 1
                await asyncio.sleep(0)
            return rounds

        self.assertGreater(run(busy()), 1)
