"""The group coordinator: what requests do to groups and their offsets. Where these are kept is :mod:`store`'s."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from aiokproto.broker.groups.assignment import HeartbeatResult, TopicIdPartition
from aiokproto.broker.groups.classic_group import ClassicGroup
from aiokproto.broker.groups.classic_member import Identity, JoinRequest, JoinResult, SyncResult
from aiokproto.broker.groups.consumer import classic_protocol
from aiokproto.broker.groups.consumer.group import ConsumerGroup
from aiokproto.broker.groups.consumer.member import ConsumerHeartbeat
from aiokproto.broker.groups.consumer.migration import can_downgrade, downgrade, upgrade
from aiokproto.broker.groups.consumer_protocol import CONSUMER
from aiokproto.broker.groups.expiry import Age, expired
from aiokproto.broker.groups.reconciliation import JOIN_GROUP_MEMBER_EPOCH
from aiokproto.broker.groups.records import OffsetAndMetadata, encode_offset_key, encode_offset_value
from aiokproto.broker.groups.share.group import ShareGroup
from aiokproto.broker.groups.share_coordinator import ShareGroupCoordinator
from aiokproto.broker.groups.store import Entry
from aiokproto.broker.groups.streams.group import StreamsGroup
from aiokproto.broker.groups.streams_coordinator import StreamsGroupCoordinator
from aiokproto.broker.metadata.topics import OFFSETS_TOPIC, Partition, Topic
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

_MODERN_COMMIT = 9
"""The version of OffsetCommit since which it can tell a member's epoch."""


