"""Exports `routes`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from componentize_py_types import Err, Ok, Result
from wit_world.exports import skydock_provider_routes_0_1_0 as wit
from wit_world.imports import skydock_provider_types_0_1_0 as types

from .._errors import CloudError, Internal
from .._parallel import told
from .._plugin import Routes, registered
from .._types import NewRoute, NodeAddress, Route, RoutePage
from .._wire import optional, text
from . import convert
from .call import answer


class SkydockProviderRoutes010:
    """The exported functions."""

    def list_routes(self, page: str | None) -> wit.RoutePage:
        return answer(lambda: _provider().list_routes(page), _wit_page)

    def create_routes(self, routes: list[wit.NewRoute]) -> list[Result[None, types.CloudError]]:
        try:
            return answer(lambda: _provider().create_routes([_new(route) for route in routes]), _results)
        except Err as error:
            return [Err(error.value)] * len(routes)

    def delete_routes(self, routes: list[wit.Route]) -> list[Result[None, types.CloudError]]:
        try:
            return answer(lambda: _provider().delete_routes([_route(route) for route in routes]), _results)
        except Err as error:
            return [Err(error.value)] * len(routes)


def _provider() -> Routes:
    return cast(Routes, registered())


def _results(found: Sequence[CloudError | None]) -> list[Result[None, types.CloudError]]:
    return [Ok(None) if it is None else Err(convert.wit_error(_failure(it))) for it in found]


def _failure(it: object) -> CloudError:
    if isinstance(it, BaseException):
        return told(it)
    return Internal(f"the provider returned {it!r:.100} for a route; expected None or an error")


def _new(it: wit.NewRoute) -> NewRoute:
    addresses = [convert.address(one) for one in it.target_addresses]
    return NewRoute(it.name_hint, it.target_node, it.destination_cidr, it.target_provider_id, addresses)


def _route(it: wit.Route) -> Route:
    addresses: list[NodeAddress] | None = None
    if it.target_addresses is not None:
        addresses = [convert.address(one) for one in it.target_addresses]
    return Route(it.name, it.destination_cidr, it.target_node, addresses, it.blackhole)


def _wit_page(it: RoutePage) -> wit.RoutePage:
    return wit.RoutePage([_wit_route(route) for route in it.routes], optional(it.next, "token of the next page"))


def _wit_route(it: Route) -> wit.Route:
    addresses = None if it.target_addresses is None else convert.wit_addresses(it.target_addresses)
    node, destination = optional(it.target_node, "node of a route"), text(it.destination_cidr, "destination of a route")
    return wit.Route(text(it.name, "name of a route"), node, addresses, destination, bool(it.blackhole))
