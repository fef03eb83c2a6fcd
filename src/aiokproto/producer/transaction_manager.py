"""The transactional id of a producer: its producer id and epoch, and the open transaction (KIP-98, KIP-360, KIP-890).

A transaction has one of two versions, which the cluster's ``transaction.version`` decides when it begins::

    version 1                                          version 2 (KIP-890)
    AddPartitionsToTxn before a partition's records    Produce adds the partition
    AddOffsetsToTxn before TxnOffsetCommit             TxnOffsetCommit adds the group
    EndTxn leaves the epoch as it is                   EndTxn returns the epoch of the next transaction

**Doubt means abort.** A batch that fails, for whatever reason, *fails* the transaction: nothing is appended any more,
and it can only be aborted. If the batch may have been sent, its sequence numbers are a gap, so the next transaction has
the next epoch, in which they start at 0: in version 2 always, in version 1 by InitProducerId after the abort.

**One end.** EndTxn follows the outcome of every batch, and of every other request of the transaction: what arrived
after it would be part of the next transaction. It runs in a task of its own, so that cancelling a call changes nothing
about it, and no transaction begins before it is done. An end without a response is repeated as it was: the coordinator
executes it once.

**What can never happen.** A commit that lacks a record for which no error was raised; records of two transactions in
one; EndTxn while records are in flight; a producer that goes on after another has taken over its transactional id.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import TypeVar

from aiokproto.cluster import ClusterClient, CoordinatorKind
from aiokproto.cluster.coordinator_requests import CoordinatorRequests, Exchange
from aiokproto.codec.messages.end_txn import EndTxnRequest
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest
from aiokproto.codec.schema import Response
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import (
    ClientClosedError,
    ConfigurationError,
    DeadlineError,
    FencedError,
    KafkaError,
    TransactionAbortedError,
    TransactionOutcomeUnknownError,
    UnsupportedVersionError,
    error_for,
)
from aiokproto.failures import Action, classify
from aiokproto.producer.batch import ProducerBatch
from aiokproto.producer.buffer import Buffer, WriteSession
from aiokproto.producer.producer_id import ProducerId
from aiokproto.producer.queue import PartitionQueue
from aiokproto.producer.transaction_requests import (
    END_TXN_V2,
    EPOCH_BUMP,
    AddOffsetsExchange,
    AddPartitionsExchange,
    EndTxnExchange,
    Identity,
    InitExchange,
    TxnOffsetCommitExchange,
)
from aiokproto.producer.waiting import wait_all
from aiokproto.types import GroupMetadata, OffsetAndMetadata, TopicPartition

R = TypeVar("R", bound=Response)

log = logging.getLogger("aiokproto.producer")

FEATURE = "transaction.version"
FIRST_V2 = 2
"""The level of the feature at which a partition's records and a group's offsets add themselves (KIP-890)."""


class TransactionState(Enum):
    """The state of the transactional id, as far as this producer knows."""

    READY = auto()
    """No transaction is open."""
    OPEN = auto()
    COMMITTING = auto()
    """A commit was requested, and may or may not have taken effect."""
    ABORTING = auto()


class TransactionManager:
    """Begins and ends transactions, and adds partitions and offsets to the open one.

    Attributes:
        current: Producer id and epoch; None before :meth:`start`.
        state: The state of the last transaction.
        failure: Why the open transaction can only be aborted; None while it can be committed.
        v2: Whether it has version 2.
    """

    def __init__(
        self, transactional_id: str, timeout_ms: int, buffer: Buffer, on_fatal: Callable[[KafkaError], None]
    ) -> None:
        """Create a manager; nothing is sent before :meth:`start`.

        Args:
            transactional_id: The id.
            timeout_ms: The coordinator aborts a transaction that is open for longer.
            buffer: Takes the records; between transactions its accumulator has no batches.
            on_fatal: Called with an error that ends the producer.
        """
        self.transactional_id = transactional_id
        self.current: ProducerId | None = None
        self.state = TransactionState.READY
        self.failure: KafkaError | None = None
        self.v2 = False
        self._timeout_ms = timeout_ms
        self._buffer = buffer
        self._accumulator = buffer.accumulator
        # The one way by which a failed record fails the transaction, whether or not its delivery is awaited.
        self._accumulator.on_failure = self._batch_failed
        self._on_fatal = on_fatal
        self._cluster: ClusterClient
        self._requests: CoordinatorRequests
        # Of the open transaction; None once its end was started.
        self._session: WriteSession | None = None
        # Of the last transaction that began, kept after its end: commit() can be repeated for this one only.
        self._last: WriteSession | None = None
        # The task that ends the last transaction. At most one runs: _settle() waits for it before another begins.
        self._end: asyncio.Task[None] | None = None
        self._begun_at = 0.0
        # Held by requests of the transaction that EndTxn must not overtake.
        self._sending = asyncio.Lock()
        # Partitions that are part of the transaction: confirmed in version 1, assumed in version 2.
        self._added: set[TopicPartition] = set()
        # Version 1: partitions whose batches wait for AddPartitionsToTxn. An ordered set.
        self._to_add: dict[TopicPartition, None] = {}
        self._adding = False
        # Version 1: groups of which AddOffsetsToTxn was confirmed.
        self._groups: set[str] = set()
        # Whether the coordinator may have an open transaction.
        self._has_started = False
        # Whether a batch with a sequence number has failed: the gap is closed only by the next epoch.
        self._needs_epoch = False

    # -- starting

    async def start(self, cluster: ClusterClient) -> None:
        """Acquire the producer id: fences other producers with the transactional id, and aborts their transaction.

        Raises:
            KafkaError: There is no producer id.
        """
        self._cluster = cluster
        self._requests = CoordinatorRequests(cluster, CoordinatorKind.TRANSACTION, self.transactional_id)
        await self._initialize(None)
        self.v2 = await self._cluster_has_v2()

    async def _initialize(self, bump: ProducerId | None) -> None:
        exchange = InitExchange(self.transactional_id, self._timeout_ms, bump)
        response = await self._send(self._requests, exchange, "InitProducerId")
        self.current = ProducerId(response.producer_id, response.producer_epoch)

    async def _cluster_has_v2(self) -> bool:
        """Return whether transactions have version 2; if the coordinator cannot be asked, what it said last."""
        try:
            node = await self._cluster.coordinator(CoordinatorKind.TRANSACTION, self.transactional_id)
            level = await self._cluster.feature(FEATURE, node)
            # The feature of the cluster and the version of this coordinator: during an upgrade one can be ahead of the
            # other.
            return level >= FIRST_V2 and await self._cluster.version(EndTxnRequest, node) >= END_TXN_V2
        except KafkaError as error:
            log.debug("%s is not known, keeping version %d: %s", FEATURE, 1 + self.v2, error)
            return self.v2

    async def close(self, timeout: float) -> None:
        """Abort the open transaction, or wait for the end that is under way, at most ``timeout`` seconds."""
        # Not committed, so aborted: the application has not said that it is complete.
        if self.state is TransactionState.OPEN:
            self.start_abort()
        if self._end is not None:
            await asyncio.wait([self._end], timeout=timeout)

    async def stop(self) -> None:
        """Stop what runs in the background."""
        if self._end is not None:
            # The end is repeated by the successor: its InitProducerId completes or aborts what is open.
            self._end.cancel()
            await asyncio.wait([self._end])

    # -- the open transaction

    async def begin(self, session: WriteSession) -> None:
        """Begin a transaction once the last one has ended.

        Args:
            session: Its right to append.

        Raises:
            ConfigurationError: Another one is open.
            TransactionOutcomeUnknownError: Still no response about the commit of the last one.
            DeadlineError: The same, about its abort.
            KafkaError: The error ends the producer.
        """
        if self._session is not None:
            raise ConfigurationError("a transaction is open: commit or abort it before you begin the next one")
        # Before the first await: it reserves the place, so that two tasks cannot both begin.
        self._session = session
        try:
            await self._settle()
            # Asked between transactions only: a transaction keeps the version that it began with.
            v2 = await self._cluster_has_v2()
            if v2 and not self.v2:
                # In version 1 the epoch stays the same, so a late record of the last transaction would add its
                # partition to this one.
                await self._next_epoch()
        except BaseException:
            # The place is free again; whatever failed, no transaction is open.
            self._session = None
            raise
        self.v2 = v2
        self._last = session
        self.state = TransactionState.OPEN
        self._begun_at = asyncio.get_running_loop().time()
        self._accumulator.observer.begun(self.transactional_id)

    async def _settle(self) -> None:
        """Wait until the last transaction has ended, repeating its end if that failed."""
        while self.state is not TransactionState.READY:
            if self._end is None or self._end.done():
                # As it was: whether the coordinator executed the first one is not known, so only the same request is
                # safe.
                self._start_end(commit=self.state is TransactionState.COMMITTING)
            await self._ended()

    def _batch_failed(self, batch: ProducerBatch, error: KafkaError) -> None:
        if batch.sequence >= 0:
            self._needs_epoch = True
        self.fail(error)

    def fail(self, error: KafkaError) -> None:
        """Fail the open transaction: it can only be aborted."""
        # The first failure is the cause. While it is being ended, failures are its consequence.
        if self.failure is not None or self.state is not TransactionState.OPEN:
            return
        self.failure = error
        if self._session is not None:
            self._buffer.close_session(self._session, self.aborted())
        # Later: the caller may be failing batches itself.
        asyncio.get_running_loop().call_soon(self._drop_unsent, error)

    def aborted(self) -> TransactionAbortedError:
        """Return the error of a failed transaction."""
        error = TransactionAbortedError(f"the transaction can only be aborted: {self.failure}")
        error.__cause__ = self.failure
        return error

    # -- partitions

    def may_send(self, where: TopicPartition) -> bool:
        """Whether records of a partition may be sent; if not, :meth:`add_partitions` is due."""
        # Called for every batch of every drain, so the frequent answer comes first.
        if where in self._added:
            return True
        if self.v2:
            self._added.add(where)
            self._has_started = True
            return True
        if self.failure is None:
            self._to_add[where] = None
        return False

    @property
    def has_partitions_to_add(self) -> bool:
        """Whether :meth:`add_partitions` has something to do and is not doing it."""
        return bool(self._to_add) and not self._adding

    async def add_partitions(self) -> None:
        """Add partitions to the transaction, until no more have records.

        Raises:
            KafkaError: The error ends the producer.
        """
        self._adding = True
        try:
            # EndTxn waits for this lock, and so for the response. Requests of one transaction are never in flight
            # together.
            async with self._sending:
                while self._to_add and self.state is TransactionState.OPEN and self.failure is None:
                    # Taken out first: what is noted while the request is in flight belongs to the next one.
                    partitions, self._to_add = self._to_add, {}
                    names = ", ".join(str(each) for each in list(partitions)[:3])
                    exchange = AddPartitionsExchange(self._identity, partitions)
                    await self._add(self._requests, exchange, f"AddPartitionsToTxn of {names}")
                    self._added.update(partitions)
        except TransactionAbortedError:
            # The batches that waited for it have failed.
            pass
        finally:
            self._adding = False

    # -- offsets

    async def add_offsets(
        self, session: WriteSession, group: GroupMetadata, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> None:
        """Commit offsets in the transaction that ``session`` belongs to.

        Raises:
            TransactionAbortedError: They were refused; the transaction has failed.
            KafkaError: The error ends the producer.
        """
        async with self._sending:
            # In the lock: the transaction may have ended while this call waited for it.
            self._buffer.check_open(session)
            what = f"offsets of group {group.group_id!r}"
            try:
                if not self.v2 and group.group_id not in self._groups:
                    adding = AddOffsetsExchange(self._identity, group.group_id)
                    await self._add(self._requests, adding, f"AddOffsetsToTxn, {what}")
                    self._groups.add(group.group_id)
                exchange = TxnOffsetCommitExchange(self._cluster, self._identity, group, offsets, v2=self.v2)
                # The group's coordinator, which knows the members, not the transaction's.
                requests = CoordinatorRequests(self._cluster, CoordinatorKind.GROUP, group.group_id)
                response = await self._add(requests, exchange, f"TxnOffsetCommit, {what}")
                for partition, code in exchange.refused(response).items():
                    self.fail(error_for(code, f"TxnOffsetCommit, {what}, {partition}"))
                    raise self.aborted()
            except asyncio.CancelledError:
                # The request may still be executed: whether the offsets are part of the transaction is unknown, and
                # doubt means abort.
                self.fail(TransactionAbortedError(f"the call that commits the {what} was cancelled"))
                raise

    async def _add(self, requests: CoordinatorRequests, exchange: Exchange[R], what: str) -> R:
        """Send a request that adds something to the transaction.

        Raises:
            TransactionAbortedError: It was refused; the transaction has failed.
            KafkaError: The error ends the producer.
        """
        # Before the request is sent: from here on the coordinator may have an open transaction, whatever happens to the
        # response.
        self._has_started = True
        try:
            return await self._send(requests, exchange, what)
        except KafkaError as error:
            if classify(error, exchange.situation) is Action.STOP:
                self._on_fatal(error)
                raise
            self.fail(error)
            raise self.aborted() from error

    # -- the end

    async def flush(self, timeout: float) -> None:
        """Wait until everything in the transaction has an outcome; its session is closed. Afterwards see ``failure``.

        Args:
            timeout: Seconds, after which each batch has expired.
        """
        await wait_all([batch.outcome for batch in self._buffer.send_all()], timeout)
        async with self._sending:
            # Acquired only to know that no request of the transaction is in flight.
            pass

    async def commit(self, session: WriteSession) -> None:
        """Commit, after :meth:`flush`; or repeat a commit without a known outcome. Cancelling stops the wait only.

        Raises:
            ConfigurationError: A later transaction has begun.
            TransactionAbortedError: The coordinator has aborted it, or refuses to commit it.
            TransactionOutcomeUnknownError: No response in time.
            KafkaError: The error ends the producer.
        """
        if session is not self._last:
            raise ConfigurationError("a later transaction has begun, which waited for the outcome of this one")
        if self.state is TransactionState.OPEN:
            # Set here and not in _run_end: a second transaction may be requested while this one ends, and waits in
            # _settle().
            self._session = None
            self._start_end(commit=True)
        else:
            await self._settle()
        await self._ended()

    async def abort(self) -> None:
        """Abort. Cancelling stops the wait only.

        Raises:
            DeadlineError: No response in time. The next transaction repeats the abort before it begins.
            KafkaError: The error ends the producer.
        """
        self.start_abort()
        await self._ended()

    def start_abort(self) -> None:
        """Abort in the background; the next transaction can begin afterwards."""
        self._session = None
        self._start_end(commit=False)

    async def _ended(self) -> None:
        end = self._end
        assert end is not None, "an end was started"
        # wait() and not shield(): that would raise the end's own cancellation, by stop(), as the caller's.
        await asyncio.wait([end])
        if not end.cancelled():
            end.result()
        elif self.state is TransactionState.COMMITTING:
            raise TransactionOutcomeUnknownError("the producer was closed before the coordinator confirmed the commit")
        else:
            raise ClientClosedError("the producer was closed before the coordinator confirmed the abort")

    def _start_end(self, *, commit: bool) -> None:
        self.state = TransactionState.COMMITTING if commit else TransactionState.ABORTING
        self._end = asyncio.get_running_loop().create_task(self._run_end(commit), name="aiokproto end of transaction")
        # A task of its own, strongly referenced by _end: asyncio keeps only weak references.
        self._end.add_done_callback(_retrieve)

    async def _run_end(self, commit: bool) -> None:
        if not commit:
            self._drop_unsent(TransactionAbortedError("the transaction was aborted"), observed=True)
            # A batch whose fate is unknown is retried, as always: written after the end, it would be part of the next
            # transaction.
            await wait_all([batch.outcome for batch in self._buffer.send_all()], None)
        async with self._sending:
            # A transaction without any request does not exist for the coordinator: EndTxn would be INVALID_TXN_STATE.
            if self._has_started:
                await self._end_txn(commit)
            if self._needs_epoch:
                await self._next_epoch()
            self._forget()
            self._accumulator.observer.ended(self.transactional_id, commit, self._begun_at)

    def _drop_unsent(self, why: KafkaError, *, observed: bool = False) -> None:
        """Fail the batches that were never sent. ``observed``: the application knows already."""
        dropped = self._accumulator.fail_unsent(why, observed=observed)
        if dropped:
            self._buffer.memory_freed()

    async def _end_txn(self, commit: bool) -> None:
        exchange = EndTxnExchange(self._identity, commit=commit, v2=self.v2)
        try:
            response = await self._send(self._requests, exchange, "EndTxn")
        except DeadlineError as error:
            # An abort without a response is only repeated; its outcome is no question.
            if not commit:
                raise
            raise TransactionOutcomeUnknownError(f"the transaction may be committed or not: {error}") from error
        except KafkaError as error:
            # Fenced, or a state that the coordinator does not know: this producer must not write any more.
            if classify(error, exchange.situation) is not Action.ABORT_TRANSACTION:
                self._on_fatal(error)
                raise
            self._needs_epoch = True
            if not commit:
                # The coordinator has forgotten the producer id, and with it the transaction.
                return
            # Set before the abort: if that has no response, _settle() repeats the abort and not the commit.
            self.state, self.failure = TransactionState.ABORTING, error
            await self._end_txn(commit=False)
            failure = self.aborted()
            if self._needs_epoch:
                await self._next_epoch()
            self._forget()
            self._accumulator.observer.ended(self.transactional_id, False, self._begun_at)
            raise failure from error
        # Version 2: the next epoch, or a new id if the epochs are used up. In version 1 the field has its default, -1.
        if response.producer_id >= 0:
            self.current = ProducerId(response.producer_id, response.producer_epoch)
            self._needs_epoch = False
        self._has_started = False

    async def _next_epoch(self) -> None:
        """Bump the epoch, so that sequence numbers start again (KIP-360)."""
        try:
            node = await self._cluster.coordinator(CoordinatorKind.TRANSACTION, self.transactional_id)
            if await self._cluster.version(InitProducerIdRequest, node) < EPOCH_BUMP:
                raise UnsupportedVersionError(
                    "brokers before 2.5 cannot continue after a failed batch: create a new producer"
                )
            await self._initialize(self.current)
        # Not fatal: the next transaction repeats it, in _settle().
        except DeadlineError:
            raise
        except KafkaError as error:
            self._on_fatal(error)
            raise
        self._needs_epoch = False

    def _forget(self) -> None:
        """Forget the transaction, which has ended."""
        self.state = TransactionState.READY
        self.failure = None
        self._has_started = False
        self._added.clear()
        self._to_add.clear()
        self._groups.clear()

    # -- requests

    @property
    def _identity(self) -> Identity:
        assert self.current is not None, "start() has returned"
        return Identity(self.transactional_id, self.current)

    async def _send(self, requests: CoordinatorRequests, exchange: Exchange[R], what: str) -> R:
        # Each request has the whole time: it is no part of a caller's deadline, and the end goes on without one.
        at = asyncio.get_running_loop().time() + self._cluster.config.api_timeout
        response = await requests.send(exchange, at)
        code = exchange.failure(response)
        if code:
            raise self._error(code, what)
        return response

    def _error(self, code: ErrorCode, what: str) -> KafkaError:
        context = f"{what}, transactional id {self.transactional_id!r}"
        error = error_for(code, context)
        if not isinstance(error, FencedError):
            return error
        why = (
            "another producer with this id was started, or the transaction was open for longer than "
            f"transaction_timeout_ms={self._timeout_ms}"
        )
        return error_for(code, context, why)

    # -- ProducerIds

    def assign(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Assign a sequence number to a batch that is about to be sent."""
        queue.assign_in_transaction(batch, self._identity.producer)

    def discard_for(self, queue: PartitionQueue, *, refused: bool = False) -> None:
        """Do nothing: a failed batch fails the transaction, and the next one has another epoch."""


def _retrieve(task: asyncio.Task[None]) -> None:
    # Nobody may be waiting any more; the next transaction finds the state and repeats the end.
    if not task.cancelled() and task.exception() is not None:
        log.debug("%s: %s", task.get_name(), task.exception())
