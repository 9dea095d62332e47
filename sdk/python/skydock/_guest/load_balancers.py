"""Exports `load-balancers`."""

from __future__ import annotations

from typing import cast

from wit_world.imports import skydock_provider_node_sets_0_1_0 as node_sets
from wit_world.imports import skydock_provider_types_0_1_0 as types

from .._plugin import LoadBalancers, registered
from .._types import Node, NodeChanges, Target
from . import convert
from .call import answer


class SkydockProviderLoadBalancers010:
    """The exported functions."""

    def get(self, service: types.Service) -> types.LoadBalancerStatus | None:
        return answer(lambda: _provider().get(convert.service(service)), lambda found: None if found is None else convert.wit_status(found))

    def ensure(self, service: types.Service, nodes: node_sets.NodeSet) -> types.LoadBalancerStatus:
        with Lent(nodes) as lent:
            return answer(lambda: _provider().ensure(convert.service(service), lent), convert.wit_status)

    def update_nodes(self, service: types.Service, nodes: node_sets.NodeSet) -> None:
        with Lent(nodes) as lent:
            answer(lambda: _provider().update_nodes(convert.service(service), lent), lambda _: None)

    def ensure_deleted(self, service: types.Service) -> None:
        answer(lambda: _provider().ensure_deleted(convert.service(service)), lambda _: None)


def _provider() -> LoadBalancers:
    return cast(LoadBalancers, registered())


class Lent:
    """Nodes of the host. The bindings drop the handle at the end of the call, so that it must not be used after it."""

    def __init__(self, lent: node_sets.NodeSet) -> None:
        self._lent: node_sets.NodeSet | None = lent

    def __enter__(self) -> Lent:
        return self

    def __exit__(self, *_: object) -> None:
        self._lent = None

    def _handle(self) -> node_sets.NodeSet:
        if self._lent is None:
            raise RuntimeError("the nodes of a call were used after it")
        return self._lent

    def __len__(self) -> int:
        return self._handle().size()

    def targets(self) -> list[Target]:
        return [_target(it) for it in self._handle().targets()]

    def nodes(self) -> list[Node]:
        return convert.nodes(self._handle().nodes())

    def changes(self) -> NodeChanges | None:
        it = self._handle().changes()
        return None if it is None else NodeChanges([_target(one) for one in it.added], [_target(one) for one in it.removed])


def _target(it: node_sets.Target) -> Target:
    return Target(it.name, it.provider_id, it.zone, [convert.address(one) for one in it.addresses])
