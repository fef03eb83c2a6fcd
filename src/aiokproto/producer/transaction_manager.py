"""The transactional id of a producer: its producer id and epoch, and the open transaction (KIP-98, KIP-360, KIP-890).

A transaction has one of two versions, which the cluster's ``transaction.version`` decides when it begins::

    version 1                                          version 2 (KIP-890)
    AddPartitionsToTxn before a partition's records    Produce adds the partition
    AddOffsetsToTxn before TxnOffsetCommit             TxnOffsetCommit adds the group
    EndTxn leaves the epoch as it is                   EndTxn returns the epoch of the next transaction

**Doubt means abort.** A batch that fails, for whatever reason, *fails* the transaction: nothing is appended any more,
and it can only be aborted. If the batch may have been sent, its sequence numbers are a gap, so the next transaction has
the next epoch, in which they start at 0: in version 2 always, in version 1 by InitProducerId after the abort. The same
holds for every request that gets no response, also if it is sent again: executed late, it would add its offsets to the
next transaction, or end that.

**Fenced or timed out?** The coordinator aborts a transaction that is open for too long, and bumps the epoch, as for a
new producer with the same transactional id; whoever writes then has the wrong epoch either way. Which it was, the
coordinator says when it is asked to abort. In version 2 it confirms an abort that it has made itself, and returns the
epoch. In version 1 it refuses. But it knew a transaction of this epoch: a timeout has moved that by one epoch, and a
producer that has started by two. DescribeTransactions says how far it is (KIP-664), and InitProducerId from the epoch
in between then succeeds (KIP-360).
If an EndTxn had no response, the transaction may have ended before, and another producer may have that epoch: then
nobody can tell, and the producer is taken for fenced. Until the answer the refused record has no outcome.

**One end.** EndTxn follows the outcome of every batch, and of every other request of the transaction: what arrived
after it would be part of the next transaction. It runs in a task of its own, so that cancelling a call changes nothing
about it, and no transaction begins before it is done. An end without a response is repeated as it was: the coordinator
executes it once. What was requested does not say what became of it, as a commit can be refused: ``_committed`` does.

**Two-phase commit (KIP-939).** A prepared transaction waits for a decision that is made elsewhere. Nothing but that
decision ends it: neither a timeout, nor :meth:`TransactionManager.close`, nor the next start, which finds it by
InitProducerId and keeps it.

**What can never happen.** A commit that lacks a record for which no error was raised; records of two transactions in
one; EndTxn while records are in flight; a producer that goes on after another has taken over its transactional id.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from aiokproto.authorization import Asked
from aiokproto.cluster import ClusterClient, CoordinatorKind
from aiokproto.cluster.coordinator_requests import CoordinatorRequests, Exchange
from aiokproto.codec.schema import Response
from aiokproto.errors import (
    BrokerError,
    ClientClosedError,
    ConfigurationError,
    DeadlineError,
    FencedError,
    KafkaError,
    TransactionAbortedError,
    TransactionOutcomeUnknownError,
    UnsupportedVersionError,
    error_for,
    said_of,
)
from aiokproto.failures import Action, classify
from aiokproto.producer.batch import ProducerBatch
from aiokproto.producer.buffer import Buffer, WriteSession
from aiokproto.producer.prepared_transaction import PreparedTransaction
from aiokproto.producer.producer_id import ProducerId
from aiokproto.producer.transaction_requests import (
    AddOffsetsExchange,
    AddPartitionsExchange,
    EndTxnExchange,
    InitExchange,
    OffsetsToSend,
    TxnOffsetCommitExchange,
)
from aiokproto.producer.transaction_state import TransactionState
from aiokproto.producer.transactional_id import FEATURE, FIRST_V2, TransactionalId
from aiokproto.producer.waiting import wait_all
from aiokproto.runtime import create_task
from aiokproto.types import TopicPartition

if TYPE_CHECKING:
    from aiokproto.producer.sender import Sender
    from aiokproto.producer.transaction import Transaction

R = TypeVar("R", bound=Response)

log = logging.getLogger("aiokproto.producer")


class TransactionManager:
    """Begins and ends transactions, and adds partitions and offsets to the open one.

    Attributes:
        id: The transactional id, with producer id and epoch.
        state: The state of the last transaction.
        failure: Why it can only be aborted, or was; None while it can be committed.
        v2: Whether it has version 2.
        prepared: The transaction that waits for its decision; None if there is none.
        sender: Ends with a fatal error, and the producer with it. None before the producer's start has succeeded.
    """

    def __init__(
        self,
        transactional_id: str,
        timeout_ms: int,
        buffer: Buffer,
        *,
        two_phase: bool = False,
    ) -> None:
        """Create a manager; nothing is sent before :meth:`start`.

        Args:
            transactional_id: The id.
            timeout_ms: The coordinator aborts a transaction that is open for longer.
            buffer: Takes the records; between transactions its accumulator has no batches.
            two_phase: Whether transactions have no timeout, and are kept at the next start (KIP-939).
        """
        self.id = TransactionalId(transactional_id, timeout_ms, two_phase=two_phase)
        self.state = TransactionState.READY
        self.failure: KafkaError | None = None
        self.v2 = False
        self.prepared: PreparedTransaction | None = None
        self._buffer = buffer
        self._accumulator = buffer.accumulator
        # The one way by which a failed record fails the transaction, whether or not its delivery is awaited.
        self._accumulator.transactions = self
        self.sender: Sender | None = None
        self._cluster: ClusterClient
        # Of the open transaction; None once its end was started.
        self._session: WriteSession | None = None
        # Of the last transaction that began, kept after its end: commit() can be repeated for this one only.
        self._last: WriteSession | None = None
        # Whether that was committed; None while it is not known. Not the end that was requested: it can be refused.
        self._committed: bool | None = None
        # The prepared transaction of this process; None for one that an earlier process has left.
        self._undecided: Transaction[Any, Any] | None = None
        # The task that ends the last transaction. At most one runs: _settle() waits for it before another begins.
        self._end: asyncio.Task[None] | None = None
        self._begun_at = 0.0
        # Held by requests of the transaction that EndTxn must not overtake.
        self._sending = asyncio.Lock()
        # Partitions that are part of the transaction: confirmed in version 1, assumed in version 2.
        self._added: set[TopicPartition] = set()
        # Batches that were refused for their epoch, and the task that finds out why.
        self._refused: list[ProducerBatch] = []
        self._judging: asyncio.Task[None] | None = None
        # Whether an EndTxn of this transaction had no response: it may have been executed.
        self._end_lost = False
        # Version 1: partitions whose batches wait for AddPartitionsToTxn. An ordered set.
        self._to_add: dict[TopicPartition, None] = {}
        self._adding = False
        # Version 1: groups of which AddOffsetsToTxn was confirmed.
        self._groups: set[str] = set()
        # What was added, for who wants to know what becomes of it.
        self._offsets_sent: list[OffsetsToSend] = []
        # Whether the coordinator may have an open transaction.
        self._has_started = False
        # Whether the next transaction needs the next epoch: a failed batch with a sequence number left a gap.
        self._needs_epoch = False

    # -- starting

    async def start(self, cluster: ClusterClient, *, keep_prepared: bool) -> None:
        """Acquire the producer id: fences other producers with the transactional id, and aborts their transaction.

        Args:
            cluster: Sends the requests.
            keep_prepared: Whether to keep that transaction instead, with two-phase commit.

        Raises:
            KafkaError: There is no producer id.
        """
        self._cluster = cluster
        self.id.connect(cluster)
        response = await self.id.initialize(keep_prepared=keep_prepared and self.id.two_phase)
        if response.ongoing_txn_producer_id >= 0:
            self.prepared = PreparedTransaction(response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch)
            self.state, self._has_started = TransactionState.PREPARED, True
            # When it began, the earlier process alone knew.
            self._begun_at = asyncio.get_running_loop().time()
        self.v2 = await self.id.has_v2(self.v2)
        if self.id.two_phase and not self.v2:
            raise UnsupportedVersionError(
                f"transaction_two_phase_commit_enable (KIP-939) needs {FEATURE}={FIRST_V2} in the cluster; it is lower"
            )

    async def close(self, timeout: float) -> None:
        """Abort the open transaction, or wait for the end that is under way, at most ``timeout`` seconds.

        A prepared one stays as it is.
        """
        # Not committed, so aborted: the application has not said that it is complete.
        if self.state is TransactionState.OPEN:
            self.start_abort()
        elif self.state is TransactionState.ABORTING and not self._is_ending:
            self._start_end(commit=False)
        if self._end is not None:
            await asyncio.wait([self._end], timeout=timeout)

    async def stop(self) -> None:
        """Stop what runs in the background."""
        # The end is repeated by the successor: its InitProducerId completes or aborts what is open.
        running = [task for task in (self._end, self._judging) if task is not None]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    # -- the open transaction

    async def begin(self, session: WriteSession) -> None:
        """Begin a transaction once the last one has ended.

        Args:
            session: Its right to append.

        Raises:
            ConfigurationError: Another one is open, or one was prepared and has no decision.
            TransactionOutcomeUnknownError: Still no response about the commit of the last one.
            DeadlineError: The same, about its abort.
            KafkaError: The error ends the producer.
        """
        if self.state is TransactionState.PREPARED:
            raise ConfigurationError(
                f"transaction {self.prepared} was prepared and has no decision: await "
                "producer.complete_transaction(state) first"
            )
        if self._session is not None:
            raise ConfigurationError("a transaction is open: commit or abort it before you begin the next one")
        # Before the first await: it reserves the place, so that two tasks cannot both begin.
        self._session = session
        try:
            await self._settle()
            # Asked between transactions only: a transaction keeps the version that it began with.
            v2 = await self.id.has_v2(self.v2)
            # In version 1 the epoch stays the same, so a late record of the last transaction would add its partition to
            # this one.
            self._needs_epoch = self._needs_epoch or (v2 and not self.v2)
            await self._next_epoch_if_needed()
            # It may have been closed meanwhile, and aborts only what is open then.
            self._buffer.check_open()
        except BaseException:
            # The place is free again; whatever failed, no transaction is open.
            self._session = None
            raise
        self.v2 = v2
        self._last, self._committed, self.failure = session, None, None
        self.state = TransactionState.OPEN
        self._begun_at = asyncio.get_running_loop().time()
        self._accumulator.observer.begun(self.id.name)

    async def _settle(self) -> None:
        """Wait until the last transaction has ended, repeating its end if that failed."""
        while self.state is not TransactionState.READY:
            if not self._is_ending:
                # As it was: whether the coordinator executed the first one is not known, so only the same request is
                # safe.
                # guard: a commit in doubt is repeated as it was -> self._start_end(commit=False)
                self._start_end(commit=self.state is TransactionState.COMMITTING)
            await self._ended()

    def batch_failed(self, batch: ProducerBatch, error: KafkaError) -> None:
        """Fail the open transaction because a batch of it has failed."""
        if batch.sequence >= 0:
            self._needs_epoch = True
        # guard: a failed batch fails the transaction
        self.fail(error)

    def record_missing(self, session: WriteSession, error: KafkaError) -> None:
        """Fail the transaction that ``session`` belongs to: a record of it was not buffered."""
        # As in Java: a task that nobody awaits can have raised it, and a commit would leave its record out.
        # A producer that is closed or has failed says why by itself.
        if self._buffer.closed is None:
            self.fail_of(session, error)

    def fail_of(self, session: WriteSession, error: KafkaError) -> None:
        """Fail the transaction that ``session`` belongs to, unless it has ended."""
        if session is self._session:
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
        unsent = self.aborted() if isinstance(error, DeadlineError) else error
        asyncio.get_running_loop().call_soon(self._drop_unsent, unsent)

    def aborted(self, failure: KafkaError | None = None) -> TransactionAbortedError:
        """Return the error of a failed transaction; ``failure`` is the cause if it had not failed before."""
        cause = self.failure or failure
        error = TransactionAbortedError(f"the transaction can only be aborted: {cause}")
        error.__cause__ = cause
        return error

    # -- fenced or timed out

    def epoch_refused(self, batch: ProducerBatch, error: BrokerError) -> None:
        """Give a batch its outcome that a partition has refused for its epoch, once the coordinator says why."""
        if self.failure is not None or self.state is not TransactionState.OPEN:
            # A consequence of what is known, or of an end that finds out by itself.
            self._accumulator.fail(batch, self.aborted(self._timed_out(error)))
            return
        self._refused.append(batch)
        if self._judging is None or self._judging.done():
            self._judging = create_task(self._judge_refused(error), name="aiokproto epoch of transaction")

    async def _judge_refused(self, error: BrokerError) -> None:
        try:
            async with self._sending:
                # guard: a batch that was rejected for its epoch waits for the reason -> self.failure or error
                cause = self.failure or await self._judge(error)
        except KafkaError as fatal:
            # It has ended the producer, and with it these batches.
            log.debug("the epoch was refused: %s", fatal)
            return
        except Exception as bug:  # noqa: BLE001 - the producer ends with it
            self._end_producer(said_of(error, repr(bug)))
            return
        self.fail(cause)
        refused, self._refused = self._refused, []
        for batch in refused:
            # It may have expired.
            if not batch.done:
                self._accumulator.fail(batch, self.aborted(cause))
        self._buffer.memory_freed()

    async def _judge(self, refused: KafkaError) -> KafkaError:
        """Find out why this producer's epoch was refused, in :attr:`_sending`. Return why the transaction is aborted.

        Raises:
            KafkaError: Another producer has taken over; or it cannot be found out. It ends the producer.
        """
        try:
            await self._end_txn(commit=False)
            await self._next_epoch_if_needed()
        except DeadlineError as error:
            # The abort is repeated before the next transaction, and finds out then.
            return error
        return self._timed_out(refused)

    async def _epoch_after_timeout(self, refused: KafkaError) -> None:
        """Get the epoch after the one in which the coordinator has aborted the transaction, in version 1.

        Raises:
            KafkaError: It was not a timeout. It ends the producer.
        """
        confirmed = not self.v2 and bool(self._added or self._groups)
        known = confirmed and not self._end_lost and not self.id.two_phase
        try:
            # Looked at before: InitProducerId would abort the transaction of another producer that has begun one.
            # guard: the producer checks for a successor before it assumes a timeout -> not known
            if not known or not await self.id.was_aborted():
                raise self._taken_over(refused) if known or self.v2 else refused
            # guard: the timeout of a transaction does not fence its producer -> raise self._taken_over(refused)
            await self.id.initialize(after_timeout=True)
        except DeadlineError:
            raise
        except KafkaError as error:
            # Brokers before 3.0 do not describe transactions, or this client may not ask.
            fatal = error if isinstance(error, FencedError) else refused
            self._end_producer(fatal)
            raise fatal from None
        self._needs_epoch = self.id.request_lost = self._has_started = False

    def _taken_over(self, refused: KafkaError) -> KafkaError:
        """Return the error, without what else it could have meant."""
        if not isinstance(refused, FencedError):
            return refused
        return FencedError(refused.code, refused.context, "another producer with this id was started")

    def _timed_out(self, refused: KafkaError) -> DeadlineError:
        """Return the cause of an abort by the coordinator."""
        took = asyncio.get_running_loop().time() - self._begun_at
        error = DeadlineError(
            f"the coordinator has aborted it, {took:.3g} s after it began: transaction_timeout_ms={self.id.timeout_ms}"
        )
        if isinstance(refused, BrokerError):
            # Not as the error of its class, which says that another producer has taken over.
            error.__cause__ = BrokerError(refused.code, refused.context)
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
        # guard: no partition is added to a failed transaction -> bool(self._to_add) and not self._adding
        return bool(self._to_add) and not self._adding and self._can_add

    @property
    def _can_add(self) -> bool:
        return self.state is TransactionState.OPEN and self.failure is None

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
                while self._to_add and self._can_add:
                    # Taken out first: what is noted while the request is in flight belongs to the next one.
                    partitions, self._to_add = self._to_add, {}
                    names = ", ".join(str(each) for each in list(partitions)[:3])
                    exchange = AddPartitionsExchange(self.id.identity, partitions)
                    asked = Asked(topic=_only_topic(partitions))
                    await self._add(None, exchange, f"AddPartitionsToTxn of {names}", asked)
                    self._added.update(partitions)
        except TransactionAbortedError:
            # The batches that waited for it have failed.
            pass
        finally:
            self._adding = False

    # -- offsets

    async def add_offsets(self, session: WriteSession, offsets: OffsetsToSend) -> None:
        """Commit offsets in the transaction that ``session`` belongs to.

        Raises:
            TransactionAbortedError: They were refused, or the group has taken partitions away; the transaction has
                failed.
            KafkaError: The error ends the producer.
        """
        group_id = offsets.group_id
        what = f"offsets of group {group_id!r}"
        principal = self._cluster.config.principal
        asked = Asked(-1, _only_topic(offsets.positions), group_id, self.id.name, principal)
        try:
            async with self._sending:
                # In the lock: the transaction may have ended while this call waited for it.
                self._buffer.check_open(session)
                if not self.v2 and group_id not in self._groups:
                    adding = AddOffsetsExchange(self.id.identity, group_id)
                    await self._add(None, adding, f"AddOffsetsToTxn, {what}", asked)
                    self._groups.add(group_id)
                exchange = TxnOffsetCommitExchange(self._cluster, self.id.identity, offsets, v2=self.v2)
                # The group's coordinator, which knows the members, not the transaction's.
                requests = self.id.requests_to(CoordinatorKind.GROUP, group_id)
                response = await self._add(requests, exchange, f"TxnOffsetCommit, {what}", asked)
                for partition, code in exchange.refused(response).items():
                    about = asked._replace(api=exchange.request_type.api_key, topic=partition.topic)
                    error = error_for(code, f"TxnOffsetCommit, {what}, {partition}", None, about)
                    self.fail(error)
                    raise self.aborted(error)
                self._offsets_sent.append(offsets)
        except asyncio.CancelledError:
            # The request may still be executed, and doubt means abort. Also before anything was sent: a commit that
            # follows must not leave the offsets out.
            # guard: a cancelled commit of offsets fails the transaction
            self.fail_of(session, TransactionAbortedError(f"the call that commits the {what} was cancelled"))
            raise

    async def _add(self, requests: CoordinatorRequests | None, exchange: Exchange[R], what: str, asked: Asked) -> R:
        """Send a request that adds something to the transaction, by default to its coordinator.

        Raises:
            TransactionAbortedError: It was refused; the transaction has failed.
            KafkaError: The error ends the producer.
        """
        # Before the request is sent: from here on the coordinator may have an open transaction, whatever happens to the
        # response.
        self._has_started = True
        try:
            return await self.id.send(exchange, what, requests, asked)
        except KafkaError as error:
            action = classify(error, exchange.situation)
            if action is Action.STOP:
                self._end_producer(error)
                raise
            if action is Action.CHECK_EPOCH:
                error = await self._judge(error)
            self.fail(error)
            # It does not fail if another task is aborting it already.
            raise self.aborted(error) from error

    # -- the end

    async def flush(self) -> None:
        """Wait until everything in the transaction has an outcome; its session is closed. ``failure`` says which."""
        # Without a timeout: the sender expires each batch, and a commit must not leave one behind.
        await wait_all([batch.outcome for batch in self._buffer.send_all()], None)
        async with self._sending:
            # Acquired only to know that no request of the transaction is in flight.
            pass

    def prepare(self, transaction: Transaction[Any, Any]) -> PreparedTransaction:
        """After :meth:`flush`, wait for the decision about a transaction, which learns it. Return its name."""
        self._undecided = transaction
        self.state = TransactionState.PREPARED
        self.prepared = PreparedTransaction(*self.id.identity.producer)
        return self.prepared

    def check_undecided(self, session: WriteSession) -> None:
        """Raise ConfigurationError unless the prepared transaction of ``session`` still waits for its decision."""
        if session is not self._last or self.state is not TransactionState.PREPARED:
            raise ConfigurationError("complete_transaction() has decided about this transaction")

    async def complete(self, *, commit: bool) -> None:
        """Commit or abort the prepared transaction. Cancelling stops the wait only, and a second call goes on with it.

        Raises:
            ConfigurationError: An earlier call has decided otherwise.
            TransactionOutcomeUnknownError: No response in time.
            TransactionAbortedError: The coordinator has aborted it, or refuses to commit it.
            DeadlineError: No response about the abort in time.
            KafkaError: The error ends the producer.
        """
        if self.state in (TransactionState.COMMITTING, TransactionState.ABORTING):
            # A commit that was refused has a failure: it was decided, and is being aborted.
            decided = self.state is TransactionState.COMMITTING or self.failure is not None
            if commit is not decided:
                so = "committed" if decided else "aborted"
                raise ConfigurationError(f"transaction {self.prepared} is being {so}, as an earlier call has decided")
        await self._complete(commit=commit)

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
        await self._complete(commit=True)

    async def _complete(self, *, commit: bool) -> None:
        """End the transaction, or go on with the end that was requested; return if it ended as requested."""
        try:
            if self.state in (TransactionState.OPEN, TransactionState.PREPARED):
                # Set here and not in _run_end: a second transaction may be requested while this one ends, and waits in
                # _settle().
                self._session = None
                self._start_end(commit=commit)
                await self._ended()
            else:
                await self._settle()
        except KafkaError as error:
            if not commit or self._committed is None:
                raise
            # How it ended is known. What failed is the next epoch, or the abort instead, as the next call will say.
            log.debug("after the end of the transaction: %s", error)
        # guard: a commit that was rejected is not reported as committed -> commit and self._committed is None
        if commit and not self._committed:
            raise self.aborted()

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
        # Once: close() may have come first.
        # guard: a transaction ends once -> True
        if self.state in (TransactionState.OPEN, TransactionState.PREPARED):
            self._session = None
            self._start_end(commit=False)

    @property
    def _is_ending(self) -> bool:
        return self._end is not None and not self._end.done()

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
        if not commit:
            self._committed = False
        self._end = create_task(self._run_end(commit), name="aiokproto end of transaction")
        # A task of its own, strongly referenced by _end: asyncio keeps only weak references.
        self._end.add_done_callback(_retrieve)

    async def _run_end(self, commit: bool) -> None:
        if not commit:
            self._drop_unsent(TransactionAbortedError("the transaction was aborted"))
            # A batch whose fate is unknown is retried: after the end it would be a part of the next transaction.
            # guard: EndTxn waits for the records in flight
            await wait_all([batch.outcome for batch in self._buffer.send_all()], None)
        # guard: EndTxn waits for the requests that add something
        async with self._sending:
            # A transaction without any request does not exist for the coordinator: EndTxn would be INVALID_TXN_STATE.
            if self._has_started:
                await self._end_txn(commit)
            # guard: an empty prepared transaction gets its own producer id and epoch
            elif self.prepared is not None:
                # Its name must not become the next one's. An abort returns another epoch, also without a transaction,
                # and fences a producer that was replaced; InitProducerId would abort its successor's transaction.
                self._committed = commit
                await self._end_txn(commit=False)
            self._committed = commit
            await self._next_epoch_if_needed()
            self._forget()

    def _drop_unsent(self, why: KafkaError) -> None:
        """Fail the batches that were never sent. They need not be logged: the transaction raises the cause."""
        if self._accumulator.fail_unsent(why):
            self._buffer.memory_freed()

    async def _end_txn(self, commit: bool) -> bool:
        """Return whether the coordinator has confirmed it; an abort that it knows nothing about is not."""
        exchange = EndTxnExchange(self.id.identity, commit=commit, v2=self.v2)
        lost_before, self.id.request_lost = self.id.request_lost, False
        try:
            try:
                response = await self.id.send(exchange, "EndTxn")
            finally:
                self._end_lost = self._end_lost or self.id.request_lost
                self.id.request_lost = self.id.request_lost or lost_before
        except DeadlineError as error:
            # An abort without a response is only repeated; its outcome is no question.
            if not commit:
                raise
            raise TransactionOutcomeUnknownError(f"the transaction may be committed or not: {error}") from error
        except KafkaError as error:
            # Fenced, or a state that the coordinator does not know: this producer must not write any more.
            action = classify(error, exchange.situation)
            if action is Action.CHECK_EPOCH:
                if commit:
                    await self._abort_instead(error, self._timed_out(error))
                await self._epoch_after_timeout(error)
                return True
            if action is not Action.ABORT_TRANSACTION:
                self._end_producer(error)
                raise
            # An abort that the coordinator knows nothing about: InitProducerId shows whether this producer is fenced.
            self._needs_epoch = True
            if commit:
                await self._abort_instead(error, error)
            return False
        # Version 2: the next epoch, or a new id if the epochs are used up. In version 1 the field has its default, -1.
        if response.producer_id >= 0:
            self.id.current = ProducerId(response.producer_id, response.producer_epoch)
            self._needs_epoch = self.id.request_lost = False
        self._has_started = False
        return True

    async def _abort_instead(self, refused: KafkaError, cause: KafkaError) -> None:
        """Abort a transaction whose commit the coordinator has refused; ``cause`` is then the reason.

        Raises:
            TransactionAbortedError: It is aborted, or will be before the next transaction begins.
            TransactionOutcomeUnknownError: An earlier attempt may have been executed, and the abort has no response.
            KafkaError: The error ends the producer.
        """
        in_doubt = self.id.request_lost
        self.state, self.failure = TransactionState.ABORTING, cause
        try:
            if not await self._end_txn(commit=False):
                # Neither committed nor aborted, says the coordinator: an earlier attempt may have been executed.
                self._end_producer(refused)
                raise refused
            self._committed = False
            await self._next_epoch_if_needed()
            self._forget()
        except DeadlineError as error:
            if in_doubt and self._committed is None:
                # The next call requests the commit again, as if it had not been refused.
                self.state, self.failure = TransactionState.COMMITTING, None
                raise TransactionOutcomeUnknownError(f"the transaction may be committed or not: {refused}") from error
            # Not committed, says the coordinator, and nobody will request it again.
            self._committed = False
            log.warning("the abort of the transaction is not confirmed yet: %s", error)
        raise self.aborted()

    async def _next_epoch_if_needed(self) -> None:
        """Bump the epoch, so that sequence numbers start again, and late requests are refused (KIP-360)."""
        if not self._needs_epoch and not self.id.request_lost:
            return
        try:
            await self.id.initialize()
        except KafkaError as error:
            # Brokers before 2.5 cannot keep late requests out. But after a gap they would refuse every record.
            if self._needs_epoch or not isinstance(error, UnsupportedVersionError):
                # After others the next transaction repeats it, in _settle().
                if classify(error, InitExchange.situation) is Action.STOP:
                    self._end_producer(error)
                raise
        self._needs_epoch = self.id.request_lost = False

    def _end_producer(self, error: KafkaError) -> None:
        """End the producer. Before the sender exists, Producer.start() raises the error."""
        if self.sender is not None:
            self.sender.fail(error)

    def _forget(self) -> None:
        """Forget the transaction, which has ended."""
        self._accumulator.observer.ended(self.id.name, self._committed is True, self._begun_at)
        self.state = TransactionState.READY
        self.prepared = None
        if self._undecided is not None:
            self._undecided._decided(self._committed is True)
            self._undecided = None
        for each in self._offsets_sent if self._committed else ():
            each.committed()
        self._offsets_sent.clear()
        self._has_started = False
        self._end_lost = False
        self._added.clear()
        self._to_add.clear()
        self._groups.clear()


def _retrieve(task: asyncio.Task[None]) -> None:
    # Nobody may be waiting any more; the next transaction finds the state and repeats the end.
    if not task.cancelled() and task.exception() is not None:
        log.debug("%s: %s", task.get_name(), task.exception())


def _only_topic(partitions: Iterable[TopicPartition]) -> str:
    """Return the topic of all partitions; empty if they have several."""
    topics = {partition.topic for partition in partitions}
    return topics.pop() if len(topics) == 1 else ""
