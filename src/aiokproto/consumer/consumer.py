"""The consumer's public API."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Iterable, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, Generic, Literal, cast, get_args, overload

from aiokproto.application.async_context import AsyncContext
from aiokproto.application.gates import CONSUMER, RUN, Use, gated
from aiokproto.application.hints import METHODS, Hints
from aiokproto.cluster import ClusterClient
from aiokproto.config import ClusterConfig, ConnectionOptions
from aiokproto.config.values import at_most, integer, one_of, seconds
from aiokproto.consumer.assignment import Assignment
from aiokproto.consumer.batch import FetchedBatch
from aiokproto.consumer.commit_result import CommitResult, Committable, to_commit
from aiokproto.consumer.config import ConsumerConfig
from aiokproto.consumer.cursor import LogState, PartitionState
from aiokproto.consumer.dead_letters import DeadLetterTopic
from aiokproto.consumer.delivery import RecordIterator
from aiokproto.consumer.deserializers import Deserializers
from aiokproto.consumer.deserializing import DeserializingReader
from aiokproto.consumer.engine import Engine
from aiokproto.consumer.offset_reset import OffsetReset
from aiokproto.consumer.progress import Delivered, Progress
from aiokproto.consumer.reader import BatchIterator
from aiokproto.consumer.record_iterators import RecordsToEnd, RecordsUntilIdle
from aiokproto.consumer.report import ConsumerStats, health_of, stats_of
from aiokproto.consumer.running import DeadLetters, Retry, RetryTopics, RunStatus, RunSummary
from aiokproto.consumer.running.options import RunOptions
from aiokproto.consumer.running.runner import ConsumerRunner
from aiokproto.consumer.start_lookup import EARLIEST, LATEST
from aiokproto.consumer.subscription import (
    Listener,
    SubscriptionState,
    check_listener,
    to_pattern,
    to_timestamp,
    to_topics,
)
from aiokproto.errors import CommitError, ConfigurationError
from aiokproto.group.arguments import Partition, to_offsets, to_partition, to_position
from aiokproto.group.assignors import Assignor
from aiokproto.group.config import GroupProtocol, LeaveMode
from aiokproto.observe.health import Health
from aiokproto.runtime.timeouts import deadline_at
from aiokproto.security.tracebacks import hiding_options
from aiokproto.types import GroupMetadata, K, OffsetAndMetadata, OffsetAndTimestamp, Record, TopicPartition, V

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

log = logging.getLogger("aiokproto.consumer")

Order = Literal["partition", "key", "none"] | Callable[[Record[K, V]], Hashable]
"""Which records are handled one at a time, in order."""

_CLOSE_TIMEOUT_MS = 30_000


@gated(CONSUMER)
class Consumer(AsyncContext, Hints, Generic[K, V], hints=METHODS["Consumer"]):
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

    **Keys and values** are bytes, or the objects that ``key_deserializer`` and ``value_deserializer`` make from them.
    With deserializers, the class is ``Consumer[K, V]``, and ``record.value`` is ``V | None``. They are called when a
    record is delivered, and never for None, so a tombstone stays a tombstone. A record that cannot be decoded doesn't
    end the consumer: see ``on_undecodable``.

    A consumer can be created without an event loop. It binds to one in :meth:`start`, which ``async with`` calls.

    Args:
        topics: Topics to read; :meth:`subscribe` or :meth:`assign` can set them later.
        group_id: The consumer group to join, if any.
        group_instance_id: A name that survives restarts. A member that returns with it within the session timeout gets
            its partitions back without a rebalance (static membership, KIP-345).
        group_protocol: Who computes the assignment: ``"classic"``, a member of the group; ``"consumer"``, the broker
            (KIP-848; Kafka 4.0 or later); ``"auto"``, the broker if it can and ``partition_assignment_strategy`` is not
            given, else a member. ``"auto"`` falls back to a member if the broker no longer can. A running group can
            change its protocol: its members switch one at a time.
        group_remote_assignor: The broker's assignor, ``"uniform"`` or ``"range"``, with ``group_protocol="consumer"``;
            None leaves it to the broker.
        key_deserializer: A function, or a coroutine function, that makes a key from bytes. The consumer checks which of
            the two it is only once, here. If None, keys stay bytes. If it raises a ConnectionError or TimeoutError, the
            read raises the same error, and the next read tries the record again; any other exception means that the
            record cannot be decoded. A coroutine that doesn't return within ``default_api_timeout_ms`` is cancelled,
            and the read raises ``DeadlineError``. mypy cannot infer the type that a coroutine function returns: write
            ``Consumer[bytes, Order]("orders", ...)``.
        value_deserializer: The same for values.
        on_undecodable: What to do with a record that a deserializer fails on, and with a damaged batch: ``"raise"``
            (the read raises ``RecordDeserializationError`` and the next read continues after the record; after a
            ``CorruptBatchError`` the partition stops until you :meth:`seek` past the batch), ``"skip"`` (logged at most
            once every 10 s, and counted in :attr:`undecodable`), ``"return"`` (delivered with raw bytes and
            ``record.error`` set; a damaged batch becomes one record), or a :class:`~aiokproto.consumer.DeadLetterTopic`
            (delivery continues once its dead letter is acknowledged).
        auto_offset_reset: Where to start if the group has committed no offset, and where to continue if the offset is
            not in the log: ``"latest"`` (new records only), ``"earliest"``, ``"none"`` (raise), ``"by_duration:PT1H"``:
            the records of the last hour, or of any other ISO 8601 duration of days, hours, minutes and seconds, at most
            36,500 days (KIP-1106); or ``"nearest"``: like ``"earliest"``, but an offset past the end of the log
            continues at the end. If the log was truncated (KIP-320), the consumer continues where the log diverges from
            what was read; ``"none"`` raises ``LogTruncationError``.
        new_partitions: Where to start in partitions, and in topics matching a pattern, that appear after the
            subscription: ``"earliest"``: at their first record, even if ``auto_offset_reset`` says otherwise;
            ``"reset"``: as ``auto_offset_reset`` says, like the Java client; with ``"latest"``, that loses the records
            that were written before the group noticed the partition. Without a committed offset, a partition is new if
            this consumer has seen the topic without it, or if the group has committed offsets for the topic's first
            partitions, without a gap, but not for this one or any higher one. A group that has committed nothing starts
            as ``auto_offset_reset`` says.
        on_offset_reset: A function that is called with an :class:`~aiokproto.consumer.OffsetReset` whenever the
            consumer has moved a position on its own. It must not block. If it raises, the consumer ends.
        enable_auto_commit: Whether processed records are committed automatically.
        auto_commit_interval_ms: How often they are committed.
        session_timeout_ms: The coordinator removes a member that it hasn't heard from for this long. With the consumer
            protocol the broker sets this time (the group's ``consumer.session.timeout.ms``), and the consumer stops
            delivering records when it hasn't heard from the coordinator for the shorter of the two times. If it is not
            allowed to describe the group's configuration, only this option counts.
        heartbeat_interval_ms: How often the member sends a heartbeat; with the consumer protocol the broker decides
            this.
        max_poll_interval_ms: A member that doesn't request a record for this long leaves the group, and rejoins when it
            requests one. A rebalance waits this long for members to process the delivered records.
        partition_assignment_strategy: One or more of ``"range"``, ``"roundrobin"``, ``"sticky"``,
            ``"cooperative-sticky"``, or your own :class:`~aiokproto.group.assignors.Assignor`, in order of preference;
            the members of a group need one in common. If one of several is not cooperative, the member revokes all its
            partitions before each rebalance. None means ``("range", "cooperative-sticky")``. Only the classic protocol
            uses this option.
        isolation_level: ``"read_committed"`` skips records of aborted transactions, and waits for open ones.
        keep_control_records: Whether to deliver the markers that end transactions, including aborted ones, each as a
            :class:`~aiokproto.types.RawControlRecord` at its offset. This is for tools that inspect a log.
        fetch_min_bytes: The broker delays a response until it has this many bytes ...
        fetch_max_wait_ms: ... or until this time has passed.
        fetch_max_bytes: Maximum size of a response in bytes. A response's first batch is sent even if it's larger.
        max_partition_fetch_bytes: The same limit per partition.
        fetch_buffer_bytes: Bytes to fetch ahead, divided equally among the brokers. Each broker's share can be exceeded
            by one partition's fetch.
        check_crcs: Whether the checksums of batches are verified.
        max_decompressed_bytes: Maximum size of a record batch after decompression (1 GiB). It limits the time that a
            few kilobytes can take to decompress. It doesn't affect memory, because batches are decoded in slices.
        max_record_bytes: Maximum size of one decompressed record, plus 192 bytes for each header: about what it takes
            as an object (50 MiB, the default limit of a response). It also limits a batch that a C client has
            compressed with snappy, which cannot be decompressed in part. A batch that exceeds a limit is handled like a
            damaged one.
        connection: See :class:`~aiokproto.config.ConnectionOptions`; ``bootstrap_servers`` is required.

    Raises:
        ConfigurationError: An option is unknown or invalid; the message names it.
    """

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
        self._run: ConsumerRunner | None = None
        self._deserializing, self._records = _readers(engine, Deserializers(key_deserializer, value_deserializer))

    @property
    def config(self) -> ConsumerConfig:
        """The consumer's options in effect."""
        return self._engine.config

    # -- lifecycle

    async def start(self) -> None:
        """Connect and start fetching. ``async with`` calls it.

        Raises:
            BootstrapError, NotKafkaError, AuthenticationError: The cluster cannot be reached.
            UnknownTopicError, InvalidTopicError, AuthorizationError: A topic cannot be read.
            ClientClosedError: The consumer was started before, or was closed while starting.
        """
        await self._engine.start()

    def close(
        self, timeout_ms: float = _CLOSE_TIMEOUT_MS, *, leave: LeaveMode = "default"
    ) -> Coroutine[Any, Any, None]:
        """Commit processed records (with ``enable_auto_commit``), leave the group and disconnect, within
        ``timeout_ms``.

        The current record counts as processed, unless the caller is handling an exception, as in ``finally`` or an
        ``async with`` block that an exception ends. Offsets that couldn't be committed are logged. Cancelling the call
        disconnects immediately; the request to leave the group is still sent, without waiting for the response. Calling
        it again has no effect.

        Args:
            timeout_ms: How long closing may take.
            leave: ``"default"``: a static member (``group_instance_id``) stays in the group until its session expires,
                as it's expected to return; any other member leaves. ``"leave"``: a static member leaves, too.
                ``"remain"``: no member leaves, so no rebalance starts before the session expires (KIP-1092).

        Raises:
            ConfigurationError: ``leave`` is not one of these.
        """
        one_of("leave", leave, get_args(LeaveMode))
        # Check it now instead of in the coroutine: in a task that runs the coroutine, the caller's exception is not
        # visible.
        finished = sys.exc_info()[0] is None
        # Return the engine's coroutine: an `async def` in this class would check too late.
        return self._engine.close(seconds("timeout_ms", timeout_ms), processed=finished, leave=leave)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def _leave(self, error: BaseException | None) -> None:
        # If the block ends with an exception, the current record is not processed.
        await self._engine.close(_CLOSE_TIMEOUT_MS / 1000, processed=error is None)

    def _admit(self, use: Use) -> None:
        self._engine.admit(use)

    # -- what is read

    def subscribe(
        self,
        *topics: str,
        pattern: str | re.Pattern[str] | None = None,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Replace the subscription.

        The callbacks are functions or coroutine functions of a list of partitions. They can commit and seek; reading
        records in them raises. The rebalance waits for them. If one of them raises, the consumer ends.

        Args:
            topics: Topic names.
            pattern: A regular expression, instead of ``topics``, that has to match a whole topic name; new topics are
                found within ``metadata_max_age_ms``. Internal topics never match. With the consumer protocol, if the
                pattern means the same in Python and RE2, the broker does the matching and finds new topics.
            on_assigned: Called with new partitions before any of them are read.
            on_revoked: Called with partitions that the member is giving up, while their offsets can still be committed.
            on_lost: Called with partitions that other members may already own; by default ``on_revoked`` is called.

        Raises:
            ConfigurationError: Neither topics nor a pattern is given, or both are, or partitions are assigned by
                :meth:`assign`.
        """
        if self._engine.subscription.partitions is not None:
            raise ConfigurationError("partitions are assigned: await unsubscribe() first")
        names = to_topics(topics, "subscribe")
        if bool(names) == (pattern is not None):
            raise ConfigurationError(
                'subscribe() takes either topics or a pattern: subscribe("a", "b"), or subscribe(pattern="a.*")'
            )
        compiled = None if pattern is None else to_pattern(pattern)
        for name, listener in (("on_assigned", on_assigned), ("on_revoked", on_revoked), ("on_lost", on_lost)):
            check_listener(name, listener)
        self._engine.set_subscription(
            SubscriptionState(
                topics=names, pattern=compiled, on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost
            )
        )

    def assign(self, *partitions: tuple[str, int]) -> None:
        """Replace the assignment; partitions that stay assigned keep their positions.

        With a ``group_id``, offsets are committed to that group, but the group doesn't distribute the partitions.

        Raises:
            ConfigurationError: Topics are subscribed, or they were and the member hasn't left the group yet.
        """
        if self._engine.subscription.by_topic:
            raise ConfigurationError("topics are subscribed: await unsubscribe() first")
        if self._engine.member is not None and not self._engine.member.outside:
            raise ConfigurationError("the group is not left yet: await unsubscribe() first")
        chosen = frozenset(to_partition(partition) for partition in partitions)
        self._engine.set_subscription(SubscriptionState(partitions=chosen))

    async def unsubscribe(self, timeout_ms: float | None = None) -> None:
        """Stop reading, commit processed records (with ``enable_auto_commit``), and leave the group.

        After a cancellation or a timeout this continues in the background.

        Args:
            timeout_ms: How long to wait; by default ``default_api_timeout_ms``.

        Raises:
            RuntimeError: It's called in a rebalance callback, or in a handler of :meth:`run`. It would wait for itself.
            DeadlineError: It didn't finish in time.
        """
        if self._engine.rebalancing.in_callback():
            raise RuntimeError("unsubscribe() would wait for this rebalance callback, in which it is called")
        if self._assignment.runner is not None:
            self._assignment.runner.check_outside("unsubscribe()")
        # Do this before the subscription changes: the revocation commits these offsets.
        self._assignment.mark_processed()
        old = self._engine.subscription
        self._engine.set_subscription(
            SubscriptionState(on_assigned=old.on_assigned, on_revoked=old.on_revoked, on_lost=old.on_lost)
        )
        # The revocation waits until the application requests the next record, which it can't do while it's waiting
        # here.
        self._engine.reader.give_up_waiting()
        if self._engine.running:
            await self._engine.wait_until_unsubscribed(self._seconds(timeout_ms))

    def enforce_rebalance(self, reason: str = "the application asks for it") -> None:
        """Trigger a rebalance of the group (KIP-568), such as when the input of a custom assignor has changed.

        It returns immediately, and the rebalance follows while records are read. With the consumer protocol it's only
        logged, because the broker decides when to rebalance.

        Args:
            reason: The reason to log, in this client and in the broker.

        Raises:
            ConfigurationError: There is no group.
        """
        self._check_group()
        assert self._engine.member is not None, "there is a group"
        self._engine.member.enforce_rebalance(reason)

    def subscription(self) -> frozenset[str]:
        """Return the topics subscribed by name."""
        return self._engine.subscription.topics

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the assigned partitions."""
        return frozenset(self._assignment.cursors)

    # -- reading

    def __aiter__(self) -> AsyncIterator[Record[K, V]]:
        self._home.check()
        return cast("AsyncIterator[Record[K, V]]", self._records)

    def __anext__(self) -> Coroutine[Any, Any, Record[K, V]]:
        """Return the next record.

        Raises:
            RecordDeserializationError: A deserializer failed on the record, with ``on_undecodable="raise"``. The record
                counts as delivered, and the next call continues after it.
            OffsetOutOfRangeError, CorruptRecordError, UnknownTopicError, AuthorizationError: A partition can no longer
                be read; the message names it. The next call continues with the other partitions, and after a seek with
                this one.
            GroupError, FencedError: The group rejects this member.
            DeadlineError: A deserializer didn't return within ``default_api_timeout_ms``. The next call tries again.
            ClientClosedError: The consumer is closed, or one of its tasks failed; that error is then the cause.
        """
        if asyncio._get_running_loop() is None:
            # This is another thread. Return a coroutine for run_coroutine_threadsafe(), which checks the event loop
            # that it runs in.
            return self._next_record()
        self._home.check()
        return cast("Coroutine[Any, Any, Record[K, V]]", self._records.__anext__())

    async def _next_record(self) -> Record[K, V]:
        self._home.check()
        return cast("Record[K, V]", await self._records.__anext__())

    def records(self, timeout_ms: float) -> AsyncIterator[Record[K, V]]:
        """Return an iterator of records that ends once no record has arrived for ``timeout_ms``.

        Otherwise it's like ``async for record in consumer``; iterating again continues. To raise after a time instead,
        use ``asyncio.timeout`` (Python 3.11) or ``asyncio.wait_for``: a cancellation loses no record.

        Args:
            timeout_ms: The maximum wait for a record. If 0, the iterator ends as soon as no record is buffered.

        Raises:
            ConfigurationError: ``timeout_ms`` is not a duration.
        """
        return RecordsUntilIdle(self._engine, self._deserializing, seconds("timeout_ms", timeout_ms))

    def read_to_end(self, *partitions: tuple[str, int], timeout_ms: float | None = None) -> AsyncIterator[Record[K, V]]:
        """Return an iterator of the records up to the log's end at the start of the iteration.

        It reads from the positions to the ends (``read_committed``: to the first open transaction), of all assigned
        partitions if none are given; a member of a group waits for its first assignment. It also ends if there are no
        records at the last offsets, as in empty, compacted and transactional logs. Later records, and other partitions,
        are left to other reads. A partition that is taken away in the meantime counts as read.

        Args:
            partitions: Assigned partitions.
            timeout_ms: The maximum wait for the assignment, and for the next record; by default
                ``default_api_timeout_ms``.

        Raises:
            ConfigurationError: No partition is assigned and there is no group, or one of these is not assigned.
            DeadlineError: The group assigned nothing in time. Or no record arrived in time before the end, because a
                partition is paused or cannot be read. A later read continues.
            BrokerError: The same errors as ``async for``.
        """
        awaits_group = not partitions and self._engine.member is not None and self._engine.subscription.by_topic
        chosen = None if awaits_group else self._assigned(partitions)
        for partition in chosen or ():
            self._assignment.get(partition)
        return RecordsToEnd(self._engine, self._deserializing, chosen, self._seconds(timeout_ms))

    async def poll(
        self, timeout_ms: float = 500, max_records: int = 500, *, min_records: int = 1
    ) -> list[Record[K, V]]:
        """Return up to ``max_records`` records as soon as there are ``min_records``, or whatever there is after
        ``timeout_ms``.

        ``poll(T, n)`` returns with the first records; ``poll(T, n, min_records=n)`` collects records until there are
        ``n`` or ``T`` ms have passed. If the call is cancelled, the collected records stay for the next read of any
        kind. Records of partitions that are sought, paused or taken away in the meantime aren't returned. Collecting
        ends early before a record that cannot be decoded, unless it's skipped, and at a partition's error.

        With ``timeout_ms=0`` it returns buffered records; if there are none, other tasks run first. It can return fewer
        records than are buffered, to let other tasks run in between. All returned records count as processed with the
        next call. Raises the same errors as ``async for``; records before one that cannot be decoded are returned
        first. Deserializers are limited by ``default_api_timeout_ms``, not by ``timeout_ms``.

        Args:
            timeout_ms: The maximum wait.
            max_records: Maximum number of records.
            min_records: How many records to wait for. They're decoded during the wait, and take memory in addition to
                ``fetch_buffer_bytes``.

        Raises:
            ConfigurationError: An argument is invalid, or ``min_records`` is more than ``max_records``.
        """
        self._home.check()
        integer("max_records", max_records, 1)
        least = at_most("min_records", integer("min_records", min_records, 1), "max_records", max_records)
        return await self._take(seconds("timeout_ms", timeout_ms), max_records, least)

    async def _take(self, timeout: float, max_records: int, least: int = 1, by: object = None) -> list[Record[K, V]]:
        """Like :meth:`poll`, for the owner of the reader. The timeout is in seconds."""
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
        # open() returns True only if records are open.
        if not await self._engine.reader.open(deadline, by=by):
            return []
        # Don't await after this point: a cancellation would lose the records that were taken.
        records = assignment.take(max_records)
        while len(records) < max_records and self._engine.reader.open_at_once():
            records += assignment.take(max_records - len(records))
        # All of them are being processed until the next call.
        assignment.current = records
        return cast("list[Record[K, V]]", records)

    def batches(self, *, decompress: bool = True) -> AsyncIterator[FetchedBatch]:
        """Return an endless iterator of batches: records of one partition from one fetch, up to about a megabyte.

        Records are decoded when you iterate the batch; if a batch is damaged but its checksum is correct, iterating it
        raises the error. Deserializers are not applied: batches can be passed on as they are, ``to_arrow()`` returns
        the stored bytes, and :meth:`deserialize` applies deserializers to a record. A batch with a wrong checksum is
        treated as ``on_undecodable`` says; with ``"return"``, ``batch.error`` is set. Raises the same errors as
        ``async for``. For larger batches, ``fetch_min_bytes`` and ``fetch_max_wait_ms`` let the brokers collect more
        records.

        Args:
            decompress: Whether large compressed batches are decompressed in a thread before they are delivered, so that
                iterating them doesn't block the event loop. False suits callers that pass batches on unread, such as to
                :meth:`Producer.send_batch() <aiokproto.producer.Producer.send_batch>`; if such a batch is read anyway,
                it's decompressed in the event loop.
        """
        return BatchIterator(self._engine.reader, decompress)

    async def deserialize(self, record: Record) -> Record[K, V]:
        """Return a record of :meth:`batches` with its key and value deserialized. ``on_undecodable`` doesn't apply.

        Raises:
            RecordDeserializationError: A deserializer failed.
            DeadlineError: It didn't return within ``default_api_timeout_ms``.
        """
        return await self._deserializing.deserialize(record)

    @property
    def undecodable(self) -> int:
        """The number of records and damaged batches that couldn't be decoded so far, whatever ``on_undecodable``
        says."""
        return self._engine.undecodable.count

    # -- calling a handler

    @overload
    async def run(
        self,
        handler: Callable[[Record[K, V]], Awaitable[object]],
        *,
        concurrency: int = ...,
        order: Order[K, V] = ...,
        retry: Retry | None = ...,
        retry_topics: RetryTopics | None = ...,
        dead_letter: DeadLetters | None = ...,
        max_pending_records: int = ...,
        max_pending_bytes: int = ...,
        handler_timeout_ms: float | None = ...,
        drain_timeout_ms: float = ...,
        handle_signals: bool = ...,
        batch: None = ...,
        batch_wait_ms: Literal[0] = ...,
    ) -> RunSummary: ...

    @overload
    async def run(
        self,
        handler: Callable[[list[Record[K, V]]], Awaitable[object]],
        *,
        concurrency: int = ...,
        order: Literal["partition", "none"] = ...,
        retry: Retry | None = ...,
        retry_topics: RetryTopics | None = ...,
        dead_letter: DeadLetters | None = ...,
        max_pending_records: int = ...,
        max_pending_bytes: int = ...,
        handler_timeout_ms: float | None = ...,
        drain_timeout_ms: float = ...,
        handle_signals: bool = ...,
        batch: int,
        batch_wait_ms: float = ...,
    ) -> RunSummary: ...

    async def run(
        self,
        handler: Callable[[Any], Awaitable[object]],
        *,
        concurrency: int = 16,
        order: Order[K, V] = "partition",
        retry: Retry | None = None,
        retry_topics: RetryTopics | None = None,
        dead_letter: DeadLetters | None = None,
        max_pending_records: int = 10_000,
        max_pending_bytes: int = 64 * 1024 * 1024,
        handler_timeout_ms: float | None = None,
        drain_timeout_ms: float = 10_000,
        handle_signals: bool = False,
        batch: int | None = None,
        batch_wait_ms: float = 0,
    ) -> RunSummary:
        """Call a handler for each record, several at a time, until :meth:`stop_run`, a failure, or a cancellation.

        ::

            async def handle(record: Record) -> None: ...

            summary = await consumer.run(handle, concurrency=50, order="key", retry=Retry(attempts=5))

        **At least once.** Only records before the first unfinished one of their partition are committed: at each
        ``auto_commit_interval_ms``, when partitions are revoked, and at the end, with ``enable_auto_commit``. A record
        is finished when the handler returns, or when it was written to a retry topic or the dead-letter topic. If the
        retries run out and there is neither, the run ends with the handler's exception. After a rebalance, a failure or
        a crash, the first unfinished record of a partition is delivered again, and so are the finished records after
        it: at most ``max_pending_records``, and none with ``order="partition"``.

        **Deserializers** are applied before the handler is called, and ``on_undecodable`` applies; a record with
        ``record.error`` is handled like any other. With ``"raise"`` the run ends with the error, and the record is
        unfinished. ``order="key"`` compares the stored keys.

        **Progress.** Each call of the handler may take ``max_poll_interval_ms``. As long as calls end in time, the
        member stays in its group, even if records wait for a long time. The time includes writing the call's dead
        letter. A call that takes 30 s is logged, with its record.

        **The end.** No more calls start. Running calls have ``drain_timeout_ms`` to end, then they are cancelled, and
        their records aren't committed. The same applies to the calls for partitions that are revoked; calls for
        partitions that were lost are cancelled immediately. A second cancellation or signal cancels the calls
        immediately. Afterwards the consumer can be read, or run again, starting at the first unfinished records.

        Args:
            handler: A coroutine function of a record; with ``batch``, of a list of records of one partition.
            concurrency: Maximum number of concurrent calls.
            order: ``"partition"``: the records of a partition are handled one at a time, in order. ``"key"``: only
                records of a partition with the same key are; records without a key are handled in any order.
                ``"none"``: in any order. Or a function of a record whose result replaces the key.
            retry: When to repeat a call that raised; by default never.
            retry_topics: Where a record waits if the retries didn't succeed.
            dead_letter: Where a record is written when the retries and the retry topics have run out.
            max_pending_records: Maximum number of records that were taken and aren't finished, divided equally among
                the partitions. It also limits how many records of a partition are taken past its first unfinished one.
            max_pending_bytes: The same limit in bytes. It can be exceeded by one batch of each partition.
            handler_timeout_ms: A call that takes longer is cancelled, and fails with ``TimeoutError``.
            drain_timeout_ms: How long running calls may take when the run ends or partitions are revoked.
            handle_signals: Whether SIGTERM and SIGINT end the run, in place of their former handlers, which are
                restored afterwards: handlers of :mod:`signal` on every event loop, and handlers of
                ``loop.add_signal_handler`` if the loop exposes them, as asyncio's own loops do. Other loops, such as
                uvloop, don't; this is logged, and the signal then has its default effect until you add the handler
                again. A signal ends all runs of the event loop, and the last run to end restores the handlers. Needs
                the main thread.
            batch: Maximum number of records per call. If the retries of a batch run out and there are retry topics or a
                dead-letter topic, its records are handled one at a time, in lists of one.
            batch_wait_ms: How long a batch waits for that many records after its first record; with 0 it takes the
                records that are there. If ``max_pending_records`` or ``max_pending_bytes`` is reached, it stops waiting
                and is handled as it is. A batch that is still waiting when the run ends is not handled.

        Returns:
            The counts by topic, if :meth:`stop_run`, a signal or :meth:`close` ended the run.

        Raises:
            ConfigurationError: An argument is invalid; retry topics are not subscribed; the consumer belongs to an
                :class:`~aiokproto.exactly_once.ExactlyOnce`.
            RuntimeError: The consumer is already running, another task is reading it, or this is a rebalance callback.
            Exception: Any error that a handler, writing a dead letter, or reading raised. Reading raises the same
                errors as ``async for``.
        """
        given = {
            "concurrency": concurrency,
            "order": order,
            "retry": retry,
            "retry_topics": retry_topics,
            "dead_letter": dead_letter,
            "max_pending_records": max_pending_records,
            "max_pending_bytes": max_pending_bytes,
            "handler_timeout_ms": handler_timeout_ms,
            "drain_timeout_ms": drain_timeout_ms,
            "handle_signals": handle_signals,
            "batch": batch,
            "batch_wait_ms": batch_wait_ms,
        }
        options = RunOptions.parse(handler, given)
        engine = self._engine
        engine.admit(RUN)
        engine.check()
        if engine.reader.waiting or engine.reader.awaited is not None:
            raise RuntimeError("another task is waiting for records of this consumer; only one can at a time")
        if retry_topics is not None:
            self._check_read(retry_topics.topics)
        self._run = ConsumerRunner(engine, options, self._deserializing if self._deserializing.needed else None)
        engine.runs.start(self._run)
        return await self._run.run()

    def stop_run(self) -> None:
        """End :meth:`run`: it starts no more calls, waits for running ones, and returns. If there's no run, this has no
        effect."""
        if self._run is not None:
            self._run.stop()

    def run_status(self) -> RunStatus | None:
        """Return what :meth:`run` is doing, or what the last run did; None before the first run. No I/O."""
        return None if self._run is None else self._run.status()

    def _check_read(self, topics: tuple[str, ...]) -> None:
        """Raise if any of these topics aren't read: the records in them would never be handled again."""
        subscription = self._engine.subscription
        if subscription.partitions is not None:
            read = {partition.topic for partition in subscription.partitions}
        elif subscription.pattern is not None:
            read = set(subscription.matching(topics))
        else:
            read = set(subscription.topics)
        if missing := [topic for topic in topics if topic not in read]:
            raise ConfigurationError(
                f"the consumer does not read the retry topics {', '.join(missing)}: subscribe to them too, as in "
                'Consumer("orders", *retry_topics.topics)'
            )

    # -- positions

    def seek(self, partition: tuple[str, int], offset: int | OffsetAndMetadata) -> None:
        """Continue at this offset. The next fetch checks whether it's in the log.

        An offset with a leader epoch, as from :meth:`committed`, is validated first (KIP-320).

        Raises:
            ConfigurationError: The partition is not assigned, or the offset is out of range.
        """
        position = to_position(offset)
        self._assignment.seek(to_partition(partition), position.offset, position.leader_epoch)

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Continue at the first offset of the log; in all partitions if none are given. Raises the same errors as
        :meth:`seek`."""
        self._assignment.seek_to(self._assigned(partitions), EARLIEST)

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Continue at the end of the log; in all partitions if none are given. Raises the same errors as
        :meth:`seek`."""
        self._assignment.seek_to(self._assigned(partitions), LATEST)

    def seek_to_time(self, timestamp: int, *partitions: tuple[str, int]) -> None:
        """Continue at the first record with this timestamp (ms since the epoch) or a later one, else at the log's end;
        in all partitions if none are given. Raises the same errors as :meth:`seek`."""
        self._assignment.seek_to(self._assigned(partitions), to_timestamp(timestamp))

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Stop delivering records of these partitions until :meth:`resume`; buffered records stay. Pause all partitions
        if none are given.

        Raises the same errors as :meth:`seek`.
        """
        self._assignment.pause(self._assigned(partitions), True)

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Resume delivery of these partitions, or of all if none are given."""
        self._assignment.pause(self._chosen(partitions), False)

    def paused(self) -> frozenset[TopicPartition]:
        """Return the paused partitions."""
        return frozenset(partition for partition, cursor in self._assignment.cursors.items() if cursor.paused)

    async def position(self, partition: tuple[str, int], timeout_ms: float | None = None) -> int:
        """Return the offset of the next record to be delivered.

        Args:
            partition: An assigned partition.
            timeout_ms: How long to wait for the start position to be looked up; by default ``default_api_timeout_ms``.

        Raises:
            ConfigurationError: The partition is not assigned.
            DeadlineError: The position wasn't known in time.
            BrokerError: The broker rejected the lookup.
        """
        wanted = to_partition(partition)
        at = asyncio.get_running_loop().time() + self._seconds(timeout_ms)
        async with deadline_at(at, lambda: f"position of {wanted}: {self.partition_state(wanted)}"):
            # Get the cursor each time around: if the partition has been revoked, this raises.
            while (known := (cursor := self._assignment.get(wanted)).position) is None:
                if cursor.error is not None:
                    raise cursor.error.with_traceback(None)
                # Request it even while the partition is held: the caller may be a rebalance callback, and delivery
                # waits for the callback.
                self._engine.resolver.request(cursor)
                await self._engine.wait_for_change()
        return known

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the position of each assigned partition that has one: the offset after the last delivered record. No
        I/O.

        :meth:`commit` commits these offsets, and so does a transaction that commits the consumer's progress.
        """
        # Count every delivered record: the caller is done with them.
        return self._assignment.committable(processed=False)

    # -- commits and transactions

    async def commit(
        self,
        offsets: Committable[Partition] | None = None,
        timeout_ms: float | None = None,
    ) -> CommitResult:
        """Commit processed records: by default, everything delivered.

        A record, a batch or a list of records covers the records before it in its partitions too. Partitions that
        belong to other members now, or may have since the records were delivered, are not committed, and neither are
        offsets that the coordinator rejects: both are reported as outcomes, not exceptions, and logged. During a
        rebalance, the call waits until it ends. If the call is cancelled, the offsets may or may not be committed.

        A record, or a batch, is lost once the group has taken its partition away, even if the partition is back,
        because other members may have processed it. A dict and None don't say which delivery they mean. So if the group
        takes away partitions whose delivered records aren't committed, such calls treat these partitions as lost until
        the application has learned of the loss, from ``on_lost`` or from an outcome, and has requested the next records
        after that.

        Args:
            offsets: A record, a batch of :meth:`batches`, a list of records, or partitions with the offset to continue
                from, which is the last processed offset plus one; None for all positions.
            timeout_ms: By default ``default_api_timeout_ms``.

        Returns:
            The outcome of each partition. :meth:`CommitResult.check` raises if any partition wasn't committed.

        Raises:
            ConfigurationError: There is no group, a topic in the dict is not subscribed, or ``offsets`` cannot be
                committed; the message says what to pass.
            GroupError: Partitions of :meth:`assign` are committed to a group that has members.
            FencedError: Another consumer has this one's ``group_instance_id``.
            DeadlineError: The commit wasn't confirmed in time.
        """
        self._check_group()
        # Commit every delivered record, as positions() does: by calling commit(), the application says it has processed
        # them.
        chosen = self._assignment.committable(processed=False) if offsets is None else to_commit(offsets)
        if isinstance(offsets, Mapping):
            self._check_subscribed(chosen)
        lost = self._lost(offsets, chosen)
        # Start the commit in the same turn of the event loop as the ownership check.
        kept = {partition: position for partition, position in chosen.items() if partition not in lost}
        result = await self._engine.commit(kept, self._seconds(timeout_ms))
        if lost:
            names = ", ".join(map(str, sorted(lost)))
            why = f"{names} not committed: taken away since the records were delivered; they are processed again"
            result = result.and_lost(lost, CommitError(f"{self._in_group()}: {why}"))
            self._assignment.report_lost(lost)
        # Log each error once. Lost partitions share a single error, which names them.
        for text in dict.fromkeys(str(result.outcomes[each].error) for each in (*result.refused, *result.lost)):
            log.warning("consumer: commit: %s", text)
        return result

    def _lost(
        self, what: Committable[Partition] | None, chosen: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the partitions that may have had other owners since their records were delivered."""
        if not self._engine.group_assigns:
            return {}
        losses = self._assignment.losses.lost
        if what is None:
            # guard: a commit of everything leaves out what was lost -> {}
            return losses
        if isinstance(what, Mapping):
            # guard: a commit of a dict leaves out what was lost -> {}
            return {partition: position for partition, position in chosen.items() if partition in losses}
        # guard: a commit of records leaves out what was lost -> set()
        taken_away = {
            TopicPartition(each.topic, each.partition)
            for each in (what if isinstance(what, list) else [what])
            if self._assignment.delivered_by(each) is None
        }
        return {partition: chosen[partition] for partition in taken_away}

    def _in_group(self) -> str:
        assert self._engine.config.group is not None, "there is a group"
        return f"group {self._engine.config.group.group_id!r}"

    def _check_subscribed(self, partitions: Iterable[TopicPartition]) -> None:
        """Raise for topics that the group never assigns to this consumer, such as a misspelt name."""
        subscription = self._engine.subscription
        if not subscription.by_topic:
            return
        for partition in partitions:
            topic = partition.topic
            known = subscription.matching([topic]) if subscription.pattern is not None else subscription.topics
            if topic not in known and partition not in self._assignment.cursors:
                raise ConfigurationError(
                    f"commit() of {partition}: topic {topic!r} is not subscribed, so that the group does not assign it "
                    "to this consumer"
                )

    async def committed(
        self, *partitions: tuple[str, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the group's committed offsets, or None for a partition without one; of all assigned partitions if none
        are given.

        It waits for open transactions that commit offsets of these partitions (KIP-447).

        Raises:
            ConfigurationError: There is no group.
            BrokerError: The coordinator rejected the request.
            DeadlineError: There was no response in time.
        """
        chosen = self._chosen(partitions)
        self._check_group()
        assert self._engine.member is not None, "there is a group"
        found, failures = await self._engine.member.committed(chosen, self._seconds(timeout_ms))
        for failure in failures.values():
            raise failure
        return found

    def group_metadata(self) -> GroupMetadata:
        """Return this consumer's current identity in its group, for the offsets of a transaction (KIP-447). No I/O.

        Raises:
            ConfigurationError: There is no group.
            CommitError: The consumer is not in a generation of the group, so its partitions may belong to other
                members. Or the group has taken away partitions whose delivered records weren't committed; until the
                next records are requested, a new identity would commit records that were read under the former one.
        """
        return self._everything().group_metadata()

    def progress(self, records: Iterable[Record[Any, Any]]) -> Progress:
        """Return this consumer's progress after processing ``records``. No I/O.

        For transactions: ``txn.send_offsets(progress)`` commits exactly these records, and ``progress.rewind()`` makes
        the consumer deliver them again after an abort. If the group has taken a partition of the records away since
        they were delivered, the partition is lost, even if it's back, and the offsets cannot be sent.

        Raises:
            ConfigurationError: There is no group, or ``enable_auto_commit`` is on.
        """
        self._check_group()
        if self._engine.config.enable_auto_commit:
            raise ConfigurationError(
                "progress() needs enable_auto_commit=False: else the offsets are committed whether or not the "
                "transaction is"
            )
        return Progress(self._engine, records)

    def _everything(self) -> Delivered:
        """Return the progress of all delivered records, for a transaction that commits all positions."""
        self._check_group()
        assignment = self._assignment
        return Delivered(
            self._engine,
            dict(assignment.cursors),
            assignment.committable(processed=False),
            # guard: all positions are sent only while nothing was lost -> ()
            assignment.losses.offsets if self._engine.group_assigns else (),
        )

    # -- the log

    async def beginning_offsets(
        self, *partitions: tuple[str, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition, assigned or not; of all assigned ones if none are given.

        Raises:
            UnknownTopicError, AuthorizationError: A topic doesn't exist, or may not be read.
            DeadlineError: There was no response in time.
        """
        return await self._ends(partitions, EARLIEST, timeout_ms)

    async def end_offsets(
        self, *partitions: tuple[str, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition; with ``read_committed`` the last stable offset.

        Otherwise like :meth:`beginning_offsets`.
        """
        return await self._ends(partitions, LATEST, timeout_ms)

    async def offsets_for_times(
        self, times: Mapping[tuple[str, int], int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after a time (ms since the epoch) in each partition, or None if there is none.

        Raises the same errors as :meth:`beginning_offsets`, and UnsupportedVersionError with brokers before 0.10.1,
        which have no time index.
        """
        given = to_offsets("offsets_for_times", times)
        wanted = {to_partition(partition): to_timestamp(time) for partition, time in given.items()}
        found = await self._engine.lookup.all(wanted, self._seconds(timeout_ms))
        return {
            partition: OffsetAndTimestamp(*answer) if answer.offset >= 0 else None
            for partition, answer in found.items()
        }

    async def _ends(
        self, partitions: Iterable[tuple[str, int]], which: int, timeout_ms: float | None
    ) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(self._chosen(partitions), which)
        return await self._engine.lookup.offsets(wanted, self._seconds(timeout_ms))

    async def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> list[TopicPartition]:
        """Return the partitions of a topic.

        Raises:
            UnknownTopicError, AuthorizationError: The topic doesn't exist, or may not be described.
            DeadlineError: There was no response in time.
        """
        info = await self._engine.cluster.topic(topic, self._seconds(timeout_ms))
        return [TopicPartition(topic, number) for number in range(len(info.partitions))]

    # -- lag, states and statistics

    def lag(self, partition: tuple[str, int]) -> int | None:
        """Return how many offsets the position is behind the end of the log, as of the last fetch; None if unknown."""
        return self._assignment.get(to_partition(partition)).lag(self._engine.config.fetch.read_committed)

    def lags(self) -> dict[TopicPartition, int | None]:
        """Return :meth:`lag` of all assigned partitions."""
        committed = self._engine.config.fetch.read_committed
        return {partition: cursor.lag(committed) for partition, cursor in self._assignment.cursors.items()}

    def at_end(self, partition: tuple[str, int]) -> bool:
        """Return whether everything in the log as of the last fetch was delivered; False while unknown. No I/O.

        With ``read_committed``, an open transaction is the end. Raises the same errors as :meth:`seek`.
        """
        return self.log_state(partition).at_end

    def log_state(self, partition: tuple[str, int]) -> LogState:
        """Return the position, the ends of the log, and the lag, as of the last fetch. No I/O. Raises the same errors
        as :meth:`seek`."""
        return self._assignment.get(to_partition(partition)).log_state(self._engine.config.fetch.read_committed)

    def partition_state(self, partition: tuple[str, int]) -> PartitionState:
        """Return what the consumer is doing about a partition, and if it delivers no records, why."""
        return self._engine.state(to_partition(partition))

    def partition_states(self) -> dict[TopicPartition, PartitionState]:
        """Return :meth:`partition_state` of all assigned partitions."""
        return {partition: self._engine.state(partition) for partition in self._assignment.cursors}

    def stats(self) -> ConsumerStats:
        """Return the consumer's statistics: partitions, lag, fetches, delivery, commits, rebalances, connections.

        No I/O. It loops over the assigned partitions.
        """
        return stats_of(self._engine)

    def health(self) -> Health:
        """Return whether the consumer is working, and if not, what is wrong. No I/O.

        Findings are, for example, that no broker can be reached, that a partition has no leader or cannot be read, that
        the group is rebalancing, that a deserializer doesn't return, or that a handler of :meth:`run` takes longer than
        30 seconds or half of ``max_poll_interval_ms``, or ignores its cancellation. A topic without new records is not
        a finding.
        """
        return health_of(self._engine)

    # -- arguments

    @property
    def _assignment(self) -> Assignment:
        return self._engine.assignment

    def _chosen(self, partitions: Iterable[tuple[str, int]]) -> list[TopicPartition]:
        return [to_partition(partition) for partition in partitions] or list(self._assignment.cursors)

    def _assigned(self, partitions: Iterable[tuple[str, int]]) -> list[TopicPartition]:
        """Like :meth:`_chosen`, for calls that would silently do nothing if no partition were assigned."""
        chosen = self._chosen(partitions)
        if not chosen:
            raise ConfigurationError("no partition is assigned yet: call it in on_assigned, or after the first record")
        return chosen

    def _seconds(self, timeout_ms: float | None) -> float:
        return self._engine.cluster.config.api_timeout if timeout_ms is None else seconds("timeout_ms", timeout_ms)

    def _check_group(self) -> None:
        """Raise if there is no group."""
        if self._engine.member is None:
            raise ConfigurationError("offsets are committed to a group: pass group_id")


OPTIONS = tuple(name for name in signature(Consumer).parameters if name not in ("topics", "connection"))
"""The names of the consumer's own options."""


def _readers(
    engine: Engine, deserializers: Deserializers[K, V]
) -> tuple[DeserializingReader[K, V], RecordIterator | DeserializingReader[K, V]]:
    """Return the reader that applies deserializers, and the iterator that delivers individual records."""
    timeout = engine.cluster.config.api_timeout
    reader = DeserializingReader(engine.assignment, engine.reader, deserializers, engine.undecodable, timeout)
    # If there are no deserializers, RecordIterator delivers records without running any code for them.
    return reader, reader if deserializers else RecordIterator(engine.assignment, engine.reader)
