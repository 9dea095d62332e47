"""Requests to the cloud."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import skydock
from skydock import http

from .config import Config

#: Number of requests in flight in a call.
AT_ONCE = 8
#: Label of everything that we create.
OWNER = "cluster"
#: Beginning of the provider IDs of this cloud's servers: `simcloud:///ZONE/ID`.
SCHEME = "simcloud://"


@dataclass(frozen=True)
class Cloud:
    """The cloud and one of its users."""

    config: Config
    #: UID of the cluster. It is on everything that we create: other clusters in the same account are none of our business.
    cluster: str

    def labels(self, **more: str) -> dict[str, str]:
        """Returns the labels of an object of this cluster."""
        return {OWNER: self.cluster, **more}

    def owns(self, labels: dict[str, str]) -> bool:
        """Returns whether an object is this cluster's.

        One whose label was removed is, too: all names have a UID of this cluster's objects.
        """
        return labels.get(OWNER, self.cluster) == self.cluster


async def ask(method: str, url: str, **options: Any) -> Any:
    """Sends a request and reads the answer."""
    return (await http.request(method, url, **options)).raise_for_status().json()


def problem(response: http.Response, status: int, code: str) -> dict[str, Any] | None:
    """Returns the cloud's error, if the answer is one with this status and code.

    The status alone is not enough: a proxy, or a wrong URL, answers 404, too.
    """
    if response.status != status:
        return None
    try:
        body = response.json()
    except skydock.Internal:
        return None
    return body if isinstance(body, dict) and body.get("code") == code else None


def deleted(response: http.Response) -> None:
    """Accepts a deletion, also of what is already gone."""
    if problem(response, 404, "not_found") is None:
        response.raise_for_status()


def provider_id(zone: str, id: str) -> str:
    """Returns the provider ID of a server."""
    return f"{SCHEME}/{zone}/{id}"


def server_id(provider_id: str) -> str:
    """Returns the ID of the server in a provider ID."""
    match provider_id.removeprefix(SCHEME).split("/"):
        case ["", _, id] if id and provider_id.startswith(SCHEME):
            return id
    raise skydock.Invalid(f"{provider_id} is not a valid provider ID")
