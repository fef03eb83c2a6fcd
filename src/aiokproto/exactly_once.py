"""Consume, transform, produce: each record processed exactly once, as far as Kafka can see (KIP-98, KIP-447).

A batch of records, their results, and the group's progress form one transaction::

    poll ── records ──► the application writes ──► offsets ──► commit ──► poll …
                                  │ abort, or partitions lost
                                  └────────► seek back to the first record of each partition ──► poll

**Why nothing is processed twice.** The offsets are in the transaction, so results and progress become visible together.
The next owner of a partition waits until the transaction has ended before it reads the committed offset. If the group
has continued without a member, the coordinator rejects its offsets, and nothing becomes visible. A rebalance that
revokes partitions waits for the next poll, which follows the commit; if that takes longer than
``max_poll_interval_ms``, the partitions are lost and the transaction is aborted.

**Why nothing is lost.** Only a request for the next batch means that a batch is finished. If the loop is left in any
other way, by ``break``, an exception or a cancellation, the batch is aborted, as the session cannot know how much of it
was processed. Committed offsets move only with the transaction's commit. After an abort, the positions are set back; a
new process starts from the committed offsets.

**Who writes what.** The application writes records to the transaction and nothing else. Only the session sends the
offsets, commits or aborts, and rewinds; the consumer's own tasks add and remove partitions. Every assignment creates a
new :class:`~aiokproto.consumer.cursor.Cursor`, which shows whether this consumer has owned a partition without
interruption since records were read from it (:class:`~aiokproto.consumer.progress.Progress`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Generic

from aiokproto.application.async_context import AsyncContext
from aiokproto.application.calls import calling
from aiokproto.application.gates import CREATE, EXACTLY_ONCE, Use, gated
from aiokproto.config.values import integer
from aiokproto.consumer import Consumer, Progress
from aiokproto.errors import (
    CommitError,
    ConfigurationError,
    DeadlineError,
    KafkaError,
    TransactionAbortedError,
    TransactionOutcomeUnknownError,
)
from aiokproto.producer import Producer, Transaction, TransactionStatus
from aiokproto.running.runner import NotAwaitableError
from aiokproto.texts import repr_of, text_of
from aiokproto.types import K, Record, TopicPartition, V

if TYPE_CHECKING:
    from typing_extensions import Self, TypeVar

    KOut = TypeVar("KOut", default=bytes)
    VOut = TypeVar("VOut", default=bytes)
else:
    from typing import TypeVar

    KOut = TypeVar("KOut")
    VOut = TypeVar("VOut")

log = logging.getLogger("aiokproto.exactly_once")

# A commit takes a few milliseconds, whatever its size, so large transactions spread that over more records.
_MAX_RECORDS = 2000
_POLL = 0.5

Process = Callable[[list[Record[K, V]], Transaction[KOut, VOut]], Awaitable[None]]
"""Writes the results of some records to the transaction."""


@gated(EXACTLY_ONCE)
class ExactlyOnce(AsyncContext, Generic[K, V, KOut, VOut]):
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

    The session starts and closes both clients. If the application does more than write to the transaction, such as
    calling another service, that happens again when records are processed again.

    The consumer and the producer stay usable for calls that don't read, commit or move the consumer:
    ``consumer.lag()``, ``consumer.assignment()``, ``consumer.pause()``. Other calls raise ``ConfigurationError``, which
    says what to do instead.

    For type checkers, it's generic in the types of both clients: with a ``Consumer[K, V]`` and a
    ``Producer[KOut, VOut]`` the records are ``Record[K, V]`` and the transaction is a ``Transaction[KOut, VOut]``.
    """

    def __init__(self, consumer: Consumer[K, V], producer: Producer[KOut, VOut]) -> None:
        """Check that the clients' options allow the guarantee. Nothing is started before :meth:`start`.

        Raises:
            ConfigurationError: The consumer has no group, commits automatically or reads uncommitted records; or the
                producer has no ``transactional_id``, or uses two-phase commit. Or one of them belongs to another
                session, or the consumer is in :meth:`Consumer.run`.
        """
        _check_consumer(consumer)
        # This raises if there's no transactional id. The transaction is not started.
        producer._transaction()
        if producer.config.two_phase_commit:
            raise ConfigurationError(
                "exactly-once processing decides about its transactions itself: leave out "
                "transaction_two_phase_commit_enable"
            )
        if producer._in_session:
            raise ConfigurationError("another session writes with this producer: make another one")
        consumer._engine.own(self)
        producer._session_of = self
        self._consumer = consumer
        self._producer = producer
        self._open: _OpenBatch | None = None
        self._stopped = False
        # Whether a task is in _next(). A second task would treat the batch that the first one is committing as
        # abandoned.
        self._requested = False
        # The number of consecutive batches that weren't committed.
        self._aborts = 0
        # The end offsets of aborted batches, and their progress, until they're committed or lost. These records are
        # delivered again, even after stop().
        self._owed: dict[TopicPartition, tuple[int, Progress]] = {}

    def _admit(self, use: Use) -> None:
        self._consumer._admit(use)

    # -- lifecycle

    async def start(self) -> None:
        """Start the producer and the consumer. The producer aborts any transaction left open by an earlier process with
        its ``transactional_id``. ``async with`` calls this. Raises the same errors as both clients."""
        try:
            # Start the producer first: it aborts its predecessor's open transaction, which would delay the consumer's
            # lookup of committed offsets.
            await self._producer.start()
            await self._consumer.start()
        except BaseException:
            await self.close()
            raise

    def stop(self) -> None:
        """Stop gracefully: the batch that is being processed is the last one.

        The loop over :meth:`batches`, and :meth:`run`, end once that batch is committed, or within half a second if
        there is none. If its commit is rejected, its records are delivered again first. To call this from a signal:
        ``loop.add_signal_handler(signal.SIGTERM, session.stop)``.
        """
        self._stopped = True

    async def close(self) -> None:
        """Abort the open transaction, leave the group and disconnect."""
        try:
            # Close the producer first: if a transaction has sent its offsets, the next owner of the partitions waits
            # until it ends.
            await self._producer.close()
        finally:
            await self._consumer.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def _leave(self, error: BaseException | None) -> None:
        await self.close()

    # -- batches

    def batches(
        self, max_records: int = _MAX_RECORDS
    ) -> AsyncIterator[tuple[list[Record[K, V]], Transaction[KOut, VOut]]]:
        """Return an iterator of batches of records, each with a transaction for their results. It ends after
        :meth:`stop`.

        Requesting the next batch commits the transaction. If it cannot be committed, or the application has aborted it,
        the same records are delivered again, unless the group has given their partitions to another member. If this
        happens several times in a row, each time after the first is logged as a warning and starts with a pause, which
        grows from ``retry_backoff_ms``.

        Leaving the loop in any other way, by ``break``, ``return`` or an exception, aborts the transaction: the records
        are delivered again, in the next loop or to the next session. So end the loop with :meth:`stop`, not with
        ``break``.

        Write with ``txn.post()``: an error raised by ``txn.send()`` leaves the loop, and with it the session.
        :meth:`run` repeats the batch after these errors, too.

        Args:
            max_records: Maximum number of records in a batch. A commit takes a few milliseconds. A batch that takes
                longer than the producer's ``transaction_timeout_ms`` or the consumer's ``max_poll_interval_ms`` is
                aborted.

        Raises:
            ConfigurationError: ``max_records`` is not a positive number; the application has committed the transaction
                itself; or another task is requesting a batch.
            FencedError: Another producer has taken over the ``transactional_id``; with brokers before 3.0, also raised
                if ``transaction_timeout_ms`` has passed.
            DeadlineError: The coordinator didn't confirm the end of the last transaction within
                ``default_api_timeout_ms``.
            KafkaError: A partition cannot be read (the same errors as the consumer's ``async for``), or a client has
                failed.
        """
        return _Batches(self, integer("max_records", max_records, 1))

    async def run(self, process: Process[K, V, KOut, VOut], *, max_records: int = _MAX_RECORDS) -> None:
        """Call ``process(records, txn)`` for each batch, until :meth:`stop`, or until it raises or is cancelled.

        It works like :meth:`batches`. In addition, if a record cannot be written, the same records are delivered again,
        no matter whether ``txn.send()`` or the commit raises the error. Any other exception aborts the transaction and
        is raised.

        Args:
            process: A coroutine function that writes the results.
            max_records: Maximum number of records in a batch.

        Raises:
            NotAwaitableError: ``process`` is not a coroutine function.
            KafkaError: The same errors as :meth:`batches`.
        """
        async for records, txn in self.batches(max_records):
            batch = self._open
            assert batch is not None, "it is open until the next batch is requested"
            try:
                with calling("process", awaited=True):
                    call: object = process(records, txn)
                    if not isawaitable(call):
                        raise NotAwaitableError(
                            f"run({repr_of(process)}): it is no coroutine function: it returned {repr_of(call, 80)}"
                        )
                    await call
            except KafkaError as error:
                passes = isinstance(error, TransactionAbortedError) or txn._can_only_be_aborted
                # Raise it: retrying cannot fix a plain function, and its records would be delivered again forever.
                if isinstance(error, NotAwaitableError) or not passes:
                    await txn.__aexit__(type(error), error, error.__traceback__)
                    raise
                await batch.abort(text_of(error))
            except BaseException as error:
                await txn.__aexit__(type(error), error, error.__traceback__)
                raise

    async def _next(
        self, reader: _Batches[K, V, KOut, VOut], max_records: int
    ) -> tuple[list[Record[K, V]], Transaction[KOut, VOut]] | None:
        """Finish the last batch and return the next one; None after :meth:`stop`."""
        # Check the event loop before the open batch changes. Even if the consumer has ended, the batch is finished: its
        # offsets may have been sent.
        self._admit(CREATE)
        if self._requested:
            raise ConfigurationError("the batches of a session are requested by one task at a time")
        self._requested = True
        try:
            # Commit before the next poll, because requesting records lets a waiting rebalance continue.
            await self._finish(reader)
            records: list[Record[K, V]] = []
            while not records:
                if self._stopped and not self._owes():
                    return None
                records = await self._consumer._take(_POLL, max_records, by=self)
                # Don't leave a record open: an earlier iterator would take it.
                # guard: no record stays open between the batches of a session
                self._consumer._assignment.end_turn()
            # Don't await before the batch is stored: if this call is cancelled, the next one has to seek back to these
            # records.
            txn = self._producer._transaction(self)
            self._open = _OpenBatch(self._consumer, txn, records, reader, aborts=self._aborts)
            await txn.__aenter__()
            return records, txn
        finally:
            self._requested = False

    async def _finish(self, reader: _Batches[K, V, KOut, VOut]) -> None:
        """Commit the open batch, or abort it and seek back to its start."""
        batch = self._open
        if batch is None:
            return
        # If this is cancelled, the batch stays, and the next call continues its commit or abort.
        # guard: a batch whose loop was left is not committed -> await batch.end(finished=True)
        committed = await batch.end(finished=batch.reader is reader)
        if not committed:
            # guard: the records are delivered again after an abort
            batch.progress._rewind()
        self._note(batch.progress, committed=committed)
        # Forget the batch only once its end is certain: if this call is cancelled, the next one has to find it.
        self._open = None
        self._aborts = 0 if committed else self._aborts + 1
        # Pause: a record that can never be written must not keep the client and the brokers busy.
        # guard: a session that aborts repeatedly pauses
        if self._aborts > 1:
            await asyncio.sleep(self._consumer._engine.cluster.backoff.delay(self._aborts - 1))

    def _note(self, progress: Progress, *, committed: bool) -> None:
        for partition, position in progress.positions().items():
            owed = self._owed[partition][0] if partition in self._owed else -1
            if not committed:
                self._owed[partition] = (max(owed, position.offset), progress)
            elif position.offset >= owed:
                self._owed.pop(partition, None)

    def _owes(self) -> bool:
        """Return whether any records of an aborted batch still have to be delivered again."""
        self._owed = {partition: owed for partition, owed in self._owed.items() if partition not in owed[1].lost}
        return bool(self._owed)


