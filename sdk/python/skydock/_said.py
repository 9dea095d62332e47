"""Finds a cloud's error message in the body of a response."""

from __future__ import annotations

import html
import re
from typing import Any

from ._wire import parse

#: Maximum number of characters of the message that are kept.
MOST = 300
#: Maximum number of bytes of a body that is read: a larger one is not an error message.
BODY = 64 << 10

_NAMES = ("message", "Message", "faultstring", "detail", "error_description")
_ELEMENT = re.compile(r"<(?:\w+:)?(?:Message|message|faultstring)(?:\s[^>]*)?>(?:<!\[CDATA\[)?(.*?)(?:\]\]>)?</", re.DOTALL)
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")


def sentence(content_type: str, body: bytes) -> str | None:
    """Returns the message in a body, if it has a form that clouds use: JSON, XML or plain text."""
    if len(body) > BODY:
        return None
    try:
        text = body.decode().strip()
    except UnicodeDecodeError:
        return None
    found: Any = None
    if text.startswith(("{", "[")):
        try:
            found = _in_json(parse(body))
        except ValueError:
            return None
    elif text.startswith("<"):
        element = _ELEMENT.search(text)
        found = html.unescape(element.group(1)) if element else None
    elif content_type.strip().startswith("text/plain"):
        found = text
    return line(found) or None if isinstance(found, str) else None


def _in_json(body: Any) -> str | None:
    """Reads `{"error":{"message"}}`, `{"error"}`, `{"message"}`, `{"errors":[{"detail"}]}`, and `{NAME:{"message"}}`."""
    if not isinstance(body, dict):
        return None
    errors = body.get("errors")
    first = errors[0] if isinstance(errors, list) and errors else None
    only = next(iter(body.values())) if len(body) == 1 else None
    return _message(body) or _own(body.get("error")) or _own(first) or _own(only)


def _own(value: Any) -> str | None:
    return value if isinstance(value, str) else _message(value)


def _message(value: Any) -> str | None:
    if not isinstance(value, dict):
        return None
    return next((value[name] for name in _NAMES if isinstance(value.get(name), str)), None)


def line(text: str) -> str:
    """Returns one line of visible characters, cut off at `MOST`."""
    words = " ".join(_INVISIBLE.sub("", "".join(c if c.isprintable() else " " for c in text)).split())
    return words if len(words) <= MOST else words[: MOST - 1] + "…"
