"""The consumer: public API."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from inspect import signature
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, get_args

from aiokproto.async_context import AsyncContext
from aiokproto.cluster import ClusterClient
from aiokproto.config import ClusterConfig, ConnectionOptions, integer, one_of, seconds
from aiokproto.consumer.batch import FetchedBatch
from aiokproto.consumer.config import ConsumerConfig
from aiokproto.consumer.cursor import PartitionState, PartitionStatus
from aiokproto.consumer.delivery import RecordIterator
from aiokproto.consumer.engine import Engine
from aiokproto.consumer.reader import BatchIterator
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
from aiokproto.group.arguments import Offsets, Partition, to_offsets, to_partition, to_position
from aiokproto.group.assignors import Assignor
from aiokproto.group.config import GroupProtocol, LeaveMode
from aiokproto.net.timeouts import deadline as until
from aiokproto.types import GroupMetadata, OffsetAndMetadata, OffsetAndTimestamp, Record, TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


_CLOSE_TIMEOUT_MS = 30_000


class Consumer(AsyncContext):
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

    The consumer binds to an event loop in :meth:`start`, which ``async with`` calls, and can be created without one.

    Args:
        topics: Topics to read; :meth:`subscribe` or :meth:`assign` can set them later.
        group_id: The consumer group to join; None for none.
        group_instance_id: A name that survives restarts. A member that returns with it within the session timeout gets
            its partitions back without a rebalance (static membership, KIP-345).
        group_protocol: Who computes the assignment: ``"classic"``, a member of the group; ``"consumer"``, the broker
            (KIP-848; Kafka 4.0 or later); ``"auto"``, the broker if it can and ``partition_assignment_strategy`` is not
            given, else a member. A group changes its protocol while it runs when its members do, one after the other.
        group_remote_assignor: The broker's assignor, ``"uniform"`` or ``"range"``, with ``group_protocol="consumer"``;
            None leaves it to the broker.
        auto_offset_reset: Where to start if the group has committed no offset, and where to continue if the offset is
            not in the log: ``"latest"`` (new records only), ``"earliest"``, or ``"none"`` (raise).
        enable_auto_commit: Whether processed records are committed automatically.
        auto_commit_interval_ms: How often.
        session_timeout_ms: The coordinator removes a member that it has not heard from for this long. With the consumer
            protocol the broker has its own timeout (``group.consumer.session.timeout.ms``), and this is only how long
            the consumer delivers records without a sign of the coordinator.
        heartbeat_interval_ms: How often the member sends a heartbeat; with the consumer protocol the broker decides.
        max_poll_interval_ms: A member that requests no record for this long leaves the group, and rejoins when it does.
            A rebalance waits as long for members to process what was delivered.
        partition_assignment_strategy: One or more of ``"range"``, ``"roundrobin"``, ``"sticky"``,
            ``"cooperative-sticky"``, or your own :class:`~aiokproto.group.assignors.Assignor`; the members of a group
            need one in common. None stands for ``("range", "cooperative-sticky")``. Only of the classic protocol.
        isolation_level: ``"read_committed"`` skips records of aborted transactions, and waits for open ones.
        fetch_min_bytes: The broker delays a response until it has this many bytes ...
        fetch_max_wait_ms: ... or until this time has passed.
        fetch_max_bytes: Most bytes in a response; a first batch that is larger is sent nevertheless.
        max_partition_fetch_bytes: The same per partition.
        fetch_buffer_bytes: Bytes fetched ahead, divided equally among the brokers; each may have one partition's fetch
            more.
        check_crcs: Whether the checksums of batches are verified.
        client_rack: The rack of this consumer: brokers can then name a closer replica to fetch from (KIP-392).
        connection: See :class:`~aiokproto.config.ConnectionOptions`; ``bootstrap_servers`` is required.

    Raises:
        ConfigurationError: An option is unknown or invalid; the message names it.
    """

    def __init__(
        self,
        *topics: str,
        group_id: str | None = None,
        group_instance_id: str | None = None,
        group_protocol: GroupProtocol = "classic",
        group_remote_assignor: str | None = None,
        auto_offset_reset: Literal["earliest", "latest", "none"] = "latest",
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: float = 5000,
        session_timeout_ms: float = 45_000,
        heartbeat_interval_ms: float = 3000,
        max_poll_interval_ms: float = 300_000,
        partition_assignment_strategy: str | Assignor | Sequence[str | Assignor] | None = None,
        isolation_level: Literal["read_uncommitted", "read_committed"] = "read_uncommitted",
        fetch_min_bytes: int = 1,
        fetch_max_wait_ms: float = 500,
        fetch_max_bytes: int = 50 * 1024 * 1024,
        max_partition_fetch_bytes: int = 1024 * 1024,
        fetch_buffer_bytes: int = 64 * 1024 * 1024,
        check_crcs: bool = True,
        client_rack: str = "",
        **connection: Unpack[ConnectionOptions],
    ) -> None:
        config = ConsumerConfig.parse(
            {
                "group_id": group_id,
                "group_instance_id": group_instance_id,
                "group_protocol": group_protocol,
                "group_remote_assignor": group_remote_assignor,
                "auto_offset_reset": auto_offset_reset,
                "enable_auto_commit": enable_auto_commit,
                "auto_commit_interval_ms": auto_commit_interval_ms,
                "session_timeout_ms": session_timeout_ms,
                "heartbeat_interval_ms": heartbeat_interval_ms,
                "max_poll_interval_ms": max_poll_interval_ms,
                "partition_assignment_strategy": partition_assignment_strategy,
                "isolation_level": isolation_level,
                "fetch_min_bytes": fetch_min_bytes,
                "fetch_max_wait_ms": fetch_max_wait_ms,
                "fetch_max_bytes": fetch_max_bytes,
                "max_partition_fetch_bytes": max_partition_fetch_bytes,
                "fetch_buffer_bytes": fetch_buffer_bytes,
                "check_crcs": check_crcs,
                "client_rack": client_rack,
            }
        )
        names = to_topics(topics, "Consumer")
        cluster = ClusterClient(ClusterConfig.parse(connection, own=OPTIONS))
        self._read_committed = config.fetch.read_committed
        self._engine = Engine(cluster, config, SubscriptionState(topics=names))
        self._assignment = self._engine.assignment
        self._records = RecordIterator(self._assignment, self._engine.reader.open)

    # Lifecycle

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
        disconnects immediately. Calling it again has no effect.

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
        return self._engine.close(seconds("timeout_ms", timeout_ms), processed=finished, leave=leave)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._engine.close(_CLOSE_TIMEOUT_MS / 1000, processed=kind is None)

    # Records

    def __aiter__(self) -> RecordIterator:
        self._engine.cluster.check_loop()
        return self._records

    def __anext__(self) -> Coroutine[Any, Any, Record]:
        """Return the next record.

        Raises:
            OffsetOutOfRangeError, CorruptRecordError, UnknownTopicError, AuthorizationError: A partition cannot be read
                any further; the message names it. The next call continues with the others, and after a seek with it.
            GroupError, FencedError: The group rejects this member.
            ClientClosedError: The consumer is closed, or one of its tasks failed, which is then the cause.
        """
        if asyncio._get_running_loop() is None:
            # In another thread, for run_coroutine_threadsafe(): the coroutine runs, and checks, in a loop.
            return self._next_record()
        self._engine.cluster.check_loop()
        return self._records.__anext__()

    async def _next_record(self) -> Record:
        self._engine.cluster.check_loop()
        return await self._records.__anext__()

    async def poll(self, timeout_ms: float = 500, max_records: int = 500) -> list[Record]:
        """Return up to ``max_records`` records as soon as there is one, or none after ``timeout_ms``.

        With ``timeout_ms=0`` it returns what is buffered; if nothing is, other tasks run first. It can return fewer
        records than are buffered, so that other tasks run in between. All of them count as processed with the next
        call. Raises the errors of ``async for``.
        """
        integer("max_records", max_records, 1)
        timeout = seconds("timeout_ms", timeout_ms)
        assignment = self._assignment
        if not await self._engine.reader.open(asyncio.get_running_loop().time() + timeout):
            return []
        # No await from here on: a cancellation would lose the records that were taken out.
        records = assignment.take(max_records)
        while len(records) < max_records and self._engine.reader.open_at_once():
            records += assignment.take(max_records - len(records))
        assignment.current = records
        return records

    def batches(self, *, decompress: bool = True) -> AsyncIterator[FetchedBatch]:
        """Return an endless iterator of batches: records of one partition from one fetch, up to about a megabyte.

        Records are decoded when you iterate the batch; damage inside a batch is detected then. Raises the errors of
        ``async for``.

        Args:
            decompress: Whether large compressed batches are decompressed in a thread before they are delivered, so that
                iterating them does not block the event loop. False suits callers that pass batches on unread, as to
                :meth:`Producer.send_batch() <aiokproto.producer.Producer.send_batch>`; a batch that is read anyway is
                then decompressed in the event loop.
        """
        return BatchIterator(self._engine.reader, decompress)

    # Subscription

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
                matches it, if it is written in what Python and RE2 have in common, and finds new topics by itself.
            on_assigned: Called with new partitions before any of them is read.
            on_revoked: Called with partitions that the member gives up, while their offsets can still be committed.
            on_lost: Called with partitions that other members may own already; by default ``on_revoked`` is called.

        Raises:
            ConfigurationError: Neither or both are given, or partitions are assigned by :meth:`assign`.
        """
        self._engine.check_not_closed()
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
            ConfigurationError: Topics are subscribed, or the group is not left yet since they were.
        """
        self._engine.check_not_closed()
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
            RuntimeError: It is called in a rebalance callback, for which it would wait.
            DeadlineError: It has not finished in time.
        """
        if self._engine.rebalancing.in_callback():
            raise RuntimeError("unsubscribe() would wait for this rebalance callback, in which it is called")
        self._assignment.mark_processed()
        old = self._engine.subscription
        self._engine.set_subscription(
            SubscriptionState(on_assigned=old.on_assigned, on_revoked=old.on_revoked, on_lost=old.on_lost)
        )
        self._engine.reader.give_up_waiting()
        if self._engine.running:
            await self._engine.unsubscribed(self._seconds(timeout_ms))

    def enforce_rebalance(self, reason: str = "the application asks for it") -> None:
        """Have the group rebalance (KIP-568), for an assignor of your own whose input has changed.

        Returns at once; the rebalance follows while records are read. With the consumer protocol it is only logged: the
        broker rebalances whenever there is a cause.

        Args:
            reason: For the logs of this client and of the broker.

        Raises:
            ConfigurationError: There is no group.
        """
        self._group()
        assert self._engine.member is not None, "there is a group"
        self._engine.member.enforce_rebalance(reason)

    def subscription(self) -> frozenset[str]:
        """Return the topics subscribed by name."""
        return self._engine.subscription.topics

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the assigned partitions."""
        return frozenset(self._assignment.cursors)

    # Positions

    def seek(self, partition: tuple[str, int], offset: int | OffsetAndMetadata) -> None:
        """Continue at this offset. The next fetch finds out whether the log has it.

        Raises:
            ConfigurationError: The partition is not assigned, or the offset is out of range.
        """
        self._engine.check_not_closed()
        self._assignment.seek(to_partition(partition), to_position(offset).offset)

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
        """Deliver nothing of these partitions until :meth:`resume`; buffered records stay. Of all if none are given.

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
        self._engine.check_running()
        wanted = to_partition(partition)
        at = asyncio.get_running_loop().time() + self._seconds(timeout_ms)
        async with until(at, lambda: f"position of {wanted}: {self.partition_state(wanted)}"):
            while (known := (cursor := self._assignment.get(wanted)).position) is None:
                if cursor.error is not None:
                    raise cursor.error.with_traceback(None)
                self._engine.resolver.request(cursor)
                await self._engine.moved()
        return known

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the position of each assigned partition that has one: after the last record delivered. No I/O.

        It is what :meth:`commit` commits, and what a transaction commits as the consumer's progress.
        """
        return self._assignment.committable(processed=False)

    def group_metadata(self) -> GroupMetadata:
        """Return this consumer's current identity in its group, for the offsets of a transaction (KIP-447). No I/O.

        Raises:
            ConfigurationError: There is no group.
            CommitError: It is in no generation of the group: its partitions may belong to other members.
        """
        self._group()
        member = self._engine.member
        assert member is not None, "there is a group"
        # Without a generation the coordinator checks nothing, which is right only for partitions that the group does
        # not assign.
        if self._engine.subscription.partitions is None and member.removed:
            raise CommitError(f"the consumer is in no generation of its group: {member.state}")
        return member.metadata

    def lag(self, partition: tuple[str, int]) -> int | None:
        """Return how many offsets the position is behind the end of the log as of the last fetch; None if unknown."""
        return self._assignment.get(to_partition(partition)).lag(self._read_committed)

    def partition_state(self, partition: tuple[str, int]) -> PartitionState:
        """Return what the consumer is doing about a partition, and why it delivers no records if it does not."""
        cursor = self._assignment.cursors.get(to_partition(partition))
        if cursor is None:
            member = self._engine.member
            return PartitionState(PartitionStatus.UNASSIGNED, member.state if member else "")
        if not self._engine.running:
            return PartitionState(PartitionStatus.IDLE, "the consumer is not running")
        return self._engine.fetcher.state(cursor)

    # Commits

    async def commit(
        self,
        offsets: Offsets[Partition] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit offsets: by default all positions, so that everything delivered counts as processed.

        During a rebalance it waits for the rebalance to end. After a cancellation the offsets may be committed or not.

        Args:
            offsets: Partition → the offset to continue from, that is the last processed one plus one.
            timeout_ms: By default ``default_api_timeout_ms``.

        Raises:
            ConfigurationError: There is no group, or an offset is out of range.
            CommitError: Some partitions belong to other members now; the others are committed.
            BrokerError: The coordinator refused the commit.
            DeadlineError: It was not confirmed in time.
        """
        self._group()
        if isinstance(offsets, Record):
            raise ConfigurationError(
                "commit() takes {(record.topic, record.partition): record.offset + 1}, the offset to continue from"
            )
        if offsets is None:
            chosen = self._assignment.committable(processed=False)
        else:
            given = to_offsets("commit", offsets)
            chosen = {to_partition(partition): to_position(offset) for partition, offset in given.items()}
        await self._engine.commit(chosen, self._seconds(timeout_ms))

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
        self._group()
        assert self._engine.offsets is not None
        return await self._engine.offsets.committed(chosen, self._seconds(timeout_ms))

    # The log

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

        Raises the errors of :meth:`beginning_offsets`.
        """
        self._engine.check_running()
        given = to_offsets("offsets_for_times", times)
        wanted = {to_partition(partition): to_timestamp(time) for partition, time in given.items()}
        found = await self._engine.lookup.all(wanted, self._seconds(timeout_ms))
        return {
            partition: OffsetAndTimestamp(*answer) if answer.offset >= 0 else None
            for partition, answer in found.items()
        }

    async def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> list[TopicPartition]:
        """Return the partitions of a topic.

        Raises:
            UnknownTopicError, AuthorizationError: The topic does not exist, or may not be described.
            DeadlineError: No response in time.
        """
        self._engine.check_running()
        info = await self._engine.cluster.topic(topic, self._seconds(timeout_ms))
        return [TopicPartition(topic, number) for number in range(len(info.partitions))]

    def _chosen(self, partitions: Iterable[tuple[str, int]]) -> list[TopicPartition]:
        self._engine.check_not_closed()
        return [to_partition(partition) for partition in partitions] or list(self._assignment.cursors)

    def _assigned(self, partitions: Iterable[tuple[str, int]]) -> list[TopicPartition]:
        """As :meth:`_chosen`, for calls that would silently do nothing if no partition is assigned."""
        chosen = self._chosen(partitions)
        if not chosen:
            raise ConfigurationError("no partition is assigned yet: call it in on_assigned, or after the first record")
        return chosen

    async def _ends(
        self, partitions: Iterable[tuple[str, int]], which: int, timeout_ms: float | None
    ) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(self._chosen(partitions), which)
        self._engine.check_running()
        found = await self._engine.lookup.all(wanted, self._seconds(timeout_ms))
        return {partition: answer.offset for partition, answer in found.items()}

    def _seconds(self, timeout_ms: float | None) -> float:
        return self._engine.cluster.config.api_timeout if timeout_ms is None else seconds("timeout_ms", timeout_ms)

    def _group(self) -> None:
        self._engine.check_running()
        if self._engine.offsets is None:
            raise ConfigurationError("offsets are committed to a group: pass group_id")


OPTIONS = tuple(name for name in signature(Consumer).parameters if name not in ("topics", "connection"))
"""Names of the options that only the consumer has."""
