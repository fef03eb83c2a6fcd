"""What a posted record's sender holds in hand."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from functools import partial
from typing import Any

from aiokproto.errors import KafkaError
from aiokproto.producer.batch import Batch
from aiokproto.types import RecordMetadata


class Delivery:
    """A record on its way: ``await`` it for its :class:`~aiokproto.types.RecordMetadata`.

    No asyncio future but two numbers and a reference to the record's batch, which has the outcome of all its records.
    It may be awaited more than once, by several tasks, or never: then a failure is logged, once for each batch, and
    counted in :attr:`~aiokproto.producer.Producer.unobserved_failures`. Cancelling an await changes nothing for the
    record.

    Attributes:
        timestamp: The record's timestamp, in milliseconds since the epoch.
    """

    __slots__ = ("_batch", "_index", "timestamp")

    def __init__(self, batch: Batch, index: int, timestamp: int) -> None:
        self._batch = batch
        self._index = index
        self.timestamp = timestamp

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self._batch.done:
            yield from wait_done(self._batch).__await__()
        return self.result()

    async def outcome(self) -> RecordMetadata | KafkaError:
        """Wait for what ``await`` gives or raises, and return it either way."""
        if not self._batch.done:
            await wait_done(self._batch)
        return self._batch.outcome(self._index, self.timestamp)

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._batch.done

    def result(self) -> RecordMetadata:
        """Where the record is.

        Raises:
            KafkaError: Why it was not delivered.
            asyncio.InvalidStateError: The outcome is not known yet.
        """
        outcome = self._outcome()
        if isinstance(outcome, RecordMetadata):
            return outcome
        # One error serves all records of the batch: each raise starts with a clean traceback.
        raise outcome.with_traceback(None)

    def exception(self) -> KafkaError | None:
        """Why the record was not delivered; None if it was.

        Raises:
            asyncio.InvalidStateError: The outcome is not known yet.
        """
        outcome = self._outcome()
        return None if isinstance(outcome, RecordMetadata) else outcome

    def _outcome(self) -> RecordMetadata | KafkaError:
        if not self._batch.done:
            raise asyncio.InvalidStateError(f"the outcome of {self._batch} is not known yet")
        return self._batch.outcome(self._index, self.timestamp)

    def __repr__(self) -> str:
        state = "done" if self._batch.done else "pending"
        return f"<Delivery {state}: record {self._index} of {self._batch}>"


async def wait_done(batch: Batch) -> None:
    """Wait until a batch's outcome is known.

    Each who waits has a future of its own: cancelling a task cancels the future that it waits on, and the others must
    not notice.
    """
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    wake = partial(_set, future)
    batch.when_done(wake)
    try:
        await future
    finally:
        if not batch.done:
            batch.forget(wake)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
