"""The consumer's face."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from inspect import signature
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from aiokproto.cluster import Cluster
from aiokproto.config import ClusterConfig, ConnectionOptions, integer
from aiokproto.consumer.batch import Batch
from aiokproto.consumer.cursor import PartitionState, PartitionStatus
from aiokproto.consumer.engine import Engine
from aiokproto.consumer.handing import RecordIterator
from aiokproto.consumer.options import ConsumerConfig
from aiokproto.consumer.start_lookup import EARLIEST, LATEST
from aiokproto.consumer.subscription import Listener, Subscription, to_partition, to_position, to_timestamp, to_topics
from aiokproto.errors import ConfigurationError
from aiokproto.group.assignors import Assignor
from aiokproto.net.timeouts import deadline as until
from aiokproto.types import OffsetAndMetadata, OffsetAndTimestamp, Record, TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


_CLOSE_TIMEOUT_MS = 30_000


class Consumer:
    """Reads records.

    ::

        async with Consumer("flights", bootstrap_servers="localhost:9092", group_id="report") as consumer:
            async for record in consumer:
                print(record.offset, record.value)

    **At least once.** A record is finished when the loop asks for the next one, or ends with ``break`` and the
    ``async with`` block with it. What is committed by itself (``enable_auto_commit``) is what is finished: every
    interval, before partitions are revoked, and on close. If the loop's body raises, the record in hand is not
    committed. Batches and lists from :meth:`poll` count as a whole.

    **Cancelling** any call neither loses nor repeats a record. One task at a time may wait for records.

    **With a group**, topics' partitions are shared among its members. **Without one**, every partition of the topics is
    read, nothing is committed, and ``auto_offset_reset`` says where to start. :meth:`assign` names partitions instead.

    Nothing is bound to an event loop before :meth:`start`, which ``async with`` calls.

    Args:
        topics: What to read; :meth:`subscribe` and :meth:`assign` can say it later.
        group_id: The group to be a member of; None for none.
        group_instance_id: A name that outlives restarts: a member who is back within the session timeout gets its old
            partitions without a rebalance (KIP-345).
        auto_offset_reset: Where to start without a committed offset, and when the offset is no longer (or not yet) in
            the log: ``"latest"`` (only what comes from now on), ``"earliest"``, or ``"none"`` (raise).
        enable_auto_commit: Whether finished records are committed without being asked.
        auto_commit_interval_ms: How often.
        session_timeout_ms: The group gives up a member that was silent for so long.
        heartbeat_interval_ms: How often the member says that it lives.
        max_poll_interval_ms: A member that asks for no record for so long leaves the group until it does. Also how long
            a rebalance waits for members to finish what is in hand.
        partition_assignment_strategy: One or more of ``"range"``, ``"roundrobin"``, ``"sticky"``,
            ``"cooperative-sticky"``, or objects of your own; the members of a group must have one in common.
        isolation_level: ``"read_committed"`` leaves out records of transactions that were aborted or are not yet ended.
        fetch_min_bytes: A broker waits until it has so much ...
        fetch_max_wait_ms: ... or until so long has passed.
        fetch_max_bytes: Most bytes in a broker's answer; a larger first batch comes nevertheless.
        max_partition_fetch_bytes: The same for each partition.
        fetch_buffer_bytes: Bytes fetched ahead over all brokers, shared evenly; each may have one partition's worth in
            any case.
        check_crcs: Whether batches' checksums are compared.
        client_rack: Where this consumer runs: brokers may then name a nearer replica (KIP-392).
        connection: See :class:`~aiokproto.config.ConnectionOptions`; ``bootstrap_servers`` is required.

    Raises:
        ConfigurationError: An option is unknown or unusable; names it.
    """

    def __init__(
        self,
        *topics: str,
        group_id: str | None = None,
        group_instance_id: str | None = None,
        auto_offset_reset: Literal["earliest", "latest", "none"] = "latest",
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: float = 5000,
        session_timeout_ms: float = 45_000,
        heartbeat_interval_ms: float = 3000,
        max_poll_interval_ms: float = 300_000,
        partition_assignment_strategy: str | Assignor | Sequence[str | Assignor] = ("range", "cooperative-sticky"),
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
        cluster = Cluster(ClusterConfig.parse(connection, own=OPTIONS))
        self._read_committed = config.fetch.read_committed
        self._engine = Engine(cluster, config, Subscription(topics=to_topics(topics)))
        self._assignment = self._engine.assignment
        self._records = RecordIterator(self._assignment, self._engine.reader.open)

    # Life

    async def start(self) -> None:
        """Connect, and begin to fetch. ``async with`` does it.

        Raises:
            BootstrapError, NotKafkaError, AuthenticationError: The cluster cannot be reached.
            UnknownTopicError, InvalidTopicError, AuthorizationError: A topic cannot be read.
            ClientClosedError: It was started before, or is closed meanwhile.
        """
        await self._engine.start()

    def close(self, timeout_ms: float = _CLOSE_TIMEOUT_MS) -> Coroutine[Any, Any, None]:
        """Commit what is finished (with ``enable_auto_commit``), leave the group, disconnect; within ``timeout_ms``.

        What is in hand counts as finished, unless an exception is being handled where this is called, as in ``finally``
        or an ``async with`` block that ends by one. What could not be committed is logged. Cancelling it disconnects at
        once. May be called again.
        """
        # Looked at when called, not when awaited: a task made of the coroutine would not know of the exception.
        finished = sys.exc_info()[0] is None
        return self._engine.close(timeout_ms / 1000, finished=finished)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._engine.close(_CLOSE_TIMEOUT_MS / 1000, finished=kind is None)

    # Records

    def __aiter__(self) -> RecordIterator:
        self._engine.cluster.check_loop()
        return self._records

    def __anext__(self) -> Coroutine[Any, Any, Record]:
        """The next record.

        Raises:
            OffsetOutOfRangeError, CorruptRecordError, UnknownTopicError, AuthorizationError: A partition cannot be read
                on; names it. The others go on with the next call, and so does it after a seek.
            GroupError, FencedError: The group refuses this member.
            ClientClosedError: It is closed, or one of its tasks has died; then with the cause.
        """
        self._engine.cluster.check_loop()
        return self._records.__anext__()

    async def poll(self, timeout_ms: float = 500, max_records: int = 500) -> list[Record]:
        """Up to ``max_records`` records, as soon as there is one; none after ``timeout_ms``. With 0 it takes what is
        there, and lets other tasks have a turn if nothing is.

        All of them are in hand until the next are asked for. It may return fewer than are at hand, so that other tasks
        have their turn. Raises as ``async for``.
        """
        integer("max_records", max_records, 1)
        assignment = self._assignment
        if not await self._engine.reader.open(asyncio.get_running_loop().time() + timeout_ms / 1000):
            return []
        # From here on without suspending: what is taken out could be lost.
        records = assignment.take(max_records)
        while len(records) < max_records and self._engine.reader.open_at_once():
            records += assignment.take(max_records - len(records))
        assignment.hand = records
        return records

    def batches(self, *, decompress: bool = True) -> AsyncIterator[Batch]:
        """Batches, for ever: records of one partition from one fetch, about a megabyte at a time, decoded when asked
        for.

        Raises as ``async for``; damaged records inside a batch show when it is decoded.

        Args:
            decompress: Whether large compressed batches are decompressed before they are handed out, in a thread, so
                that reading them does not keep the loop to itself. False is for who does not read them, such as
                :meth:`Producer.send_batch() <aiokproto.producer.Producer.send_batch>`: what is read all the same is
                decompressed then and there.
        """
        return _Batches(self._engine, decompress)

    # What to read

    def subscribe(
        self,
        topics: str | Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        on_lost: Listener | None = None,
    ) -> None:
        """Read these topics from now on, instead of those before.

        The callbacks, functions or coroutine functions, get a list of partitions. They may commit and seek; they may
        not ask for records, which raises. The group waits for them. One that raises ends the consumer.

        Args:
            topics: Names.
            pattern: A regular expression that whole names have to match, instead of ``topics``; new topics are noticed
                within ``metadata_max_age_ms``.
            on_assigned: Told what was added, before any of it is read.
            on_revoked: Told what is to go, while it can be committed.
            on_lost: Told what has gone to others already; by default ``on_revoked`` is.

        Raises:
            ConfigurationError: Neither or both are given; partitions are assigned by :meth:`assign`.
        """
        if self._engine.subscription.partitions is not None:
            raise ConfigurationError("partitions are assigned: unsubscribe() first")
        names = to_topics(topics)
        if bool(names) == (pattern is not None):
            raise ConfigurationError("subscribe() takes topics or a pattern")
        compiled = re.compile(pattern) if isinstance(pattern, str) else pattern
        self._engine.set_subscription(
            Subscription(
                topics=names, pattern=compiled, on_assigned=on_assigned, on_revoked=on_revoked, on_lost=on_lost
            )
        )

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Read these partitions, instead of those before; the ones that stay go on where they are.

        With a group the offsets are committed to it, but it does not share out partitions.

        Raises:
            ConfigurationError: Topics are subscribed, or the group is not left yet since they were.
        """
        if self._engine.subscription.by_topic:
            raise ConfigurationError("topics are subscribed: unsubscribe() first")
        if self._engine.member is not None and not self._engine.member.outside:
            raise ConfigurationError("the group is not left yet: await unsubscribe() first")
        chosen = frozenset(to_partition(partition) for partition in partitions)
        self._engine.set_subscription(Subscription(partitions=chosen))

    async def unsubscribe(self, timeout_ms: float | None = None) -> None:
        """Read nothing any more; leaves the group, after what is in hand is finished and committed.

        Cancelled, or at its deadline, it goes on in the background.

        Args:
            timeout_ms: How long to wait for the end of it; by default ``default_api_timeout_ms``.

        Raises:
            RuntimeError: It is called in a rebalance callback, whose end it would wait for.
            DeadlineError: It is not done yet.
        """
        if self._engine.rebalancing.in_callback():
            raise RuntimeError("unsubscribe() would wait for this rebalance callback, in which it is called")
        self._assignment.put_down()
        old = self._engine.subscription
        self._engine.set_subscription(
            Subscription(on_assigned=old.on_assigned, on_revoked=old.on_revoked, on_lost=old.on_lost)
        )
        self._engine.reader.give_up_waiting()
        if self._engine.running:
            await self._engine.unsubscribed(self._seconds(timeout_ms))

    def subscription(self) -> frozenset[str]:
        """The topics subscribed by name."""
        return self._engine.subscription.topics

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read now."""
        return frozenset(self._assignment.cursors)

    # Where to read

    def seek(self, partition: tuple[str, int], offset: int | OffsetAndMetadata) -> None:
        """Go on at this offset. Whether the log has it, the next fetch shows.

        Raises:
            ConfigurationError: The partition is not assigned, or no log can have such an offset.
        """
        self._engine.cluster.check_loop()
        self._assignment.seek(to_partition(partition), to_position(offset).offset)

    def seek_to_beginning(self, *partitions: tuple[str, int]) -> None:
        """Go on at the first offset there is; of all partitions if none are given. Raises as :meth:`seek`."""
        self._assignment.seek_to(self._assigned(partitions), EARLIEST)

    def seek_to_end(self, *partitions: tuple[str, int]) -> None:
        """Go on with what comes from now on; of all partitions if none are given. Raises as :meth:`seek`."""
        self._assignment.seek_to(self._assigned(partitions), LATEST)

    def seek_to_time(self, timestamp: int, *partitions: tuple[str, int]) -> None:
        """Go on with the first record whose timestamp (ms) is that or later; if there is none, at the end. Of all
        partitions if none are given. Raises as :meth:`seek`."""
        self._assignment.seek_to(self._assigned(partitions), to_timestamp(timestamp))

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Hand out nothing of these until :meth:`resume`; what is fetched is kept. Of all if none are given.

        Raises as :meth:`seek`.
        """
        self._assignment.pause(self._assigned(partitions), True)

    def resume(self, *partitions: tuple[str, int]) -> None:
        """End :meth:`pause`; of all partitions if none are given."""
        self._assignment.pause(self._chosen(partitions), False)

    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        return frozenset(partition for partition, cursor in self._assignment.cursors.items() if cursor.paused)

    async def position(self, partition: tuple[str, int], timeout_ms: float | None = None) -> int:
        """The offset of the next record to be handed out.

        Args:
            partition: An assigned one.
            timeout_ms: How long to wait until it is known where to start; by default ``default_api_timeout_ms``.

        Raises:
            ConfigurationError: The partition is not assigned.
            DeadlineError: It is still not known.
            BrokerError: It cannot be found out.
        """
        self._engine.check_running()
        wanted = to_partition(partition)
        at = asyncio.get_running_loop().time() + self._seconds(timeout_ms)
        async with until(at, lambda: f"position of {wanted}: {self.partition_state(wanted)}"):
            while (known := (cursor := self._assignment.get(wanted)).position) is None:
                if cursor.error is not None:
                    raise cursor.error.with_traceback(None)
                self._engine.locator.ask_for(cursor)
                await self._engine.moved()
        return known

    def lag(self, partition: tuple[str, int]) -> int | None:
        """How many offsets the position is behind the end, by the last fetch; None if that is not known."""
        return self._assignment.get(to_partition(partition)).lag(self._read_committed)

    def partition_state(self, partition: tuple[str, int]) -> PartitionState:
        """What a partition is doing: why it gives records, or gives none."""
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
        offsets: Mapping[tuple[str, int], int | OffsetAndMetadata] | None = None,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit offsets: by default the positions, which counts what is in hand as finished.

        During a rebalance it waits for the end of it. Cancelled, it may be committed or not.

        Args:
            offsets: Partition → the offset to go on from, that is the last finished one plus one.
            timeout_ms: By default ``default_api_timeout_ms``.

        Raises:
            ConfigurationError: There is no group, or no log can have such an offset.
            CommitError: The group has given some of the partitions to someone else; the others are committed.
            BrokerError, DeadlineError: It is refused; it was not done in time.
        """
        self._group()
        if isinstance(offsets, Record):
            raise ConfigurationError(
                "commit() takes {(record.topic, record.partition): record.offset + 1}: the offset to go on from"
            )
        if offsets is None:
            chosen = self._assignment.committable(finished=False)
        else:
            chosen = {to_partition(partition): to_position(offset) for partition, offset in offsets.items()}
        await self._engine.commit(chosen, self._seconds(timeout_ms))

    async def committed(
        self, *partitions: tuple[str, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where nothing is. Of all assigned partitions if none are given.

        Waits for transactions under way that commit offsets of them (KIP-447).

        Raises:
            ConfigurationError: There is no group.
            BrokerError, DeadlineError: It is refused; no answer in time.
        """
        self._group()
        assert self._engine.offsets is not None
        return await self._engine.offsets.committed(self._chosen(partitions), self._seconds(timeout_ms))

    # The log

    async def beginning_offsets(
        self, *partitions: tuple[str, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each; assigned or not. Of all assigned partitions if none are given.

        Raises:
            UnknownTopicError, AuthorizationError, DeadlineError: As they say.
        """
        return await self._ends(partitions, EARLIEST, timeout_ms)

    async def end_offsets(
        self, *partitions: tuple[str, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset after the last record of each (with ``read_committed``: that can be read). Otherwise as
        :meth:`beginning_offsets`."""
        return await self._ends(partitions, LATEST, timeout_ms)

    async def offsets_for_times(
        self, times: Mapping[tuple[str, int], int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after a time (ms since the epoch) in each partition; None where there is none.

        Raises as :meth:`beginning_offsets`.
        """
        self._engine.check_running()
        wanted = {to_partition(partition): to_timestamp(time) for partition, time in times.items()}
        found = await self._engine.lookup.all(wanted, self._seconds(timeout_ms))
        return {
            partition: OffsetAndTimestamp(*answer) if answer.offset >= 0 else None
            for partition, answer in found.items()
        }

    async def partitions_for_topic(self, topic: str, timeout_ms: float | None = None) -> list[TopicPartition]:
        """The partitions of a topic.

        Raises:
            UnknownTopicError, AuthorizationError, DeadlineError: As they say.
        """
        self._engine.check_running()
        info = await self._engine.cluster.topic(topic, self._seconds(timeout_ms))
        return [TopicPartition(topic, number) for number in range(len(info.partitions))]

    def _chosen(self, partitions: Iterable[tuple[str, int]]) -> list[TopicPartition]:
        self._engine.cluster.check_loop()
        return [to_partition(partition) for partition in partitions] or list(self._assignment.cursors)

    def _assigned(self, partitions: Iterable[tuple[str, int]]) -> list[TopicPartition]:
        """As :meth:`_chosen`, where without any partition nothing would happen."""
        chosen = self._chosen(partitions)
        if not chosen:
            raise ConfigurationError("no partition is assigned yet: do it in on_assigned, or after the first record")
        return chosen

    async def _ends(
        self, partitions: Iterable[tuple[str, int]], which: int, timeout_ms: float | None
    ) -> dict[TopicPartition, int]:
        self._engine.check_running()
        wanted = dict.fromkeys(self._chosen(partitions), which)
        found = await self._engine.lookup.all(wanted, self._seconds(timeout_ms))
        return {partition: answer.offset for partition, answer in found.items()}

    def _seconds(self, timeout_ms: float | None) -> float:
        return self._engine.cluster.config.api_timeout if timeout_ms is None else timeout_ms / 1000

    def _group(self) -> None:
        self._engine.check_running()
        if self._engine.offsets is None:
            raise ConfigurationError("offsets are committed to a group: give group_id")


class _Batches:
    """The iterator of :meth:`Consumer.batches`. An object, since a generator that was cancelled once is at its end."""

    def __init__(self, engine: Engine, decompress: bool) -> None:
        self._engine = engine
        self._decompress = decompress

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        batch = await self._engine.reader.batch(decompress=self._decompress)
        assert batch is not None
        return batch


OPTIONS = tuple(name for name in signature(Consumer).parameters if name not in ("topics", "connection"))
"""The names of the options that are the consumer's own."""
