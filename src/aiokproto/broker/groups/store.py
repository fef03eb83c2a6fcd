"""The groups in memory, and their records in the offsets topic.

A group belongs to the partition of the offsets topic that its id hashes to, and that partition's leader coordinates it.
When the leader changes, the group is unloaded and read from the log again, as the new coordinator of a real cluster
would read it: JoinGroup and SyncGroup requests that wait at the old one fail with NOT_COORDINATOR.

Every operation on a group ends with :meth:`GroupStore._finish_operation`. It writes the records that changed, sends the
responses that became ready, and sets the timer for the group's next timeout, in this order: a response must not report
a state that isn't in the log yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from aiokproto.broker.clock import Timer
from aiokproto.broker.config.options import GroupOptions
from aiokproto.broker.groups.classic_group import ClassicGroup
from aiokproto.broker.groups.classic_member import ClassicGroupState as ClassicGroupState
from aiokproto.broker.groups.consumer import records as consumer_records
from aiokproto.broker.groups.consumer.group import ConsumerGroup
from aiokproto.broker.groups.consumer.subscriptions import Topics
from aiokproto.broker.groups.epoch_group import GroupSettings
from aiokproto.broker.groups.image import Image, Record
from aiokproto.broker.groups.pending_offsets import PendingTransactionalOffsets
from aiokproto.broker.groups.records import (
    OffsetAndMetadata,
    decode_key,
    decode_offset_value,
    encode_group_key,
    encode_group_value,
    restore_group,
)
from aiokproto.broker.groups.share import records as share_records
from aiokproto.broker.groups.share.group import ShareGroup
from aiokproto.broker.groups.streams import records as streams_records
from aiokproto.broker.groups.streams.group import StreamsGroup, StreamsGroupSettings
from aiokproto.broker.metadata.cluster_state import ClusterState
from aiokproto.broker.metadata.internal_topics import InternalRecord, Take, internal_topic_records, partition_for
from aiokproto.broker.metadata.topics import NO_LEADER, OFFSETS_TOPIC, Partition
from aiokproto.codec.payloads.offsets_topic import GroupMetadataKey, OffsetCommitKey
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.records import BatchBuilder

_RECORDS = (consumer_records, share_records, streams_records)
"""The record formats of groups that are stored as an :data:`Image`: all but classic ones."""

PAUSE = 0.01
"""The pause between two slices (s). It's about as long as a slice, so this work takes at most half of the event loop's
time."""

AnyGroup = ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup


@dataclass(eq=False)
class Entry:
    """A group, with the state that the store keeps for it.

    Attributes:
        group: The group. It is replaced when the group changes its type.
        offsets: The committed offsets by topic and partition.
        timer: The timer for the group's next timeout, if any.
        written: The image of the group in the offsets topic; empty for a classic group.
    """

    group: AnyGroup
    offsets: dict[tuple[str, int], OffsetAndMetadata] = field(default_factory=dict)
    timer: Timer | None = None
    written: Image = field(default_factory=dict)


class _GroupWaiter(NamedTuple):
    """A caller of :meth:`GroupStore.wait_for`."""

    group_id: str
    predicate: Callable[[AnyGroup], bool]
    waiter: asyncio.Future[AnyGroup]

    def notify(self, group: AnyGroup) -> None:
        if group.group_id == self.group_id and not self.waiter.done() and self.predicate(group):
            self.waiter.set_result(group)


def check_group_id(group_id: str) -> None:
    """Raise :class:`BrokerError` INVALID_GROUP_ID if the id is empty."""
    if not group_id:
        raise BrokerError(ErrorCode.INVALID_GROUP_ID)


class GroupStore:
    """All groups of the cluster, whichever node coordinates them.

    Attributes:
        pending: The offsets of open transactions.
        loading_paused: For tests. While this is set, partitions of the offsets topic are not loaded, and requests for
            their groups fail with COORDINATOR_LOAD_IN_PROGRESS, until :meth:`resume_loading`.
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._entries: dict[str, Entry] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        # Partitions of the offsets topic whose groups cannot be served yet, by index.
        self._not_loaded: dict[int, Partition] = {}
        self._topics = Topics(state)
        # The callers of wait_for(), which tests use.
        self._waiters: list[_GroupWaiter] = []
        self.pending: PendingTransactionalOffsets[OffsetAndMetadata] = PendingTransactionalOffsets()
        self.loading_paused = False
        # The resolutions of regular expressions, by entry.
        self._sliced_work = SlicedWork()
        # What has been read so far, between reading() and start().
        self._found = _Found(self.pending)

    def reading(self) -> Iterator[tuple[Partition, Take]]:
        """Yield the partitions of the offsets topic to read before :meth:`start`, each with the function that takes its
        records."""
        topic = self._state.topics.get(OFFSETS_TOPIC)
        for partition in topic.partitions if topic is not None else ():
            yield partition, partial(self._found.take, partition.index)

    def start(self) -> None:
        """Load the groups that were read."""
        self._loop = asyncio.get_running_loop()
        found, self._found = self._found, _Found(self.pending)
        self._restore_all(found)

    def close(self) -> None:
        """Unload all groups: stop timers, and fail waiting requests and callers of :meth:`wait_for`."""
        self._sliced_work.close()
        for entry in self._entries.values():
            self._unload(entry)
        self._entries.clear()
        self._not_loaded.clear()
        self.pending.clear()
        for waiting in self._waiters:
            if not waiting.waiter.done():
                waiting.waiter.set_exception(
                    RuntimeError(
                        f"the cluster was closed; group {waiting.group_id!r} has not become what was waited for"
                    )
                )

    def resume_loading(self) -> None:
        """Load the partitions that were not loaded, and clear ``loading_paused``."""
        self.loading_paused = False
        unread, self._not_loaded = self._not_loaded, {}
        for partition in unread.values():
            self._load(partition)

    async def wait_for(self, group_id: str, predicate: Callable[[AnyGroup], bool]) -> AnyGroup:
        """Wait until a predicate is true for a group, and return the group.

        The predicate is checked at once and after each operation on the group. Cancelling has no effect on the group.

        Raises:
            RuntimeError: The cluster was closed.
        """
        waiting = _GroupWaiter(group_id, predicate, self._running().create_future())
        entry = self._entries.get(group_id)
        if entry is not None:
            waiting.notify(entry.group)
        # If the future is already done, the await returns at once.
        self._waiters.append(waiting)
        try:
            return await waiting.waiter
        finally:
            self._waiters.remove(waiting)

    # ---- which node coordinates a group

    def partition_of(self, group_id: str) -> Partition:
        """Return the partition of the offsets topic that a group belongs to. The topic is created on first use."""
        partitions = self._state.internal_topic(OFFSETS_TOPIC).partitions
        return partition_for(group_id, partitions)

    def check_coordinator(self, group_id: str, node_id: int) -> None:
        """Check that a node coordinates a group. Every handler of a group's request calls this first.

        Raises:
            BrokerError: INVALID_GROUP_ID, NOT_COORDINATOR, or COORDINATOR_LOAD_IN_PROGRESS.
        """
        check_group_id(group_id)
        partition = self.partition_of(group_id)
        # The leader is checked first: a client at the wrong node must look for the coordinator, not wait for the load.
        if partition.leader != node_id:
            raise BrokerError(ErrorCode.NOT_COORDINATOR)
        if partition.index in self._not_loaded:
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def check_loaded(self, node_id: int) -> None:
        """Check that a node has loaded all groups that it coordinates.

        Raises:
            BrokerError: COORDINATOR_LOAD_IN_PROGRESS.
        """
        if any(partition.leader == node_id for partition in self._not_loaded.values()):
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def leader_changed(self, partition: Partition) -> None:
        """Unload the groups of a partition of the offsets topic whose leader changed, and load them from the log."""
        # The groups are unloaded even if the same node leads again: the log decides what they are.
        for group_id in [group_id for group_id in self._entries if self.partition_of(group_id) is partition]:
            self._unload(self._entries.pop(group_id))
        # The partition may still be waiting for resume_loading() since an earlier change of leader.
        self._not_loaded.pop(partition.index, None)
        if partition.leader != NO_LEADER and self._loop is not None:
            self._load(partition)

    def entry(self, group_id: str) -> Entry | None:
        """Return a group's entry; None if there is no such group."""
        return self._entries.get(group_id)

    def entries_of(self, node_id: int) -> Iterable[Entry]:
        """Return the groups that a node coordinates."""
        # All nodes share the entries, and each node lists its own.
        return [entry for group_id, entry in self._entries.items() if self.partition_of(group_id).leader == node_id]

    # ---- internals

    def _running(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None, "the coordinator was not started"
        return self._loop

    def _now(self) -> float:
        return self._state.clock.time()

    def _create(self, group_id: str) -> Entry:
        entry = self._entries[group_id] = Entry(self._new_group(group_id))
        return entry

    def _new_group(self, group_id: str) -> ClassicGroup:
        return ClassicGroup(
            group_id,
            self._now(),
            initial_delay=self._state.options.seconds("group.initial.rebalance.delay.ms"),
            max_size=self._state.options.number("group.max.size"),
        )

    # ---- options

    def configure(self, group_id: str, options: GroupOptions) -> None:
        """Replace the options of a group. They take effect at the next heartbeat."""
        self._state.set_group_options(group_id, options)
        entry = self._entries.get(group_id)
        if entry is not None and isinstance(entry.group, ConsumerGroup):
            entry.group.settings = self.consumer_settings(group_id)
        elif entry is not None and isinstance(entry.group, ShareGroup):
            entry.group.settings = self.share_settings(group_id)
        elif entry is not None and isinstance(entry.group, StreamsGroup):
            entry.group.settings = self.streams_settings(group_id)

    def consumer_settings(self, group_id: str) -> GroupSettings:
        """Return a group's options in the form that a consumer group needs."""
        return self._group_settings(group_id, "consumer")

    def share_settings(self, group_id: str) -> GroupSettings:
        """Return a group's options in the form that a share group needs."""
        return self._group_settings(group_id, "share")

    def streams_settings(self, group_id: str) -> StreamsGroupSettings:
        """Return a group's options in the form that a streams group needs."""
        standbys = self._state.group_options(group_id).number("streams.num.standby.replicas")
        return StreamsGroupSettings(**vars(self._group_settings(group_id, "streams")), standbys=standbys)

    def _group_settings(self, group_id: str, kind: str) -> GroupSettings:
        options = self._state.group_options(group_id)
        return GroupSettings(
            session_timeout=options.number(f"{kind}.session.timeout.ms") / 1000,
            heartbeat_interval=options.number(f"{kind}.heartbeat.interval.ms") / 1000,
            max_size=self._state.options.number(f"group.{kind}.max.size"),
        )

    def _finish_operation(self, entry: Entry) -> None:
        """Write what changed, send the responses that became ready, and set the timer."""
        group = entry.group
        # The changes are written first: a member must not act on a generation or assignment that a new coordinator
        # wouldn't know.
        if group.changed:
            self._write_changes(entry)
        if isinstance(group, ClassicGroup):
            self._send_responses(group)
        # Each group has one timer, which is reset after every operation: most operations change the earliest deadline.
        if entry.timer is not None:
            entry.timer.cancel()
            entry.timer = None
        deadline = group.next_deadline()
        # A dead group doesn't need a timer: only its waiting requests still refer to it.
        if deadline is not None and group.state is not ClassicGroupState.DEAD:
            entry.timer = self._state.clock.call_at(deadline, self._tick, entry)
        for waiting in self._waiters:
            waiting.notify(group)

    def _send_responses(self, group: ClassicGroup) -> None:
        for waiter, result in group.drain():
            assert isinstance(waiter, asyncio.Future)
            # The future is cancelled if the client's connection was closed in the meantime.
            if not waiter.done():
                waiter.set_result(result)

    def _write_changes(self, entry: Entry) -> None:
        group = entry.group
        group.changed = False
        wall_ms = self._state.clock.wall()
        records: list[Record]
        if isinstance(group, ClassicGroup):
            records = [(encode_group_key(group.group_id), encode_group_value(group, wall_ms))]
        else:
            if isinstance(group, ShareGroup):
                records = share_records.changes(group, entry.written, wall_ms)
            elif isinstance(group, StreamsGroup):
                records = streams_records.changes(group, entry.written, wall_ms)
            else:
                records = consumer_records.changes(group, entry.written, wall_ms)
            group.dirty.clear()
        self._write(self.partition_of(group.group_id), records)

    def _write_tombstones(self, entry: Entry) -> None:
        """Write tombstones for the records of a group that is being deleted or converted. Its offsets stay."""
        group_id = entry.group.group_id
        # All keys that were ever written get a tombstone, so that _restore_image() finds nothing of the old type.
        keys = [encode_group_key(group_id)] if isinstance(entry.group, ClassicGroup) else list(entry.written)
        self._write(self.partition_of(group_id), [(key, None) for key in keys])
        entry.written.clear()

    def _tick(self, entry: Entry) -> None:
        # An event loop may call a timer early by up to its clock's resolution. Ticking before the deadline would do
        # nothing, and set the same timer again.
        deadline = entry.group.next_deadline()
        entry.group.tick(max(self._now(), deadline) if deadline is not None else self._now())
        self._finish_operation(entry)

    def _unload(self, entry: Entry) -> None:
        if entry.timer is not None:
            entry.timer.cancel()
            entry.timer = None
        if isinstance(entry.group, ClassicGroup):
            entry.group.kill(ErrorCode.NOT_COORDINATOR)
            self._send_responses(entry.group)

    def _write(
        self,
        partition: Partition,
        records: Sequence[tuple[bytes, bytes | None]],
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> None:
        if not records:
            return
        now = self._state.clock.wall()
        builder = BatchBuilder(
            producer_id=producer_id, producer_epoch=producer_epoch, is_transactional=producer_id >= 0
        )
        for key, value in records:
            builder.append(now, key, value)
        partition.append(builder.close(), now)

    def _load(self, partition: Partition) -> None:
        if self.loading_paused:
            self._not_loaded[partition.index] = partition
            return
        found = _Found(self.pending)
        # Offsets that are still pending are found in the log again.
        self.pending.drop(partition.index)
        for offset, record in internal_topic_records(partition):
            found.take(partition.index, offset, record)
        self._restore_all(found)

    def _restore_all(self, found: _Found) -> None:
        for group_id in {*found.groups, *found.images, *found.offsets}:
            self._restore(
                group_id, found.groups.get(group_id), found.images.get(group_id, {}), found.offsets.get(group_id, {})
            )

    def _restore(
        self,
        group_id: str,
        metadata: bytes | None,
        image: Image,
        offsets: dict[tuple[str, int], OffsetAndMetadata],
    ) -> None:
        if metadata is None and not image and not offsets:
            return
        # As in Kafka, a group that has only offsets is restored as a classic group without members.
        entry = self._create(group_id)
        entry.offsets = offsets
        if image:
            entry.group = group = self._restore_image(group_id, image)
            entry.written = image
            group.changed = False
            group.dirty.clear()
        elif metadata is not None and isinstance(entry.group, ClassicGroup):
            restore_group(entry.group, metadata, self._now(), self._state.clock.wall())
        # Nothing has changed, so this only sets the timer for the members' sessions.
        self._finish_operation(entry)

    def _restore_image(self, group_id: str, image: Image) -> ConsumerGroup | ShareGroup | StreamsGroup:
        # One key is enough to find the type: a group has one type at a time, and a change of type writes tombstones.
        if any(share_records.KEYS.decode(key) for key in image):
            shared = ShareGroup(group_id, self._topics, self.share_settings(group_id))
            share_records.restore(shared, image, self._now())
            return shared
        if any(streams_records.KEYS.decode(key) for key in image):
            streams = StreamsGroup(group_id, self._topics, self.streams_settings(group_id))
            streams_records.restore(streams, image, self._now())
            return streams
        group = ConsumerGroup(group_id, self._topics, self.consumer_settings(group_id))
        consumer_records.restore(group, image, self._now())
        return group


class SlicedWork:
    """Long-running jobs in slices. The jobs take turns, and leave half of the time to everything else."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, Callable[[], bool]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, key: Hashable, work: Callable[[], bool]) -> None:
        """Add a job, unless there already is one with this key. It is called until it returns True."""
        self._waiting.setdefault(key, work)
        if self._timer is None:
            self._schedule()

    def close(self) -> None:
        """Drop all jobs."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(PAUSE, self._run)

    def _run(self) -> None:
        self._timer = None
        key = next(iter(self._waiting))
        work = self._waiting.pop(key)
        try:
            if not work():
                self._waiting[key] = work
        finally:
            # The other jobs continue after an error, which the event loop reports.
            if self._waiting:
                self._schedule()


class _Found:
    """What has been read from the offsets topic so far."""

    def __init__(self, pending: PendingTransactionalOffsets[OffsetAndMetadata]) -> None:
        self.groups: dict[str, bytes | None] = {}
        self.images: dict[str, Image] = {}
        self.offsets: dict[str, dict[tuple[str, int], OffsetAndMetadata]] = {}
        self._pending = pending

    def take(self, partition: int, offset: int, record: InternalRecord) -> None:
        """Take the next record of a partition. Records of aborted transactions are left out. ``producer_id`` is -1
        unless the transaction is still open."""
        key, value, producer_id = record
        read = decode_key(key)
        if isinstance(read, GroupMetadataKey):
            self.groups[read.group] = value
        elif isinstance(read, OffsetCommitKey) and producer_id >= 0 and value is not None:
            committed = {(read.topic, read.partition): decode_offset_value(value)}
            self._pending.add(partition, producer_id, read.group, committed)
        elif isinstance(read, OffsetCommitKey):
            # The order of precedence is the same as when the records were written: see GroupCoordinator.commit.
            self._pending.supersede(partition, read.group, [(read.topic, read.partition)])
            of_group = self.offsets.setdefault(read.group, {})
            if value is None:
                of_group.pop((read.topic, read.partition), None)
            else:
                of_group[read.topic, read.partition] = decode_offset_value(value)
        else:
            group_id = next(filter(None, (kind.KEYS.group_of(key) for kind in _RECORDS)), None)
            if group_id is not None:
                _update(self.images.setdefault(group_id, {}), key, value)


def _update(image: Image, key: bytes, value: bytes | None) -> None:
    if value is None:
        image.pop(key, None)
    else:
        image[key] = value
