"""The consumer: its options, lifecycle, and reading. The other parts of its API are base classes, one per subject."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, Generic, Literal, cast, get_args

from aiokproto.application.async_context import AsyncContext
from aiokproto.application.foreign_calls import (
    CONSUMER_METHODS,
    ForeignCalls,
    foreign_close,
    foreign_poll,
)
from aiokproto.application.gates import CONSUMER, gated
from aiokproto.cluster import ClusterClient
from aiokproto.config import ClusterConfig, ConnectionOptions
from aiokproto.config.values import at_most, integer, one_of, seconds
from aiokproto.consumer.batch import FetchedBatch
from aiokproto.consumer.committer import Committer
from aiokproto.consumer.config import ConsumerConfig
from aiokproto.consumer.dead_letters import DeadLetterTopic
from aiokproto.consumer.delivery import RecordIterator
from aiokproto.consumer.deserializers import Deserializers
from aiokproto.consumer.deserializing import DeserializingReader
from aiokproto.consumer.engine import Engine
from aiokproto.consumer.log_offsets import LogOffsets
from aiokproto.consumer.offset_reset import OffsetReset
from aiokproto.consumer.positions import Positions
from aiokproto.consumer.reader import BatchIterator
from aiokproto.consumer.record_iterators import RecordsToEnd, RecordsUntilIdle
from aiokproto.consumer.report import Report
from aiokproto.consumer.runs import Runs
from aiokproto.consumer.subscriber import Subscriber
from aiokproto.consumer.subscription import (
    SubscriptionState,
    to_topics,
)
from aiokproto.group.assignors import Assignor
from aiokproto.group.config import GroupProtocol, LeaveMode
from aiokproto.security.tracebacks import hiding_options
from aiokproto.types import K, Record, TopicPartition, V

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


_CLOSE_TIMEOUT_MS = 30_000


@gated(CONSUMER)
class Consumer(
    Subscriber, Positions, Committer, LogOffsets, Report, Runs[K, V], AsyncContext, ForeignCalls, Generic[K, V]
):
    """Read records from topics, alone or as a member of a group.

    ::

        async with Consumer("flights", bootstrap_servers="localhost:9092", group_id="report") as consumer:
            async for record in consumer:
                print(record.offset, record.value)

    **At least once.** A record is *processed* once the loop requests the next one, or leaves with ``break`` and the
    ``async with`` block ends. Automatic commits (``enable_auto_commit``) cover processed records only: at every
    interval, before partitions are revoked, and on close. If the loop body raises, the current record is not committed.
    A batch, or a list from :meth:`poll`, counts as a whole.

    **Cancelling** a call neither loses nor repeats a record. Only one task at a time may wait for records.

    **With a group**, the members share the partitions of the topics. **Without one**, the consumer reads all
    partitions, commits nothing, and starts where ``auto_offset_reset`` says. :meth:`assign` selects partitions instead
    of topics.

    **Keys and values** are bytes, or what ``key_deserializer`` and ``value_deserializer`` make of them: then the class
    is ``Consumer[K, V]``, and ``record.value`` is ``V | None``. They are called when a record is delivered, and never
    for None: a tombstone stays one. What cannot be decoded is an error of one record, not the end of the consumer: see
    ``on_undecodable``.

    The consumer binds to an event loop in :meth:`start`, which ``async with`` calls, and can be created without one.

    Args:
        topics: Topics to read; :meth:`subscribe` or :meth:`assign` can set them later.
        group_id: The consumer group to join; None for none.
        group_instance_id: A name that survives restarts. A member that returns with it within the session timeout gets
            its partitions back without a rebalance (static membership, KIP-345).
        group_protocol: Who computes the assignment: ``"classic"``, a member of the group; ``"consumer"``, the broker
            (KIP-848; Kafka 4.0 or later); ``"auto"``, the broker if it can and ``partition_assignment_strategy`` is not
            given, else a member, also if the broker cannot any more. A group changes its protocol while it runs when
            its members do, one after the other.
        group_remote_assignor: The broker's assignor, ``"uniform"`` or ``"range"``, with ``group_protocol="consumer"``;
            None leaves it to the broker.
        key_deserializer: Makes a key of bytes: a function, or a coroutine function, which is decided once, here. None
            leaves bytes. A ConnectionError or TimeoutError that it raises is raised by the read as it is, and the next
            read tries the record again; any other exception means that the record cannot be decoded. A coroutine that
            does not return within ``default_api_timeout_ms`` is cancelled, and the read raises ``DeadlineError``. mypy
            cannot infer the type that a coroutine function returns: write ``Consumer[bytes, Order]("orders", ...)``.
        value_deserializer: Likewise for values.
        on_undecodable: What becomes of a record that a deserializer fails on, and of a damaged batch: ``"raise"``
            (the read raises ``RecordDeserializationError`` and the next one continues behind the record; after a
            ``CorruptBatchError`` the partition stops until you :meth:`seek` behind the batch), ``"skip"`` (logged, at
            most once in 10 s, and counted in :attr:`undecodable`), ``"return"`` (delivered with raw bytes and
            ``record.error`` set; one record stands for a damaged batch), or a
            :class:`~aiokproto.consumer.DeadLetterTopic` (delivery goes on once its dead letter is acknowledged).
        auto_offset_reset: Where to start if the group has committed no offset, and where to continue if the offset is
            not in the log: ``"latest"`` (new records only), ``"earliest"``, ``"none"`` (raise),
            ``"by_duration:PT1H"``: the records of the last hour, or of another ISO 8601 duration of days, hours,
            minutes and seconds, at most 36,500 days (KIP-1106); or ``"nearest"``: as ``"earliest"``, but an offset
            behind the end of the log continues at that end. If the log was truncated (KIP-320), the consumer
            continues where it diverges from what was read; ``"none"`` raises ``LogTruncationError``.
        new_partitions: Where to start in partitions, and topics of a pattern, that appear after the subscription began:
            ``"earliest"``: at their first record, whatever ``auto_offset_reset`` says; ``"reset"``: as
            ``auto_offset_reset`` says, as the Java client does, which with ``"latest"`` loses what was written before
            the group noticed the partition. Without a committed offset, a partition is new if this consumer has seen
            the topic without it, or if the group has committed offsets for the topic's first partitions, without a gap,
            and for none from this one on. A group that has committed nothing starts by ``auto_offset_reset``.
        on_offset_reset: A function that is called with an :class:`~aiokproto.consumer.OffsetReset` whenever the
            consumer has moved a position by itself. It must not block; an exception in it ends the consumer.
        enable_auto_commit: Whether processed records are committed automatically.
        auto_commit_interval_ms: How often.
        session_timeout_ms: The coordinator removes a member that it has not heard from for this long. With the consumer
            protocol the broker decides that (``consumer.session.timeout.ms`` of the group), and the consumer delivers
            records for the shorter of the two without a sign of the coordinator; for this one, if it may not describe
            the group's configuration.
        heartbeat_interval_ms: How often the member sends a heartbeat; with the consumer protocol the broker decides.
        max_poll_interval_ms: A member that requests no record for this long leaves the group, and rejoins when it does.
            A rebalance waits as long for members to process what was delivered.
        partition_assignment_strategy: One or more of ``"range"``, ``"roundrobin"``, ``"sticky"``,
            ``"cooperative-sticky"``, or your own :class:`~aiokproto.group.assignors.Assignor`, by preference; the
            members of a group need one in common. If one of several is not cooperative, the member revokes all its
            partitions before each rebalance. None stands for ``("range", "cooperative-sticky")``. Only of the classic
            protocol.
        isolation_level: ``"read_committed"`` skips records of aborted transactions, and waits for open ones.
        keep_control_records: Whether to deliver the markers that end transactions, also aborted ones, each as a
            :class:`~aiokproto.types.RawControlRecord` at its offset. They are for tools that look into a log.
        fetch_min_bytes: The broker delays a response until it has this many bytes ...
        fetch_max_wait_ms: ... or until this time has passed.
        fetch_max_bytes: Most bytes in a response; a first batch that is larger is sent nevertheless.
        max_partition_fetch_bytes: The same per partition.
        fetch_buffer_bytes: Bytes fetched ahead, divided equally among the brokers; each may have one partition's fetch
            more.
        check_crcs: Whether the checksums of batches are verified.
        max_decompressed_bytes: Most bytes that a record batch may become when it is decompressed (1 GiB). It bounds the
            time that a few kilobytes can take; memory does not depend on it, as batches are decoded in slices.
        max_record_bytes: Most bytes of one record, decompressed, with 192 for each header: about what it takes as an
            object (50 MiB, as much as a response has by default). Also of a batch that a C client has compressed with
            snappy, which cannot be decompressed in part. A batch beyond a limit is handled as a damaged one.
        connection: See :class:`~aiokproto.config.ConnectionOptions`; ``bootstrap_servers`` is required.

    Raises:
        ConfigurationError: An option is unknown or invalid; the message names it.
    """

    foreign_methods = CONSUMER_METHODS
    _records: RecordIterator | DeserializingReader[K, V]

    @hiding_options
    def __init__(
        self,
        *topics: str,
        group_id: str | None = None,
        group_instance_id: str | None = None,
        group_protocol: GroupProtocol = "classic",
        group_remote_assignor: str | None = None,
        key_deserializer: Callable[[bytes], Awaitable[K] | K] | None = None,
        value_deserializer: Callable[[bytes], Awaitable[V] | V] | None = None,
        on_undecodable: Literal["raise", "skip", "return"] | DeadLetterTopic = "raise",
        auto_offset_reset: str = "latest",
        new_partitions: Literal["earliest", "reset"] = "earliest",
        on_offset_reset: Callable[[OffsetReset], None] | None = None,
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: float = 5000,
        session_timeout_ms: float = 45_000,
        heartbeat_interval_ms: float = 3000,
        max_poll_interval_ms: float = 300_000,
        partition_assignment_strategy: str | Assignor | Sequence[str | Assignor] | None = None,
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
        keep_control_records: bool = False,
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: float = 500,
        fetch_max_bytes: int = 50 * 1024 * 1024,
        max_partition_fetch_bytes: int = 1024 * 1024,
        fetch_buffer_bytes: int = 64 * 1024 * 1024,
        check_crcs: bool = True,
        max_decompressed_bytes: int = 1024 * 1024 * 1024,
        max_record_bytes: int = 50 * 1024 * 1024,
        **connection: Unpack[ConnectionOptions],
    ) -> None:
        config = ConsumerConfig.parse(
            {
                "group_id": group_id,
                "group_instance_id": group_instance_id,
                "group_protocol": group_protocol,
                "group_remote_assignor": group_remote_assignor,
                "on_undecodable": on_undecodable,
                "auto_offset_reset": auto_offset_reset,
                "new_partitions": new_partitions,
                "on_offset_reset": on_offset_reset,
                "enable_auto_commit": enable_auto_commit,
                "auto_commit_interval_ms": auto_commit_interval_ms,
                "session_timeout_ms": session_timeout_ms,
                "heartbeat_interval_ms": heartbeat_interval_ms,
                "max_poll_interval_ms": max_poll_interval_ms,
                "partition_assignment_strategy": partition_assignment_strategy,
                "isolation_level": isolation_level,
                "keep_control_records": keep_control_records,
                "fetch_min_bytes": fetch_min_bytes,
                "fetch_max_wait_ms": fetch_max_wait_ms,
                "fetch_max_bytes": fetch_max_bytes,
                "max_partition_fetch_bytes": max_partition_fetch_bytes,
                "fetch_buffer_bytes": fetch_buffer_bytes,
                "check_crcs": check_crcs,
                "max_decompressed_bytes": max_decompressed_bytes,
                "max_record_bytes": max_record_bytes,
            },
            connection.get("client_rack", ""),
        )
        subscription = SubscriptionState(topics=to_topics(topics, "Consumer"))
        cluster = ClusterClient(ClusterConfig.parse(connection, own=OPTIONS))
        self._home = cluster.home
        self._engine = engine = Engine(cluster, config, subscription)
        self._deserializing, self._records = _readers(engine, Deserializers(key_deserializer, value_deserializer))

    @property
    def config(self) -> ConsumerConfig:
        """The consumer's options, as they are in use."""
        return self._engine.config

    # Lifecycle

    async def start(self) -> None:
        """Connect and start fetching. ``async with`` calls it.

        Raises:
            BootstrapError, NotKafkaError, AuthenticationError: The cluster cannot be reached.
            UnknownTopicError, InvalidTopicError, AuthorizationError: A topic cannot be read.
            ClientClosedError: The consumer was started before, or closed while it starts.
        """
        await self._engine.start()

    @foreign_close
    def close(
        self, timeout_ms: float = _CLOSE_TIMEOUT_MS, *, leave: LeaveMode = "default"
    ) -> Coroutine[Any, Any, None]:
        """Commit what is processed (with ``enable_auto_commit``), leave the group, disconnect; within ``timeout_ms``.

        The current record counts as processed, unless the caller is handling an exception, as in ``finally`` or an
        ``async with`` block that an exception ends. Offsets that could not be committed are logged. Cancelling the call
        disconnects immediately; the request to leave the group is still sent, and its response not waited for. Calling
        it again has no effect.

        Args:
            timeout_ms: How long closing may take.
            leave: ``"default"``: a static member (``group_instance_id``) stays in the group until its session expires,
                as it is expected to return; any other leaves. ``"leave"``: a static member leaves, too. ``"remain"``:
                none leaves, so that no rebalance begins before the session expires (KIP-1092).

        Raises:
            ConfigurationError: ``leave`` is something else.
        """
        one_of("leave", leave, get_args(LeaveMode))
        # Checked at the call, not at the await: a task that runs the coroutine would not see the caller's exception.
        finished = sys.exc_info()[0] is None
        # The coroutine itself and not an `async def` of this class: see above.
        return self._engine.close(seconds("timeout_ms", timeout_ms), processed=finished, leave=leave)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def _leave(self, error: BaseException | None) -> None:
        # An exception in the block: the record that it was about is not processed.
        await self._engine.close(_CLOSE_TIMEOUT_MS / 1000, processed=error is None)

    # Records

    def __aiter__(self) -> AsyncIterator[Record[K, V]]:
        self._home.check()
        return cast("AsyncIterator[Record[K, V]]", self._records)

    def __anext__(self) -> Coroutine[Any, Any, Record[K, V]]:
        """Return the next record.

        Raises:
            RecordDeserializationError: A deserializer failed on the record, with ``on_undecodable="raise"``. It counts
                as delivered: the next call continues behind it.
            OffsetOutOfRangeError, CorruptRecordError, UnknownTopicError, AuthorizationError: A partition cannot be read
                any further; the message names it. The next call continues with the others, and after a seek with it.
            GroupError, FencedError: The group rejects this member.
            DeadlineError: A deserializer did not return within ``default_api_timeout_ms``. The next call tries again.
            ClientClosedError: The consumer is closed, or one of its tasks failed, which is then the cause.
        """
        if asyncio._get_running_loop() is None:
            # In another thread, for run_coroutine_threadsafe(): the coroutine runs, and checks, in a loop.
            return self._next_record()
        self._home.check()
        return cast("Coroutine[Any, Any, Record[K, V]]", self._records.__anext__())

    async def _next_record(self) -> Record[K, V]:
        self._home.check()
        return cast("Record[K, V]", await self._records.__anext__())

    def records(self, timeout_ms: float) -> AsyncIterator[Record[K, V]]:
        """Return an iterator of records that ends once none came for ``timeout_ms``.

        As ``async for record in consumer`` otherwise; iterating again continues. To raise after a time instead, use
        ``asyncio.timeout`` (Python 3.11) or ``asyncio.wait_for``: a cancellation loses nothing.

        Args:
            timeout_ms: The longest wait for a record; 0 ends at once when no record is buffered.

        Raises:
            ConfigurationError: ``timeout_ms`` is no duration.
        """
        return RecordsUntilIdle(self._engine, self._deserializing, seconds("timeout_ms", timeout_ms))

    def read_to_end(self, *partitions: tuple[str, int], timeout_ms: float | None = None) -> AsyncIterator[Record[K, V]]:
        """Return an iterator of the records up to the end that the log has when the iteration starts.

        It reads from the positions to the ends (``read_committed``: to the first open transaction), of all assigned
        partitions if none are given; a member of a group waits for its first assignment. It also ends where the last
        offsets have no records: in empty, compacted and transactional logs. Later records, and other partitions, are
        left to other reads. A partition that is taken away meanwhile has ended.

        Args:
            partitions: Assigned partitions.
            timeout_ms: The longest wait for the assignment, and for the next record; by default
                ``default_api_timeout_ms``.

        Raises:
            ConfigurationError: No partition is assigned and there is no group, or one of these is not assigned.
            DeadlineError: The group has assigned nothing in time. Or no record came in time, although the end is not
                reached: a partition is paused, or cannot be read. Reading on continues.
            BrokerError: As ``async for``.
        """
        awaits_group = not partitions and self._engine.member is not None and self._engine.subscription.by_topic
        chosen = [] if awaits_group else self._assigned(partitions)
        for partition in chosen:
            self._assignment.get(partition)
        timeout = self._seconds(timeout_ms)

        async def ends() -> Mapping[TopicPartition, int]:
            if awaits_group:
                await self._engine.assigned(timeout)
            return await self.end_offsets(*(chosen or self._assignment.cursors), timeout_ms=timeout_ms)

        return RecordsToEnd(self._engine, self._deserializing, ends, timeout)

    @foreign_poll
    async def poll(
        self, timeout_ms: float = 500, max_records: int = 500, *, min_records: int = 1
    ) -> list[Record[K, V]]:
        """Return up to ``max_records`` records as soon as there are ``min_records``, or what there is after
        ``timeout_ms``.

        ``poll(T, n)`` returns with the first records; ``poll(T, n, min_records=n)`` collects ``n`` records or for ``T``
        ms, whichever ends first. A cancelled call keeps what it has collected for the next one, of whatever kind.
        Records of partitions that are sought, paused or taken away meanwhile are not returned. Collecting ends early
        before a record that cannot be decoded, unless it is skipped, and at the error of a partition.

        With ``timeout_ms=0`` it returns what is buffered; if nothing is, other tasks run first. It can return fewer
        records than are buffered, so that other tasks run in between. All of them count as processed with the next
        call. Raises the errors of ``async for``; records before one that cannot be decoded are returned first.
        ``timeout_ms`` does not limit deserializers, ``default_api_timeout_ms`` does.

        Args:
            timeout_ms: How long it may wait.
            max_records: Most records.
            min_records: How many it waits for; they are decoded meanwhile, and take memory beside
                ``fetch_buffer_bytes``.

        Raises:
            ConfigurationError: An argument is invalid, or ``min_records`` is more than ``max_records``.
        """
        self._home.check()
        integer("max_records", max_records, 1)
        least = at_most("min_records", integer("min_records", min_records, 1), "max_records", max_records)
        return await self._take(seconds("timeout_ms", timeout_ms), max_records, least)

    async def _take(self, timeout: float, max_records: int, least: int = 1, by: object = None) -> list[Record[K, V]]:
        """As :meth:`poll`, for the owner of the reader; the timeout is in seconds."""
        deadline = asyncio.get_running_loop().time() + timeout
        if self._records is self._deserializing:
            return await self._deserializing.poll(deadline, max_records, by, least=least)
        assignment = self._assignment
        if least > 1:
            await self._engine.reader.collect(least, deadline)
        if least > 1 and (cursors := self._engine.reader.collected()):
            records = assignment.take_open(cursors, max_records)
            assignment.current = records
            return cast("list[Record[K, V]]", records)
        # It returns with records open, or not at all.
        if not await self._engine.reader.open(deadline, by=by):
            return []
        # No await from here on: a cancellation would lose the records that were taken out.
        records = assignment.take(max_records)
        while len(records) < max_records and self._engine.reader.open_at_once():
            records += assignment.take(max_records - len(records))
        # All of them are being processed now, until the next call.
        assignment.current = records
        return cast("list[Record[K, V]]", records)

    async def deserialize(self, record: Record) -> Record[K, V]:
        """Return a record of :meth:`batches` with key and value deserialized. ``on_undecodable`` does not apply.

        Raises:
            RecordDeserializationError: A deserializer failed.
            DeadlineError: It did not return within ``default_api_timeout_ms``.
        """
        return await self._deserializing.deserialize(record)

    @property
    def undecodable(self) -> int:
        """How many records and damaged batches could not be decoded so far, whatever ``on_undecodable`` says."""
        return self._engine.undecodable.count

    def batches(self, *, decompress: bool = True) -> AsyncIterator[FetchedBatch]:
        """Return an endless iterator of batches: records of one partition from one fetch, up to about a megabyte.

        Records are decoded when you iterate the batch; damage inside a batch with a right checksum is detected then,
        and raised. Deserializers are not applied, so that batches can be passed on as they are, and ``to_arrow()`` has
        the stored bytes: :meth:`deserialize` applies them to a record. A batch with a wrong checksum is treated as
        ``on_undecodable`` says; with ``"return"``, ``batch.error`` is set. Raises the errors of ``async for``.
        ``fetch_min_bytes`` and ``fetch_max_wait_ms`` have the brokers collect records for larger batches.

        Args:
            decompress: Whether large compressed batches are decompressed in a thread before they are delivered, so that
                iterating them does not block the event loop. False suits callers that pass batches on unread, as to
                :meth:`Producer.send_batch() <aiokproto.producer.Producer.send_batch>`; a batch that is read anyway is
                then decompressed in the event loop.
        """
        return BatchIterator(self._engine.reader, decompress)


OPTIONS = tuple(name for name in signature(Consumer).parameters if name not in ("topics", "connection"))
"""Names of the options that only the consumer has."""


def _readers(
    engine: Engine, deserializers: Deserializers[K, V]
) -> tuple[DeserializingReader[K, V], RecordIterator | DeserializingReader[K, V]]:
    """Return what applies deserializers, and what delivers single records."""
    timeout = engine.cluster.config.api_timeout
    reader = DeserializingReader(engine.assignment, engine.reader, deserializers, engine.undecodable, timeout)
    # Without deserializers nothing of them is on the path of a record.
    return reader, reader if deserializers else RecordIterator(engine.assignment, engine.reader.open)
