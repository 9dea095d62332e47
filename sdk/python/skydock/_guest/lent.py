"""What the host lends for a call. The bindings drop the handle at its end, so that it must not be used after it."""

from __future__ import annotations

from wit_world.imports import skydock_provider_node_sets_0_1_1 as wit

from .._packed import Kept, unpack
from .._types import Node, NodeChanges, Target
from .generated import node_sets, types


_kept = Kept()


class NodeSet:
    """Nodes of the host."""

    def __init__(self, lent: wit.NodeSet) -> None:
        self._lent: wit.NodeSet | None = lent

    def __enter__(self) -> NodeSet:
        return self

    def __exit__(self, *_: object) -> None:
        self._lent = None

    def _handle(self) -> wit.NodeSet:
        if self._lent is None:
            raise RuntimeError("the nodes of a call were used after it")
        return self._lent

    def __len__(self) -> int:
        return self._handle().size()

    def targets(self) -> list[Target]:
        handle = self._handle()

        def read() -> list[Target]:
            packed = handle.packed_targets()
            return unpack(packed.numbers, packed.texts)

        return _kept.targets(handle.fingerprint(), read)

    def nodes(self) -> list[Node]:
        return [types.sdk_node(it) for it in self._handle().nodes()]

    def changes(self) -> NodeChanges | None:
        it = self._handle().changes()
        return None if it is None else node_sets.sdk_node_changes(it)
