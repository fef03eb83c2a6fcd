"""The producer's public API. The package's docstring explains how it works."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Awaitable, Callable
from inspect import signature
from typing import TYPE_CHECKING, Literal

from aiokproto.application.async_context import AsyncContext
from aiokproto.application.gates import PRODUCER, Obstacle, Use, gated, refuse
from aiokproto.application.hints import METHODS, Hints, options_by_name
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
from aiokproto.producer.handed_over import PreparedTransaction
from aiokproto.producer.named_partitioners import by_name, ignore_keys
from aiokproto.producer.old_brokers import adapted
from aiokproto.producer.partitioner import Partitioner
from aiokproto.producer.record_sender import RecordSender
from aiokproto.producer.report import (
    ProducerStats,
    aborted,
    add_findings,
    delivery_error,
    producer_stats,
    summary,
    undelivered,
)
from aiokproto.producer.sender import Sender
from aiokproto.producer.serializers import Serializers
from aiokproto.producer.sticky import StickyPartitioner
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
"""Seconds after which :meth:`Producer.close` logs what it's waiting for."""
DISCONNECT = 5.0
"""Maximum time to disconnect (s) if :meth:`Producer.close` has no deadline."""


@gated(PRODUCER)
class Producer(AsyncContext, Hints, RecordSender[K, V], hints=METHODS["Producer"]):
    """Writes records to topics.

    ::

        async with Producer(bootstrap_servers="localhost:9092") as producer:
            metadata = await producer.send("flights", b"UA 901", key=b"UA")

    There are three ways to write a record. :meth:`send` waits until it is acknowledged, :meth:`post` until it is
    buffered, and :meth:`try_post` does not wait at all. :meth:`send_many` and :meth:`post_many` write many records, at
    less cost per record. :meth:`send_batch` and :meth:`post_batch` write record batches without decoding them.

    Keys and values are bytes, or what ``key_serializer`` and ``value_serializer`` accept. With serializers the class is
    ``Producer[K, V]``. If serializers are coroutine functions, the calls of several tasks are written in the order in
    which their serializers return.

    Records of one partition are written in the order of the calls, even after retries. Without idempotence this needs
    ``max_in_flight_requests_per_connection=1``, and a retry can write a record twice.

    Any number of tasks can share a producer, but only in one event loop: the one that runs :meth:`start`.
    """

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
            key_serializer: A function or a coroutine function (checked once, here) that converts a key to bytes. None
                means that keys are bytes. It is not called for a key that is None. The partitioner gets the bytes. A
                coroutine that does not return within ``max_block_ms`` is cancelled, and the call raises
                ``DeadlineError``.
            value_serializer: The same for values.
            acks: Which replicas must have a record before it is acknowledged: "all" (or -1) for all in-sync replicas, 1
                for the leader, 0 for none. With 0, neither errors nor offsets are known.
            enable_idempotence: Whether brokers drop duplicates that retries cause (KIP-98). Needs ``acks="all"`` and
                ``max_in_flight_requests_per_connection`` of at most 5. None enables it if these options allow it and
                the brokers support it (Kafka 0.11 and later). With older brokers each partition then has one batch in
                flight, so records stay in order.
            linger_ms: How long a batch waits for more records (ms).
            batch_size: Size at which a batch is sent, in bytes; at most ``max_request_size``. With compression this is
                the compressed size, estimated from earlier batches of the topic. Before compression no batch exceeds
                ``max_request_size``.
            buffer_memory: Limit on buffered records (bytes). When it is reached, :meth:`post` waits.
            compression_type: The codec of batches.
            compression_level: gzip 1 to 9, lz4 1 to 16, zstd -131072 to 22; None for the codec's default.
            max_request_size: Maximum size of a record and of a request, in bytes before compression.
            delivery_timeout_ms: Maximum time from buffering a record to its acknowledgement (ms), including linger and
                all retries.
            max_in_flight_requests_per_connection: Maximum requests without a response per broker.
            partitioner: "default" hashes keys with murmur2 as the Java client does, and appends records without a key
                to one partition until its batch is full (KIP-480, KIP-794). The other names are librdkafka's and choose
                the same partitions: "murmur2_random" (the same as "default"), "consistent_random" (librdkafka's
                default, CRC-32) and "fnv1a_random"; "murmur2", "consistent" and "fnv1a", which treat a missing key as
                an empty one; "random" and "round_robin", which ignore keys. It can also be a :class:`Partitioner`.
            partitioner_ignore_keys: Whether "default" treats every record as one without a key.
            partitioner_adaptive_partitioning_enable: Whether "default" prefers partitions without a backlog for records
                without a key (KIP-794).
            partitioner_availability_timeout_ms: "default" avoids the partitions of a broker that has not been able to
                take a request for this long (ms). 0 disables this.
            partitioner_rack_aware: Whether "default" prefers partitions whose leader is in ``client_rack``, for records
                without a key (KIP-1123). Needs ``client_rack``.
            max_block_ms: Maximum time a call waits for the topic's metadata, for free buffer memory, and for a
                serializer that is a coroutine function (ms).
            close_timeout_ms: Maximum time for :meth:`close` and for leaving ``async with`` (ms). None waits until every
                record has an outcome, at most ``delivery_timeout_ms``.
            transactional_id: A name that survives restarts. With it, the producer writes only in transactions
                (:meth:`transaction`). When a producer starts with this id, it fences any other producer with the same
                id and aborts that producer's open transaction. Needs idempotence.
            transaction_timeout_ms: The coordinator aborts a transaction that is open for longer. At most the brokers'
                ``transaction.max.timeout.ms`` (15 minutes by default). None means one minute.
            transaction_two_phase_commit_enable: Whether transactions can be prepared, and then committed or aborted as
                decided elsewhere (:meth:`Transaction.prepare`, KIP-939). They have no timeout, and a new process finds
                the transaction that its predecessor left (:meth:`complete_transaction`). The brokers must allow it. If
                they have an authorizer, the client needs the ACL operation TWO_PHASE_COMMIT.
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
        # If there's a transactional id, the producer's own session never opens: each transaction brings its own.
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
        # A ClusterClient doesn't need an event loop before its start. But one that has failed to start can't be used
        # again.
        self._cluster = ClusterClient(self._config, self._accumulator.last_used)
        self._sender: Sender | None = None
        self._starting = False
        self._closing = False
        self._session_of: object = None

    @property
    def config(self) -> ProducerConfig:
        """The producer's options as in use."""
        return self._settings

    @property
    def _in_session(self) -> bool:
        return self._session_of is not None

    def _admit(self, use: Use) -> None:
        if use.obstacles:
            self._buffer.check_loop()
        if self._buffer.close_error is not None:
            if self._sender is None:
                refuse(use, Obstacle.NOT_STARTED, self._buffer.close_error)
            else:
                refuse(use, Obstacle.CLOSED if self._closing else Obstacle.FAILED, self._buffer.close_error)
        if self._in_session:
            refuse(use, Obstacle.SESSION)

    # -- lifecycle

    async def start(self, *, keep_prepared: bool = True) -> None:
        """Connect to the cluster; ``async with`` does this.

        With a ``transactional_id`` it also acquires the producer id. This fences every other producer with the same
        transactional id, and aborts the transaction that such a producer left open. With two-phase commit that
        transaction is kept: see :meth:`complete_transaction`.

        If cancelled, it closes the connections, and the producer cannot be started again.

        Args:
            keep_prepared: With two-phase commit, whether to keep the transaction that an earlier process left. False
                aborts it. Kafka 4.4 doesn't support keeping it, and refuses.

        Raises:
            BootstrapError: None of the bootstrap servers can be used. The message gives the reason for each.
            AuthenticationError: The brokers rejected this client's credentials.
            DeadlineError: The brokers did not respond in time.
            AuthorizationError, BrokerError: The coordinator rejects the transactional id, its timeout, or two-phase
                commit.
            UnsupportedVersionError: The brokers lack support for transactions, for two-phase commit or part of it, for
                zstd, or for idempotence although ``enable_idempotence`` is True.
            ClientClosedError: The producer was started before, or was closed while it was starting.
        """
        if self._starting or self._sender is not None:
            raise ClientClosedError(
                "a producer can be started only once, which `async with` and an ExactlyOnce do: create a new one"
            )
        # There's no await between the test above and this line, so a second start() is refused even while this one is
        # running.
        self._starting = True
        self._accumulator.observer.clock = asyncio.get_running_loop().time
        try:
            await self._cluster.start()
            self._adapt()
            if self._transactions is not None:
                # This comes before any record is accepted: it fences the predecessor and aborts its open transaction.
                await self._transactions.start(self._cluster, keep_prepared=keep_prepared)
        # This also covers cancellation. _sender stays None, so close() has nothing left to do.
        except BaseException:
            await self._cluster.close()
            raise
        finally:
            self._starting = False
        self._sender = Sender(
            self._cluster, self._buffer, self._settings, self._config.request_timeout, self._transactions
        )
        # Open the buffer after everything that can fail, but before the sender starts, so the sender's first round may
        # find records.
        self._buffer.open(self._cluster, self._sender)
        self._buffer.set_writer(self, self._session)
        self._sender.start()
        labels = {"transactional_id": self._transactions.id.name} if self._transactions is not None else {}
        observer = self._accumulator.observer
        self._cluster.push_metrics(
            MetricSource("producer", self._cluster.observer, producer=observer, labels=lambda: labels)
        )

    def _adapt(self) -> None:
        """Adapt to old brokers. This has to wait until the first broker has responded."""
        versions, wanted = self._cluster.metadata.versions, self._settings
        self._settings = adapted(wanted, versions)
        if self._settings.idempotent is not wanted.idempotent:
            # Keep one batch per partition in flight, so the partition's records stay in order. A broker can still have
            # several requests in flight.
            self._accumulator.limits = wanted.limits._replace(in_flight=1)
        self._check_records(versions)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def _leave(self, error: BaseException | None) -> None:
        await self.close()

    async def flush(self, timeout_ms: float | None = None) -> None:
        """Send all buffered records without linger, and wait until each is written or has failed.

        Failures aren't raised here: the records' deliveries raise them. Cancelling doesn't affect the records.

        Args:
            timeout_ms: Maximum wait (ms). None waits until every record has an outcome, at most
                ``delivery_timeout_ms``.

        Raises:
            DeadlineError: The timeout passed first. The records are still being delivered.
            ClientClosedError: The producer is not started, is closed, or has failed.
        """
        _check_timeout(timeout_ms)
        await self._send_and_wait("flush", timeout_ms)

    async def _send_and_wait(self, what: str, timeout_ms: float | None) -> None:
        """Send all batches, and wait until each has an outcome. The message of a DeadlineError starts with ``what``."""
        batches = self._buffer.send_all()
        await self._wait(batches, timeout_ms)
        pending = [batch for batch in batches if not batch.done]
        if pending:
            waited = self._settings.limits.delivery_timeout * 1000 if timeout_ms is None else timeout_ms
            raise DeadlineError(f"{what}: {summary(pending)} without outcome after {waited:g} ms")
        # If close() has overtaken a flush, all outcomes are known, and there's no reason to raise.
        if not self._closing:
            self._buffer.check_open()

    async def abort(self, timeout_ms: float | None = None, *, in_flight: bool = False) -> int:
        """Drop the buffered records that haven't been sent yet, and wait for the outcome of the rest.

        Deliveries of dropped records raise ``RecordAbortedError``, and so do calls that are waiting to buffer a record.
        The producer stays usable, but with a ``transactional_id`` the open transaction can then only be aborted.
        Cancelling only stops the wait.

        Args:
            timeout_ms: Maximum wait for records that were sent (ms). None waits until each has an outcome, at most
                ``delivery_timeout_ms``.
            in_flight: Whether to also drop records that were sent, instead of waiting for them. They may be in the log,
                or may still be written.

        Returns:
            How many buffered records were dropped. Calls that had not buffered their records yet are not counted.

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
            # The application already knows about it, so don't log it as an unobserved failure.
            batch.outcome.observed = True
            self._accumulator.fail(batch, aborted(batch))
        self._buffer.memory_freed()
        await self._send_and_wait("abort", timeout_ms)
        return sum(batch.count for batch in dropped)

    async def _wait(self, batches: list[ProducerBatch], timeout_ms: float | None) -> None:
        """Wait until batches have an outcome or a timeout passes."""
        # The sender expires every batch after its delivery timeout, so the default only guards against a sender that
        # has failed.
        timeout = self._outcome_timeout if timeout_ms is None else timeout_ms / 1000
        await wait_all([batch.outcome for batch in batches], timeout)

    @property
    def _outcome_timeout(self) -> float:
        """Maximum time (s) for every batch to get an outcome while the sender works."""
        return self._settings.limits.delivery_timeout + 1

    async def close(self, timeout_ms: float | None = None) -> None:
        """Deliver all buffered records, then disconnect. A second call does nothing.

        If a transaction is open, it's aborted. If a transaction is already being ended, this call waits for that. A
        prepared transaction stays prepared.

        If it waits for more than a second, it logs which records it's waiting for. If it's cancelled, it stops waiting:
        undelivered records fail, and the connections are closed.

        Args:
            timeout_ms: Maximum time for deliveries and for flushing the connections (ms); 0 does not wait. None means
                ``close_timeout_ms``; if that is None too, it waits until every record has an outcome, at most
                ``delivery_timeout_ms``.

        Raises:
            DeadlineError: Some records were not delivered in time. The message gives their number per partition and the
                reason; each of their deliveries raises ClientClosedError.
            KafkaError: Some records failed for another reason during the close, and no task awaited their deliveries.
        """
        _check_timeout(timeout_ms)
        if self._starting:
            await self._cluster.close(DISCONNECT if timeout_ms is None else min(timeout_ms / 1000, DISCONNECT))
        # Either the producer was never started, or it's still starting. In the latter case start() raises, because its
        # cluster is closed now.
        if self._sender is None or self._closing:
            return
        self._closing = True
        timeout_ms = self._settings.close_timeout_ms if timeout_ms is None else timeout_ms
        loop = asyncio.get_running_loop()
        started = loop.time()
        # Read it now, because close() below replaces it.
        failure = self._buffer.close_error
        close_error = ClientClosedError("the producer is closed")
        close_error.__cause__ = failure
        # Close the buffer first: this call wouldn't wait for records that are appended later.
        self._buffer.close(close_error)
        batches = self._buffer.send_all()
        slow = loop.call_later(SLOW_CLOSE, self._log_slow_close, batches)
        try:
            # A producer that has failed has no transaction left to wait for.
            if self._transactions is not None and failure is None:
                # The manager waits for its own batches: if a transaction is aborted, its unsent batches fail at once.
                await self._transactions.close(self._outcome_timeout if timeout_ms is None else timeout_ms / 1000)
            else:
                await self._wait(batches, timeout_ms)
        finally:
            slow.cancel()
            # Batches that still have no outcome will fail, and are reported, even after a cancellation.
            late = {batch for batch in batches if not batch.done}
            try:
                if self._transactions is not None:
                    # Stop the manager before the sender: the end of a transaction waits for batches that the sender
                    # delivers.
                    await self._transactions.stop()
                await self._sender.stop()
            finally:
                # The sender has stopped, so no response can arrive for a batch that fails here.
                self._accumulator.fail_all(undelivered)
                left = DISCONNECT if timeout_ms is None else started + timeout_ms / 1000 - loop.time()
                await self._cluster.close(min(max(left, 0.0), DISCONNECT))
        failed = [batch for batch in batches if batch.outcome.error is not None]
        # If a task has seen a failure, it isn't reported again, unless this close() caused it.
        lost = [batch for batch in failed if batch in late or not batch.outcome.observed]
        if lost:
            raise delivery_error(lost)

    def _log_slow_close(self, batches: list[ProducerBatch]) -> None:
        pending = [batch for batch in batches if not batch.done]
        if pending:
            log.warning("closing the producer waits for %s", summary(pending))

    def __del__(self) -> None:
        # __init__ may have raised because of an invalid option, hence getattr.
        sender = getattr(self, "_sender", None)
        if sender is not None and not self._closing:
            unsent = sender.unsent + sum(batch.count for batch in self._accumulator.incomplete)
            what = f"unclosed Producer, {counted(unsent, 'record')} unsent"
            warnings.warn(what, ResourceWarning, source=self, stacklevel=1)

    def transaction(self) -> Transaction[K, V]:
        """Return a transaction, which starts with ``async with``. Only one can be open at a time.

        Raises:
            ConfigurationError: The producer has no ``transactional_id``.
        """
        return self._transaction()

    def _transaction(self, session: object = None) -> Transaction[K, V]:
        """Return a transaction for a session or for the application."""
        if self._transactions is None:
            raise ConfigurationError("transaction() needs the option transactional_id")
        transaction = Transaction(
            self._partitioner, self._buffer, self._transactions, self._serializers, self._old_versions
        )
        transaction._session_of = session
        return transaction

    @property
    def transactional_id(self) -> str | None:
        """The option ``transactional_id``. If it's set, records are written in transactions."""
        return None if self._transactions is None else self._transactions.id.name

    @property
    def prepared_transaction(self) -> PreparedTransaction | None:
        """The transaction that waits for :meth:`complete_transaction`, if any. Either this process prepared it, or an
        earlier process with this ``transactional_id`` left it, prepared or not."""
        return None if self._transactions is None else self._transactions.prepared

    async def complete_transaction(self, decided: PreparedTransaction | None) -> bool:
        """Commit the transaction that waits for a decision if it's the one that was decided on; abort any other.

        Call it after the start, before the first transaction (KIP-939). If no transaction is waiting, it does nothing:
        an earlier call has taken effect. If cancelled, it continues in the background, and can be called again.

        Args:
            decided: What :meth:`Transaction.prepare` returned for the transaction to commit, or
                ``PreparedTransaction.parse(text)`` of the string that was stored with the decision. None aborts.

        Returns:
            Whether this call committed the transaction.

        Raises:
            TransactionOutcomeUnknownError: The coordinator did not respond to a commit within
                ``default_api_timeout_ms``. Call it again.
            DeadlineError: Likewise, for an abort.
            TransactionAbortedError: It should have been committed, but an administrator has aborted it.
            ConfigurationError: The producer doesn't have ``transaction_two_phase_commit_enable``; ``decided`` isn't a
                PreparedTransaction; or an earlier call with the opposite decision is still in progress.
            KafkaError: The producer is closed, or has failed.
        """
        if self._transactions is None or not self._transactions.id.two_phase:
            raise ConfigurationError("complete_transaction() needs transaction_two_phase_commit_enable=True")
        # A str wouldn't equal any transaction, so it would abort this one.
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
        """Return the number of partitions of a topic. Requests its metadata if necessary.

        Raises:
            UnknownTopicError: The topic does not exist. Likewise InvalidTopicError and AuthorizationError.
            DeadlineError: No metadata arrived within ``max_block_ms``.
            ClientClosedError: The producer is not started, is closed, or has failed.
        """
        return len((await self._buffer.topic(topic)).queues)

    # -- state

    def stats(self) -> ProducerStats:
        """Return the producer's statistics: what is buffered, sent, retried and failed, and its connections. No I/O."""
        now = 0.0 if self._accumulator.observer.clock is None else self._accumulator.observer.clock()
        return producer_stats(self._cluster.stats(), self._accumulator, self._settings.limits, now)

    def health(self) -> Health:
        """Return whether the producer works, and what's wrong if it doesn't. No I/O.

        For example, findings can say that no broker can be reached, that a partition with buffered records has no
        leader, or that records have been waiting for more than half of ``delivery_timeout_ms``.
        """
        findings = self._cluster.findings()
        # This message is the better one: a sender that has failed leaves the connections open.
        if self._buffer.close_error is not None:
            findings.failed = [str(self._buffer.close_error)]
            findings.ended = self._sender is not None or findings.ended
        elif self._accumulator.observer.clock is not None:
            now = self._accumulator.observer.clock()
            short = self._buffer.is_short_of_memory
            add_findings(findings, self._accumulator, self._settings.limits, now, short_of_memory=short)
        return findings.health()

    @property
    def unobserved_failures(self) -> int:
        """Number of failed records in batches none of whose deliveries was awaited or checked."""
        return self._accumulator.delivery_context.unobserved_failures


def _partitioner(settings: ProducerConfig) -> Partitioner | None:
    """Return the partitioner to call for each record, or None for the default one."""
    if settings.ignore_keys:
        return ignore_keys
    chosen = settings.partitioner
    return by_name(chosen) if isinstance(chosen, str) else chosen


def _check_timeout(timeout_ms: float | None) -> None:
    if timeout_ms is not None:
        seconds("timeout_ms", timeout_ms)


OPTIONS = tuple(name for name in signature(Producer).parameters if name != "connection")
"""The producer's own options, without the options that all clients share."""
