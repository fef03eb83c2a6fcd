"""Retries of records that the handler has failed on. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aiokproto.application.calls import calling, check_not_awaitable
from aiokproto.config.values import integer, seconds
from aiokproto.errors import ConfigurationError
from aiokproto.runtime.coroutines import is_async

Failing = type[Exception] | tuple[type[Exception], ...] | Callable[[Exception], bool]
"""The exceptions to retry: classes, or a function that returns whether to try again."""


class PermanentError(Exception):
    """Raise it in a handler of :meth:`Consumer.run() <aiokproto.consumer.Consumer.run>` if retrying the record cannot
    succeed. The record becomes a dead letter; if there's no dead-letter topic, the run ends."""


@dataclass(frozen=True)
class Retry:
    """How often, and after what pauses, to retry a record that the handler failed to handle.

    The pauses double, from ``backoff_ms`` to ``max_backoff_ms``, and each varies at random between half and all of it.
    While a record waits, later records of its key (or partition, depending on ``order``) wait too. It doesn't count
    towards ``concurrency``.

    Attributes:
        attempts: Total number of calls to the handler; 1 for no retries.
        backoff_ms: The first pause.
        max_backoff_ms: The maximum pause.
        on: Exception classes, or a function of the exception that returns whether to try again. Other exceptions, and
            :class:`PermanentError`, aren't retried.

    Raises:
        ConfigurationError: An argument is invalid.
    """

    attempts: int = 5
    backoff_ms: float = 100
    max_backoff_ms: float = 10_000
    on: Failing = (Exception,)

    def __post_init__(self) -> None:
        integer("Retry(attempts)", self.attempts, 1)
        seconds("Retry(backoff_ms)", self.backoff_ms)
        seconds("Retry(max_backoff_ms)", self.max_backoff_ms, self.backoff_ms)
        kinds = self.on if isinstance(self.on, tuple) else (self.on,)
        classes = all(isinstance(kind, type) and issubclass(kind, Exception) for kind in kinds)
        if not classes and (isinstance(self.on, type | tuple) or not callable(self.on)):
            raise ConfigurationError(f"Retry(on={self.on!r}): expected exception classes, or a function")
        if is_async(self.on):
            raise ConfigurationError(f"Retry(on={self.on!r}): a coroutine function is not awaited here")

    def again(self, error: Exception, attempts: int) -> bool:
        """Return whether to call the handler again after ``attempts`` failures, the last one with this error."""
        if attempts >= self.attempts:
            return False
        return self.may_pass(error)

    def may_pass(self, error: Exception) -> bool:
        """Return whether another attempt can succeed."""
        if isinstance(error, PermanentError):
            return False
        if isinstance(self.on, type | tuple):
            return isinstance(error, self.on)
        with calling("Retry(on)"):
            again = self.on(error)
            check_not_awaitable(again, "Retry(on)")
        return bool(again)

    def pause(self, attempts: int, random: float) -> float:
        """Return the seconds until the next attempt, after ``attempts`` failures. ``random`` is between 0 and 1."""
        # Limit the exponent: a larger power of two doesn't fit in a float.
        longest = min(self.backoff_ms * 2.0 ** min(attempts - 1, 60), self.max_backoff_ms)
        return longest * (0.5 + random / 2) / 1000


NO_RETRY = Retry(attempts=1)
"""A single attempt."""
