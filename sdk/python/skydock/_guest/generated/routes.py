# Generated from wit/ by `cargo run -p skydock-bindings`; do not edit.
"""The interface `routes`."""

from __future__ import annotations

from typing import cast

from componentize_py_types import Result
from wit_world.imports import skydock_provider_types_0_1_1 as wit_types
from wit_world.exports import skydock_provider_routes_0_1_1 as wit_routes

import skydock as sdk

from ..._plugin import registered
from ..._wire import optional, text
from .. import convert
from ..call import answer, answer_elements
from . import types


def sdk_route(it: wit_routes.Route) -> sdk.Route:
    return sdk.Route(
        name=it.name,
        target_node=it.target_node,
        target_addresses=None if it.target_addresses is None else [types.sdk_node_address(one) for one in it.target_addresses],
        destination_cidr=it.destination_cidr,
        blackhole=it.blackhole,
    )


def wit_route(it: sdk.Route) -> wit_routes.Route:
    return wit_routes.Route(
        name=text(it.name, "name of a route"),
        target_node=optional(it.target_node, "node of a route"),
        target_addresses=None if it.target_addresses is None else [types.wit_node_address(one) for one in it.target_addresses],
        destination_cidr=text(it.destination_cidr, "destination of a route"),
        blackhole=bool(it.blackhole),
    )


def sdk_new_route(it: wit_routes.NewRoute) -> sdk.NewRoute:
    return sdk.NewRoute(
        name_hint=it.name_hint,
        target_node=it.target_node,
        target_provider_id=it.target_provider_id,
        target_addresses=[types.sdk_node_address(one) for one in it.target_addresses],
        destination_cidr=it.destination_cidr,
    )


def wit_route_page(it: sdk.RoutePage) -> wit_routes.RoutePage:
    return wit_routes.RoutePage(
        routes=[wit_route(one) for one in it.routes],
        next=optional(it.next, "token of the next page"),
    )


__all__ = ["SkydockProviderRoutes011"]


class SkydockProviderRoutes011:
    """The exported functions."""

    def list_routes(self, page: str | None) -> wit_routes.RoutePage:
        return answer(
            lambda: _provider().list_routes(page),
            wit_route_page,
        )

    def create_routes(self, routes: list[wit_routes.NewRoute]) -> list[Result[None, wit_types.CloudError]]:
        return answer_elements(
            len(routes),
            lambda: _provider().create_routes([sdk_new_route(one) for one in routes]),
            lambda found: convert.wit_results(found, convert.nothing("route")),
        )

    def delete_routes(self, routes: list[wit_routes.Route]) -> list[Result[None, wit_types.CloudError]]:
        return answer_elements(
            len(routes),
            lambda: _provider().delete_routes([sdk_route(one) for one in routes]),
            lambda found: convert.wit_results(found, convert.nothing("route")),
        )


def _provider() -> sdk.Routes:
    return cast(sdk.Routes, registered())
