# Generated from wit/ by `cargo run -p skydock-bindings`; do not edit.
"""The interface `load-balancers`."""

from __future__ import annotations

from typing import cast

from wit_world.imports import skydock_provider_types_0_1_1 as wit_types
from wit_world.imports import skydock_provider_node_sets_0_1_1 as wit_node_sets

import skydock as sdk

from ..._plugin import registered
from .. import lent
from ..call import answer
from . import types


__all__ = ["SkydockProviderLoadBalancers011"]


class SkydockProviderLoadBalancers011:
    """The exported functions."""

    def get(self, service: wit_types.Service) -> wit_types.LoadBalancerStatus | None:
        return answer(
            lambda: _provider().get(types.sdk_service(service)),
            lambda found: None if found is None else types.wit_load_balancer_status(found),
        )

    def ensure(self, service: wit_types.Service, nodes: wit_node_sets.NodeSet) -> wit_types.LoadBalancerStatus:
        with lent.NodeSet(nodes) as lent_nodes:
            return answer(
                lambda: _provider().ensure(types.sdk_service(service), lent_nodes),
                types.wit_load_balancer_status,
            )

    def update_nodes(self, service: wit_types.Service, nodes: wit_node_sets.NodeSet) -> None:
        with lent.NodeSet(nodes) as lent_nodes:
            answer(lambda: _provider().update_nodes(types.sdk_service(service), lent_nodes), lambda _: None)

    def ensure_deleted(self, service: wit_types.Service) -> None:
        answer(lambda: _provider().ensure_deleted(types.sdk_service(service)), lambda _: None)


def _provider() -> sdk.LoadBalancers:
    return cast(sdk.LoadBalancers, registered())
