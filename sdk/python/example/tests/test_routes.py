from dataclasses import replace

import skydock
from simcloud import routes

from .world import World


def new(number: int) -> skydock.NewRoute:
    id = f"simcloud:///zone-a/srv-{number}"
    return skydock.NewRoute(f"uid-{number}", f"node-{number}", f"10.244.{number}.0/24", id)


def node(number: int) -> skydock.Node:
    return skydock.Node(f"node-{number}", provider_id=new(number).target_provider_id)


class RoutesTest(World):
    async def list(self, page: str | None = None) -> skydock.RoutePage:
        """Lists the routes of a cluster with two nodes."""
        return await routes.list_page(self.cloud, [node(1), node(2)], page)

    async def test_routes_are_created_listed_and_deleted(self) -> None:
        ipv6 = replace(new(1), destination_cidr="2001:db8:0:1::/64")
        self.assertEqual(await routes.create(self.cloud, [new(1), ipv6, new(2)]), [None] * 3)
        self.hook("DELETE", "/_sim/servers/srv-2")
        page = await self.list()
        shown = sorted((it.destination_cidr, it.target_node, it.blackhole) for it in page.routes)
        expected = [
            ("10.244.1.0/24", "node-1", False),
            ("10.244.2.0/24", "node-2", True),
            ("2001:db8:0:1::/64", "node-1", False),
        ]
        self.assertEqual((shown, page.next), (expected, None))
        for _ in range(2):
            self.assertEqual(await routes.delete(self.cloud, page.routes), [None] * 3)
        self.assertEqual(self.all("routes"), [])

    async def test_a_list_has_all_pages(self) -> None:
        many = [replace(new(it), target_provider_id=new(1).target_provider_id) for it in range(120)]
        self.assertEqual(await routes.create(self.cloud, many), [None] * 120)
        first = await self.list()
        second = await self.list(first.next)
        self.assertEqual((len(first.routes), len(second.routes), second.next), (100, 20, None))

    async def test_a_route_that_exists_is_a_success(self) -> None:
        for after in (False, True):
            self.hook("POST", "/_sim/reset")
            self.hook("PATCH", "/_sim/settings", {"lag_ms": 60_000})
            self.break_("routes.create", after=after)
            [lost] = await routes.create(self.cloud, [new(1)])
            self.assertIsInstance(lost, skydock.Unavailable)
            for _ in range(2):
                self.assertEqual(await routes.create(self.cloud, [new(1)]), [None])
            self.assertEqual(len(self.all("routes")), 1)
            self.assertEqual((await self.list()).routes, [], "the list lags")

    async def test_a_route_in_the_way_is_a_conflict(self) -> None:
        self.assertEqual(await routes.create(self.cloud, [new(1)]), [None])
        moved = replace(new(1), target_provider_id=new(2).target_provider_id)
        [answer] = await routes.create(self.cloud, [moved])
        self.assertIsInstance(answer, skydock.Conflict)

    async def test_a_route_that_fails_does_not_affect_others(self) -> None:
        uninitialized = replace(new(1), target_provider_id=None)
        foreign = replace(new(1), target_provider_id="aws:///a/i-1")
        answers = await routes.create(self.cloud, [uninitialized, new(2), foreign, new(9)])
        kinds = [type(it) for it in answers]
        self.assertEqual(kinds, [skydock.NotFound, type(None), skydock.Invalid, skydock.Invalid])

    async def test_a_route_belongs_to_the_node_of_its_server(self) -> None:
        self.assertEqual(await routes.create(self.cloud, [new(1)]), [None])

        async def target(*nodes: skydock.Node) -> str | None:
            return (await routes.list_page(self.cloud, list(nodes), None)).routes[0].target_node

        # Another server has the name now, or the server has another name.
        replaced = replace(node(1), provider_id=new(2).target_provider_id)
        renamed = replace(node(1), name="node-7")
        self.assertIsNone(await target(replaced, node(3)))
        self.assertEqual(await target(replaced, renamed), "node-7")
        self.assertEqual(await target(replace(node(1), provider_id=None)), "node-1")
        self.assertIsNone(await target())
        other = self.cluster("c2")
        self.assertEqual((await routes.list_page(other, [node(1)], None)).routes, [])