class _OpenBatch:
    """Delivered records, and the transaction for their results. ``aborts`` is the number of consecutive aborted batches
    before this one."""

    def __init__(
        self,
        consumer: Consumer[Any, Any],
        txn: Transaction[Any, Any],
        records: list[Record[Any, Any]],
        reader: object,
        *,
        aborts: int,
    ) -> None:
        self._aborts = aborts
        self.txn = txn
        self.progress = consumer.progress(records)
        self.reader = reader

    async def end(self, *, finished: bool) -> bool:
        """Commit, or abort. Return whether the results are visible. If cancelled, the next call continues.

        Args:
            finished: Whether the application has processed all records. If another loop was left in this batch, that is
                not known.

        Raises:
            ConfigurationError: The application has committed the transaction, without the offsets.
            KafkaError: One of the clients has failed.
        """
        # The application has committed the transaction without the offsets. The results are visible, and would be
        # written again.
        if self._status() is TransactionStatus.COMMITTED:
            raise ConfigurationError("the session commits the transaction, together with the offsets")
        if self._status() is TransactionStatus.OPEN and not finished:
            await self.abort("its loop was left")
        try:
            # The status is COMMITTING after a cancelled call, and the offsets are already in the transaction. It's
            # ABORTED if the application has aborted.
            if self._status() is TransactionStatus.OPEN:
                await self.txn.send_offsets(self.progress)
            # Call _status() each time, because commit() changes the status.
            while self._status() in (TransactionStatus.OPEN, TransactionStatus.COMMITTING):
                try:
                    await self.txn._commit()
                except TransactionOutcomeUnknownError as error:
                    # Request it again: only the coordinator knows the outcome, and any other step could contradict it.
                    log.warning("%s; requesting the commit again", error)
        except (TransactionAbortedError, CommitError) as error:
            # This has no effect after a TransactionAbortedError. After a CommitError, the transaction is still open.
            await self.abort(str(error))
        return self._status() is TransactionStatus.COMMITTED

    async def abort(self, why: str) -> None:
        """Abort, with confirmation if possible. The records will be delivered again."""
        partitions = ", ".join(map(str, self.progress.partitions))
        if self._aborts:
            log.warning("the transaction of %s is aborted, number %d in a row: %s", partitions, self._aborts + 1, why)
        else:
            log.info("the transaction of %s is aborted: %s", partitions, why)
        try:
            await self.txn.abort()
        except DeadlineError as error:
            # The next transaction waits for the abort, and raises if it still is not confirmed.
            log.warning("the abort is not confirmed yet: %s", error)

    def _status(self) -> TransactionStatus:
        return self.txn.status


class _Batches(
    AsyncIterator[tuple[list[Record[K, V]], Transaction[KOut, VOut]]],
    Generic[K, V, KOut, VOut],
):
    """One loop over the batches of a session."""

    def __init__(self, session: ExactlyOnce[K, V, KOut, VOut], max_records: int) -> None:
        self._session = session
        self._max_records = max_records

    async def __anext__(self) -> tuple[list[Record[K, V]], Transaction[KOut, VOut]]:
        found = await self._session._next(self, self._max_records)
        if found is None:
            raise StopAsyncIteration
        return found


def _check_consumer(consumer: Consumer[Any, Any]) -> None:
    config = consumer.config
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
