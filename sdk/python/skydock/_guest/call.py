"""Calls of the host."""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from componentize_py_types import Err, Result
from wit_world.imports import skydock_provider_types_0_1_1 as wit

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


def answer_elements(
    count: int, work: Callable[[], Coroutine[Any, Any, T]], into: Callable[[T], list[Result[W, wit.CloudError]]]
) -> list[Result[W, wit.CloudError]]:
    """Runs a call that has no error of its own: if it fails, that is the error of each of its elements."""
    try:
        return answer(work, into)
    except Err as error:
        return [Err(error.value)] * count


def at_once(work: Callable[[], T], into: Callable[[T], W]) -> W:
    """Runs a call that does not wait.

    Raises:
        Err: like `answer`.
    """
    # The state of the generator was saved with the component.
    random.seed()
    try:
        return into(work())
    except BaseException as error:
        failed = convert.wit_error(_parallel.told(error))
    raise Err(failed)
