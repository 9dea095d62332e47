"""Values as the bindings can pass them: they end a call, with the answers about all its elements, that has others."""

from __future__ import annotations

import json
import re
from typing import Any

from ._errors import Internal

#: Levels of JSON that are parsed. With many more, the stack of a component is exhausted, which ends its instance.
LEVELS = 128

#: The largest delay in milliseconds. The host has limits of its own.
_MOST_MILLIS = 1 << 53

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_SQUARE = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_NOT_BRACKETS_OR_QUOTES = bytes(set(range(256)) - set(b'[]{}"'))


def valid(text: str) -> str:
    """Returns text without surrogates, which JSON may contain, and UTF-8 may not."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def text(value: object, what: str) -> str:
    """Returns a text.

    Raises:
        Internal: if it is not one.
    """
    if not isinstance(value, str):
        raise Internal(f"the provider returned the {what} {value!r:.100}; expected a string")
    return valid(value)


def optional(value: object, what: str) -> str | None:
    """Returns a text, or None."""
    return None if value is None else text(value, what)


def pairs(them: Any, what: str) -> list[tuple[str, str]]:
    """Returns labels or annotations as pairs."""
    return [(text(key, what), text(value, f"{what} {key}")) for key, value in them.items()]


def number(value: object, what: str, most: int) -> int:
    """Returns a whole number from 0 on."""
    if not isinstance(value, int) or not 0 <= value <= most:
        raise Internal(f"the provider returned the {what} {value!r:.100}; expected a number from 0 to {most}")
    return int(value)


def millis(seconds: float) -> int:
    """Returns milliseconds, whatever the number is."""
    return int(min(seconds * 1000, _MOST_MILLIS)) if seconds > 0 else 0


def parse(data: bytes) -> Any:
    """Parses JSON.

    Raises:
        ValueError: if it is not valid, or has too many levels.
    """
    if _is_deep(data):
        raise ValueError(f"it has more than {LEVELS} levels")
    return json.loads(data)


def _is_deep(data: bytes) -> bool:
    """Returns whether brackets are nested too deep. Everything here is done by functions that are written in C."""
    if b"\\" not in data:
        # Most strings have no brackets: nothing is left between their quotes.
        data = data.translate(None, _NOT_BRACKETS_OR_QUOTES).replace(b'""', b"")
    brackets = _STRING.sub(b"", data).translate(_SQUARE, _NOT_BRACKETS)
    for _ in range(LEVELS):
        # The innermost level of everything.
        rest = brackets.replace(b"[]", b"")
        if len(rest) == len(brackets):
            # Not balanced: the parser will say so, if it gets there.
            return brackets.count(b"[") > LEVELS
        brackets = rest
    return b"[" in brackets
