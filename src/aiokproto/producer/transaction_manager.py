"""The transactional id of a producer: its producer id and epoch, and the open transaction (KIP-98, KIP-360, KIP-890).

A transaction has version 1 or 2, depending on the cluster's ``transaction.version`` when it starts::

    version 1                                          version 2 (KIP-890)
    AddPartitionsToTxn before a partition's records    Produce adds the partition
    AddOffsetsToTxn before TxnOffsetCommit             TxnOffsetCommit adds the group
    EndTxn leaves the epoch as it is                   EndTxn returns the epoch of the next transaction

**When in doubt, abort.** A batch that fails, for whatever reason, *fails* the transaction: nothing more is appended,
and it can only be aborted. If the batch may have been sent, its sequence numbers leave a gap. So the next transaction
needs the next epoch, in which they start at 0: version 2 always bumps the epoch, version 1 by InitProducerId after the
abort. The same holds for every request that gets no response, even if it's sent again: if it were executed late, it
would add its offsets to the next transaction, or end that transaction.

**Fenced or timed out?** If a transaction is open for too long, the coordinator aborts it and bumps the epoch, just as
it does for a new producer with the same transactional id. If the producer writes afterwards, it has the wrong epoch in
both cases. When the producer then requests an abort, the coordinator reveals which case it was. In version 2 it
confirms an abort that it has made itself, and returns the epoch. In version 1 it refuses. But a timeout advances the
epoch by one, and a new producer advances it by two. DescribeTransactions returns the current epoch (KIP-664), and
InitProducerId from the epoch in between then succeeds (KIP-360). If an EndTxn had no response, the transaction may
already have ended, and the epoch may be another producer's. There's no way to know, so the producer counts as fenced.
Until the answer is known, the refused record has no outcome.

**One end.** EndTxn is sent after every batch and every other request of the transaction has an outcome: a request that
arrived later would become part of the next transaction. EndTxn runs in its own task, so cancelling a call doesn't
affect it, and no transaction starts before it's done. An end without a response is repeated unchanged, and the
coordinator executes it once. A commit can be refused, so the request alone doesn't determine the outcome of the
transaction: ``_committed`` does.

**Two-phase commit (KIP-939).** A prepared transaction waits for a decision that is made elsewhere, and only that
decision ends it. Neither a timeout nor :meth:`TransactionManager.close` ends it, nor does the next start, which finds
the transaction through InitProducerId and keeps it.

**What can never happen.** A commit that is missing a record for which no error was raised; records of two transactions
in one; EndTxn while records are in flight; a producer that continues after another has taken over its transactional id.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from enum import Enum, auto
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
from aiokproto.producer.handed_over import PreparedTransaction
from aiokproto.producer.producer_id import ProducerId
from aiokproto.producer.transaction_requests import (
    AddOffsetsExchange,
    AddPartitionsExchange,
    EndTxnExchange,
    InitExchange,
    OffsetsToSend,
    TxnOffsetCommitExchange,
)
from aiokproto.producer.transactional_id import FEATURE, FIRST_V2, TransactionalId
from aiokproto.producer.waiting import wait_all
from aiokproto.runtime import create_task
from aiokproto.types import TopicPartition

if TYPE_CHECKING:
    from aiokproto.producer.sender import Sender
    from aiokproto.producer.transaction import Transaction

R = TypeVar("R", bound=Response)

log = logging.getLogger("aiokproto.producer")


class TransactionState(Enum):
    """The state of the transactional id, as far as this producer knows."""

    READY = auto()
    """No transaction is open."""
    OPEN = auto()
    PREPARED = auto()
    """Everything is written, and the decision is awaited (KIP-939)."""
    COMMITTING = auto()
    """A commit was requested, and may or may not have taken effect."""
    ABORTING = auto()


class TransactionManager:
    """Starts and ends transactions, and adds partitions and offsets to the open transaction.

    Attributes:
        id: The transactional id, with producer id and epoch.
        state: The state of the last transaction.
        failure: Why the transaction can only be aborted, or was; None while it can be committed.
        v2: Whether the transaction has version 2.
        prepared: The transaction that waits for its decision, if any.
        sender: A fatal error ends it, and the producer with it. None until the producer has started successfully.
    """

    def __init__(
        self,
        transactional_id: str,
        timeout_ms: int,
        buffer: Buffer,
        *,
        two_phase: bool = False,
    ) -> None:
        """Create a manager. Nothing is sent before :meth:`start`.

        Args:
            transactional_id: The id.
            timeout_ms: The coordinator aborts a transaction that is open for longer.
            buffer: Takes the records. Between transactions its accumulator contains no batches.
            two_phase: Whether transactions have no timeout, and are kept at the next start (KIP-939).
        """
        self.id = TransactionalId(transactional_id, timeout_ms, two_phase=two_phase)
        self.state = TransactionState.READY
        self.failure: KafkaError | None = None
        self.v2 = False
        self.prepared: PreparedTransaction | None = None
        self._buffer = buffer
        self._accumulator = buffer.accumulator
        # This is the only way for a failed record to fail the transaction, whether or not its delivery is awaited.
        self._accumulator.transactions = self
        self.sender: Sender | None = None
        self._cluster: ClusterClient
        # The session of the open transaction; None once its end has started.
        self._session: WriteSession | None = None
        # The session of the last transaction that was started, kept after its end: commit() can be repeated only for
        # this one.
        self._last: WriteSession | None = None
        # Whether that transaction was committed; None while that isn't known. The requested end doesn't determine it,
        # because a commit can be refused.
        self._committed: bool | None = None
        # The prepared transaction of this process. None if an earlier process left it.
        self._undecided: Transaction[Any, Any] | None = None
        # The task that ends the last transaction. At most one is running: _wait_until_ended() waits for it before
        # another starts.
        self._end: asyncio.Task[None] | None = None
        self._started_at = 0.0
        # Held by requests of the transaction that EndTxn must not overtake.
        self._sending = asyncio.Lock()
        # Partitions that are part of the transaction. In version 1 the coordinator has confirmed them; in version 2
        # this is assumed.
        self._added: set[TopicPartition] = set()
        # Batches that were refused because of their epoch, and the task that finds out why.
        self._refused: list[ProducerBatch] = []
        self._judging: asyncio.Task[None] | None = None
        # True if an EndTxn of this transaction got no response, so it may have been executed.
        self._end_lost = False
        # Version 1: partitions whose batches wait for AddPartitionsToTxn, as an ordered set.
        self._to_add: dict[TopicPartition, None] = {}
        self._adding = False
        # Version 1: groups for which AddOffsetsToTxn was confirmed.
        self._groups: set[str] = set()
        # The offsets that were added. Their consumers are notified if the transaction is committed.
        self._offsets_sent: list[OffsetsToSend] = []
        # True if the coordinator may have an open transaction.
        self._has_started = False
        # True if the next transaction needs the next epoch: a failed batch with a sequence number has left a gap.
        self._needs_epoch = False

    # -- starting

    async def start(self, cluster: ClusterClient, *, keep_prepared: bool) -> None:
        """Acquire the producer id. This fences other producers with the transactional id, and aborts their transaction.

        Args:
            cluster: Sends the requests.
            keep_prepared: Whether to keep that transaction instead, if there's two-phase commit.

        Raises:
            KafkaError: No producer id could be acquired.
        """
        self._cluster = cluster
        self.id.connect(cluster)
        response = await self.id.initialize(keep_prepared=keep_prepared and self.id.two_phase)
        if response.ongoing_txn_producer_id >= 0:
            self.prepared = PreparedTransaction(response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch)
            self.state, self._has_started = TransactionState.PREPARED, True
            # Only the earlier process knew when it started.
            self._started_at = asyncio.get_running_loop().time()
        self.v2 = await self.id.has_v2(self.v2)
        if self.id.two_phase and not self.v2:
            raise UnsupportedVersionError(
                f"transaction_two_phase_commit_enable (KIP-939) needs {FEATURE}={FIRST_V2} in the cluster; it is lower"
            )

    async def close(self, timeout: float) -> None:
        """Abort the open transaction, or wait at most ``timeout`` seconds for an end that is in progress.

        A prepared transaction stays prepared.
        """
        # Don't commit it: the application hasn't said that it's complete.
        if self.state is TransactionState.OPEN:
            self.start_abort()
        elif self.state is TransactionState.ABORTING and not self._is_ending:
            self._start_end(commit=False)
        if self._end is not None:
            await asyncio.wait([self._end], timeout=timeout)

    async def stop(self) -> None:
        """Stop the background tasks."""
        # The next producer repeats the end: its InitProducerId completes or aborts what is open.
        running = [task for task in (self._end, self._judging) if task is not None]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    # -- the open transaction

    async def begin(self, session: WriteSession) -> None:
        """Start a transaction once the last one has ended.

        Args:
            session: The transaction's right to append.

        Raises:
            ConfigurationError: Another transaction is open, or a prepared transaction has no decision.
            TransactionOutcomeUnknownError: There's still no response to the commit of the last transaction.
            DeadlineError: There's still no response to the abort of the last transaction.
            KafkaError: The error ends the producer.
        """
        if self.state is TransactionState.PREPARED:
            raise ConfigurationError(
                f"transaction {self.prepared} was prepared and has no decision: await "
                "producer.complete_transaction(state) first"
            )
        if self._session is not None:
            raise ConfigurationError("a transaction is open: commit or abort it before you begin the next one")
        # Set this before the first await. It reserves the transaction, so two tasks can't both start one.
        self._session = session
        try:
            await self._wait_until_ended()
            # Request the version only between transactions: a transaction keeps the version that it started with.
            v2 = await self.id.has_v2(self.v2)
            # The epoch stays the same in version 1, so after an upgrade to version 2 a late record of the last
            # transaction would add its partition to this one.
            self._needs_epoch = self._needs_epoch or (v2 and not self.v2)
            await self._next_epoch_if_needed()
            # The producer may have been closed in the meantime, and close() aborts only a transaction that is already
            # open.
            self._buffer.check_open()
        except BaseException:
            # Whatever failed, no transaction is open, and another one may start.
            self._session = None
            raise
        self.v2 = v2
        self._last, self._committed, self.failure = session, None, None
        self.state = TransactionState.OPEN
        self._started_at = asyncio.get_running_loop().time()
        self._accumulator.observer.begun(self.id.name)

    async def _wait_until_ended(self) -> None:
        """Wait until the last transaction has ended, and repeat its end if that failed."""
        while self.state is not TransactionState.READY:
            if not self._is_ending:
                # Request the same end again: it isn't known whether the coordinator has executed the first request.
                # guard: a commit in doubt is repeated as it was -> self._start_end(commit=False)
                self._start_end(commit=self.state is TransactionState.COMMITTING)
            await self._wait_for_end()

    def batch_failed(self, batch: ProducerBatch, error: KafkaError) -> None:
        """Fail the open transaction because one of its batches has failed."""
        if batch.sequence >= 0:
            self._needs_epoch = True
        # guard: a failed batch fails the transaction
        self.fail(error)

    def record_missing(self, session: WriteSession, error: KafkaError) -> None:
        """Fail the transaction that ``session`` belongs to because a record wasn't buffered."""
        # As in Java: the error may have been raised in a task that is never awaited, and a commit would leave its
        # record out. If the producer is closed or has failed, its own error already says why.
        if self._buffer.close_error is None:
            self.fail_of(session, error)

    def fail_of(self, session: WriteSession, error: KafkaError) -> None:
        """Fail the transaction that ``session`` belongs to, unless it has ended."""
        if session is self._session:
            self.fail(error)

    def fail(self, error: KafkaError) -> None:
        """Fail the open transaction. It can only be aborted then."""
        # The first failure is the cause. While the transaction is ending, failures are consequences.
        if self.failure is not None or self.state is not TransactionState.OPEN:
            return
        self.failure = error
        if self._session is not None:
            self._buffer.close_session(self._session, self.aborted())
        # Drop them later: the caller may be failing batches itself.
        unsent = self.aborted() if isinstance(error, DeadlineError) else error
        asyncio.get_running_loop().call_soon(self._drop_unsent, unsent)

    def aborted(self, failure: KafkaError | None = None) -> TransactionAbortedError:
        """Return the error of a failed transaction. ``failure`` is the cause if it hadn't failed before."""
        cause = self.failure or failure
        error = TransactionAbortedError(f"the transaction can only be aborted: {cause}")
        error.__cause__ = cause
        return error

    # -- fenced or timed out

    def epoch_refused(self, batch: ProducerBatch, error: BrokerError) -> None:
        """Give an outcome to a batch that was refused because of its epoch, once the coordinator reveals the reason."""
        if self.failure is not None or self.state is not TransactionState.OPEN:
            # The refusal follows from a known failure, or the end that is in progress finds out the reason.
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
            # The error has ended the producer, and with it these batches.
            log.debug("the epoch was refused: %s", fatal)
            return
        except Exception as bug:  # noqa: BLE001 - any error ends the producer
            self._end_producer(said_of(error, repr(bug)))
            return
        self.fail(cause)
        refused, self._refused = self._refused, []
        for batch in refused:
            # The batch may have expired.
            if not batch.done:
                self._accumulator.fail(batch, self.aborted(cause))
        self._buffer.memory_freed()

    async def _judge(self, refused: KafkaError) -> KafkaError:
        """Find out why this producer's epoch was refused, and return the reason. Call it holding :attr:`_sending`.

        Raises:
            KafkaError: Another producer has taken over, or the reason can't be found out. It ends the producer.
        """
        try:
            await self._end_txn(commit=False)
            await self._next_epoch_if_needed()
        except DeadlineError as error:
            # The abort is repeated before the next transaction, which then finds out.
            return error
        return self._timed_out(refused)

    async def _epoch_after_timeout(self, refused: KafkaError) -> None:
        """In version 1, get the epoch after the one in which the coordinator has aborted the transaction.

        Raises:
            KafkaError: It wasn't a timeout. This ends the producer.
        """
        confirmed = not self.v2 and bool(self._added or self._groups)
        known = confirmed and not self._end_lost and not self.id.two_phase
        try:
            # Describe the state first: InitProducerId would abort the transaction of another producer that has started
            # one.
            # guard: the producer checks for a successor before it assumes a timeout -> not known
            if not known or not await self.id.was_aborted():
                raise self._taken_over(refused) if known or self.v2 else refused
            # guard: the timeout of a transaction does not fence its producer -> raise self._taken_over(refused)
            await self.id.initialize(after_timeout=True)
        except DeadlineError:
            raise
        except KafkaError as error:
            # Brokers before 3.0 don't support DescribeTransactions, or this client isn't authorized to send it.
            fatal = error if isinstance(error, FencedError) else refused
            self._end_producer(fatal)
            raise fatal from None
        self._needs_epoch = self.id.request_lost = self._has_started = False

    def _taken_over(self, refused: KafkaError) -> KafkaError:
        """Return the error without the other possible cause."""
        if not isinstance(refused, FencedError):
            return refused
        return FencedError(refused.code, refused.context, "another producer with this id was started")

    def _timed_out(self, refused: KafkaError) -> DeadlineError:
        """Return an error that gives the coordinator's abort as the cause."""
        took = asyncio.get_running_loop().time() - self._started_at
        error = DeadlineError(
            f"the coordinator has aborted it, {took:.3g} s after it began: transaction_timeout_ms={self.id.timeout_ms}"
        )
        if isinstance(refused, BrokerError):
            # An error of the refusal's own class would say that another producer has taken over.
            error.__cause__ = BrokerError(refused.code, refused.context)
        return error

    # -- partitions

    def may_send(self, topic_partition: TopicPartition) -> bool:
        """Whether records of a partition may be sent. If not, :meth:`add_partitions` has to be called."""
        # Every drain calls this for every batch, so check the common case first.
        if topic_partition in self._added:
            return True
        if self.v2:
            self._added.add(topic_partition)
            self._has_started = True
            return True
        if self.failure is None:
            self._to_add[topic_partition] = None
        return False

    @property
    def has_partitions_to_add(self) -> bool:
        """Whether :meth:`add_partitions` has something to do and isn't already running."""
        # guard: no partition is added to a failed transaction -> bool(self._to_add) and not self._adding
        return bool(self._to_add) and not self._adding and self._can_add

    @property
    def _can_add(self) -> bool:
        return self.state is TransactionState.OPEN and self.failure is None

    async def add_partitions(self) -> None:
        """Add partitions to the transaction, until there are no more partitions with records.

        Raises:
            KafkaError: The error ends the producer.
        """
        self._adding = True
        try:
            # EndTxn waits for this lock, and so for the response. Two requests of one transaction are never in flight
            # at the same time.
            async with self._sending:
                while self._to_add and self._can_add:
                    # Take them out first: a partition that is noted while the request is in flight belongs to the next
                    # request.
                    partitions, self._to_add = self._to_add, {}
                    names = ", ".join(str(partition) for partition in list(partitions)[:3])
                    exchange = AddPartitionsExchange(self.id.identity, partitions)
                    asked = Asked(topic=_only_topic(partitions))
                    await self._add(None, exchange, f"AddPartitionsToTxn of {names}", asked)
                    self._added.update(partitions)
        except TransactionAbortedError:
            # The batches that were waiting for it have failed.
            pass
        finally:
            self._adding = False

    # -- offsets

    async def add_offsets(self, session: WriteSession, offsets: OffsetsToSend) -> None:
        """Commit offsets in the transaction that ``session`` belongs to.

        Raises:
            TransactionAbortedError: The offsets were refused, or the group has taken partitions away. The transaction
                has failed.
            KafkaError: The error ends the producer.
        """
        group_id = offsets.group_id
        what = f"offsets of group {group_id!r}"
        principal = self._cluster.config.principal
        asked = Asked(-1, _only_topic(offsets.positions), group_id, self.id.name, principal)
        try:
            async with self._sending:
                # Check inside the lock: the transaction may have ended while this call waited for the lock.
                self._buffer.check_open(session)
                if not self.v2 and group_id not in self._groups:
                    adding = AddOffsetsExchange(self.id.identity, group_id)
                    await self._add(None, adding, f"AddOffsetsToTxn, {what}", asked)
                    self._groups.add(group_id)
                exchange = TxnOffsetCommitExchange(self._cluster, self.id.identity, offsets, v2=self.v2)
                # The group's coordinator knows the members, and the transaction's coordinator doesn't.
                requests = self.id.requests_to(CoordinatorKind.GROUP, group_id)
                response = await self._add(requests, exchange, f"TxnOffsetCommit, {what}", asked)
                for partition, code in exchange.refused(response).items():
                    about = asked._replace(api=exchange.request_type.api_key, topic=partition.topic)
                    error = error_for(code, f"TxnOffsetCommit, {what}, {partition}", None, about)
                    self.fail(error)
                    raise self.aborted(error)
                self._offsets_sent.append(offsets)
        except asyncio.CancelledError:
            # The request may still be executed, and when in doubt we abort. This holds even if nothing was sent yet: a
            # later commit must not leave the offsets out.
            # guard: a cancelled commit of offsets fails the transaction
            self.fail_of(session, TransactionAbortedError(f"the call that commits the {what} was cancelled"))
            raise

    async def _add(self, requests: CoordinatorRequests | None, exchange: Exchange[R], what: str, asked: Asked) -> R:
        """Send a request that adds something to the transaction, by default to the transaction's coordinator.

        Raises:
            TransactionAbortedError: The request was refused, and the transaction has failed.
            KafkaError: The error ends the producer.
        """
        # Set this before sending the request: once it's sent, the coordinator may have an open transaction, whatever
        # happens to the response.
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
            # fail() does nothing if another task is already aborting the transaction, so pass the error.
            raise self.aborted(error) from error

    # -- the end

    async def flush(self) -> None:
        """Wait until everything in the transaction has an outcome. ``failure`` then shows whether anything has failed.

        The session must already be closed.
        """
        # There's no timeout: the sender expires each batch, and a commit must not leave one out.
        await wait_all([batch.outcome for batch in self._buffer.send_all()], None)
        async with self._sending:
            # Acquire the lock only to be sure that no request of the transaction is in flight.
            pass

    def prepare(self, transaction: Transaction[Any, Any]) -> PreparedTransaction:
        """After :meth:`flush`, start waiting for the decision. Return the transaction's identifier."""
        self._undecided = transaction
        self.state = TransactionState.PREPARED
        self.prepared = PreparedTransaction(*self.id.identity.producer)
        return self.prepared

    def check_undecided(self, session: WriteSession) -> None:
        """Raise ConfigurationError unless the prepared transaction of ``session`` still waits for its decision."""
        if session is not self._last or self.state is not TransactionState.PREPARED:
            raise ConfigurationError("complete_transaction() has decided about this transaction")

    async def complete(self, *, commit: bool) -> None:
        """Commit or abort the prepared transaction. Cancelling only stops the wait, and a second call continues it.

        Raises:
            ConfigurationError: An earlier call made the opposite decision.
            TransactionOutcomeUnknownError: No response in time.
            TransactionAbortedError: The coordinator has aborted it, or refuses to commit it.
            DeadlineError: No response to the abort in time.
            KafkaError: The error ends the producer.
        """
        if self.state in (TransactionState.COMMITTING, TransactionState.ABORTING):
            # If a commit was refused, there's a failure: the decision was to commit, but the transaction is being
            # aborted.
            decided = self.state is TransactionState.COMMITTING or self.failure is not None
            if commit is not decided:
                so = "committed" if decided else "aborted"
                raise ConfigurationError(f"transaction {self.prepared} is being {so}, as an earlier call has decided")
        await self._complete(commit=commit)

    async def commit(self, session: WriteSession) -> None:
        """Commit, after :meth:`flush`; or repeat a commit whose outcome is unknown. Cancelling only stops the wait.

        Raises:
            ConfigurationError: A later transaction has started.
            TransactionAbortedError: The coordinator has aborted it, or refuses to commit it.
            TransactionOutcomeUnknownError: No response in time.
            KafkaError: The error ends the producer.
        """
        if session is not self._last:
            raise ConfigurationError("a later transaction has begun, which waited for the outcome of this one")
        await self._complete(commit=True)

    async def _complete(self, *, commit: bool) -> None:
        """End the transaction, or continue an end that was already requested. Return once it has ended as requested."""
        try:
            if self.state in (TransactionState.OPEN, TransactionState.PREPARED):
                # Set this here, not in _run_end: while this transaction ends, another one may be requested, which then
                # waits in _wait_until_ended().
                self._session = None
                self._start_end(commit=commit)
                await self._wait_for_end()
            else:
                await self._wait_until_ended()
        except KafkaError as error:
            if not commit or self._committed is None:
                raise
            # The outcome is known. Getting the next epoch, or the abort that replaced the commit, has failed. The next
            # call raises that error.
            log.debug("after the end of the transaction: %s", error)
        # guard: a commit that was rejected is not reported as committed -> commit and self._committed is None
        if commit and not self._committed:
            raise self.aborted()

    async def abort(self) -> None:
        """Abort. Cancelling only stops the wait.

        Raises:
            DeadlineError: No response in time. The next transaction repeats the abort before it starts.
            KafkaError: The error ends the producer.
        """
        self.start_abort()
        await self._wait_for_end()

    def start_abort(self) -> None:
        """Abort in the background. The next transaction can start afterwards."""
        # Abort only once: close() may already have started it.
        # guard: a transaction ends once -> True
        if self.state in (TransactionState.OPEN, TransactionState.PREPARED):
            self._session = None
            self._start_end(commit=False)

    @property
    def _is_ending(self) -> bool:
        return self._end is not None and not self._end.done()

    async def _wait_for_end(self) -> None:
        end = self._end
        assert end is not None, "an end was started"
        # If stop() cancels the end, shield() would raise that as if the caller had been cancelled. wait() doesn't.
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
        # `_end` keeps a strong reference to the task; asyncio keeps only weak ones.
        self._end.add_done_callback(_log_unseen_error)

    async def _run_end(self, commit: bool) -> None:
        if not commit:
            self._drop_unsent(TransactionAbortedError("the transaction was aborted"))
            # A batch is retried while it's uncertain whether it was written. After the end it would become part of the
            # next transaction.
            # guard: EndTxn waits for the records in flight
            await wait_all([batch.outcome for batch in self._buffer.send_all()], None)
        # guard: EndTxn waits for the requests that add something
        async with self._sending:
            # If the transaction has sent no request, the coordinator doesn't know it, and would answer EndTxn with
            # INVALID_TXN_STATE.
            if self._has_started:
                await self._end_txn(commit)
            # guard: an empty prepared transaction gets its own producer id and epoch
            elif self.prepared is not None:
                # The next transaction must not get the same identifier. An abort returns another epoch even if there's
                # no transaction, and if another producer has taken over, this one is fenced. InitProducerId would abort
                # the other producer's transaction instead.
                self._committed = commit
                await self._end_txn(commit=False)
            self._committed = commit
            await self._next_epoch_if_needed()
            self._forget()

    def _drop_unsent(self, why: KafkaError) -> None:
        """Fail the batches that were never sent. They aren't logged: the transaction raises the cause."""
        if self._accumulator.fail_unsent(why):
            self._buffer.memory_freed()

    async def _end_txn(self, commit: bool) -> bool:
        """End the transaction. Return whether the coordinator has confirmed that. It doesn't confirm an abort of a
        transaction that it doesn't know."""
        exchange = EndTxnExchange(self.id.identity, commit=commit, v2=self.v2)
        lost_before, self.id.request_lost = self.id.request_lost, False
        try:
            try:
                response = await self.id.send(exchange, "EndTxn")
            finally:
                self._end_lost = self._end_lost or self.id.request_lost
                self.id.request_lost = self.id.request_lost or lost_before
        except DeadlineError as error:
            # An abort without a response is merely repeated: no caller is waiting for its outcome.
            if not commit:
                raise
            raise TransactionOutcomeUnknownError(f"the transaction may be committed or not: {error}") from error
        except KafkaError as error:
            # This producer is fenced, or the coordinator doesn't know its state. It must not write any more.
            action = classify(error, exchange.situation)
            if action is Action.CHECK_EPOCH:
                if commit:
                    await self._abort_instead(error, self._timed_out(error))
                await self._epoch_after_timeout(error)
                return True
            if action is not Action.ABORT_TRANSACTION:
                self._end_producer(error)
                raise
            # The coordinator doesn't know of a transaction to abort. InitProducerId reveals whether this producer is
            # fenced.
            self._needs_epoch = True
            if commit:
                await self._abort_instead(error, error)
            return False
        # Version 2 returns the next epoch, or a new id if the epochs are used up. In version 1 the field has its
        # default, -1.
        if response.producer_id >= 0:
            self.id.current = ProducerId(response.producer_id, response.producer_epoch)
            self._needs_epoch = self.id.request_lost = False
        self._has_started = False
        return True

    async def _abort_instead(self, refused: KafkaError, cause: KafkaError) -> None:
        """Abort a transaction whose commit the coordinator has refused, for the reason ``cause``.

        Raises:
            TransactionAbortedError: It's aborted, or will be before the next transaction starts.
            TransactionOutcomeUnknownError: An earlier attempt may have been executed, and the abort got no response.
            KafkaError: The error ends the producer.
        """
        in_doubt = self.id.request_lost
        self.state, self.failure = TransactionState.ABORTING, cause
        try:
            if not await self._end_txn(commit=False):
                # According to the coordinator, it's neither committed nor aborted, so an earlier attempt may have been
                # executed.
                self._end_producer(refused)
                raise refused
            self._committed = False
            await self._next_epoch_if_needed()
            self._forget()
        except DeadlineError as error:
            if in_doubt and self._committed is None:
                # The next call requests the commit again, as if it hadn't been refused.
                self.state, self.failure = TransactionState.COMMITTING, None
                raise TransactionOutcomeUnknownError(f"the transaction may be committed or not: {refused}") from error
            # According to the coordinator, it isn't committed, and no call will request a commit again.
            self._committed = False
            log.warning("the abort of the transaction is not confirmed yet: %s", error)
        raise self.aborted()

    async def _next_epoch_if_needed(self) -> None:
        """Bump the epoch if necessary, so sequence numbers restart and late requests are refused (KIP-360)."""
        if not self._needs_epoch and not self.id.request_lost:
            return
        try:
            await self.id.initialize()
        except KafkaError as error:
            # Brokers before 2.5 can't keep late requests out, which is tolerated. But after a gap they would refuse
            # every record.
            if self._needs_epoch or not isinstance(error, UnsupportedVersionError):
                # The next transaction repeats this after other errors, in _wait_until_ended().
                if classify(error, InitExchange.situation) is Action.STOP:
                    self._end_producer(error)
                raise
        self._needs_epoch = self.id.request_lost = False

    def _end_producer(self, error: KafkaError) -> None:
        """End the producer. If there's no sender yet, Producer.start() raises the error instead."""
        if self.sender is not None:
            self.sender.fail(error)

    def _forget(self) -> None:
        """Reset the state of a transaction that has ended."""
        self._accumulator.observer.ended(self.id.name, self._committed is True, self._started_at)
        self.state = TransactionState.READY
        self.prepared = None
        if self._undecided is not None:
            self._undecided._decided(self._committed is True)
            self._undecided = None
        for offsets in self._offsets_sent if self._committed else ():
            offsets.committed()
        self._offsets_sent.clear()
        self._has_started = False
        self._end_lost = False
        self._added.clear()
        self._to_add.clear()
        self._groups.clear()


def _log_unseen_error(task: asyncio.Task[None]) -> None:
    # Possibly no task is waiting any more. The next transaction checks the state and repeats the end.
    if not task.cancelled() and task.exception() is not None:
        log.debug("%s: %s", task.get_name(), task.exception())


def _only_topic(partitions: Iterable[TopicPartition]) -> str:
    """Return the topic of all partitions, or an empty string if they belong to several topics."""
    topics = {partition.topic for partition in partitions}
    return topics.pop() if len(topics) == 1 else ""
