"""The host in a component."""

from __future__ import annotations

import json
from typing import Any

from componentize_py_types import Err
from wit_world.imports import skydock_provider_cache_0_1_1 as cache
from wit_world.imports import skydock_provider_calls_0_1_1 as calls
from wit_world.imports import skydock_provider_cluster_0_1_1 as cluster
from wit_world.imports import skydock_provider_events_0_1_1 as events
from wit_world.imports import skydock_provider_objects_0_1_1 as objects

from .._errors import Unavailable
from .._host import Host, NotGranted, NotThere, Severity
from .._types import Node, Service
from .._wire import millis, optional, text
from .generated import types


class WitHost(Host):
    """The host, by the imports of the contract."""

    def cluster_uid(self) -> str | None:
        return cluster.uid()

    def revision(self) -> int | None:
        return cluster.revision()

    def nodes(self) -> list[Node]:
        return [types.sdk_node(it) for it in cluster.nodes()]

    def services(self) -> list[Service]:
        return [types.sdk_service(it) for it in cluster.services()]

    def node_json(self, name: str) -> dict[str, Any] | None:
        return _parsed(cluster.node_json(text(name, "name")))

    def service_json(self, namespace: str, name: str) -> dict[str, Any] | None:
        return _parsed(cluster.service_json(text(namespace, "namespace"), text(name, "name")))

    def read(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        shown = f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
        try:
            read: dict[str, Any] = json.loads(objects.read(text(kind, "kind"), text(namespace, "namespace"), text(name, "name")))
            return read
        except Err as error:
            refusal = error.value
        if isinstance(refusal, objects.Refusal_NotGranted):
            raise NotGranted(f"{shown}: the configuration does not allow to read this object")
        if isinstance(refusal, objects.Refusal_NotThere):
            raise NotThere(f"{shown} does not exist")
        raise Unavailable(f"{shown}: {refusal.value}")

    def annotate(self, name: str, key: str, value: str | None) -> bool:
        return objects.annotate(text(name, "name"), text(key, "key"), optional(value, "annotation"))

    def publish(self, name: str, severity: Severity, reason: str, message: str) -> bool:
        return events.publish(
            text(name, "name"), events.Severity[severity.name], text(reason, "reason"), text(message, "message")
        )

    def cache_get(self, key: str) -> bytes | None:
        return cache.get(text(key, "key"))

    def cache_set(self, key: str, value: bytes, ttl: float) -> bool:
        return cache.set(text(key, "key"), _bytes(value), millis(ttl))

    def cache_reserve(self, key: str, value: bytes, ttl: float) -> bytes | None:
        return cache.reserve(text(key, "key"), _bytes(value), millis(ttl))

    def cache_remove(self, key: str) -> None:
        cache.remove(text(key, "key"))

    def remaining(self) -> float:
        return calls.remaining_ms() / 1000

    def memory_limit(self) -> int:
        return calls.memory_limit()

    def retire(self) -> None:
        calls.retire()


def _bytes(value: object) -> bytes:
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"a value of the cache is bytes, not {type(value).__name__}")
    return bytes(value)


def _parsed(text: str | None) -> dict[str, Any] | None:
    return None if text is None else json.loads(text)
