"""The group coordinator: the groups and their offsets, kept in the offsets topic, and the timers that drive them.

A group belongs to the partition of the offsets topic which its name hashes to, and is coordinated by that partition's
leader. When the leader moves, the group is dropped and read back from the log, as the new coordinator of a real cluster
would: requests parked at the old one are answered NOT_COORDINATOR.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from aiokproto.broker.groups.group import Group
from aiokproto.broker.groups.member import Identity, Join, JoinResult, SyncResult
from aiokproto.broker.groups.member import State as GroupState
from aiokproto.broker.groups.records import (
    Committed,
    decode_key,
    decode_offset_value,
    encode_group_key,
    encode_group_value,
    encode_offset_key,
    encode_offset_value,
    restore_group,
)
from aiokproto.broker.state import State, wall_clock
from aiokproto.broker.topics import NO_LEADER, OFFSETS_TOPIC, Partition, Topic
from aiokproto.codec.payloads.group_metadata import GroupMetadataKey
from aiokproto.codec.payloads.offset_commit import OffsetCommitKey
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.records import BatchBuilder, decode

_READ_BYTES = 1 << 20


@dataclass(eq=False)
class Entry:
    """A group, its committed offsets by topic and partition, and the timer for its next deadline."""

    group: Group
    offsets: dict[tuple[str, int], Committed] = field(default_factory=dict)
    timer: asyncio.TimerHandle | None = None


class GroupCoordinator:
    """All groups of the cluster, whichever node coordinates them."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._entries: dict[str, Entry] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Read the groups from the offsets topic, if there is one."""
        self._loop = asyncio.get_running_loop()
        if OFFSETS_TOPIC in self._state.topics:
            for partition in self._state.offsets_topic().partitions:
                self._load(partition)

    def close(self) -> None:
        """Stop the timers and answer what is parked."""
        for entry in self._entries.values():
            self._drop(entry)
        self._entries.clear()

    # ---- who coordinates what

    def partition_of(self, group_id: str) -> Partition:
        """The partition of the offsets topic that a group belongs to."""
        partitions = self._state.offsets_topic().partitions
        return partitions[(_java_hash(group_id) & 0x7FFFFFFF) % len(partitions)]

    def check(self, group_id: str, node_id: int) -> None:
        """Raise :class:`BrokerError` unless this node coordinates the group: INVALID_GROUP_ID or NOT_COORDINATOR."""
        if not group_id:
            raise BrokerError(ErrorCode.INVALID_GROUP_ID)
        if self.partition_of(group_id).leader != node_id:
            raise BrokerError(ErrorCode.NOT_COORDINATOR)

    def leader_changed(self, partition: Partition) -> None:
        """The offsets topic has a new leader there: drop what the old one knew, and read it anew."""
        for group_id in [group_id for group_id in self._entries if self.partition_of(group_id) is partition]:
            self._drop(self._entries.pop(group_id))
        if partition.leader != NO_LEADER and self._loop is not None:
            self._load(partition)

    def entry(self, group_id: str) -> Entry | None:
        """A group, or None."""
        return self._entries.get(group_id)

    def entries_of(self, node_id: int) -> Iterable[Entry]:
        """The groups that a node coordinates."""
        return [entry for group_id, entry in self._entries.items() if self.partition_of(group_id).leader == node_id]

    # ---- membership

    async def join(self, group_id: str, request: Join) -> JoinResult:
        """JoinGroup: returns when the round of joins is complete, or at once with an error."""
        entry = self._entries.get(group_id)
        if entry is None:
            if request.member_id:
                return JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            entry = self._create(group_id)
        ticket: asyncio.Future[JoinResult] = self._running().create_future()
        entry.group.join(ticket, request, self._now())
        self._settle(entry)
        return await ticket

    async def sync(
        self,
        group_id: str,
        who: Identity,
        assignments: dict[str, bytes],
        protocol_type: str | None,
        protocol: str | None,
    ) -> SyncResult:
        """SyncGroup: returns when the leader has sent the assignment, or at once with an error."""
        entry = self._entries.get(group_id)
        if entry is None:
            return SyncResult(ErrorCode.UNKNOWN_MEMBER_ID)
        ticket: asyncio.Future[SyncResult] = self._running().create_future()
        entry.group.sync(ticket, who, assignments, self._now(), protocol_type, protocol)
        self._settle(entry)
        return await ticket

    def heartbeat(self, group_id: str, who: Identity) -> ErrorCode:
        """Heartbeat."""
        entry = self._entries.get(group_id)
        if entry is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = entry.group.heartbeat(who, self._now())
        self._settle(entry)
        return error

    def leave(self, group_id: str, member_id: str, instance_id: str | None) -> ErrorCode:
        """LeaveGroup for one member."""
        entry = self._entries.get(group_id)
        if entry is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = entry.group.leave(member_id, instance_id, self._now())
        self._settle(entry)
        return error

    # ---- offsets

    def check_commit(self, group_id: str, who: Identity) -> ErrorCode:
        """Whether this member, or somebody without a group, may commit. The group comes into being by that."""
        entry = self._entries.get(group_id)
        if entry is None:
            if who.generation >= 0:
                return ErrorCode.ILLEGAL_GENERATION
            entry = self._create(group_id)
        error = entry.group.check_commit(who, self._now())
        self._settle(entry)
        return error

    def commit(self, group_id: str, offsets: dict[tuple[str, int], Committed]) -> None:
        """Write offsets; :meth:`check_commit` comes before."""
        self._entries[group_id].offsets.update(offsets)
        self._write(
            self.partition_of(group_id),
            [(encode_offset_key(group_id, *where), encode_offset_value(what)) for where, what in offsets.items()],
        )

    def delete_offsets(self, group_id: str, where: Iterable[tuple[str, int]]) -> None:
        """Forget offsets of a group, as far as there are such."""
        entry = self._entries[group_id]
        gone = [each for each in where if entry.offsets.pop(each, None) is not None]
        self._write(self.partition_of(group_id), [(encode_offset_key(group_id, *each), None) for each in gone])

    def delete_group(self, group_id: str) -> ErrorCode:
        """Forget a group without members and its offsets."""
        entry = self._entries.get(group_id)
        if entry is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if entry.group.members:
            return ErrorCode.NON_EMPTY_GROUP
        self.delete_offsets(group_id, list(entry.offsets))
        self._drop(self._entries.pop(group_id))
        self._write(self.partition_of(group_id), [(encode_group_key(group_id), None)])
        return ErrorCode.NONE

    def topic_deleted(self, topic: Topic) -> None:
        """Forget all groups' offsets of a topic."""
        if topic.name == OFFSETS_TOPIC:
            self.close()
            return
        for group_id, entry in self._entries.items():
            self.delete_offsets(group_id, [where for where in entry.offsets if where[0] == topic.name])

    def expire(self) -> None:
        """Forget offsets of groups that have been empty for ``offsets.retention.minutes``, and groups without any."""
        retention = self._state.options.number("offsets.retention.minutes") * 60
        now, wall = self._now(), wall_clock()
        for group_id, entry in list(self._entries.items()):
            since = entry.group.empty_since
            if since is None:
                continue
            old = now - since >= retention
            late = [
                where
                for where, what in entry.offsets.items()
                if (0 <= what.expires <= wall)
                or (what.expires < 0 and old and wall - what.timestamp >= retention * 1000)
            ]
            self.delete_offsets(group_id, late)
            if old and not entry.offsets:
                self.delete_group(group_id)

    # ---- inside

    def _running(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None, "the coordinator was not started"
        return self._loop

    def _now(self) -> float:
        return self._running().time()

    def _create(self, group_id: str) -> Entry:
        group = Group(
            group_id,
            self._now(),
            initial_delay=self._state.options.seconds("group.initial.rebalance.delay.ms"),
            max_size=self._state.options.number("group.max.size"),
        )
        entry = self._entries[group_id] = Entry(group)
        return entry

    def _settle(self, entry: Entry) -> None:
        """After each step of a group: save what changed, send the answers, set the timer."""
        group = entry.group
        if group.changed:
            group.changed = False
            record = (encode_group_key(group.group_id), encode_group_value(group, wall_clock()))
            self._write(self.partition_of(group.group_id), [record])
        for ticket, result in group.drain():
            assert isinstance(ticket, asyncio.Future)
            # The connection that waited for it may be gone.
            if not ticket.done():
                ticket.set_result(result)
        if entry.timer is not None:
            entry.timer.cancel()
            entry.timer = None
        deadline = group.next_deadline()
        if deadline is not None and group.state is not GroupState.DEAD:
            entry.timer = self._running().call_at(deadline, self._tick, entry)

    def _tick(self, entry: Entry) -> None:
        # The loop may call a timer early by its clock's resolution.
        deadline = entry.group.next_deadline()
        entry.group.tick(max(self._now(), deadline) if deadline is not None else self._now())
        self._settle(entry)

    def _drop(self, entry: Entry) -> None:
        entry.group.kill(ErrorCode.NOT_COORDINATOR)
        self._settle(entry)

    def _write(self, partition: Partition, records: list[tuple[bytes, bytes | None]]) -> None:
        if not records:
            return
        now = wall_clock()
        builder = BatchBuilder()
        for key, value in records:
            builder.append(now, key, value)
        partition.append(builder.close(), now)

    def _load(self, partition: Partition) -> None:
        now = self._now()
        groups: dict[str, bytes | None] = {}
        offsets: dict[str, dict[tuple[str, int], Committed]] = {}
        for key, value in _records(partition):
            read = decode_key(key)
            if isinstance(read, GroupMetadataKey):
                groups[read.group] = value
            elif isinstance(read, OffsetCommitKey):
                of_group = offsets.setdefault(read.group, {})
                if value is None:
                    of_group.pop((read.topic, read.partition), None)
                else:
                    of_group[read.topic, read.partition] = decode_offset_value(value)
        for group_id in {*groups, *offsets}:
            metadata = groups.get(group_id)
            if metadata is None and not offsets.get(group_id):
                continue
            entry = self._create(group_id)
            entry.offsets = offsets.get(group_id, {})
            if metadata is not None:
                restore_group(entry.group, metadata, now)
            self._settle(entry)


def _records(partition: Partition) -> Iterable[tuple[bytes, bytes | None]]:
    log = partition.log
    offset = log.start_offset
    while offset < log.end_offset:
        data = log.read(offset, _READ_BYTES)
        for batch in decode(data, check_crc=False):
            offset = batch.next_offset
            if batch.is_control:
                continue
            for record in batch:
                if record.key is not None:
                    yield record.key, record.value


def _java_hash(text: str) -> int:
    """``String.hashCode``: over UTF-16 units, in 32 bits."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(data), 2):
        value = (31 * value + (data[at] << 8 | data[at + 1])) & 0xFFFFFFFF
    return value
