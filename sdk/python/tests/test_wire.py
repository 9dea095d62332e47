import unittest
from typing import Any

from skydock import Internal
from skydock import _wire as wire


class WireTest(unittest.TestCase):
    def test_texts_have_no_surrogates(self) -> None:
        self.assertEqual([wire.text(it, "zone") for it in ("a", "ü😀", "a\ud800b")], ["a", "ü😀", "a?b"])
        self.assertEqual(wire.pairs({"a\ud800": "b"}, "label"), [("a?", "b")])
        self.assertIsNone(wire.optional(None, "zone"))

    def test_a_value_of_a_wrong_type_is_an_error(self) -> None:
        values: list[Any] = [3, b"x", {}, None]
        for wrong in values:
            with self.assertRaises(Internal) as caught:
                wire.text(wrong, "zone")
            self.assertEqual(str(caught.exception), f"the provider returned the zone {wrong!r}; expected a string")
        for wrong_number in ("80", 80.5, -1, 65536, None):
            with self.assertRaises(Internal):
                wire.number(wrong_number, "port", 65535)
        with self.assertRaises(Internal):
            wire.pairs({"a": None}, "label")

    def test_a_delay_fits_whatever_it_is(self) -> None:
        delays = (1.5, 0, -1, float("nan"), float("inf"), 1e300)
        self.assertEqual([wire.millis(it) for it in delays], [1500, 0, 0, 0, 1 << 53, 1 << 53])

    def test_json_has_a_limited_number_of_levels(self) -> None:
        def nested(levels: int) -> bytes:
            return b'[{"a": ' * (levels // 2) + b"1" + b"}]" * (levels // 2)

        self.assertIsInstance(wire.parse(nested(wire.LEVELS)), list)
        for text in (nested(wire.LEVELS + 2), b"[" * 60_000, b'{"a":' * 60_000, b'["]",' * 60_000):
            with self.assertRaisesRegex(ValueError, "levels"):
                wire.parse(text)
        for text in (b"", b"]" * 60_000, b'{"a', b"[}"):
            with self.assertRaises(ValueError):
                wire.parse(text)
        # Brackets in strings do not count, and neither does the number of elements.
        self.assertEqual(wire.parse(b'["' + b"[" * 1000 + b'\\"[", "\\\\"]'), ["[" * 1000 + '"[', "\\"])
        self.assertEqual(wire.parse(b"[" + b"[],{}," * 1000 + b"1]")[-1], 1)
