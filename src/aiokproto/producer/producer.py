"""The producer's public API. The package's docstring explains how it works."""

from __future__ import annotations

import asyncio
import logging
import warnings
from inspect import signature
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from aiokproto.async_context import AsyncContext
from aiokproto.cluster import ClusterClient
from aiokproto.config import ClusterConfig, ConnectionOptions, seconds
from aiokproto.errors import ClientClosedError, ConfigurationError, DeadlineError, KafkaError
from aiokproto.plurals import counted
from aiokproto.producer.accumulator import Accumulator
from aiokproto.producer.batch import ProducerBatch
from aiokproto.producer.buffer import Buffer, WriteSession
from aiokproto.producer.config import BATCH_SIZE, ProducerConfig
from aiokproto.producer.partitioner import Partitioner
from aiokproto.producer.prepared_transaction import PreparedTransaction
from aiokproto.producer.record_sender import RecordSender
from aiokproto.producer.sender import Sender
from aiokproto.producer.summary import delivery_error, summary, undelivered
from aiokproto.producer.transaction import Transaction
from aiokproto.producer.transaction_manager import TransactionManager
from aiokproto.producer.waiting import wait_all
from aiokproto.runtime import current

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

log = logging.getLogger("aiokproto.producer")

SLOW_CLOSE = 1.0
"""Seconds after which :meth:`Producer.close` logs what it waits for."""
DISCONNECT = 5.0
"""Longest time to disconnect (s) when :meth:`Producer.close` has no deadline."""


