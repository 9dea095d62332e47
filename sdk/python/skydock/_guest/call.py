"""Calls of the host."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from componentize_py_types import Err

from .. import _parallel
from . import convert
from .loop import run

T = TypeVar("T")
W = TypeVar("W")


def answer(work: Callable[[], Coroutine[Any, Any, T]], into: Callable[[T], W]) -> W:
    """Runs a call to its end, and converts its result. If that is not of the right type, the call fails, too.

    Raises:
        Err: with the case of the contract, if it fails, whatever is raised: everything else would end the instance.
    """
    try:
        return into(run(_parallel.limited(work())))
    except BaseException as error:
        failed = convert.wit_error(_parallel.told(error))
    raise Err(failed)
