"""The arguments of :meth:`Consumer.run`, validated."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import isasyncgenfunction, isgeneratorfunction
from typing import Any, Protocol

from aiokproto.config.values import boolean, duration, integer, one_of, positive, seconds
from aiokproto.consumer.running.retry import NO_RETRY, Retry
from aiokproto.consumer.running.retry_topics import RetryTopics
from aiokproto.errors import ConfigurationError
from aiokproto.running.runner import NotAwaitableError, Plan
from aiokproto.running.scheduler import Lane, Limits
from aiokproto.runtime.coroutines import is_async
from aiokproto.types import Record

Handler = Callable[[Any], Awaitable[object]]
"""A coroutine function of a record, or of a list of records."""


class DeadLetters(Protocol):
    """Stores records that cannot be handled: a :class:`~aiokproto.consumer.DeadLetterTopic`, or an object like it."""

    async def write(
        self,
        record: Record[Any, Any],
        error: BaseException,
        *,
        group: str | None = None,
        delivery_count: int | None = None,
    ) -> None:
        """Store a record, the handler's error, and how often the handler was called. Return once it's stored."""


@dataclass(frozen=True)
class RunOptions:
    """The arguments of :meth:`Consumer.run`. Durations are in seconds."""

    plan: Plan
    order: str | Lane
    limits: Limits
    retry: Retry
    retry_topics: RetryTopics | None
    dead_letter: DeadLetters | None
    batch_wait: float

    @classmethod
    def parse(cls, handler: Handler, given: dict[str, Any]) -> RunOptions:
        """Validate the arguments.

        Raises:
            ConfigurationError: A value is invalid; the message names it.
        """
        if not callable(handler):
            raise ConfigurationError(f"run({handler!r}): expected a coroutine function of a record")
        if _returns_nothing(handler):
            raise NotAwaitableError(f"run({handler!r}): it is no coroutine function: define it with async def")
        order = given["order"]
        if not callable(order):
            order = one_of("order", order, ("partition", "key", "none"))
        elif is_async(order):
            raise ConfigurationError(f"order={order!r}: a coroutine function is not awaited here")
        batch = given["batch"]
        if batch is not None:
            integer("batch", batch, 1)
            if order not in ("partition", "none"):
                raise ConfigurationError("a batch has records of many keys: pass order='partition' or order='none'")
        batch_wait = seconds("batch_wait_ms", given["batch_wait_ms"])
        if batch_wait and batch is None:
            raise ConfigurationError("batch_wait_ms is how long a batch waits for records: pass batch=..., too")
        _check("retry", given["retry"], Retry)
        _check("retry_topics", given["retry_topics"], RetryTopics)
        if given["dead_letter"] is not None and not callable(getattr(given["dead_letter"], "write", None)):
            raise ConfigurationError(f"dead_letter={given['dead_letter']!r}: expected a DeadLetterTopic")
        timeout = given["handler_timeout_ms"]
        return cls(
            plan=Plan(
                handler=handler,
                running=positive("concurrency", given["concurrency"]),
                drain_timeout=seconds("drain_timeout_ms", given["drain_timeout_ms"]),
                handler_timeout=None if timeout is None else duration("handler_timeout_ms", timeout),
                handle_signals=boolean("handle_signals", given["handle_signals"]),
            ),
            order=order,
            limits=Limits(
                records=positive("max_pending_records", given["max_pending_records"]),
                size=positive("max_pending_bytes", given["max_pending_bytes"]),
                running=positive("concurrency", given["concurrency"]),
                batch=batch or 0,
                gathers=batch_wait > 0,
            ),
            retry=given["retry"] or NO_RETRY,
            retry_topics=given["retry_topics"],
            dead_letter=given["dead_letter"],
            batch_wait=batch_wait,
        )


def _returns_nothing(handler: object) -> bool:
    """Return whether the handler clearly doesn't return an awaitable: it's a generator, or is annotated with
    ``-> None``. A plain function may return a coroutine."""
    if is_async(handler):
        return False
    if isgeneratorfunction(handler) or isasyncgenfunction(handler):
        return True
    # A wrapper copies the annotations of the function that it wraps, which may be a coroutine function.
    annotations = {} if hasattr(handler, "__wrapped__") else getattr(handler, "__annotations__", {})
    return "return" in annotations and annotations["return"] in (None, "None")


def _check(name: str, value: object, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        raise ConfigurationError(f"{name}={value!r}: expected {kind.__name__}(…), or None")