class Producer(AsyncContext, RecordSender):
    """Writes records to topics.

    ::

        async with Producer(bootstrap_servers="localhost:9092") as producer:
            where = await producer.send("flights", b"UA 901", key=b"UA")

    There are three ways to write a record. :meth:`send` waits until it is acknowledged, :meth:`post` until it is
    buffered, and :meth:`try_post` does not wait at all. :meth:`send_many` writes many records at :meth:`post`'s cost
    per record. :meth:`send_batch` and :meth:`post_batch` write record batches without decoding them.

    Records of one partition are written in the order of the calls, also after retries. Without idempotence this needs
    ``max_in_flight_requests_per_connection=1``, and a retry can write a record twice.

    Any number of tasks can share a producer, but only in one event loop: the one that runs :meth:`start`.
    """

    def __init__(
        self,
        *,
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
        partitioner: Literal["default"] | Partitioner = "default",
        max_block_ms: float = 60_000,
        close_timeout_ms: float | None = None,
        transactional_id: str | None = None,
        transaction_timeout_ms: int | None = None,
        transaction_two_phase_commit_enable: bool = False,
        **connection: Unpack[ConnectionOptions],
    ) -> None:
        """Check the options. No connection is opened before :meth:`start`.

        Args:
            acks: Which replicas must have a record before it is acknowledged: "all" (or -1) for all in-sync replicas, 1
                for the leader, 0 for none. With 0 neither errors nor offsets are known.
            enable_idempotence: Whether brokers drop duplicates that retries cause (KIP-98). Needs ``acks="all"`` and
                ``max_in_flight_requests_per_connection`` of at most 5. None enables it if these options allow it.
            linger_ms: How long a batch waits for more records (ms).
            batch_size: Size at which a batch is sent, in bytes before compression; at most ``max_request_size``.
            buffer_memory: Limit of buffered records (bytes). When it is reached, :meth:`post` waits.
            compression_type: The codec of batches.
            compression_level: gzip 1 to 9, lz4 1 to 16, zstd -131072 to 22; None for the codec's default.
            max_request_size: Size of the largest record and the largest request, in bytes before compression.
            delivery_timeout_ms: Longest time from buffering a record to its acknowledgement (ms), including linger and
                all retries.
            max_in_flight_requests_per_connection: Most requests without a response per broker.
            partitioner: "default" hashes keys with murmur2 as the Java client does, and appends records without a key
                to one partition until its batch is full (KIP-480, KIP-794). Or a :class:`Partitioner`.
            max_block_ms: Longest time a call waits for the topic's metadata and for free buffer memory (ms).
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
            max_block_ms=max_block_ms,
            close_timeout_ms=close_timeout_ms,
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            two_phase_commit=transaction_two_phase_commit_enable,
        )
        self._config = ClusterConfig.parse(connection, own=OPTIONS)
        self._accumulator = Accumulator(
            self._settings.limits,
            compression=self._settings.compression,
            level=self._settings.compression_level,
            transactional=transactional_id is not None,
            choose=lambda partitions: current().random.choice(partitions),
        )
        only_in_transactions = ConfigurationError(
            "a producer with a transactional_id writes in transactions: async with producer.transaction() as txn: "
            "await txn.send(...)"
        )
        session = WriteSession(None if transactional_id is None else only_in_transactions)
        super().__init__(self._settings.partitioner, Buffer(self._accumulator, self._settings), session)
        self._transactions: TransactionManager | None = None
        if transactional_id is not None:
            self._transactions = TransactionManager(
                transactional_id,
                self._settings.transaction_timeout_ms,
                self._buffer,
                self._fatal,
                two_phase=self._settings.two_phase_commit,
            )
        self._cluster: ClusterClient
        self._sender: Sender | None = None
        self._starting = False
        self._closing = False
        self._unsent = 0

    @property
    def config(self) -> ProducerConfig:
        """The producer's options, as they are in use."""
        return self._settings

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
            UnsupportedVersionError: The brokers lack two-phase commit, or a part of it.
            ClientClosedError: The producer was started before, or was closed while it started.
        """
        if self._starting or self._sender is not None:
            raise ClientClosedError("a producer can be started only once: create a new one")
        self._starting = True
        self._cluster = ClusterClient(self._config, self._accumulator.last_used)
        try:
            await self._cluster.start()
            if self._transactions is not None:
                await self._transactions.start(self._cluster, keep_prepared=keep_prepared)
        except BaseException:
            await self._cluster.close()
            raise
        finally:
            self._starting = False
        self._sender = Sender(
            self._cluster,
            self._accumulator,
            self._settings,
            self._config.request_timeout,
            on_metadata=self._buffer.update_topics,
            on_batches_done=self._buffer.memory_freed,
            on_failure=self._failed,
            transactions=self._transactions,
        )
        self._buffer.open(self._cluster, self._sender.timer)
        self._buffer.set_writer(self, self._session)
        self._sender.start()

    def _fatal(self, error: KafkaError) -> None:
        # Before the sender exists, start() raises the error.
        if self._sender is not None:
            self._sender.fail(error)

    def _failed(self, cause: BaseException) -> None:
        log.error("the producer has failed", exc_info=cause)
        if isinstance(cause, KafkaError):
            error = cause
        else:
            error = ClientClosedError(f"the producer has failed: {cause!r}")
            error.__cause__ = cause
        self._buffer.close(error)
        self._unsent = sum(batch.count for batch in self._accumulator.incomplete)
        self._accumulator.fail_all(lambda _: error)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except KafkaError as undelivered:
            # The block's own exception is the cause; the undelivered records must not replace it.
            if error is None:
                raise
            log.error("%s", undelivered)

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
        self._buffer.check_open()
        _check_timeout(timeout_ms)
        batches = self._buffer.send_all()
        await self._wait(batches, timeout_ms)
        pending = [batch for batch in batches if not batch.done]
        if pending:
            waited = self._settings.limits.delivery_timeout * 1000 if timeout_ms is None else timeout_ms
            raise DeadlineError(f"flush: {summary(pending)} without outcome after {waited:g} ms")
        if not self._closing:
            self._buffer.check_open()

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
                reason; each of their deliveries raises too.
            KafkaError: Some records failed for another reason during the close, and no task awaited their deliveries.
        """
        self._buffer.check_loop()
        _check_timeout(timeout_ms)
        if self._starting:
            await self._cluster.close(DISCONNECT if timeout_ms is None else min(timeout_ms / 1000, DISCONNECT))
        if self._sender is None or self._closing:
            return
        self._closing = True
        timeout_ms = self._settings.close_timeout_ms if timeout_ms is None else timeout_ms
        loop = asyncio.get_running_loop()
        started = loop.time()
        failure = self._buffer.closed
        closed = ClientClosedError("the producer is closed")
        closed.__cause__ = failure
        self._buffer.close(closed)
        batches = self._buffer.send_all()
        slow = loop.call_later(SLOW_CLOSE, self._log_slow_close, batches)
        try:
            if self._transactions is not None and failure is None:
                await self._transactions.close(self._outcome_timeout if timeout_ms is None else timeout_ms / 1000)
            else:
                await self._wait(batches, timeout_ms)
        finally:
            slow.cancel()
            late = {batch for batch in batches if not batch.done}
            try:
                if self._transactions is not None:
                    await self._transactions.stop()
                await self._sender.stop()
            finally:
                self._accumulator.fail_all(undelivered)
                left = DISCONNECT if timeout_ms is None else started + timeout_ms / 1000 - loop.time()
                await self._cluster.close(min(max(left, 0.0), DISCONNECT))
        failed = [batch for batch in batches if batch.outcome.error is not None]
        lost = [batch for batch in failed if batch in late or not batch.outcome.observed]
        if lost:
            raise delivery_error(lost)

    def _log_slow_close(self, batches: list[ProducerBatch]) -> None:
        pending = [batch for batch in batches if not batch.done]
        if pending:
            log.warning("closing the producer waits for %s", summary(pending))

    def __del__(self) -> None:
        # getattr: __init__ may have raised because of an invalid option.
        if getattr(self, "_sender", None) is not None and not self._closing:
            unsent = self._unsent + sum(batch.count for batch in self._accumulator.incomplete)
            what = f"unclosed Producer, {counted(unsent, 'record')} unsent"
            warnings.warn(what, ResourceWarning, source=self, stacklevel=1)

    def transaction(self) -> Transaction:
        """Return a transaction, which begins with ``async with``. One at a time can be open.

        Raises:
            ConfigurationError: The producer has no ``transactional_id``.
        """
        if self._transactions is None:
            raise ConfigurationError("transaction() needs the option transactional_id")
        return Transaction(self._settings.partitioner, self._buffer, self._transactions, self._outcome_timeout)

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
            ConfigurationError: The producer lacks ``transaction_two_phase_commit_enable``.
            KafkaError: The producer is closed, or has failed.
        """
        self._buffer.check_open()
        if self._transactions is None or not self._transactions.two_phase:
            raise ConfigurationError("complete_transaction() needs transaction_two_phase_commit_enable=True")
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

    @property
    def unobserved_failures(self) -> int:
        """Number of failed records in batches of which no delivery was awaited or checked."""
        return self._accumulator.delivery_context.unobserved_failures


def _check_timeout(timeout_ms: float | None) -> None:
    if timeout_ms is not None:
        seconds("timeout_ms", timeout_ms)


OPTIONS = tuple(name for name in signature(Producer).parameters if name != "connection")
"""The producer's own options, without those that all clients share."""
