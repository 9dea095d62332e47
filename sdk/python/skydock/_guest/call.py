"""Calls of the host."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from componentize_py_types import Err

from .. import _parallel
from .._errors import CloudError
from . import convert
from .loop import run

T = TypeVar("T")


def answer(work: Coroutine[Any, Any, T]) -> T:
    """Runs a call to its end.

    Raises:
        Err: with the case of the contract, if it fails.
    """
    try:
        return run(_parallel.limited(work))
    except CloudError as error:
        failed = convert.wit_error(error)
    raise Err(failed)
