import asyncio
import logging
import unittest

import skydock
import skydock.testing
from skydock import _errors
from skydock._parallel import limited


class EachTest(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)

    async def test_results_are_in_order_and_errors_concern_one_element(self) -> None:
        async def function(it: int) -> int:
            await asyncio.sleep(0.01 * (3 - it))
            if it == 1:
                raise skydock.NotFound("one")
            return 1 // (it - 2)

        answers = await skydock.each(range(4), function)
        self.assertEqual(answers[0], -1)
        self.assertEqual(answers[1], skydock.NotFound("one"))
        self.assertIsInstance(answers[2], skydock.Internal)
        self.assertEqual(answers[3], 1)
        self.assertEqual(await skydock.each([], function), [])

    async def test_no_more_than_allowed_run_at_a_time(self) -> None:
        running, most = 0, 0

        async def function(_: int) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.001)
            running -= 1

        await skydock.each(range(20), function, parallel=3)
        self.assertEqual(most, 3)

    async def test_one_that_hangs_does_not_take_the_answers_of_others(self) -> None:
        async def function(it: int) -> int:
            await asyncio.sleep(it * 60)
            return it

        with skydock.testing.Host(deadline=1.2):
            answers = await skydock.each([0, 1], function)
        self.assertEqual(answers[0], 0)
        self.assertIsInstance(answers[1], skydock.InProgress)

    async def test_a_call_ends_before_its_deadline(self) -> None:
        with skydock.testing.Host(deadline=0.6), self.assertRaises(skydock.InProgress):
            await limited(asyncio.sleep(60))

    async def test_exceptions_of_a_call_are_errors(self) -> None:
        async def function(error: Exception) -> None:
            raise error

        for error, kind in (
            (skydock.Conflict("c"), skydock.Conflict),
            (TimeoutError(), skydock.Unavailable),
            (ConnectionResetError("gone"), skydock.Unavailable),
            (KeyError("x"), skydock.Internal),
        ):
            with self.assertRaises(kind):
                await limited(function(error))
        self.assertEqual(str(_errors.of(KeyError("x"))), "KeyError: 'x'")


class GroupTest(unittest.TestCase):
    def test_a_group_is_the_error_that_asks_for_most_patience(self) -> None:
        missing, short, long = skydock.NotFound("x"), skydock.Throttled("x", retry_after=1), skydock.Throttled("x", retry_after=9)
        waiting = skydock.InProgress("x", retry_after=60)
        groups: list[tuple[list[Exception], Exception]] = [
            ([missing], missing),
            ([missing, skydock.Denied("x")], missing),
            ([missing, short, waiting, long], long),
            ([missing, ExceptionGroup("inner", [waiting])], waiting),
        ]
        for parts, expected in groups:
            self.assertEqual(_errors.of(ExceptionGroup("outer", parts)), expected)
        self.assertIsInstance(_errors.of(ExceptionGroup("outer", [ValueError("x")])), skydock.Internal)


class PluginTest(unittest.TestCase):
    def test_a_plugin_exports_what_it_derives_from(self) -> None:
        from skydock import _plugin

        @skydock.plugin
        class Metal(skydock.Zones, skydock.Maintenance):
            def info(self) -> skydock.PluginInfo:
                return skydock.PluginInfo("metal", "1")

            async def locate(self, nodes: list[skydock.Node]) -> list[skydock.Zone | skydock.CloudError]:
                return [skydock.Zone() for _ in nodes]

            async def maintain(self) -> float:
                return 60.0

        self.assertIsInstance(_plugin.registered(), Metal)
        self.assertEqual(_plugin.capabilities(_plugin.registered()), ["zones", "maintenance"])

    def test_a_plugin_without_a_function_is_rejected(self) -> None:
        class Half(skydock.Routes):
            def info(self) -> skydock.PluginInfo:
                return skydock.PluginInfo("half", "1")

        with self.assertRaises(TypeError):
            skydock.plugin(Half)  # type: ignore[type-abstract]


class HostTest(unittest.TestCase):
    def test_the_host_in_memory_keeps_what_was_done(self) -> None:
        node = skydock.Node("n1", "u1", provider_id="p://n1")
        with skydock.testing.Host(nodes=[node], objects={("v1/Secret", "a", "b"): {"data": {}}}) as host:
            self.assertIs(skydock.host(), host)
            self.assertEqual(skydock.host().nodes(), [node])
            self.assertEqual((host.node_json("n1") or {})["spec"], {"providerID": "p://n1"})
            self.assertTrue(host.publish("n1", skydock.Severity.WARNING, "Odd", "it is"))
            self.assertTrue(host.annotate("n1", "k", None))
            self.assertEqual(host.read("v1/Secret", "a", "b"), {"data": {}})
            with self.assertRaises(skydock.NotGranted):
                host.read("v1/Secret", "a", "c")
        self.assertEqual((len(host.events), host.annotations), (1, {"n1": {"k": None}}))
        with self.assertRaises(RuntimeError):
            skydock.host()

    def test_the_cache_keeps_and_reserves(self) -> None:
        host = skydock.testing.Host()
        self.assertIsNone(host.cache_reserve("k", b"one", 60))
        self.assertEqual(host.cache_reserve("k", b"two", 60), b"one")
        self.assertIsNone(host.cache_reserve("k", b"one", 60))
        self.assertFalse(host.cache_set("k" * 257, b"", 60))
        self.assertTrue(host.cache_set("k", b"late", 0))
        self.assertIsNone(host.cache_get("k"))
