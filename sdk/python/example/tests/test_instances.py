from dataclasses import replace

import skydock
from simcloud import instances

from .world import World

FIRST = "simcloud:///zone-a/srv-1"


def node(name: str, provider_id: str | None = None) -> skydock.Node:
    return skydock.Node(name, provider_id=provider_id)


class InstancesTest(World):
    async def test_a_node_is_described_by_name_then_by_provider_id(self) -> None:
        nodes = [node("node-1"), node("renamed", FIRST), node("stranger")]
        by_name, by_id, stranger = await instances.describe(self.config, nodes)
        kinds = skydock.AddressKind
        addresses = [(kinds.INTERNAL_IP, "10.0.0.1"), (kinds.EXTERNAL_IP, "198.18.0.1"), (kinds.HOSTNAME, "node-1")]
        expected = skydock.Instance(FIRST, "small", "zone-a", "sim", [skydock.NodeAddress(*it) for it in addresses])
        self.assertEqual(by_name, expected)
        self.assertEqual(by_id, expected)
        self.assertIsInstance(stranger, skydock.NotFound)

    async def test_an_ambiguous_name_is_invalid(self) -> None:
        self.hook("POST", "/_sim/servers", {"name": "node-1"})
        [answer] = await instances.describe(self.config, [node("node-1")])
        self.assertIsInstance(answer, skydock.Invalid)

    async def test_only_a_deleted_server_is_absent(self) -> None:
        self.hook("PATCH", "/_sim/servers/srv-2", {"state": "stopped"})
        self.hook("DELETE", "/_sim/servers/srv-3")
        nodes = [node("n", f"simcloud:///zone-a/srv-{it}") for it in (1, 2, 3)]
        presence = skydock.Presence
        found = await instances.check(self.config, nodes)
        self.assertEqual(found, [presence.RUNNING, presence.STOPPED, presence.ABSENT])
        [stranger] = await instances.check(self.config, [node("stranger")])
        self.assertIsInstance(stranger, skydock.NotFound)
        # A 404 of something else than the cloud.
        self.break_("servers.get", status=404)
        [other] = await instances.check(self.config, nodes[:1])
        self.assertIsInstance(other, skydock.CloudError)

    async def test_a_failure_concerns_one_node(self) -> None:
        self.break_("servers.get", status=429, retry_after=7)
        answers = await instances.check(self.config, [node("a", FIRST), node("b", FIRST), node("c", "simcloud://x")])
        throttled = [it for it in answers if isinstance(it, skydock.Throttled)]
        self.assertEqual([it.retry_after for it in throttled], [7.0])
        self.assertEqual(answers.count(skydock.Presence.RUNNING), 1)
        self.assertIsInstance(answers[2], skydock.Invalid)

    async def test_a_server_of_another_region_is_not_found(self) -> None:
        [answer] = await instances.describe(replace(self.config, region="elsewhere"), [node("node-1")])
        self.assertIsInstance(answer, skydock.NotFound)

    async def test_many_nodes_are_asked_about_at_the_same_time(self) -> None:
        self.hook("PATCH", "/_sim/settings", {"latency_ms": 300})
        with skydock.testing.Host(headers={"authorization": "Bearer simcloud"}, deadline=2.5):
            answers = await instances.check(self.config, [node(f"n{it}", FIRST) for it in range(16)])
        self.assertEqual(answers, [skydock.Presence.RUNNING] * 16, "one after the other, it takes 4.8 s")
