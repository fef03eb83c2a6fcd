"""Consume, transform, produce: each record processed exactly once, as far as Kafka can see (KIP-98, KIP-447).

A batch of records, their results, and the group's progress form one transaction::

    poll ── records ──► the application writes ──► offsets ──► commit ──► poll …
                                  │ abort, or partitions lost
                                  └────────► seek back to the first record of each partition ──► poll

**Why nothing is processed twice.** The offsets are in the transaction, so results and progress become visible
together. The next owner of a partition waits until the transaction has ended before it reads the committed offset. The
group's coordinator refuses the offsets of a member that the group has continued without, and then nothing becomes
visible. A rebalance that revokes partitions waits for the next poll, which follows the commit; if that takes longer
than ``max_poll_interval_ms``, the partitions are lost and the transaction is aborted.

**Why nothing is lost.** Only a request for the next batch says that a batch is finished. If the loop is left in any
other way, by ``break``, an exception or a cancellation, the batch is aborted, because the session can't know how much
of it was processed. Committed offsets move only with the transaction's commit. After an abort the positions are set
back, and a new process starts from the committed offsets.

**Who writes what.** The application writes records to the transaction and nothing else. The session alone sends the
offsets, commits or aborts, and rewinds; the consumer's own tasks add and remove partitions. Every assignment makes a
new :class:`~aiokproto.consumer.cursor.Cursor`, which shows whether this consumer has owned a partition since it was
read (:class:`~aiokproto.consumer.progress.Progress`).
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

# A commit takes some milliseconds, independent of its size, so more records per transaction share them.
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

    The session starts both clients, and closes them. If the application does more than write to the transaction, such
    as call another service, that happens again when records are processed again.

    The consumer and the producer stay usable for calls that don't read, commit or move the consumer:
    ``consumer.lag()``, ``consumer.assignment()``, ``consumer.pause()``. Other calls raise ``ConfigurationError``, which
    says what to do instead.

    For type checkers it has the types of both clients: with a ``Consumer[K, V]`` and a ``Producer[KOut, VOut]`` the
    records are ``Record[K, V]`` and the transaction is a ``Transaction[KOut, VOut]``.
    """

    def __init__(self, consumer: Consumer[K, V], producer: Producer[KOut, VOut]) -> None:
        """Check that the clients' options can give the guarantee. Nothing is started before :meth:`start`.

        Raises:
            ConfigurationError: The consumer has no group, commits by itself or reads uncommitted records; or the
                producer has no ``transactional_id``, or two-phase commit. Or one of them belongs to another session, or
                the consumer is in :meth:`Consumer.run`.
        """
        _check_consumer(consumer)
        # This raises without a transactional id. The transaction isn't started.
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
        # Whether a task is in _next(). A second task would treat the batch that the first one commits as one that was
        # left.
        self._requested = False
        # How many batches in a row were not committed.
        self._aborts = 0
        # The ends of aborted batches, and their progress, until they're committed or lost. Even after stop(), these
        # records come again.
        self._owed: dict[TopicPartition, tuple[int, Progress]] = {}

    def _admit(self, use: Use) -> None:
        self._consumer._admit(use)

    # -- lifecycle

    async def start(self) -> None:
        """Start the producer, which aborts what an earlier process with its ``transactional_id`` has left, and the
        consumer. ``async with`` calls it. Raises as both clients do."""
        try:
            # Start the producer first. It aborts its predecessor's open transaction, which would delay the consumer's
            # lookup of committed offsets.
            await self._producer.start()
            await self._consumer.start()
        except BaseException:
            await self.close()
            raise

    def stop(self) -> None:
        """Stop gracefully: the batch that is being processed is the last one.

        The loop over :meth:`batches`, and :meth:`run`, end once it is committed; within half a second if there is none.
        If its commit is refused, its records come again first.
        To call it from a signal: ``loop.add_signal_handler(signal.SIGTERM, session.stop)``.
        """
        self._stopped = True

    async def close(self) -> None:
        """Abort the open transaction, leave the group and disconnect."""
        try:
            # Close the producer first. The next owner of the partitions waits for the end of a transaction that has
            # sent its offsets.
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
        """Return an iterator of records, each time with a transaction for their results. It ends after :meth:`stop`.

        Requesting the next batch commits the transaction. If it can't be committed, or the application has aborted it,
        the same records come again, unless the group has given their partitions to another member. From the second time
        in a row on this is logged as a warning, and preceded by a pause of ``retry_backoff_ms`` and more.

        Leaving the loop in any other way, by ``break``, ``return`` or an exception, aborts: the records come again, in
        the next loop or to the next session. So the loop ends with :meth:`stop`, not with ``break``.

        Write with ``txn.post()``: an error of ``txn.send()`` leaves the loop, and with it the session.
        :meth:`run` also repeats after these.

        Args:
            max_records: Most records in a batch. A commit takes some milliseconds. A batch that takes longer than the
                producer's ``transaction_timeout_ms`` or the consumer's ``max_poll_interval_ms`` is aborted.

        Raises:
            ConfigurationError: ``max_records`` is not a number above 0; the application has committed the transaction
                itself; or another task is requesting a batch.
            FencedError: Another producer has taken over the ``transactional_id``; with brokers before 3.0 also if
                ``transaction_timeout_ms`` has passed.
            DeadlineError: The coordinator did not confirm the end of the last transaction within
                ``default_api_timeout_ms``.
            KafkaError: A partition can't be read, as with ``async for`` of the consumer, or a client has failed.
        """
        return _Batches(self, integer("max_records", max_records, 1))

    async def run(self, process: Process[K, V, KOut, VOut], *, max_records: int = _MAX_RECORDS) -> None:
        """Call ``process(records, txn)`` for each batch, until :meth:`stop`, or until it raises or is cancelled.

        It works like :meth:`batches`. In addition, if a record can't be written, the same records come again, no matter
        whether ``txn.send()`` or the commit raises the error. Any other exception aborts the transaction and is raised.

        Args:
            process: A coroutine function that writes the results.
            max_records: Most records in a batch.

        Raises:
            NotAwaitableError: ``process`` isn't a coroutine function.
            KafkaError: As :meth:`batches`.
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
                # Raise it. A plain function stays one, and its records would come again forever.
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
        # Check the event loop before the open batch changes. If the consumer has ended, the batch is finished
        # nevertheless. Its offsets may have been sent.
        self._admit(CREATE)
        if self._requested:
            raise ConfigurationError("the batches of a session are requested by one task at a time")
        self._requested = True
        try:
            # Commit before the next poll. Requesting records lets a waiting rebalance go on.
            await self._finish(reader)
            records: list[Record[K, V]] = []
            while not records:
                if self._stopped and not self._owes():
                    return None
                records = await self._consumer._take(_POLL, max_records, by=self)
                # Leave no record open. An earlier iterator would take it.
                # guard: no record stays open between the batches of a session
                self._consumer._assignment.end_turn()
            # Don't await before the batch is remembered, because the next call has to seek back to these records if
            # this one is cancelled.
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
        # If this is cancelled, the batch stays, and the next call goes on with its commit or abort.
        # guard: a batch whose loop was left is not committed -> await batch.end(finished=True)
        committed = await batch.end(finished=batch.reader is reader)
        if not committed:
            # guard: the records are delivered again after an abort
            batch.progress._rewind()
        self._note(batch.progress, committed=committed)
        # Forget the batch only once its end is certain, so that the call after a cancelled one finds it again.
        self._open = None
        self._aborts = 0 if committed else self._aborts + 1
        # Pause. A record that can never be written must not keep the client and the brokers busy.
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
        """Return whether records of an aborted batch are still to come again."""
        self._owed = {partition: owed for partition, owed in self._owed.items() if partition not in owed[1].lost}
        return bool(self._owed)


class _OpenBatch:
    """Delivered records, and the transaction for their results. ``aborts`` batches in a row before it were aborted."""

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
        """Commit, or abort. Return whether the results are visible. If it's cancelled, the next call goes on.

        Args:
            finished: Whether the application has processed all records. That isn't known if another loop was left in
                this batch.

        Raises:
            ConfigurationError: The application has committed the transaction, without the offsets.
            KafkaError: One of the clients has failed.
        """
        # The application has committed it without the offsets. Its results are visible, and would be written again.
        if self._status() is TransactionStatus.COMMITTED:
            raise ConfigurationError("the session commits the transaction, together with the offsets")
        if self._status() is TransactionStatus.OPEN and not finished:
            await self.abort("its loop was left")
        try:
            # The status is COMMITTING after a cancelled call; then the offsets are in the transaction already. It's
            # ABORTED if the application has aborted.
            if self._status() is TransactionStatus.OPEN:
                await self.txn.send_offsets(self.progress)
            # Call the method each time, because commit() changes the status.
            while self._status() in (TransactionStatus.OPEN, TransactionStatus.COMMITTING):
                try:
                    await self.txn._commit()
                except TransactionOutcomeUnknownError as error:
                    # Ask again. Only the coordinator knows the outcome, and any other step could contradict it.
                    log.warning("%s; requesting the commit again", error)
        except (TransactionAbortedError, CommitError) as error:
            # This changes nothing after a TransactionAbortedError. After a CommitError the transaction is still open.
            await self.abort(str(error))
        return self._status() is TransactionStatus.COMMITTED

    async def abort(self, why: str) -> None:
        """Abort, if possible with confirmation; the records come again."""
        partitions = ", ".join(map(str, self.progress.partitions))
        if self._aborts:
            log.warning("the transaction of %s is aborted, number %d in a row: %s", partitions, self._aborts + 1, why)
        else:
            log.info("the transaction of %s is aborted: %s", partitions, why)
        try:
            await self.txn.abort()
        except DeadlineError as error:
            # The next transaction waits for it, and raises if it still isn't confirmed.
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
