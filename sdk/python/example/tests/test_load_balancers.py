from collections.abc import Callable

import skydock
from simcloud import load_balancers as lb

from .world import World, service, targets


def addresses(status: skydock.LoadBalancerStatus | None) -> list[str | None]:
    assert status is not None
    return [ingress.ip for ingress in status.ingress]


class LoadBalancersTest(World):
    async def test_a_load_balancer_is_created_changed_and_deleted(self) -> None:
        it = service()
        self.assertIsNone(await lb.get(self.cloud, it))
        self.assertEqual(addresses(await lb.ensure(self.cloud, it, targets(1, 2))), ["198.19.0.1"])
        [created] = self.all("load_balancers")
        self.assertEqual(created["targets"], ["srv-1", "srv-2"])
        self.assertEqual(created["listeners"][1], {"protocol": "udp", "port": 53, "target_port": 30053})
        self.assertEqual(created["labels"], {"cluster": "c1", "service": "shop/web"})
        self.assertEqual(addresses(await lb.get(self.cloud, it)), ["198.19.0.1"])

        it.source_ranges = ["203.0.113.0/24"]
        it.external_traffic_policy, it.health_check_node_port = skydock.TrafficPolicy.LOCAL, 32000
        it.ports.pop()
        await lb.ensure(self.cloud, it, targets(2))
        [changed] = self.all("load_balancers")
        self.assertEqual((changed["allowed_cidrs"], changed["health_check_port"]), (["203.0.113.0/24"], 32000))
        self.assertEqual((changed["targets"], len(changed["listeners"])), (["srv-2"], 1))
        for _ in range(2):
            await lb.ensure_deleted(self.cloud, it)
        self.assertEqual(self.all("load_balancers"), [])

    async def test_an_unchanged_service_writes_nothing(self) -> None:
        await lb.ensure(self.cloud, service(), targets(1))
        self.calls()
        await lb.ensure(self.cloud, service(), targets(1))
        await lb.update_nodes(self.cloud, service(), targets(1))
        self.assertEqual(self.calls(), ["load-balancers.list", "load-balancers.list"])

    async def test_a_change_of_nodes_leaves_the_rest_to_ensure(self) -> None:
        it = service()
        await self.raises(skydock.NotFound, lb.update_nodes(self.cloud, it, []))
        await lb.ensure(self.cloud, it, targets(1))
        it.source_ranges = ["203.0.113.0/24"]
        await lb.update_nodes(self.cloud, it, targets(1, 3))
        [current] = self.all("load_balancers")
        self.assertEqual((current["targets"], current["allowed_cidrs"]), (["srv-1", "srv-3"], []))

    async def test_a_pending_load_balancer_is_in_progress(self) -> None:
        self.hook("PATCH", "/_sim/settings", {"lb_delay_ms": 5000})
        for _ in range(2):
            error = await self.raises(skydock.InProgress, lb.ensure(self.cloud, service(), targets(1)))
            self.assertEqual(error.retry_after, 1.0)
        await self.raises(skydock.InProgress, lb.update_nodes(self.cloud, service(), []))
        self.assertEqual(await lb.get(self.cloud, service()), skydock.LoadBalancerStatus())
        self.hook("POST", "/_sim/advance", {"ms": 5000})
        self.assertEqual(addresses(await lb.ensure(self.cloud, service(), targets(1))), ["198.19.0.1"])

    async def test_a_broken_load_balancer_can_be_deleted(self) -> None:
        await lb.ensure(self.cloud, service(), [])
        self.hook("PATCH", "/_sim/load-balancers/lb-1", {"status": "error"})
        await self.raises(skydock.Unavailable, lb.ensure(self.cloud, service(), []))
        await lb.ensure_deleted(self.cloud, service())

    async def test_a_lost_answer_creates_no_second_load_balancer(self) -> None:
        for after in (False, True):
            self.hook("POST", "/_sim/reset")
            self.hook("PATCH", "/_sim/settings", {"lag_ms": 60_000})
            self.break_("load-balancers.create", after=after)
            await self.raises(skydock.Unavailable, lb.ensure(self.cloud, service(), targets(1)))
            await lb.ensure(self.cloud, service(), targets(1))
            self.break_("load-balancers.update", after=after)
            await self.raises(skydock.Unavailable, lb.ensure(self.cloud, service(), targets(2)))
            await lb.ensure(self.cloud, service(), targets(2))
            self.assertEqual([it["targets"] for it in self.all("load_balancers")], [["srv-2"]])
            self.break_("load-balancers.delete", after=after)
            await self.raises(skydock.Unavailable, lb.ensure_deleted(self.cloud, service()))
            await lb.ensure_deleted(self.cloud, service())
            self.assertEqual(self.all("load_balancers"), [])

    async def test_a_race_between_hosts_is_a_conflict(self) -> None:
        def race(request: skydock.http.Request) -> None:
            # The other host creates it after this one has looked.
            if request.method == "POST" and not self.all("load_balancers"):
                self.hook("POST", "/v1/load-balancers", lb.wanted_for(self.cloud, service(), []))

        with skydock.testing.Host(headers={"authorization": "Bearer simcloud"}, http=race):
            await self.raises(skydock.Conflict, lb.ensure(self.cloud, service(), []))
            await lb.ensure(self.cloud, service(), [])
        self.assertEqual(len(self.all("load_balancers")), 1)

    async def test_another_cluster_is_left_alone(self) -> None:
        other = self.cluster("c2")
        await lb.ensure(self.cloud, service(), targets(1))
        before = self.all("load_balancers")
        self.assertIsNone(await lb.get(other, service()))
        await self.raises(skydock.Invalid, lb.ensure(other, service(), []))
        await self.raises(skydock.NotFound, lb.update_nodes(other, service(), []))
        await lb.ensure_deleted(other, service())
        self.assertEqual(self.all("load_balancers"), before)

    async def test_a_load_balancer_without_its_label_is_deleted(self) -> None:
        await lb.ensure(self.cloud, service(), targets(1))
        self.hook("PATCH", "/v1/load-balancers/lb-1", {"labels": {}})
        await lb.ensure_deleted(self.cloud, service())
        self.assertEqual(self.all("load_balancers"), [])

    async def test_what_the_cloud_cannot_do_is_invalid(self) -> None:
        changes: list[Callable[[skydock.Service], object]] = [
            lambda it: setattr(it, "load_balancer_ip", "198.19.0.9"),
            lambda it: setattr(it.ports[0], "transport", skydock.Transport.SCTP),
            lambda it: setattr(it.ports[0], "node_port", 0),
            lambda it: it.ports.clear(),
        ]
        for change in changes:
            it = service()
            change(it)
            await self.raises(skydock.Invalid, lb.ensure(self.cloud, it, []))
        it = service()
        await lb.ensure(self.cloud, it, [])
        it.ip_families.append(skydock.IpFamily.IPV6)
        await self.raises(skydock.Invalid, lb.ensure(self.cloud, it, []))

    async def test_errors_of_the_cloud_keep_their_meaning(self) -> None:
        for status, error in (
            (403, skydock.Denied),
            (500, skydock.Unavailable),
            (400, skydock.Invalid),
        ):
            self.break_("load-balancers.create", status=status)
            await self.raises(error, lb.ensure(self.cloud, service(), []))
        self.break_("load-balancers.create", status=429, retry_after=9)
        error = await self.raises(skydock.Throttled, lb.ensure(self.cloud, service(), []))
        self.assertEqual(error.retry_after, 9.0)
