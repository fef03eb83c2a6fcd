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
"""Which records are handled one after the other."""

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
    Then the class is ``Consumer[K, V]``, and ``record.value`` is ``V | None``. Deserializers are called when a record
    is delivered, and never for None, so a tombstone stays one. A record that can't be decoded doesn't end the consumer:
    see ``on_undecodable``.

    The consumer binds to an event loop in :meth:`start`, which ``async with`` calls, and can be created without one.

    Args:
        topics: Topics to read; :meth:`subscribe` or :meth:`assign` can set them later.
        group_id: The consumer group to join; None for none.
        group_instance_id: A name that survives restarts. A member that returns with it within the session timeout gets
            its partitions back without a rebalance (static membership, KIP-345).
        group_protocol: Who computes the assignment: ``"classic"``, a member of the group; ``"consumer"``, the broker
            (KIP-848; Kafka 4.0 or later); ``"auto"``, the broker if it can and ``partition_assignment_strategy`` isn't
            given, else a member. It falls back to a member if the broker can't do it any more. A group changes its
            protocol while it runs when its members do, one after the other.
        group_remote_assignor: The broker's assignor, ``"uniform"`` or ``"range"``, with ``group_protocol="consumer"``;
            None leaves it to the broker.
        key_deserializer: A function, or a coroutine function, that makes a key from bytes. The consumer checks only
            once, here, which of the two it is. None leaves bytes. If it raises a ConnectionError or TimeoutError, the
            read raises the same error, and the next read tries the record again; any other exception means that the
            record can't be decoded. A coroutine that doesn't return within ``default_api_timeout_ms`` is cancelled, and
            the read raises ``DeadlineError``. mypy can't infer the type that a coroutine function returns: write
            ``Consumer[bytes, Order]("orders", ...)``.
        value_deserializer: The same for values.
        on_undecodable: What becomes of a record that a deserializer fails on, and of a damaged batch: ``"raise"`` (the
            read raises ``RecordDeserializationError`` and the next one continues behind the record; after a
            ``CorruptBatchError`` the partition stops until you :meth:`seek` behind the batch), ``"skip"`` (logged, at
            most once in 10 s, and counted in :attr:`undecodable`), ``"return"`` (delivered with raw bytes and
            ``record.error`` set; one record stands for a damaged batch), or a
            :class:`~aiokproto.consumer.DeadLetterTopic` (delivery goes on once its dead letter is acknowledged).
        auto_offset_reset: Where to start if the group has committed no offset, and where to continue if the offset is
            not in the log: ``"latest"`` (new records only), ``"earliest"``, ``"none"`` (raise), ``"by_duration:PT1H"``:
            the records of the last hour, or of another ISO 8601 duration of days, hours, minutes and seconds, at most
            36,500 days (KIP-1106); or ``"nearest"``: as ``"earliest"``, but an offset behind the end of the log
            continues at that end. If the log was truncated (KIP-320), the consumer continues where it diverges from
            what was read; ``"none"`` raises ``LogTruncationError``.
        new_partitions: Where to start in partitions, and topics of a pattern, that appear after the subscription:
            ``"earliest"``: at their first record, even if ``auto_offset_reset`` says otherwise; ``"reset"``: as
            ``auto_offset_reset`` says, like the Java client, which with ``"latest"`` loses the records that were
            written before the group noticed the partition. Without a committed offset, a partition is new if this
            consumer has seen the topic without it, or if the group has committed offsets for the topic's first
            partitions, without a gap, and for none from this one on. A group that has committed nothing starts by
            ``auto_offset_reset``.
        on_offset_reset: A function that is called with an :class:`~aiokproto.consumer.OffsetReset` whenever the
            consumer has moved a position by itself. It must not block; an exception in it ends the consumer.
        enable_auto_commit: Whether processed records are committed automatically.
        auto_commit_interval_ms: How often.
        session_timeout_ms: The coordinator removes a member that it hasn't heard from for this long. With the consumer
            protocol the broker decides that (``consumer.session.timeout.ms`` of the group), and the consumer stops
            delivering records when it hasn't heard from the coordinator for the shorter of the two times. If it may not
            describe the group's configuration, only this one counts.
        heartbeat_interval_ms: How often the member sends a heartbeat; with the consumer protocol the broker decides.
        max_poll_interval_ms: A member that requests no record for this long leaves the group, and rejoins when it does.
            A rebalance waits as long for members to process the delivered records.
        partition_assignment_strategy: One or more of ``"range"``, ``"roundrobin"``, ``"sticky"``,
            ``"cooperative-sticky"``, or your own :class:`~aiokproto.group.assignors.Assignor`, by preference; the
            members of a group need one in common. If one of several is not cooperative, the member revokes all its
            partitions before each rebalance. None stands for ``("range", "cooperative-sticky")``. It's for the classic
            protocol only.
        isolation_level: ``"read_committed"`` skips records of aborted transactions, and waits for open ones.
        keep_control_records: Whether to deliver the markers that end transactions, including aborted ones, each as a
            :class:`~aiokproto.types.RawControlRecord` at its offset. They are for tools that look into a log.
        fetch_min_bytes: The broker delays a response until it has this many bytes ...
        fetch_max_wait_ms: ... or until this time has passed.
        fetch_max_bytes: Most bytes in a response; a first batch that is larger is sent nevertheless.
        max_partition_fetch_bytes: The same per partition.
        fetch_buffer_bytes: Bytes fetched ahead, divided equally among the brokers; each may have one partition's fetch
            more.
        check_crcs: Whether the checksums of batches are verified.
        max_decompressed_bytes: Most bytes that a record batch may become when it is decompressed (1 GiB). It bounds the
            time that a few kilobytes can take; memory doesn't depend on it, because batches are decoded in slices.
        max_record_bytes: Most bytes of one record, decompressed, with 192 for each header: about what it takes as an
            object (50 MiB, as much as a response has by default). It also limits a batch that a C client has compressed
            with snappy, because that can't be decompressed in part. A batch beyond a limit is handled like a damaged
            one.
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
        """The consumer's options, as they are in use."""
        return self._engine.config

    # -- lifecycle

    async def start(self) -> None:
        """Connect and start fetching. ``async with`` calls it.

        Raises:
            BootstrapError, NotKafkaError, AuthenticationError: The cluster cannot be reached.
            UnknownTopicError, InvalidTopicError, AuthorizationError: A topic cannot be read.
            ClientClosedError: The consumer was started before, or closed while it starts.
        """
        await self._engine.start()

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
                none leaves, so that no rebalance starts before the session expires (KIP-1092).

        Raises:
            ConfigurationError: ``leave`` is something else.
        """
        one_of("leave", leave, get_args(LeaveMode))
        # Check it at the call and not at the await. A task that runs the coroutine wouldn't see the caller's exception.
        finished = sys.exc_info()[0] is None
        # Return the engine's coroutine. An `async def` of this class would check too late.
        return self._engine.close(seconds("timeout_ms", timeout_ms), processed=finished, leave=leave)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def _leave(self, error: BaseException | None) -> None:
        # If an exception leaves the block, the current record isn't processed.
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
        records in them raises. The rebalance waits for them. An exception in one of them ends the consumer.

        Args:
            topics: Topic names.
            pattern: A regular expression, instead of ``topics``, that a whole topic name has to match; new topics are
                found within ``metadata_max_age_ms``. Internal topics never match. With the consumer protocol the broker
                matches it, if its syntax means the same in Python and RE2, and finds new topics by itself.
            on_assigned: Called with new partitions before any of them is read.
            on_revoked: Called with partitions that the member gives up, while their offsets can still be committed.
            on_lost: Called with partitions that other members may own already; by default ``on_revoked`` is called.

        Raises:
            ConfigurationError: Neither topics nor a pattern are given, or both are, or partitions are assigned by
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

        With a ``group_id`` offsets are committed to that group, but the group does not distribute the partitions.

        Raises:
            ConfigurationError: Topics are subscribed, or the member hasn't left the group yet since they were.
        """
        if self._engine.subscription.by_topic:
            raise ConfigurationError("topics are subscribed: await unsubscribe() first")
        if self._engine.member is not None and not self._engine.member.outside:
            raise ConfigurationError("the group is not left yet: await unsubscribe() first")
        chosen = frozenset(to_partition(partition) for partition in partitions)
        self._engine.set_subscription(SubscriptionState(partitions=chosen))

    async def unsubscribe(self, timeout_ms: float | None = None) -> None:
        """Stop reading, commit what is processed (with ``enable_auto_commit``), and leave the group.

        After a cancellation or a timeout this continues in the background.

        Args:
            timeout_ms: How long to wait for it; by default ``default_api_timeout_ms``.

        Raises:
            RuntimeError: It is called in a rebalance callback, or in a handler of :meth:`run`, for which it would wait.
            DeadlineError: It has not finished in time.
        """
        if self._engine.rebalancing.in_callback():
            raise RuntimeError("unsubscribe() would wait for this rebalance callback, in which it is called")
        if self._assignment.runner is not None:
            self._assignment.runner.check_outside("unsubscribe()")
        # Do this before the subscription changes, so that its offsets are committed with the revocation.
        self._assignment.mark_processed()
        old = self._engine.subscription
        self._engine.set_subscription(
            SubscriptionState(on_assigned=old.on_assigned, on_revoked=old.on_revoked, on_lost=old.on_lost)
        )
        # The revocation waits until the application requests the next record, which it doesn't do while it waits here.
        self._engine.reader.give_up_waiting()
        if self._engine.running:
            await self._engine.wait_until_unsubscribed(self._seconds(timeout_ms))

    def enforce_rebalance(self, reason: str = "the application asks for it") -> None:
        """Have the group rebalance (KIP-568), because the input of your own assignor has changed.

        It returns at once, and the rebalance follows while records are read. With the consumer protocol it's only
        logged, because the broker rebalances by itself.

        Args:
            reason: For the logs of this client and of the broker.

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
                counts as delivered, and the next call continues behind it.
            OffsetOutOfRangeError, CorruptRecordError, UnknownTopicError, AuthorizationError: A partition cannot be read
                any further; the message names it. The next call continues with the others, and after a seek with it.
            GroupError, FencedError: The group rejects this member.
            DeadlineError: A deserializer did not return within ``default_api_timeout_ms``. The next call tries again.
            ClientClosedError: The consumer is closed, or one of its tasks failed, which is then the cause.
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
        """Return an iterator of records that ends once no record has come for ``timeout_ms``.

        Otherwise it's like ``async for record in consumer``; iterating again continues. To raise after a time instead,
        use ``asyncio.timeout`` (Python 3.11) or ``asyncio.wait_for``: a cancellation loses no record.

        Args:
            timeout_ms: The longest wait for a record; 0 ends at once when no record is buffered.

        Raises:
            ConfigurationError: ``timeout_ms`` isn't a duration.
        """
        return RecordsUntilIdle(self._engine, self._deserializing, seconds("timeout_ms", timeout_ms))

    def read_to_end(self, *partitions: tuple[str, int], timeout_ms: float | None = None) -> AsyncIterator[Record[K, V]]:
        """Return an iterator of the records up to the end that the log has when the iteration starts.

        It reads from the positions to the ends (``read_committed``: to the first open transaction), of all assigned
        partitions if none are given; a member of a group waits for its first assignment. It also ends if the last
        offsets have no records, as in empty, compacted and transactional logs. Later records, and other partitions, are
        left to other reads. A partition that is taken away in the meantime has ended.

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
        chosen = None if awaits_group else self._assigned(partitions)
        for partition in chosen or ():
            self._assignment.get(partition)
        return RecordsToEnd(self._engine, self._deserializing, chosen, self._seconds(timeout_ms))

    async def poll(
        self, timeout_ms: float = 500, max_records: int = 500, *, min_records: int = 1
    ) -> list[Record[K, V]]:
        """Return up to ``max_records`` records as soon as there are ``min_records``, or what there is after
        ``timeout_ms``.

        ``poll(T, n)`` returns with the first records; ``poll(T, n, min_records=n)`` collects ``n`` records or for ``T``
        ms, whichever ends first. A cancelled call keeps the collected records for the next call, of any kind. Records
        of partitions that are sought, paused or taken away in the meantime aren't returned. Collecting ends early
        before a record that can't be decoded, unless it's skipped, and at a partition's error.

        With ``timeout_ms=0`` it returns buffered records; if there are none, other tasks run first. It can return fewer
        records than are buffered, so that other tasks run in between. All of them count as processed with the next
        call. Raises the errors of ``async for``; records before one that cannot be decoded are returned first.
        ``timeout_ms`` does not limit deserializers, ``default_api_timeout_ms`` does.

        Args:
            timeout_ms: How long it may wait.
            max_records: Most records.
            min_records: How many records it waits for. They're decoded in the meantime, and take memory beside
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
        # It returns True only with records open.
        if not await self._engine.reader.open(deadline, by=by):
            return []
        # Don't await from here on. A cancellation would lose the records that were taken.
        records = assignment.take(max_records)
        while len(records) < max_records and self._engine.reader.open_at_once():
            records += assignment.take(max_records - len(records))
        # They're all being processed until the next call.
        assignment.current = records
        return cast("list[Record[K, V]]", records)

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

    async def deserialize(self, record: Record) -> Record[K, V]:
        """Return a record of :meth:`batches` with key and value deserialized. ``on_undecodable`` does not apply.

        Raises:
            RecordDeserializationError: A deserializer failed.
            DeadlineError: It did not return within ``default_api_timeout_ms``.
        """
        return await self._deserializing.deserialize(record)

    @property
    def undecodable(self) -> int:
        """How many records and damaged batches couldn't be decoded so far, independent of ``on_undecodable``."""
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
        handler fails for good and there is neither, the run ends with the handler's exception. After a rebalance, a
        failure or a crash the first unfinished record of a partition comes again, and with it the finished ones behind
        it. They're at most ``max_pending_records``; with ``order="partition"`` there are none.

        **Deserializers** are applied before the handler is called, and ``on_undecodable`` applies; a record with
        ``record.error`` is handled as any other. With ``"raise"`` the run ends with the error, and the record is
        unfinished. ``order="key"`` compares keys as they were stored.

        **Progress.** Each call of the handler may take ``max_poll_interval_ms``. While calls end within it, the member
        stays in its group, even if records wait for long. Writing the call's dead letter is a part of it. A call that
        takes 30 s is logged, with its record.

        **The end.** No further call starts. Running ones have ``drain_timeout_ms`` to end, then they are cancelled;
        their records are not committed. When partitions are revoked the same holds for their records; calls for
        partitions that were lost are cancelled at once. A second cancellation or signal cancels the calls at once.
        Afterwards the consumer can be read, or run again, from the first unfinished records on.

        Args:
            handler: A coroutine function of a record; with ``batch``, of a list of records of one partition.
            concurrency: How many calls run at a time.
            order: ``"partition"``: the records of a partition are handled one after the other. ``"key"``: records of a
                partition with the same key are; records without a key are handled in any order. ``"none"``: in any
                order. Or a function of a record that returns what takes the place of the key.
            retry: When a call that raised is made again; by default never.
            retry_topics: Where a record waits if the retries didn't help.
            dead_letter: Where it is written finally.
            max_pending_records: Most records that were taken and are not finished, divided equally among the
                partitions. Also most records of a partition from its first unfinished one on.
            max_pending_bytes: Most bytes of them, likewise; exceeded by at most one batch of each partition.
            handler_timeout_ms: A call that takes longer is cancelled, and has failed with ``TimeoutError``.
            drain_timeout_ms: How long running calls may take when the run ends or partitions are revoked.
            handle_signals: Whether SIGTERM and SIGINT end the run, in place of their former handlers, which are
                restored afterwards: handlers of :mod:`signal` on every event loop, and handlers of
                ``loop.add_signal_handler`` if the loop shows them, as asyncio's own loops do. With other loops, such as
                uvloop, that is logged, and the signal then has its default effect until you add the handler again.
                Several runs of one event loop all end, and the last one restores. Needs the main thread.
            batch: Most records of one call. A batch that fails for good is handled record by record, in lists of one,
                if there are retry topics or a dead-letter topic.
            batch_wait_ms: How long a batch waits for so many records, from its first record on; with 0 it takes the
                records that are there. It waits no longer when ``max_pending_records`` or ``max_pending_bytes`` let no
                more be taken, and is handled as it is; when the run ends it is not handled.

        Returns:
            What was done, by topic, if :meth:`stop_run`, a signal or :meth:`close` ended the run.

        Raises:
            ConfigurationError: An argument is invalid; retry topics are not subscribed; the consumer belongs to an
                :class:`~aiokproto.exactly_once.ExactlyOnce`.
            RuntimeError: The consumer runs already, another task reads it, or it is called in a rebalance callback.
            Exception: What a handler, writing a dead letter, or reading raised. Reading raises the errors of
                ``async for``.
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
        """End :meth:`run`: it starts no further call, waits for running ones, and returns. No effect without a run."""
        if self._run is not None:
            self._run.stop()

    def run_status(self) -> RunStatus | None:
        """Return what :meth:`run` is doing, or what the last one did; None before the first. No I/O."""
        return None if self._run is None else self._run.status()

    def _check_read(self, topics: tuple[str, ...]) -> None:
        """Raise if some of these topics aren't read, because their records would never be handled again."""
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
        """Continue at this offset. The next fetch finds out whether the log has it.

        An offset with a leader epoch, as from :meth:`committed`, is validated first (KIP-320).

        Raises:
            ConfigurationError: The partition is not assigned, or the offset is out of range.
        """
        position = to_position(offset)
        self._assignment.seek(to_partition(partition), position.offset, position.leader_epoch)

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Continue at the first offset of the log; in all partitions if none are given. Raises as :meth:`seek`."""
        self._assignment.seek_to(self._assigned(partitions), EARLIEST)

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Continue at the end of the log; in all partitions if none are given. Raises as :meth:`seek`."""
        self._assignment.seek_to(self._assigned(partitions), LATEST)

    def seek_to_time(self, timestamp: int, *partitions: tuple[str, int]) -> None:
        """Continue at the first record with this timestamp (ms since the epoch) or a later one, else at the log's end;
        in all partitions if none are given. Raises as :meth:`seek`."""
        self._assignment.seek_to(self._assigned(partitions), to_timestamp(timestamp))

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Deliver no records of these partitions until :meth:`resume`; buffered records stay. Pause all partitions if
        none are given.

        Raises as :meth:`seek`.
        """
        self._assignment.pause(self._assigned(partitions), True)

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Deliver these partitions again; all if none are given."""
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
            DeadlineError: The position is not known in time.
            BrokerError: The lookup was refused.
        """
        wanted = to_partition(partition)
        at = asyncio.get_running_loop().time() + self._seconds(timeout_ms)
        async with deadline_at(at, lambda: f"position of {wanted}: {self.partition_state(wanted)}"):
            # Look the cursor up in each round. If the partition is revoked in the meantime, this raises.
            while (known := (cursor := self._assignment.get(wanted)).position) is None:
                if cursor.error is not None:
                    raise cursor.error.with_traceback(None)
                # Request it even while the partition is held. A rebalance callback may ask, and delivery waits for the
                # callback.
                self._engine.resolver.request(cursor)
                await self._engine.wait_for_change()
        return known

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the position of each assigned partition that has one: after the last record delivered. No I/O.

        It is what :meth:`commit` commits, and what a transaction commits as the consumer's progress.
        """
        # Count every delivered record. The caller is done with them.
        return self._assignment.committable(processed=False)

    # -- commits and transactions

    async def commit(
        self,
        offsets: Committable[Partition] | None = None,
        timeout_ms: float | None = None,
    ) -> CommitResult:
        """Commit what was processed: by default everything delivered.

        A record, a batch or a list of records covers the records before it in its partitions too. Partitions that
        belong to other members now, or may have since the records were delivered, are not committed, and neither are
        offsets that the coordinator refuses: both are outcomes, not exceptions, and logged. During a rebalance the call
        waits for its end. After a cancellation the offsets may be committed or not.

        A record, or a batch, is lost once the group has taken its partition away, even if the partition is back,
        because others may have processed it. A dict and None don't say which delivery they mean. So if the group takes
        away partitions whose delivered records aren't committed, these are lost for such calls, until the application
        knows, by ``on_lost`` or by an outcome, and has requested the next records after that.

        Args:
            offsets: A record, a batch of :meth:`batches`, a list of records, or partitions with the offset to continue
                from, which is the last processed one plus one; None for all positions.
            timeout_ms: By default ``default_api_timeout_ms``.

        Returns:
            The outcome of each partition. :meth:`CommitResult.check` raises if there is one that was not committed.

        Raises:
            ConfigurationError: There is no group, a topic of a dict is not subscribed, or ``offsets`` cannot be
                committed; the text says what to pass.
            GroupError: Partitions of :meth:`assign` are committed to a group that has members.
            FencedError: Another consumer has this one's ``group_instance_id``.
            DeadlineError: It was not confirmed in time.
        """
        self._check_group()
        # Commit every delivered record, as positions() does. The application has processed them when it calls commit().
        chosen = self._assignment.committable(processed=False) if offsets is None else to_commit(offsets)
        if isinstance(offsets, Mapping):
            self._check_subscribed(chosen)
        lost = self._lost(offsets, chosen)
        # Start the commit in the same turn of the event loop in which the ownership was checked.
        kept = {partition: position for partition, position in chosen.items() if partition not in lost}
        result = await self._engine.commit(kept, self._seconds(timeout_ms))
        if lost:
            names = ", ".join(map(str, sorted(lost)))
            why = f"{names} not committed: taken away since the records were delivered; they are processed again"
            result = result.and_lost(lost, CommitError(f"{self._in_group()}: {why}"))
            self._assignment.report_lost(lost)
        # Log each error once. Lost partitions share one, which names them.
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
        """Raise for a topic that the group never assigns to this consumer, such as a misspelt one."""
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
        """Return the group's committed offsets, None where it has none; of all assigned partitions if none are given.

        Waits for open transactions that commit offsets of these partitions (KIP-447).

        Raises:
            ConfigurationError: There is no group.
            BrokerError: The coordinator refused the request.
            DeadlineError: No response in time.
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
            CommitError: It is in no generation of the group: its partitions may belong to other members. Or the group
                has taken away partitions whose delivered records weren't committed; until the next records are
                requested, a new identity would commit what the former one has read.
        """
        return self._everything().group_metadata()

    def progress(self, records: Iterable[Record[Any, Any]]) -> Progress:
        """Return how far ``records`` have brought this consumer. No I/O.

        For transactions: ``txn.send_offsets(progress)`` commits exactly these records, and ``progress.rewind()`` lets
        them come again after an abort. If the group has taken a partition of the records away since they were
        delivered, the partition is lost, even if it's back, and the offsets can't be sent.

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
        """Return all delivered records' progress, for a transaction that commits all positions."""
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
            UnknownTopicError, AuthorizationError: A topic does not exist, or may not be read.
            DeadlineError: No response in time.
        """
        return await self._ends(partitions, EARLIEST, timeout_ms)

    async def end_offsets(
        self, *partitions: tuple[str, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition; with ``read_committed`` the last stable offset.

        Otherwise as :meth:`beginning_offsets`.
        """
        return await self._ends(partitions, LATEST, timeout_ms)

    async def offsets_for_times(
        self, times: Mapping[tuple[str, int], int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record at or after a time (ms since the epoch) in each partition, None where there is none.

        Raises the errors of :meth:`beginning_offsets`; and UnsupportedVersionError with brokers before 0.10.1, which
        have no index of times.
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
            UnknownTopicError, AuthorizationError: The topic does not exist, or may not be described.
            DeadlineError: No response in time.
        """
        info = await self._engine.cluster.topic(topic, self._seconds(timeout_ms))
        return [TopicPartition(topic, number) for number in range(len(info.partitions))]

    # -- lag, states and statistics

    def lag(self, partition: tuple[str, int]) -> int | None:
        """Return how many offsets the position is behind the end of the log as of the last fetch; None if unknown."""
        return self._assignment.get(to_partition(partition)).lag(self._engine.config.fetch.read_committed)

    def lags(self) -> dict[TopicPartition, int | None]:
        """Return :meth:`lag` of all assigned partitions."""
        committed = self._engine.config.fetch.read_committed
        return {partition: cursor.lag(committed) for partition, cursor in self._assignment.cursors.items()}

    def at_end(self, partition: tuple[str, int]) -> bool:
        """Return whether everything that the log had at the last fetch was delivered; False while unknown. No I/O.

        With ``read_committed``, an open transaction is the end. Raises as :meth:`seek`.
        """
        return self.log_state(partition).at_end

    def log_state(self, partition: tuple[str, int]) -> LogState:
        """Return the position, the ends of the log, and the lag, as of the last fetch. No I/O. Raises as
        :meth:`seek`."""
        return self._assignment.get(to_partition(partition)).log_state(self._engine.config.fetch.read_committed)

    def partition_state(self, partition: tuple[str, int]) -> PartitionState:
        """Return what the consumer is doing about a partition, and why it delivers no records if it does not."""
        return self._engine.state(to_partition(partition))

    def partition_states(self) -> dict[TopicPartition, PartitionState]:
        """Return :meth:`partition_state` of all assigned partitions."""
        return {partition: self._engine.state(partition) for partition in self._assignment.cursors}

    def stats(self) -> ConsumerStats:
        """Return the consumer's statistics: partitions, lag, fetches, delivery, commits, rebalances, connections.

        No I/O. It costs a loop over the assigned partitions.
        """
        return stats_of(self._engine)

    def health(self) -> Health:
        """Return whether the consumer works, and what is wrong. No I/O.

        Findings are, for example, that no broker can be reached, that a partition has no leader or cannot be read, that
        the group is rebalancing, that a deserializer does not return, or that a handler of :meth:`run` takes longer
        than 30 seconds or half of ``max_poll_interval_ms``, or ignores its cancellation. A topic without new records is
        none.
        """
        return health_of(self._engine)

    # -- arguments

    @property
    def _assignment(self) -> Assignment:
        return self._engine.assignment

    def _chosen(self, partitions: Iterable[tuple[str, int]]) -> list[TopicPartition]:
        return [to_partition(partition) for partition in partitions] or list(self._assignment.cursors)

    def _assigned(self, partitions: Iterable[tuple[str, int]]) -> list[TopicPartition]:
        """Like :meth:`_chosen`, for calls that would silently do nothing without an assigned partition."""
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
"""Names of the options that only the consumer has."""


def _readers(
    engine: Engine, deserializers: Deserializers[K, V]
) -> tuple[DeserializingReader[K, V], RecordIterator | DeserializingReader[K, V]]:
    """Return the reader that applies deserializers, and the iterator that delivers single records."""
    timeout = engine.cluster.config.api_timeout
    reader = DeserializingReader(engine.assignment, engine.reader, deserializers, engine.undecodable, timeout)
    # RecordIterator keeps the code of deserializers off the path of records if there are none.
    return reader, reader if deserializers else RecordIterator(engine.assignment, engine.reader)
