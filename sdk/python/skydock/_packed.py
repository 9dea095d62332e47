"""Targets in the form that the contract calls packed, and those of the sets that were lent last."""

from __future__ import annotations

from typing import Callable, Iterable

from ._types import AddressKind, NodeAddress, Target

#: Number of sets that are kept.
KEPT = 2
#: Number of nodes of the largest set that is kept.
LARGEST = 10_000
#: In place of the length of an absent text.
_ABSENT = 0xFFFF_FFFF
#: Numbered as in the contract.
_KINDS = list(AddressKind)


def unpack(numbers: Iterable[int], texts: str) -> list[Target]:
    """Returns the targets."""
    # Lengths are those in UTF-8. With ASCII, texts do not need to be decoded one by one.
    rest: str | bytes = texts if texts.isascii() else texts.encode()
    begin = 0

    def option(length: int) -> str | None:
        nonlocal begin
        if length == _ABSENT:
            return None
        found = rest[begin : begin + length]
        begin += length
        return found if isinstance(found, str) else found.decode()

    def text(length: int) -> str:
        return option(length) or ""

    lengths = iter(numbers)
    following = lengths.__next__
    targets = []
    for length in lengths:
        name, provider_id, zone = text(length), option(following()), option(following())
        addresses = [NodeAddress(_KINDS[following()], text(following())) for _ in range(following())]
        targets.append(Target(name, provider_id, zone, addresses))
    return targets


class Kept:
    """Targets by their fingerprints."""

    def __init__(self) -> None:
        # The one used last is at the end.
        self._sets: dict[int, list[Target]] = {}

    def targets(self, fingerprint: int, read: Callable[[], list[Target]]) -> list[Target]:
        """Returns a copy, which the provider may change. The targets are read unless they are kept."""
        targets = self._sets.pop(fingerprint, None)
        if targets is None:
            targets = read()
            if len(targets) > LARGEST:
                return targets
            if len(self._sets) == KEPT:
                del self._sets[next(iter(self._sets))]
        self._sets[fingerprint] = targets
        return [Target(it.name, it.provider_id, it.zone, list(it.addresses)) for it in targets]
