"""The ``post`` of producers that do more for each record than the hot path: for interceptors, and for old brokers.

That path has no branch for them: attributes of the instance shadow the methods that append. The compiled ``post`` would
call its own ``_append`` without a look at these, so it is shadowed too.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from aiokproto.producer.delivery import Delivery
from aiokproto.producer.record import PendingRecord
from aiokproto.types import Header

Append = Callable[
    [str, "bytes | None", "bytes | None", Sequence[Header], "int | None", "int | None"], "Delivery | PendingRecord"
]
AppendLater = Callable[[PendingRecord], Coroutine[Any, Any, Delivery]]


def posting(append: Append, later: AppendLater) -> Callable[..., Coroutine[Any, Any, Delivery]]:
    """Return a ``post`` that appends in this way; ``later`` appends what ``append`` could not."""

    async def post(
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Delivery:
        """As :meth:`RecordAppender.post <aiokproto.producer.appender.RecordAppender.post>`."""
        appended = append(topic, value, key, headers, partition, timestamp)
        return appended if isinstance(appended, Delivery) else await later(appended)

    return post
