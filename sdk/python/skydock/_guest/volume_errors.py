"""Elements about volumes and snapshots as the bindings have them. Only a plugin with volumes imports this."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from componentize_py_types import Err, Ok, Result
from wit_world.imports import skydock_provider_storage_0_1_1 as wit

from .._errors import CloudError, StorageError
from .._parallel import told
from .._said import line
from .convert import wit_error

T = TypeVar("T")
W = TypeVar("W")


def wit_storage_error(it: CloudError) -> wit.StorageError:
    """Returns the case of an error of an element. Its text becomes one line."""
    kind = next((kind for kind in type(it).__mro__ if hasattr(wit, f"StorageError_{kind.__name__}")), None)
    if kind is None or not isinstance(it, StorageError):
        return wit.StorageError_Cloud(wit_error(it))
    error: wit.StorageError = getattr(wit, f"StorageError_{kind.__name__}")(line(it.message) or kind.__name__)
    return error


def wit_results(them: Sequence[T | CloudError], into: Callable[[T], W]) -> list[Result[W, wit.StorageError]]:
    """Returns the elements of an answer, like `convert.wit_results`."""
    return [_wit_result(it, into) for it in them]


def _wit_result(it: T | CloudError, into: Callable[[T], W]) -> Result[W, wit.StorageError]:
    try:
        return Err(wit_storage_error(told(it))) if isinstance(it, BaseException) else Ok(into(it))
    except Exception as error:
        return Err(wit_storage_error(told(error)))
