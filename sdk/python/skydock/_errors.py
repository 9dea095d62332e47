"""The errors of a cloud.

The host derives retry, delay, event and metric from the class alone, never from the text. Texts are for people: one sentence,
without secrets.
"""

from __future__ import annotations


class CloudError(Exception):
    """Base class of the errors below. Raise one of those."""

    def __init__(self, message: object = "") -> None:
        self.message = str(message)
        super().__init__(self.message)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), self.message))


class RetryLater(CloudError):
    """Base class of the errors with a delay."""

    def __init__(self, message: object = "", *, retry_after: float) -> None:
        super().__init__(message)
        #: Seconds until the host may retry. The host limits it to between 100 ms and 1 hour.
        self.retry_after = float(retry_after)


class NotFound(CloudError):
    """The cloud answered that the object does not exist. Never raise it if the cloud could not be asked.

    The host retries; a node stays tainted, and is not deleted because of this error.
    """


class ImplementedElsewhere(CloudError):
    """Another implementation owns this object. The host ignores it until it changes."""


class Conflict(CloudError):
    """Another writer changed the object at the same time. The host retries soon."""


class Throttled(RetryLater):
    """The cloud asks for fewer requests. The host warns, and retries after the delay."""


class InProgress(RetryLater):
    """Accepted, and not finished yet. The host retries after the delay."""


class Denied(CloudError):
    """Credentials or permissions are missing. The host warns and retries with back-off."""


class Invalid(CloudError):
    """The object asks for something that this cloud cannot do. The host warns, and does not retry until the object changes."""


class Unavailable(CloudError):
    """The cloud cannot be reached or answers with a server error. The host warns and retries with back-off."""


class Internal(CloudError):
    """Anything else. The host warns and retries with back-off. Every other exception becomes this one, except OSError."""


class StorageError(CloudError):
    """Base class of further errors, which only elements of calls about volumes and snapshots have. A call that fails with one as a
    whole fails with `Internal`."""


class Exists(StorageError):
    """Something else has this name: a volume of another size or with other content, or a snapshot of another volume."""


class Exhausted(StorageError):
    """The cloud has no room for it, a quota is used up, or the node has as many volumes as it can have."""


class OutOfRange(StorageError):
    """The cloud does not offer this size."""


class InUse(StorageError):
    """It is attached to another node, or something else depends on it, so that nothing can be done."""


def of(error: BaseException) -> CloudError:
    """Returns the error that an exception of the provider stands for.

    Of a group, as `asyncio.TaskGroup` raises it, that is the one that asks for most patience, or else the first.
    """
    if isinstance(error, CloudError):
        return error
    if isinstance(error, BaseExceptionGroup):
        parts = [of(part) for part in error.exceptions]
        waiting = [part for part in parts if isinstance(part, RetryLater)]
        return max(waiting, key=lambda part: (isinstance(part, Throttled), part.retry_after), default=parts[0])
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return Unavailable(text) if isinstance(error, OSError) else Internal(text)
