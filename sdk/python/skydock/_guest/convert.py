"""Errors and elements as the bindings have them. `generated` has the other conversions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from componentize_py_types import Err, Ok, Result
from wit_world.imports import skydock_provider_types_0_1_1 as wit

from .._errors import CloudError, ImplementedElsewhere, Internal, RetryLater
from .._parallel import told
from .._said import line
from .._wire import millis

T = TypeVar("T")
W = TypeVar("W")


def wit_error(it: CloudError) -> wit.CloudError:
    """Returns the case of an error. Its text becomes one line."""
    if isinstance(it, ImplementedElsewhere):
        return wit.CloudError_ImplementedElsewhere()
    kind = next((kind for kind in type(it).__mro__ if hasattr(wit, f"CloudError_{kind.__name__}")), Internal)
    case = getattr(wit, f"CloudError_{kind.__name__}")
    said = line(it.message) or kind.__name__
    value = wit.Retry(millis(it.retry_after), said) if isinstance(it, RetryLater) else said
    error: wit.CloudError = case(value)
    return error


def wit_results(them: Sequence[T | CloudError], into: Callable[[T], W]) -> list[Result[W, wit.CloudError]]:
    """Returns the elements of an answer. One that is not of the right type, or any exception, is an error of this element."""
    return [_wit_result(it, into) for it in them]


def _wit_result(it: T | CloudError, into: Callable[[T], W]) -> Result[W, wit.CloudError]:
    try:
        return Err(wit_error(told(it))) if isinstance(it, BaseException) else Ok(into(it))
    except Exception as error:
        return Err(wit_error(told(error)))


def nothing(what: str) -> Callable[[object], None]:
    """Returns the conversion of an element that has no value if it succeeds."""

    def check(it: object) -> None:
        if it is not None:
            raise Internal(f"the provider returned {it!r:.100} for a {what}; expected None or an error")

    return check
