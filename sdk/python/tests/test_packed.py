from __future__ import annotations

import unittest

from skydock import AddressKind, NodeAddress, Target
from skydock._packed import LARGEST, Kept, unpack

ABSENT = 0xFFFF_FFFF


class PackedTest(unittest.TestCase):
    # The host has the same table.
    def test_packed_targets_are_read_completely(self) -> None:
        addresses = [NodeAddress(AddressKind.INTERNAL_IP, "10.0.0.1"), NodeAddress(AddressKind.EXTERNAL_DNS, "n.example")]
        for numbers, texts, expected in [
            ([], "", []),
            ([1, ABSENT, ABSENT, 0], "a", [Target("a")]),
            (
                [5, 9, 0, 2, 1, 8, 4, 9, 1, ABSENT, ABSENT, 0],
                "ünïmetal://110.0.0.1n.exampleb",
                [Target("ünï", "metal://1", "", addresses), Target("b")],
            ),
        ]:
            self.assertEqual(unpack(numbers, texts), expected)

    def test_targets_are_read_once_while_their_fingerprint_is_kept(self) -> None:
        kept, reads = Kept(), []

        def of(fingerprint: int) -> list[Target]:
            def read() -> list[Target]:
                reads.append(fingerprint)
                return [Target(str(fingerprint))]

            return kept.targets(fingerprint, read)

        for fingerprint in [1, 1, 2, 1, 3, 1, 2]:
            found = of(fingerprint)
            self.assertEqual(found, [Target(str(fingerprint))])
            # It belongs to the provider.
            found[0].addresses.append(NodeAddress(AddressKind.HOSTNAME, "changed"))
        self.assertEqual(reads, [1, 2, 3, 2])

    def test_a_large_set_is_not_kept(self) -> None:
        kept, reads = Kept(), []
        targets = [Target("a")] * (LARGEST + 1)
        for _ in range(2):
            kept.targets(1, lambda: reads.append(1) or targets)
        self.assertEqual(len(reads), 2)
