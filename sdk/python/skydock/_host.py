"""Skydock as a plugin sees it: the cluster, a cache, events, and the current call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextvars import ContextVar
from enum import Enum
from typing import Any

from ._errors import Denied, NotFound
from ._types import Node, Service


class Severity(Enum):
    """Type of an event."""

    NORMAL = "normal"
    WARNING = "warning"


class NotGranted(Denied):
    """The operator's configuration does not allow to read this object."""


class NotThere(NotFound):
    """The object does not exist."""


class Host(ABC):
    """The host. `host()` returns it.

    `name` of an object is NAME for a node and NAMESPACE/NAME for a Service. During `configure` and `info`, there are no objects,
    and nothing can be changed.
    """

    @abstractmethod
    def cluster_uid(self) -> str | None:
        """Returns the UID of the namespace `kube-system`, which identifies this cluster. None until the host has read it."""

    @abstractmethod
    def revision(self) -> int | None:
        """Returns a number that grows when an object of `nodes` or `services` changes.

        None until the caches are filled: until then, a missing object means nothing.
        """

    @abstractmethod
    def nodes(self) -> list[Node]:
        """Returns the nodes whose provider ID this plugin owns, and those without one."""

    @abstractmethod
    def services(self) -> list[Service]:
        """Returns the Services that this plugin serves, including those that are being deleted."""

    @abstractmethod
    def node_json(self, name: str) -> dict[str, Any] | None:
        """Returns the whole object of a node. None if it does not exist or is not this plugin's."""

    @abstractmethod
    def service_json(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Returns the whole object of a Service. None if it does not exist or is not this plugin's."""

    @abstractmethod
    def read(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        """Reads an object of kind `v1/Secret`, `v1/ConfigMap` or `v1/Namespace`, if the operator allows it.

        Raises:
            NotGranted, NotThere: as their names say.
            Unavailable: if the API server could not be asked; retry in a later call.
        """

    @abstractmethod
    def annotate(self, name: str, key: str, value: str | None) -> bool:
        """Sets an annotation on an object of the current call, or removes it (None). Returns False if the plugin may not.

        The host writes it after the call, however it ended. An annotation is only a hint: what must be found again belongs in
        the cloud.
        """

    @abstractmethod
    def publish(self, name: str, severity: Severity, reason: str, message: str) -> bool:
        """Publishes an event on an object of the current call. Returns False if the plugin may not."""

    @abstractmethod
    def cache_get(self, key: str) -> bytes | None:
        """Returns a value from the cache that all instances of this plugin share, unless it has expired."""

    @abstractmethod
    def cache_set(self, key: str, value: bytes, ttl: float) -> bool:
        """Sets a value of at most 64 KiB for these seconds, at most 24 hours. Returns False if it exceeds the limits."""

    @abstractmethod
    def cache_reserve(self, key: str, value: bytes, ttl: float) -> bytes | None:
        """Sets the value if the key has none, or the same. Returns None if it is set, otherwise the existing value."""

    @abstractmethod
    def cache_remove(self, key: str) -> None:
        """Removes a key."""

    @abstractmethod
    def remaining(self) -> float:
        """Returns the seconds until the host ends the current call."""

    @abstractmethod
    def memory_limit(self) -> int:
        """Returns the bytes of memory that this instance may have."""

    @abstractmethod
    def retire(self) -> None:
        """Drops this instance after the current call, which does not count as a failure."""


#: The host of the component.
_installed: Host | None = None
#: The host of a test.
current: ContextVar[Host | None] = ContextVar("skydock_host", default=None)


def install(host: Host) -> None:
    """Sets the host. For the SDK itself: in a test, use `skydock.testing.Host`."""
    global _installed
    _installed = host


def host() -> Host:
    """Returns the host.

    Raises:
        RuntimeError: natively, outside of `with skydock.testing.Host()`.
    """
    found = current.get() or _installed
    if found is None:
        raise RuntimeError("no host: in a test, use `with skydock.testing.Host():`")
    return found


def remaining() -> float | None:
    """Returns the seconds until the host ends the current call. None without a host."""
    found = current.get() or _installed
    return None if found is None else found.remaining()
