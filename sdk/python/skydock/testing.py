"""A host for the unit tests of providers, which run natively:

    with skydock.testing.Host(nodes=[skydock.Node("n1")], http=lambda request: skydock.http.Response(404)):
        ...

Requests that `http` does not answer are sent with the standard library, for example to a server of the test.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import Token
from dataclasses import dataclass
from typing import Any

from . import http as http_
from ._host import Host as BaseHost
from ._host import NotGranted, NotThere, Severity, current
from ._types import Node, NodeChanges, Service, Target

ZONE_LABEL = "topology.kubernetes.io/zone"


@dataclass(frozen=True, slots=True)
class Event:
    """An event that was published."""

    name: str
    severity: Severity
    reason: str
    message: str


class NodeSet:
    """The nodes of a call."""

    def __init__(self, nodes: Iterable[Node | Target] = (), changes: NodeChanges | None = None) -> None:
        self._nodes = list(nodes)
        self._changes = changes

    def __len__(self) -> int:
        return len(self._nodes)

    def targets(self) -> list[Target]:
        return [_target(it) for it in self._nodes]

    def nodes(self) -> list[Node]:
        return [_node(it) for it in self._nodes]

    def changes(self) -> NodeChanges | None:
        return self._changes


def _target(it: Node | Target) -> Target:
    return it if isinstance(it, Target) else Target(it.name, it.provider_id, it.labels.get(ZONE_LABEL), it.addresses)


def _node(it: Node | Target) -> Node:
    return it if isinstance(it, Node) else Node(it.name, provider_id=it.provider_id, addresses=it.addresses)


class Host(BaseHost):
    """A host in memory, to be used in a `with` statement. What the provider has done is in its attributes.

    Args:
        uid: UID of the cluster; None if it is not known.
        nodes: the nodes of the cluster.
        services: the Services of the cluster.
        filled: whether the caches of the host are filled.
        objects: objects that may be read, by kind, namespace and name; None is an object that does not exist.
        read_only: whether calls cannot write annotations.
        deadline: seconds that a call has, from the beginning of the `with` statement.
        headers: added to requests, for example the token.
        http: answers requests, or returns None.
    """

    def __init__(
        self,
        *,
        uid: str | None = "test-cluster",
        nodes: Sequence[Node] = (),
        services: Sequence[Service] = (),
        filled: bool = True,
        objects: Mapping[tuple[str, str, str], dict[str, Any] | None] | None = None,
        read_only: bool = False,
        deadline: float = 30.0,
        headers: Mapping[str, str] | None = None,
        http: Callable[[http_.Request], http_.Response | None] | None = None,
    ) -> None:
        self.uid = uid
        self.node_list = list(nodes)
        self.service_list = list(services)
        self.filled = filled
        self.objects = dict(objects or {})
        self.read_only = read_only
        self.deadline = deadline
        self.headers = dict(headers or {})
        self.http = http
        #: Requests that were sent.
        self.requests: list[http_.Request] = []
        #: Events that were published.
        self.events: list[Event] = []
        #: Annotations that were set, by object; None if one was removed.
        self.annotations: dict[str, dict[str, str | None]] = {}
        #: Whether the instance is to be replaced.
        self.retired = False
        self._cache: dict[str, tuple[bytes, float]] = {}
        self._until = time.monotonic() + deadline
        self._token: Token[BaseHost | None] | None = None
        self._transport: http_.Transport = http_.native

    def __enter__(self) -> Host:
        self._until = time.monotonic() + self.deadline
        self._token, self._transport = current.set(self), http_.swap_transport(self._send)
        return self

    def __exit__(self, *_: object) -> None:
        http_.swap_transport(self._transport)
        if self._token is not None:
            current.reset(self._token)

    async def _send(self, request: http_.Request, timeout: float) -> http_.Response:
        request = http_.Request(request.method, request.url, [*request.headers, *self.headers.items()], request.body)
        self.requests.append(request)
        answer = self.http(request) if self.http else None
        return await http_.native(request, timeout) if answer is None else answer

    def cluster_uid(self) -> str | None:
        return self.uid

    def revision(self) -> int | None:
        return 1 if self.filled else None

    def nodes(self) -> list[Node]:
        return list(self.node_list)

    def services(self) -> list[Service]:
        return list(self.service_list)

    def node_json(self, name: str) -> dict[str, Any] | None:
        """Returns metadata and provider ID only."""
        for it in self.node_list:
            if it.name == name:
                metadata = {"name": name, "uid": it.uid, "labels": it.labels, "annotations": it.annotations}
                return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"providerID": it.provider_id}}
        return None

    def service_json(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Returns metadata only."""
        for it in self.service_list:
            if (it.namespace, it.name) == (namespace, name):
                names = {"namespace": namespace, "name": name, "uid": it.uid}
                metadata = {**names, "labels": it.labels, "annotations": it.annotations}
                return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {}}
        return None

    def read(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        try:
            found = self.objects[kind, namespace, name]
        except KeyError:
            raise NotGranted(f"{kind} {name}: the configuration does not allow to read this object") from None
        if found is None:
            raise NotThere(f"{kind} {name} does not exist")
        return found

    def annotate(self, name: str, key: str, value: str | None) -> bool:
        if self.read_only:
            return False
        self.annotations.setdefault(name, {})[key] = value
        return True

    def publish(self, name: str, severity: Severity, reason: str, message: str) -> bool:
        self.events.append(Event(name, severity, reason, message))
        return True

    def cache_get(self, key: str) -> bytes | None:
        value, until = self._cache.get(key, (None, 0.0))
        return value if time.monotonic() < until else None

    def cache_set(self, key: str, value: bytes, ttl: float) -> bool:
        if not 0 < len(key.encode()) <= 256 or len(value) > 64 << 10:
            return False
        self._cache[key] = (value, time.monotonic() + min(ttl, 24 * 3600))
        return True

    def cache_reserve(self, key: str, value: bytes, ttl: float) -> bytes | None:
        existing = self.cache_get(key)
        if existing is not None and existing != value:
            return existing
        return None if self.cache_set(key, value, ttl) else b""

    def cache_remove(self, key: str) -> None:
        self._cache.pop(key, None)

    def remaining(self) -> float:
        return max(self._until - time.monotonic(), 0.0)

    def memory_limit(self) -> int:
        return 128 << 20

    def retire(self) -> None:
        self.retired = True
