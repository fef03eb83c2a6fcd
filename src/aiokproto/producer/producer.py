"""The producer's public API. The package's docstring explains how it works."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Awaitable, Callable
from inspect import signature
from typing import TYPE_CHECKING, Literal

from aiokproto.application.async_context import AsyncContext
from aiokproto.application.foreign_calls import PRODUCER_METHODS, ForeignCalls, foreign_timeout, options_by_name
from aiokproto.application.gates import PRODUCER, Obstacle, Use, gated, refuse
from aiokproto.cluster import ClusterClient
from aiokproto.config import ClusterConfig, ConnectionOptions
from aiokproto.config.values import seconds
from aiokproto.errors import ClientClosedError, ConfigurationError, DeadlineError
from aiokproto.observe.health import Health
from aiokproto.observe.metrics import MetricSource
from aiokproto.observe.observers import ProducerObserver
from aiokproto.producer.accumulator import Accumulator
from aiokproto.producer.batch import ProducerBatch
from aiokproto.producer.buffer import Buffer, WriteSession
from aiokproto.producer.config import BATCH_SIZE, PartitionerName, ProducerConfig
from aiokproto.producer.named_partitioners import by_name, ignore_keys
from aiokproto.producer.old_brokers import adapted
from aiokproto.producer.partitioner import Partitioner
from aiokproto.producer.prepared_transaction import PreparedTransaction
from aiokproto.producer.record_sender import RecordSender
from aiokproto.producer.report import ProducerStats, add_findings, producer_stats
from aiokproto.producer.sender import Sender
from aiokproto.producer.serializers import Serializers
from aiokproto.producer.sticky import StickyPartitioner
from aiokproto.producer.summary import aborted, delivery_error, summary, undelivered
from aiokproto.producer.transaction import Transaction
from aiokproto.producer.transaction_manager import TransactionManager
from aiokproto.producer.waiting import wait_all
from aiokproto.runtime import current
from aiokproto.security.tracebacks import hiding_options
from aiokproto.texts import counted
from aiokproto.types import K, V

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

log = logging.getLogger("aiokproto.producer")

SLOW_CLOSE = 1.0
"""Seconds after which :meth:`Producer.close` logs what it waits for."""
DISCONNECT = 5.0
"""Longest time to disconnect (s) when :meth:`Producer.close` has no deadline."""


@gated(PRODUCER)
class Producer(AsyncContext, ForeignCalls, RecordSender[K, V]):
    """Writes records to topics.

    ::

        async with Producer(bootstrap_servers="localhost:9092") as producer:
            where = await producer.send("flights", b"UA 901", key=b"UA")

    There are three ways to write a record. :meth:`send` waits until it is acknowledged, :meth:`post` until it is
    buffered, and :meth:`try_post` does not wait at all. :meth:`send_many` and :meth:`post_many` write many records, at
    less cost per record. :meth:`send_batch` and :meth:`post_batch` write record batches without decoding them.

    Keys and values are bytes, or what ``key_serializer`` and ``value_serializer`` take: then the class is
    ``Producer[K, V]``. With serializers that are coroutine functions, calls of several tasks are written in the order
    in which these return.

    Records of one partition are written in the order of the calls, also after retries. Without idempotence this needs
    ``max_in_flight_requests_per_connection=1``, and a retry can write a record twice.

    Any number of tasks can share a producer, but only in one event loop: the one that runs :meth:`start`.
    """

    foreign_methods = PRODUCER_METHODS

    @hiding_options
    @options_by_name
    def __init__(
        self,
        *,
        key_serializer: Callable[[K], Awaitable[bytes] | bytes] | None = None,
        value_serializer: Callable[[V], Awaitable[bytes] | bytes] | None = None,
        acks: Literal[0, 1, -1, "all"] = "all",
        enable_idempotence: bool | None = None,
        linger_ms: float = 5,
        batch_size: int = BATCH_SIZE,
        buffer_memory: int = 32 * 1024 * 1024,
        compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none",
        compression_level: int | None = None,
        max_request_size: int = 1024 * 1024,
        delivery_timeout_ms: float = 120_000,
        max_in_flight_requests_per_connection: int = 5,
        partitioner: PartitionerName | Partitioner = "default",
        partitioner_ignore_keys: bool = False,
        partitioner_adaptive_partitioning_enable: bool = True,
        partitioner_availability_timeout_ms: float = 0,
        partitioner_rack_aware: bool = False,
        max_block_ms: float = 60_000,
        close_timeout_ms: float | None = None,
        transactional_id: str | None = None,
        transaction_timeout_ms: int | None = None,
        transaction_two_phase_commit_enable: bool = False,
        **connection: Unpack[ConnectionOptions],
    ) -> None:
        """Check the options. No connection is opened before :meth:`start`.

        Args:
            key_serializer: Makes bytes of a key: a function, or a coroutine function, which is decided once, here.
                None for keys that are bytes. It is not called for None. The partitioner gets the bytes. A coroutine
                that does not return within ``max_block_ms`` is cancelled, and the call raises ``DeadlineError``.
            value_serializer: Likewise for values.
            acks: Which replicas must have a record before it is acknowledged: "all" (or -1) for all in-sync replicas, 1
                for the leader, 0 for none. With 0 neither errors nor offsets are known.
            enable_idempotence: Whether brokers drop duplicates that retries cause (KIP-98). Needs ``acks="all"`` and
                ``max_in_flight_requests_per_connection`` of at most 5. None enables it if these options allow it and
                the brokers have it, which is from Kafka 0.11 on; with older ones each partition has one batch in
                flight, so records stay in order.
            linger_ms: How long a batch waits for more records (ms).
            batch_size: Size at which a batch is sent, in bytes; at most ``max_request_size``. With compression this is
                the size after it, estimated from earlier batches of the topic; before it no batch exceeds
                ``max_request_size``.
            buffer_memory: Limit of buffered records (bytes). When it is reached, :meth:`post` waits.
            compression_type: The codec of batches.
            compression_level: gzip 1 to 9, lz4 1 to 16, zstd -131072 to 22; None for the codec's default.
            max_request_size: Size of the largest record and the largest request, in bytes before compression.
            delivery_timeout_ms: Longest time from buffering a record to its acknowledgement (ms), including linger and
                all retries.
            max_in_flight_requests_per_connection: Most requests without a response per broker.
            partitioner: "default" hashes keys with murmur2 as the Java client does, and appends records without a key
                to one partition until its batch is full (KIP-480, KIP-794). Other names are those of librdkafka, and
                choose the same partitions: "murmur2_random" (the same as "default"), "consistent_random" (its default,
                CRC-32) and "fnv1a_random"; "murmur2", "consistent" and "fnv1a", for which a missing key is an empty
                one; "random" and "round_robin", for which keys do not count. Or a :class:`Partitioner`.
            partitioner_ignore_keys: Whether "default" treats every record as one without a key.
            partitioner_adaptive_partitioning_enable: Whether "default" prefers partitions without a backlog for records
                without a key (KIP-794).
            partitioner_availability_timeout_ms: "default" avoids the partitions of a broker that could not take a
                request for this long (ms). 0 disables it.
            partitioner_rack_aware: Whether "default" prefers partitions whose leader is in ``client_rack``, for records
                without a key (KIP-1123). Needs ``client_rack``.
            max_block_ms: Longest time a call waits for the topic's metadata and for free buffer memory, and for a
                serializer that is a coroutine function (ms).
            close_timeout_ms: Longest time for :meth:`close` and for leaving ``async with`` (ms). None waits until every
                record has an outcome, at most ``delivery_timeout_ms``.
            transactional_id: A name that survives restarts, to write in transactions (:meth:`transaction`) and only in
                these. A producer that starts with it fences any other that has it, and aborts its open transaction.
                Needs idempotence.
            transaction_timeout_ms: The coordinator aborts a transaction that is open for longer. At most the brokers'
                ``transaction.max.timeout.ms`` (15 minutes by default). None for one minute.
            transaction_two_phase_commit_enable: Whether transactions can be prepared, and are then committed or aborted
                as decided elsewhere (:meth:`Transaction.prepare`, KIP-939). They have no timeout, and a process that
                starts finds the one that its predecessor has left (:meth:`complete_transaction`). The brokers must
                allow it, and the ACL operation TWO_PHASE_COMMIT if they have an authorizer.
            connection: The options that all clients share: see :class:`~aiokproto.config.ConnectionOptions`.

        Raises:
            ConfigurationError: An option is unknown, or its value is invalid.
        """
        self._settings = ProducerConfig.parse(
            acks=acks,
            enable_idempotence=enable_idempotence,
            linger_ms=linger_ms,
            batch_size=batch_size,
            buffer_memory=buffer_memory,
            compression_type=compression_type,
            compression_level=compression_level,
            max_request_size=max_request_size,
            delivery_timeout_ms=delivery_timeout_ms,
            max_in_flight_requests_per_connection=max_in_flight_requests_per_connection,
            partitioner=partitioner,
            partitioner_ignore_keys=partitioner_ignore_keys,
            partitioner_adaptive_partitioning_enable=partitioner_adaptive_partitioning_enable,
            partitioner_availability_timeout_ms=partitioner_availability_timeout_ms,
            partitioner_rack_aware=partitioner_rack_aware,
            max_block_ms=max_block_ms,
            close_timeout_ms=close_timeout_ms,
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            two_phase_commit=transaction_two_phase_commit_enable,
        )
        self._config = ClusterConfig.parse(connection, own=OPTIONS)
        if partitioner_rack_aware and not self._config.client_rack:
            raise ConfigurationError("partitioner_rack_aware=True needs client_rack, the rack of this client")
        self._accumulator = Accumulator(
            self._settings.limits,
            compression=self._settings.compression,
            level=self._settings.compression_level,
            transactional=transactional_id is not None,
            observer=ProducerObserver(self._config.hooks),
            sticky=StickyPartitioner(
                current,
                adaptive=self._settings.adaptive,
                availability_timeout=self._settings.availability_timeout,
            ),
        )
        only_in_transactions = ConfigurationError(
            "a producer with a transactional_id writes in transactions: async with producer.transaction() as txn: "
            "await txn.send(...)"
        )
        # With a transactional id the producer's own session never opens: each transaction brings one.
        session = WriteSession(None if transactional_id is None else only_in_transactions)
        serializers = Serializers(key_serializer, value_serializer, self._settings.max_block)
        buffer = Buffer(self._accumulator, self._settings, self._config.interceptors)
        super().__init__(_partitioner(self._settings), buffer, session, serializers)
        self._transactions: TransactionManager | None = None
        if transactional_id is not None:
            self._transactions = TransactionManager(
                transactional_id,
                self._settings.transaction_timeout_ms,
                self._buffer,
                two_phase=self._settings.two_phase_commit,
            )
        # A ClusterClient needs no event loop before its start; but one that failed to start cannot be used again.
        self._cluster = ClusterClient(self._config, self._accumulator.last_used)
        self._sender: Sender | None = None
        self._starting = False
        self._closing = False
        self._session_of: object = None

    @property
    def config(self) -> ProducerConfig:
        """The producer's options, as they are in use."""
        return self._settings

    @property
    def _in_session(self) -> bool:
        return self._session_of is not None

    def _admit(self, use: Use) -> None:
        if use.obstacles:
            self._buffer.check_loop()
        if self._buffer.closed is not None:
            if self._sender is None:
                refuse(use, Obstacle.NOT_STARTED, self._buffer.closed)
            else:
                refuse(use, Obstacle.CLOSED if self._closing else Obstacle.FAILED, self._buffer.closed)
        if self._in_session:
            refuse(use, Obstacle.SESSION)

    # -- lifecycle

    async def start(self, *, keep_prepared: bool = True) -> None:
        """Connect to the cluster; ``async with`` does this.

        With a ``transactional_id`` it also acquires the producer id, which fences every other producer with that id,
        and aborts the transaction that it has left; with two-phase commit that transaction is kept, see
        :meth:`complete_transaction`.

        Cancelling it closes the connections; the producer cannot be started again.

        Args:
            keep_prepared: With two-phase commit: whether to keep the transaction that an earlier process has left.
                False aborts it. Kafka 4.4 cannot keep it, and refuses.

        Raises:
            BootstrapError: None of the bootstrap servers can be used. The text has the reason for each.
            AuthenticationError: The brokers rejected this client's credentials.
            DeadlineError: The brokers did not respond in time.
            AuthorizationError, BrokerError: The coordinator rejects the transactional id, its timeout, or two-phase
                commit.
            UnsupportedVersionError: The brokers lack transactions, two-phase commit or a part of it, zstd, or
                idempotence although ``enable_idempotence`` is True.
            ClientClosedError: The producer was started before, or was closed while it started.
        """
        if self._starting or self._sender is not None:
            raise ClientClosedError(
                "a producer can be started only once, which `async with` and an ExactlyOnce do: create a new one"
            )
        # Set without an await since the test above: a second start() in the meantime is refused.
        self._starting = True
        self._accumulator.observer.clock = asyncio.get_running_loop().time
        try:
            await self._cluster.start()
            self._adapt()
            if self._transactions is not None:
                # Before any record is accepted: this fences the predecessor, whose open transaction is aborted.
                await self._transactions.start(self._cluster, keep_prepared=keep_prepared)
        # Also a cancellation. _sender stays None, so close() has nothing left to do.
        except BaseException:
            await self._cluster.close()
            raise
        finally:
            self._starting = False
        self._sender = Sender(
            self._cluster, self._buffer, self._settings, self._config.request_timeout, self._transactions
        )
        # Opened last of all that can fail, before the sender's task: its first round may find records.
        self._buffer.open(self._cluster, self._sender)
        self._buffer.set_writer(self, self._session)
        self._sender.start()
        labels = {"transactional_id": self._transactions.id.name} if self._transactions is not None else {}
        observer = self._accumulator.observer
        self._cluster.push_metrics(
            MetricSource("producer", self._cluster.observer, producer=observer, labels=lambda: labels)
        )

    def _adapt(self) -> None:
        """Adapt to old brokers, for which nothing is decided before the first of them has answered."""
        versions, wanted = self._cluster.metadata.versions, self._settings
        self._settings = adapted(wanted, versions)
        if self._settings.idempotent is not wanted.idempotent:
            # Of each partition, so that records stay in order; a broker can still have several requests.
            self._accumulator.limits = wanted.limits._replace(in_flight=1)
        self._check_records(versions)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def _leave(self, error: BaseException | None) -> None:
        await self.close()

    @foreign_timeout
    async def flush(self, timeout_ms: float | None = None) -> None:
        """Send all buffered records without linger, and wait until each is written or has failed.

        Failures are not raised here but by the records' deliveries. Cancelling has no effect on the records.

        Args:
            timeout_ms: Longest wait (ms). None waits until every record has an outcome, at most
                ``delivery_timeout_ms``.

        Raises:
            DeadlineError: The timeout passed first. The records are still being delivered.
            ClientClosedError: The producer is not started, is closed, or has failed.
        """
        _check_timeout(timeout_ms)
        await self._settle("flush", timeout_ms)

    async def _settle(self, what: str, timeout_ms: float | None) -> None:
        """Send all batches, and wait until each has an outcome; ``what`` begins the text of a DeadlineError."""
        batches = self._buffer.send_all()
        await self._wait(batches, timeout_ms)
        pending = [batch for batch in batches if not batch.done]
        if pending:
            waited = self._settings.limits.delivery_timeout * 1000 if timeout_ms is None else timeout_ms
            raise DeadlineError(f"{what}: {summary(pending)} without outcome after {waited:g} ms")
        # A flush that close() overtook has its outcomes, and no reason to raise.
        if not self._closing:
            self._buffer.check_open()

    async def abort(self, timeout_ms: float | None = None, *, in_flight: bool = False) -> int:
        """Drop the buffered records that were not sent yet, and wait for the outcome of the others.

        Deliveries of dropped records raise ``RecordAbortedError``, and so do calls that wait to buffer a record. The
        producer can go on; with a ``transactional_id`` the open transaction can only be aborted then. Cancelling stops
        the wait only.

        Args:
            timeout_ms: Longest wait for records that were sent (ms). None waits until each has an outcome, at most
                ``delivery_timeout_ms``.
            in_flight: Whether to drop records that were sent, too, instead of waiting for them. They may be in the log,
                or still be written.

        Returns:
            How many buffered records were dropped; calls that had not buffered theirs are not counted.

        Raises:
            DeadlineError: The timeout passed first. Records that were sent are still being delivered.
            ClientClosedError: The producer is not started, is closed, or has failed.
        """
        _check_timeout(timeout_ms)
        self._buffer.abort()
        dropped = list(self._accumulator.incomplete)
        if not in_flight:
            dropped = [batch for batch in dropped if not batch.attempts]
        for batch in dropped:
            # The application knows already: it is not logged as a failure that nobody looked at.
            batch.outcome.observed = True
            self._accumulator.fail(batch, aborted(batch))
        self._buffer.memory_freed()
        await self._settle("abort", timeout_ms)
        return sum(batch.count for batch in dropped)

    async def _wait(self, batches: list[ProducerBatch], timeout_ms: float | None) -> None:
        """Wait until batches have an outcome, or a timeout passes."""
        # None: the sender expires every batch after the delivery timeout, so this timeout only guards against a sender
        # that has failed.
        timeout = self._outcome_timeout if timeout_ms is None else timeout_ms / 1000
        await wait_all([batch.outcome for batch in batches], timeout)

    @property
    def _outcome_timeout(self) -> float:
        """Seconds in which every batch gets an outcome while the sender works."""
        return self._settings.limits.delivery_timeout + 1

    @foreign_timeout
    async def close(self, timeout_ms: float | None = None) -> None:
        """Deliver all buffered records, then disconnect. A second call does nothing.

        An open transaction is aborted. One whose end is under way is waited for. A prepared one stays prepared.

        If it waits for more than a second, it logs for which records. Cancelled, it stops waiting: undelivered records
        fail, and the connections are closed.

        Args:
            timeout_ms: Longest time for deliveries and for flushing the connections (ms); 0 does not wait. None means
                ``close_timeout_ms``; if that is None too, it waits until every record has an outcome, at most
                ``delivery_timeout_ms``.

        Raises:
            DeadlineError: Some records were not delivered in time. The text has their number per partition and the
                reason; each of their deliveries raises ClientClosedError.
            KafkaError: Some records failed for another reason during the close, and no task awaited their deliveries.
        """
        _check_timeout(timeout_ms)
        if self._starting:
            await self._cluster.close(DISCONNECT if timeout_ms is None else min(timeout_ms / 1000, DISCONNECT))
        # Never started, or still starting: start() raises, as its cluster is closed now.
        if self._sender is None or self._closing:
            return
        self._closing = True
        timeout_ms = self._settings.close_timeout_ms if timeout_ms is None else timeout_ms
        loop = asyncio.get_running_loop()
        started = loop.time()
        # Read before it is replaced: a producer that has failed has nothing left to wait for.
        failure = self._buffer.closed
        closed = ClientClosedError("the producer is closed")
        closed.__cause__ = failure
        # First: what is appended from here on would not be waited for.
        self._buffer.close(closed)
        batches = self._buffer.send_all()
        slow = loop.call_later(SLOW_CLOSE, self._log_slow_close, batches)
        try:
            if self._transactions is not None and failure is None:
                # It waits for its batches itself: those of an aborted transaction that were never sent fail at once.
                await self._transactions.close(self._outcome_timeout if timeout_ms is None else timeout_ms / 1000)
            else:
                await self._wait(batches, timeout_ms)
        finally:
            slow.cancel()
            # Also after a cancellation: what has no outcome now will fail, and is reported.
            late = {batch for batch in batches if not batch.done}
            try:
                if self._transactions is not None:
                    # Before the sender: the end of a transaction waits for batches that the sender delivers.
                    await self._transactions.stop()
                await self._sender.stop()
            finally:
                # After the sender: no response can arrive for a batch that has failed here.
                self._accumulator.fail_all(undelivered)
                left = DISCONNECT if timeout_ms is None else started + timeout_ms / 1000 - loop.time()
                await self._cluster.close(min(max(left, 0.0), DISCONNECT))
        failed = [batch for batch in batches if batch.outcome.error is not None]
        # A failure that some task has seen is known, unless this close caused it.
        lost = [batch for batch in failed if batch in late or not batch.outcome.observed]
        if lost:
            raise delivery_error(lost)

    def _log_slow_close(self, batches: list[ProducerBatch]) -> None:
        pending = [batch for batch in batches if not batch.done]
        if pending:
            log.warning("closing the producer waits for %s", summary(pending))

    def __del__(self) -> None:
        # getattr: __init__ may have raised because of an invalid option.
        sender = getattr(self, "_sender", None)
        if sender is not None and not self._closing:
            unsent = sender.unsent + sum(batch.count for batch in self._accumulator.incomplete)
            what = f"unclosed Producer, {counted(unsent, 'record')} unsent"
            warnings.warn(what, ResourceWarning, source=self, stacklevel=1)

    def transaction(self) -> Transaction[K, V]:
        """Return a transaction, which begins with ``async with``. One at a time can be open.

        Raises:
            ConfigurationError: The producer has no ``transactional_id``.
        """
        return self._transaction()

    def _transaction(self, session: object = None) -> Transaction[K, V]:
        """Return a transaction, of a session or of the application."""
        if self._transactions is None:
            raise ConfigurationError("transaction() needs the option transactional_id")
        transaction = Transaction(
            self._partitioner, self._buffer, self._transactions, self._serializers, self._old_versions
        )
        transaction._session_of = session
        return transaction

    @property
    def transactional_id(self) -> str | None:
        """The option of this name: records are written in transactions if there is one."""
        return None if self._transactions is None else self._transactions.id.name

    @property
    def prepared_transaction(self) -> PreparedTransaction | None:
        """The transaction that waits for :meth:`complete_transaction`: this process has prepared it, or an earlier one
        with this ``transactional_id`` has left it, prepared or not. None if there is none."""
        return None if self._transactions is None else self._transactions.prepared

    async def complete_transaction(self, decided: PreparedTransaction | None) -> bool:
        """Commit the transaction that waits for a decision if it is the one that was decided on; abort any other.

        Call it after the start, before the first transaction (KIP-939). Without a transaction that waits it does
        nothing: an earlier call has taken effect. Cancelled, it goes on in the background, and can be called again.

        Args:
            decided: What :meth:`Transaction.prepare` returned for the transaction to commit, for example
                ``PreparedTransaction.parse(text)`` of what was stored with the decision. None aborts.

        Returns:
            Whether the transaction was committed by this call.

        Raises:
            TransactionOutcomeUnknownError: The coordinator did not respond within ``default_api_timeout_ms``. Call it
                again. DeadlineError likewise, for an abort.
            TransactionAbortedError: It was to be committed, and an administrator has aborted it.
            ConfigurationError: The producer lacks ``transaction_two_phase_commit_enable``; ``decided`` is no
                PreparedTransaction; or an earlier call has decided otherwise, and is under way.
            KafkaError: The producer is closed, or has failed.
        """
        if self._transactions is None or not self._transactions.id.two_phase:
            raise ConfigurationError("complete_transaction() needs transaction_two_phase_commit_enable=True")
        # The text of a transaction would equal none, and so abort it.
        if decided is not None and not isinstance(decided, PreparedTransaction):
            raise ConfigurationError(
                f"complete_transaction() takes a PreparedTransaction or None, not {decided!r}; for its text use "
                "PreparedTransaction.parse()"
            )
        if self._transactions.prepared is None:
            return False
        commit = self._transactions.prepared == decided
        await self._transactions.complete(commit=commit)
        return commit

    # -- topics

    async def partitions_for(self, topic: str) -> int:
        """Return the number of partitions of a topic, requesting its metadata if necessary.

        Raises:
            UnknownTopicError: The topic does not exist. Likewise InvalidTopicError and AuthorizationError.
            DeadlineError: There was no metadata within ``max_block_ms``.
            ClientClosedError: The producer is not started, is closed, or has failed.
        """
        return len((await self._buffer.topic(topic)).queues)

    # -- state

    def stats(self) -> ProducerStats:
        """Return the producer's statistics: what is buffered, sent, retried and failed, and its connections. No I/O."""
        now = 0.0 if self._accumulator.observer.clock is None else self._accumulator.observer.clock()
        return producer_stats(self._cluster.stats(), self._accumulator, self._settings.limits, now)

    def health(self) -> Health:
        """Return whether the producer works, and what is wrong. No I/O.

        Findings are, for example, that no broker can be reached, that a partition with buffered records has no leader,
        or that records have been waiting for more than half of ``delivery_timeout_ms``.
        """
        findings = self._cluster.findings()
        # Its own cause is the better text: a sender that failed leaves the connections open.
        if self._buffer.closed is not None:
            findings.failed = [str(self._buffer.closed)]
            findings.ended = self._sender is not None or findings.ended
        elif self._accumulator.observer.clock is not None:
            now = self._accumulator.observer.clock()
            short = self._buffer.is_short_of_memory
            add_findings(findings, self._accumulator, self._settings.limits, now, short_of_memory=short)
        return findings.health()

    @property
    def unobserved_failures(self) -> int:
        """Number of failed records in batches of which no delivery was awaited or checked."""
        return self._accumulator.delivery_context.unobserved_failures


def _partitioner(settings: ProducerConfig) -> Partitioner | None:
    """Return the partitioner that is called for each record; None for the default one."""
    if settings.ignore_keys:
        return ignore_keys
    chosen = settings.partitioner
    return by_name(chosen) if isinstance(chosen, str) else chosen


def _check_timeout(timeout_ms: float | None) -> None:
    if timeout_ms is not None:
        seconds("timeout_ms", timeout_ms)


OPTIONS = tuple(name for name in signature(Producer).parameters if name != "connection")
"""The producer's own options, without those that all clients share."""
