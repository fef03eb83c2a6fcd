"""Consume, transform, produce: each record processed exactly once, as far as Kafka can see (KIP-98, KIP-447).

A batch of records, what is written for them, and the group's progress form one transaction::

    poll ── records ──► the application writes ──► offsets ──► commit ──► poll …
                                  │ abort, or partitions lost
                                  └────────► seek back to the first record of each partition ──► poll

**Why nothing is processed twice.** The offsets are in the transaction, so results and progress become visible
together. The next owner of a partition waits until the transaction has ended before it reads the committed offset. The
group's coordinator refuses the offsets of a member that the group has continued without, and then nothing becomes
visible. A rebalance that revokes partitions waits for the next poll, which follows the commit; if that takes longer
than ``max_poll_interval_ms``, the partitions are lost and the transaction is aborted.

**Why nothing is lost.** Committed offsets move only with the transaction's commit. After an abort the positions are set
back, and a new process starts from the committed offsets.

**Who writes what.** The application writes records to the transaction and nothing else. The session alone sends the
offsets, commits or aborts, and seeks; the consumer's own tasks add and remove partitions. Whether a partition is still
the one that was read is seen by its :class:`~aiokproto.consumer.cursor.Cursor`, which every assignment makes anew.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING

from aiokproto.async_context import AsyncContext
from aiokproto.config import integer
from aiokproto.consumer import Consumer
from aiokproto.consumer.cursor import Cursor
from aiokproto.errors import (
    CommitError,
    ConfigurationError,
    TransactionAbortedError,
    TransactionOutcomeUnknownError,
)
from aiokproto.plurals import counted
from aiokproto.producer import Producer, Transaction, TransactionStatus
from aiokproto.types import Record, TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Self

log = logging.getLogger("aiokproto.exactly_once")

# A commit costs some milliseconds, whatever its size: more records per transaction share them.
_MAX_RECORDS = 2000
_POLL_MS = 500.0

Process = Callable[[list[Record], Transaction], Awaitable[None]]
"""Writes the results of some records to the transaction."""


class ExactlyOnce(AsyncContext):
    """Processes each record of a consumer exactly once, writing the results with a producer.

    ::

        consumer = Consumer(
            "orders",
            bootstrap_servers=servers,
            group_id="billing",
            enable_auto_commit=False,
            isolation_level="read_committed",
        )
        producer = Producer(bootstrap_servers=servers, transactional_id="billing-0")
        async with ExactlyOnce(consumer, producer) as session:
            async for records, txn in session.batches():
                for record in records:
                    await txn.post("invoices", invoice(record.value), key=record.key)

    The session starts both clients, and closes them. What the application does besides writing to the transaction, such
    as a call to another service, happens again when records are processed again.
    """

    def __init__(self, consumer: Consumer, producer: Producer) -> None:
        """Check that the clients' options can give the guarantee. Nothing is started before :meth:`start`.

        Raises:
            ConfigurationError: The consumer has no group, commits by itself or reads uncommitted records; or the
                producer has no ``transactional_id``.
        """
        _check_consumer(consumer)
        # Raises without a transactional id; the transaction does not begin.
        producer.transaction()
        consumer._engine.session = "an ExactlyOnce"
        self._consumer = consumer
        self._producer = producer
        self._open: _OpenBatch | None = None

    # -- lifecycle

    async def start(self) -> None:
        """Start the producer, which aborts what an earlier process with its ``transactional_id`` has left, and the
        consumer. ``async with`` calls it. Raises as both clients do."""
        try:
            # The producer first: it aborts what its predecessor left open, for which the consumer's committed offsets
            # would wait.
            await self._producer.start()
            await self._consumer.start()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Abort the open transaction, leave the group and disconnect."""
        try:
            # In either order nothing is lost: the next owner of the partitions waits for the end of the transaction.
            await self._consumer.close()
        finally:
            await self._producer.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Commit the last batch, as ``break`` leaves it, or with an exception abort it; then close both clients."""
        try:
            if kind is None:
                await self._finish()
        finally:
            await self.close()

    # -- batches

    def batches(self, max_records: int = _MAX_RECORDS) -> AsyncIterator[tuple[list[Record], Transaction]]:
        """Return an endless iterator of records, each time with a transaction for their results.

        Requesting the next batch commits the transaction. If it cannot be committed, or the application has aborted it,
        the same records come again, unless the group has given their partitions to another member. Leaving the loop
        with ``break`` commits at the end of ``async with``; an exception aborts.

        Write with ``txn.post()``: an error of ``txn.send()`` leaves the loop, and with it the session.
        :meth:`run` also repeats after these.

        Args:
            max_records: Most records in a batch. A commit takes some milliseconds.

        Raises:
            ConfigurationError: ``max_records`` is not a number above 0.
            FencedError: Another producer has taken over the ``transactional_id``.
            KafkaError: A partition cannot be read, as ``async for`` of the consumer raises; or a client has failed.
        """
        return _Batches(self, integer("max_records", max_records, 1))

    async def run(self, process: Process, *, max_records: int = _MAX_RECORDS) -> None:
        """Call ``process(records, txn)`` for each batch, until it raises or is cancelled.

        As :meth:`batches`, and a ``TransactionAbortedError`` that ``process`` raises is followed by the same records.

        Args:
            process: A coroutine function that writes the results.
            max_records: Most records in a batch.
        """
        async for records, txn in self.batches(max_records):
            try:
                await process(records, txn)
            except TransactionAbortedError as error:
                log.info("processing %s again: %s", counted(len(records), "record"), error)
                await txn.abort()

    async def _next(self, max_records: int) -> tuple[list[Record], Transaction]:
        # Before the next poll: requesting records lets a waiting rebalance go on, so the commit must be done.
        await self._finish()
        records: list[Record] = []
        while not records:
            records = await self._consumer.poll(_POLL_MS, max_records)
        # No await before the batch is remembered: a cancelled call must be able to seek back to these records.
        self._open = batch = _OpenBatch(self._consumer, self._producer.transaction(), records)
        await batch.txn.__aenter__()
        return records, batch.txn

    async def _finish(self) -> None:
        """Commit the open batch, or seek back to its beginning."""
        batch = self._open
        if batch is None:
            return
        # Cancelled, the batch stays: the next call goes on with its commit, or its abort.
        if not await batch.commit():
            batch.seek_back()
        # Only when it is settled; a cancelled call finds the batch again.
        self._open = None


class _OpenBatch:
    """Records that were delivered, and the transaction for their results."""

    def __init__(self, consumer: Consumer, txn: Transaction, records: list[Record]) -> None:
        self.txn = txn
        self._consumer = consumer
        # Where to seek back to; of each partition, as a batch has records of several.
        self._first: dict[TopicPartition, int] = {}
        for record in records:
            self._first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        cursors = consumer._assignment.cursors
        # A partition that was lost and assigned again has another cursor.
        self._cursors: dict[TopicPartition, Cursor] = {each: cursors[each] for each in self._first}

    async def commit(self) -> bool:
        """Commit; return whether the results are visible. Cancelled, the next call goes on.

        Raises:
            ConfigurationError: The application has committed the transaction, without the offsets.
            KafkaError: One of the clients has failed.
        """
        # By the application, without the offsets: its results are visible and would be written again.
        if self._status() is TransactionStatus.COMMITTED:
            raise ConfigurationError("the session commits the transaction, together with the offsets")
        try:
            # COMMITTING after a cancelled call: the offsets are in the transaction already. ABORTED: the application
            # did it.
            if self._status() is TransactionStatus.OPEN:
                await self._send_offsets()
            # A method and no local: commit() changes the status.
            while self._status() in (TransactionStatus.OPEN, TransactionStatus.COMMITTING):
                try:
                    await self.txn.commit()
                except TransactionOutcomeUnknownError as error:
                    # Only the coordinator knows; whatever else was done could contradict it.
                    log.warning("%s; requesting the commit again", error)
        except (TransactionAbortedError, CommitError) as error:
            log.info("the transaction of %s was aborted: %s", ", ".join(map(str, self._first)), error)
            # Changes nothing after a TransactionAbortedError; after a CommitError of _send_offsets() the transaction is
            # still open.
            await self.txn.abort()
        return self._status() is TransactionStatus.COMMITTED

    def _status(self) -> TransactionStatus:
        return self.txn.status

    async def _send_offsets(self) -> None:
        lost = [str(each) for each, cursor in self._cursors.items() if self._is_lost(each, cursor)]
        if lost:
            raise CommitError(f"the group does not assign this consumer any more {', '.join(lost)}")
        # No await since the check: the offsets belong to the generation that has these partitions.
        group = self._consumer.group_metadata()
        # Only partitions of this batch: positions of others have not moved since their own commit.
        offsets = {each: offset for each, offset in self._consumer.positions().items() if each in self._first}
        await self.txn.send_offsets(offsets, group)

    def seek_back(self) -> None:
        """Deliver the records again, of the partitions that are still assigned."""
        for partition, offset in self._first.items():
            # Another cursor starts from the committed offset by itself.
            if not self._is_lost(partition, self._cursors[partition]):
                self._consumer.seek(partition, offset)

    def _is_lost(self, partition: TopicPartition, cursor: Cursor) -> bool:
        return self._consumer._assignment.cursors.get(partition) is not cursor


class _Batches(AsyncIterator[tuple[list[Record], Transaction]]):
    def __init__(self, session: ExactlyOnce, max_records: int) -> None:
        self._session = session
        self._max_records = max_records

    async def __anext__(self) -> tuple[list[Record], Transaction]:
        return await self._session._next(self._max_records)


def _check_consumer(consumer: Consumer) -> None:
    config = consumer._engine.config
    if config.group is None:
        raise ConfigurationError("exactly-once processing needs a consumer with a group_id")
    if config.enable_auto_commit:
        raise ConfigurationError(
            "exactly-once processing needs enable_auto_commit=False: transactions commit the offsets"
        )
    if not config.fetch.read_committed:
        raise ConfigurationError(
            'exactly-once processing needs isolation_level="read_committed": records of a transaction that is aborted '
            "later would be processed"
        )