class GroupCoordinator(ShareGroupCoordinator, StreamsGroupCoordinator):
    """All groups of the cluster, whichever node coordinates them, and what is asked of them."""

    # ---- members of the classic protocol

    async def join(self, group_id: str, request: JoinRequest) -> JoinResult:
        """JoinGroup: returns when the round of joins is complete, or at once with an error."""
        entry = self._entries.get(group_id)
        if entry is None:
            if request.member_id:
                return JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            entry = self._create(group_id)
        if isinstance(entry.group, (ShareGroup, StreamsGroup)):
            return JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
        if isinstance(entry.group, ConsumerGroup) and entry.group.members:
            result = classic_protocol.join(entry.group, request, self._now())
            self._finish_operation(entry)
            self._downgrade(entry, rebalance=False)
            return result
        group = self._convert_to_classic(entry)
        waiter: asyncio.Future[JoinResult] = self._running().create_future()
        group.join(waiter, request, self._now())
        self._finish_operation(entry)
        return await waiter

    async def sync(
        self,
        group_id: str,
        identity: Identity,
        assignments: dict[str, bytes],
        protocol_type: str | None,
        protocol: str | None,
    ) -> SyncResult:
        """SyncGroup: returns when the leader has sent the assignment, or at once with an error."""
        entry = self._entries.get(group_id)
        if entry is None:
            return SyncResult(ErrorCode.UNKNOWN_MEMBER_ID)
        if isinstance(entry.group, (ShareGroup, StreamsGroup)):
            return SyncResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if isinstance(entry.group, ConsumerGroup):
            result = classic_protocol.sync(entry.group, identity, protocol_type, protocol, self._now())
            self._finish_operation(entry)
            return result
        waiter: asyncio.Future[SyncResult] = self._running().create_future()
        entry.group.sync(waiter, identity, assignments, self._now(), protocol_type, protocol)
        self._finish_operation(entry)
        return await waiter

    def heartbeat(self, group_id: str, identity: Identity) -> ErrorCode:
        """Heartbeat."""
        entry = self._entries.get(group_id)
        if entry is None or isinstance(entry.group, (ShareGroup, StreamsGroup)):
            return ErrorCode.UNKNOWN_MEMBER_ID
        if isinstance(entry.group, ConsumerGroup):
            error = classic_protocol.heartbeat(entry.group, identity, self._now())
        else:
            error = entry.group.heartbeat(identity, self._now())
        self._finish_operation(entry)
        return error

    def leave(self, group_id: str, member_id: str, instance_id: str | None) -> ErrorCode:
        """LeaveGroup for one member."""
        entry = self._entries.get(group_id)
        if entry is None or isinstance(entry.group, (ShareGroup, StreamsGroup)):
            return ErrorCode.UNKNOWN_MEMBER_ID
        if isinstance(entry.group, ConsumerGroup):
            error = classic_protocol.leave(entry.group, member_id, instance_id)
        else:
            error = entry.group.leave(member_id, instance_id, self._now())
        self._finish_operation(entry)
        return error

    def expire_session(self, group_id: str, member_id: str) -> ErrorCode:
        """End a member's session, of whichever protocol, as if it had been silent for too long."""
        entry = self._entries.get(group_id)
        member = entry.group.members.get(member_id) if entry is not None else None
        if entry is None or member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member.session_deadline = self._now()
        entry.group.tick(self._now())
        self._finish_operation(entry)
        return ErrorCode.NONE

    # ---- members of the consumer protocol

    def consumer_heartbeat(self, group_id: str, heartbeat: ConsumerHeartbeat) -> HeartbeatResult:
        """ConsumerGroupHeartbeat of a member that joins or stays. A classic group becomes a consumer group by that.

        Raises:
            BrokerError: GROUP_ID_NOT_FOUND, or why the group refuses it.
        """
        entry, group = self._consumer_group(group_id, joining=heartbeat.epoch == JOIN_GROUP_MEMBER_EPOCH)
        try:
            return group.heartbeat(heartbeat, self._now())
        finally:
            self._finish_operation(entry)

    def consumer_leave(self, group_id: str, member_id: str, instance_id: str | None, epoch: int) -> HeartbeatResult:
        """ConsumerGroupHeartbeat of a member that leaves.

        Raises:
            BrokerError: GROUP_ID_NOT_FOUND, or why the group refuses it.
        """
        entry, group = self._consumer_group(group_id, joining=False)
        answer = group.leave(member_id, instance_id, epoch)
        self._finish_operation(entry)
        self._downgrade(entry, rebalance=True)
        return answer

    def _tick(self, entry: Entry) -> None:
        super()._tick(entry)
        self._downgrade(entry, rebalance=True)

    # ---- from one kind of group to the other

    def _consumer_group(self, group_id: str, joining: bool) -> tuple[Entry, ConsumerGroup]:
        entry = self._entries.get(group_id)
        if entry is not None and isinstance(entry.group, ConsumerGroup):
            return entry, entry.group
        if not joining or (entry is not None and isinstance(entry.group, (ShareGroup, StreamsGroup))):
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, detail=f"there is no consumer group {group_id!r}")
        fresh = ConsumerGroup(group_id, self._topics, self.consumer_settings(group_id))
        if entry is None:
            entry = self._entries[group_id] = Entry(fresh)
            return entry, fresh
        assert isinstance(entry.group, ClassicGroup)
        if entry.group.members:
            if not self._can_upgrade(entry.group):
                raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, detail=f"group {group_id!r} is a classic group")
            fresh = upgrade(entry.group, self._topics, fresh.settings, self._now())
        self._write_tombstones(entry)
        entry.group.kill(ErrorCode.REBALANCE_IN_PROGRESS)
        self._send_responses(entry.group)
        entry.group = fresh
        return entry, fresh

    def _can_upgrade(self, group: ClassicGroup) -> bool:
        limit = self._state.options.number("group.consumer.max.size")
        return self._migration_allowed("upgrade") and group.protocol_type == CONSUMER and len(group.members) <= limit

    def _downgrade(self, entry: Entry, rebalance: bool) -> None:
        """Make a consumer group classic if all its members are; ``rebalance``, if somebody has left what he had."""
        group = entry.group
        if not (isinstance(group, ConsumerGroup) and self._migration_allowed("downgrade") and can_downgrade(group)):
            return
        if len(group.members) > self._state.options.number("group.max.size"):
            return
        into = self._convert_to_classic(entry)
        downgrade(group, into, self._now())
        if rebalance:
            into.rebalance(self._now())
        self._finish_operation(entry)

    def _convert_to_classic(self, entry: Entry) -> ClassicGroup:
        """The group as a classic one; a consumer group is replaced by one without members."""
        if isinstance(entry.group, ClassicGroup):
            return entry.group
        self._write_tombstones(entry)
        entry.group = group = self._new_group(entry.group.group_id)
        return group

    def _migration_allowed(self, direction: str) -> bool:
        return self._state.options.value("group.consumer.migration.policy") in (direction, "bidirectional")

    # ---- offsets

    def check_commit(
        self, group_id: str, identity: Identity, version: int = _MODERN_COMMIT, places: Iterable[TopicIdPartition] = ()
    ) -> ErrorCode:
        """Whether this member, or somebody without a group, may commit. The group comes into being by that.

        Args:
            group_id: The group.
            who: Who says it is a member of it.
            version: The version of OffsetCommit.
            places: What it wants to commit for, by topic id.
        """
        entry = self._entries.get(group_id)
        if entry is None:
            if identity.generation >= 0:
                old = version < _MODERN_COMMIT
                return ErrorCode.ILLEGAL_GENERATION if old else ErrorCode.GROUP_ID_NOT_FOUND
            entry = self._create(group_id)
        if isinstance(entry.group, ShareGroup):
            return ErrorCode.GROUP_ID_NOT_FOUND
        if isinstance(entry.group, (ConsumerGroup, StreamsGroup)):
            return _check_commit(entry.group, identity, version, places)
        error = entry.group.check_commit(identity, self._now())
        self._finish_operation(entry)
        return error

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> ErrorCode:
        """Whether a member may ask for committed offsets; of classic groups anybody may."""
        entry = self._entries.get(group_id)
        if entry is not None and isinstance(entry.group, (ConsumerGroup, StreamsGroup)):
            try:
                entry.group.check_fetch(member_id, epoch)
            except BrokerError as error:
                return error.code
        return ErrorCode.NONE

    def commit(self, group_id: str, offsets: dict[tuple[str, int], OffsetAndMetadata]) -> None:
        """Write offsets; :meth:`check_commit` comes before."""
        self._entries[group_id].offsets.update(offsets)
        partition = self.partition_of(group_id)
        self.pending.supersede(partition.index, group_id, offsets)
        self._write(
            partition,
            [(encode_offset_key(group_id, *where), encode_offset_value(what)) for where, what in offsets.items()],
        )

    # ---- offsets in transactions

    def check_transactional_commit(self, group_id: str, identity: Identity) -> ErrorCode:
        """As :meth:`check_commit`, for offsets in a transaction: old producers do not say for which member they act."""
        entry = self._entries.get(group_id)
        if entry is not None and isinstance(entry.group, ShareGroup):
            return ErrorCode.GROUP_ID_NOT_FOUND
        if identity == Identity("") and entry is not None:
            return ErrorCode.NONE
        error = self.check_commit(group_id, identity)
        if error in (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND):
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.NONE if error is ErrorCode.REBALANCE_IN_PROGRESS else error

    def pending_offsets(self, group_id: str) -> set[tuple[str, int]]:
        """The topics and partitions whose offsets an open transaction is about to change."""
        return self.pending.of_group(self.partition_of(group_id).index, group_id)

    def commit_pending(
        self, group_id: str, producer_id: int, producer_epoch: int, offsets: dict[tuple[str, int], OffsetAndMetadata]
    ) -> None:
        """Write offsets as a part of a producer's transaction; they count when a marker commits it."""
        partition = self.partition_of(group_id)
        records = [(encode_offset_key(group_id, *where), encode_offset_value(what)) for where, what in offsets.items()]
        self._write(partition, records, producer_id, producer_epoch)
        self.pending.add(partition.index, producer_id, group_id, offsets)

    def transaction_ended(self, partition: Partition, producer_id: int, committed: bool) -> None:
        """A marker was written to a partition of the offsets topic: what was pending there is decided."""
        for group_id, offsets in self.pending.end(partition.index, producer_id).items():
            if committed:
                entry = self._entries.get(group_id) or self._create(group_id)
                entry.offsets.update(offsets)

    def delete_offsets(self, group_id: str, where: Iterable[tuple[str, int]]) -> None:
        """Forget offsets of a group, as far as there are such."""
        entry = self._entries[group_id]
        partition = self.partition_of(group_id)
        pending = self.pending.of_group(partition.index, group_id)
        gone = [each for each in where if entry.offsets.pop(each, None) is not None or each in pending]
        self.pending.supersede(partition.index, group_id, gone)
        self._write(partition, [(encode_offset_key(group_id, *each), None) for each in gone])

    def delete_group(self, group_id: str) -> ErrorCode:
        """Forget a group without members and its offsets."""
        entry = self._entries.get(group_id)
        if entry is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        if entry.group.members:
            return ErrorCode.NON_EMPTY_GROUP
        if isinstance(entry.group, ShareGroup):
            try:
                self._delete_share_states(entry, entry.group)
            except BrokerError as error:
                return error.code
        self.delete_offsets(group_id, {*entry.offsets, *self.pending_offsets(group_id)})
        self._write_tombstones(entry)
        self._unload(self._entries.pop(group_id))
        return ErrorCode.NONE

    def topic_deleted(self, topic: Topic) -> None:
        """Forget all groups' offsets of a topic."""
        if topic.name == OFFSETS_TOPIC:
            self.close()
            return
        for group_id, entry in self._entries.items():
            known = {*entry.offsets, *self.pending_offsets(group_id)}
            self.delete_offsets(group_id, [where for where in known if where[0] == topic.name])
            if isinstance(entry.group, ShareGroup):
                self._remove_share_topic(entry, entry.group, topic)

    def expire(self) -> None:
        """Forget offsets older than ``offsets.retention.minutes``, and groups that have neither members nor offsets.

        Share groups have no such offsets, and stay until somebody deletes them.
        """
        retention = self._state.options.number("offsets.retention.minutes") * 60
        age = Age(self._now(), self._state.clock.wall(), retention)
        for group_id, entry in list(self._entries.items()):
            if isinstance(entry.group, ShareGroup):
                continue
            self.delete_offsets(group_id, expired(entry.group, entry.offsets, age))
            pending = self.pending.of_group(self.partition_of(group_id).index, group_id)
            if not entry.offsets and not pending:
                self.delete_group(group_id)


def _check_commit(
    group: ConsumerGroup | StreamsGroup, identity: Identity, version: int, places: Iterable[TopicIdPartition]
) -> ErrorCode:
    try:
        group.check_commit(identity.member_id, identity.generation, version, places)
    except BrokerError as error:
        stale = error.code is ErrorCode.STALE_MEMBER_EPOCH and version < _MODERN_COMMIT
        return ErrorCode.ILLEGAL_GENERATION if stale else error.code
    return ErrorCode.NONE
