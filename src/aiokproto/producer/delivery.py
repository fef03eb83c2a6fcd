"""Handles for buffered records. They're awaitable, and don't need a future per record."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from typing import Any, final

from aiokproto.accelerator import has_compiled_form
from aiokproto.errors import KafkaError
from aiokproto.producer.outcome import Outcome
from aiokproto.producer.waiting import wait_done
from aiokproto.texts import counted
from aiokproto.types import RecordMetadata


@has_compiled_form
@final
class Delivery:
    """A buffered record: ``await`` it for its :class:`~aiokproto.types.RecordMetadata`.

    It isn't an asyncio future but two numbers and a reference to the outcome that all records of a batch share. It can
    be awaited more than once, by several tasks, or never. A failure that is never retrieved is logged, once per batch,
    and counted in :attr:`~aiokproto.producer.Producer.unobserved_failures`. Cancelling an await doesn't affect the
    record.

    Attributes:
        timestamp: The record's timestamp, in milliseconds since the epoch.
    """

    __slots__ = ("_index", "_outcome", "_timestamp")

    def __init__(self, outcome: Outcome, index: int, timestamp: int) -> None:
        self._outcome = outcome
        self._index = index
        self._timestamp = timestamp

    @property
    def timestamp(self) -> int:
        return self._timestamp

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self._outcome.done:
            # A generator rather than `async def`: awaiting a delivery that is done doesn't have to create a coroutine.
            yield from wait_done(self._outcome).__await__()
        return self.result()

    async def outcome(self) -> RecordMetadata | KafkaError:
        """Wait for the result, and return the metadata or the error instead of raising it."""
        await wait_done(self._outcome)
        return self._outcome.record_result(self._index, self._timestamp)

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._outcome.done

    def run(self) -> BatchSlice:
        """Return the record as a slice of length 1."""
        return BatchSlice(self._outcome, self._index, 1, self._timestamp)

    def result(self) -> RecordMetadata:
        """Return where the record was written.

        Raises:
            KafkaError: Why it was not delivered.
            asyncio.InvalidStateError: The outcome is not known yet.
        """
        outcome = self._known()
        if isinstance(outcome, RecordMetadata):
            return outcome
        # One error serves all records of the batch, so each raise starts with a clean traceback.
        raise outcome.with_traceback(None)

    def exception(self) -> KafkaError | None:
        """Return why the record was not delivered, or None if it was.

        Raises:
            asyncio.InvalidStateError: The outcome is not known yet.
        """
        outcome = self._known()
        return None if isinstance(outcome, RecordMetadata) else outcome

    def _known(self) -> RecordMetadata | KafkaError:
        if not self._outcome.done:
            raise asyncio.InvalidStateError(f"the outcome of {self._outcome} is not known yet")
        return self._outcome.record_result(self._index, self._timestamp)

    def __repr__(self) -> str:
        state = "done" if self._outcome.done else "pending"
        return f"<Delivery {state}: record {self._index} of {self._outcome}>"


class BatchDelivery:
    """Buffered record batches: ``await`` it to learn where each was written.

    The result is a list with the :class:`~aiokproto.types.RecordMetadata` of each batch's first record. The timestamp
    is the batch's greatest, or the broker's if the topic has LogAppendTime.

    It can be awaited more than once, by several tasks, or never. Failures that are never retrieved are logged and
    counted in :attr:`~aiokproto.producer.Producer.unobserved_failures`. Cancelling an await doesn't affect the batches.
    """

    __slots__ = ("_batches",)

    def __init__(self, batches: Sequence[tuple[Outcome, int]]) -> None:
        self._batches = batches

    def __await__(self) -> Generator[Any, None, list[RecordMetadata]]:
        for outcome, _ in self._batches:
            # Await one at a time: the slowest decides anyway, and this doesn't need a task.
            yield from wait_done(outcome).__await__()
        return self.result()

    def done(self) -> bool:
        """Whether the outcome of every batch is known."""
        return all(outcome.done for outcome, _ in self._batches)

    def result(self) -> list[RecordMetadata]:
        """Return where the batches were written, in order.

        Raises:
            KafkaError: The error of the first batch that failed. Other batches may have been written.
            asyncio.InvalidStateError: The outcome of a batch is not known yet.
        """
        for outcome, _ in self._batches:
            if not outcome.done:
                raise asyncio.InvalidStateError(f"the outcome of {outcome} is not known yet")
        # All results are read before one is raised, so each counts as retrieved. Otherwise the failures of the other
        # batches would be logged as unobserved.
        results = [outcome.batch_result(timestamp) for outcome, timestamp in self._batches]
        for result in results:
            if isinstance(result, KafkaError):
                raise result.with_traceback(None)
        return [result for result in results if isinstance(result, RecordMetadata)]

    def __repr__(self) -> str:
        state = "done" if self.done() else "pending"
        return f"<BatchDelivery {state}: {counted(len(self._batches), 'batch', 'batches')}>"


@has_compiled_form
@final
class BatchSlice:
    """Consecutive records of a batch with the same timestamp: a :class:`Delivery` for several records.

    Attributes:
        first: Index of the first record in its batch.
        count: Number of records.
        outcome: The outcome of their batch. Results can be read once it's done.
    """

    __slots__ = ("_timestamp", "count", "first", "outcome")

    def __init__(self, outcome: Outcome, first: int, count: int, timestamp: int) -> None:
        self.outcome = outcome
        self.first = first
        self.count = count
        self._timestamp = timestamp

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> RecordMetadata | KafkaError:
        """Return the result of the record at ``index``, counted from the start of the slice."""
        return self.outcome.record_result(self.first + index, self._timestamp)

    def results(self) -> list[RecordMetadata | KafkaError]:
        """Return the result of each record."""
        return [self[index] for index in range(self.count)]
