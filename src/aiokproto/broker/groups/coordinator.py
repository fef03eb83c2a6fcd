"""The group coordinator: what each request does to groups and their committed offsets.

:class:`~aiokproto.broker.groups.store.GroupStore` holds the groups and writes their records. The coordinator finds or
creates the group that a request names, converts it between the classic and the consumer protocol where the request
requires it and ``group.consumer.migration.policy`` allows it, applies the request, and calls ``_finish_operation``.

A request for a group of another type fails as in Kafka: JoinGroup and SyncGroup with INCONSISTENT_GROUP_PROTOCOL,
Heartbeat and LeaveGroup with UNKNOWN_MEMBER_ID, the requests of the newer protocols with GROUP_ID_NOT_FOUND.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

from aiokproto.broker.groups.assignment import HeartbeatResult, TopicIdPartition
from aiokproto.broker.groups.classic_group import ClassicGroup
from aiokproto.broker.groups.classic_member import ClassicGroupState, Identity, JoinRequest, JoinResult, SyncResult
from aiokproto.broker.groups.consumer import classic_protocol
from aiokproto.broker.groups.consumer.group import ConsumerGroup
from aiokproto.broker.groups.consumer.member import ConsumerHeartbeat
from aiokproto.broker.groups.consumer.migration import can_downgrade, downgrade, upgrade
from aiokproto.broker.groups.consumer_protocol import CONSUMER, subscribed_topics
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
"""The first version of OffsetCommit that carries a member epoch (KIP-848)."""


class GroupCoordinator(ShareGroupCoordinator, StreamsGroupCoordinator):
    """The coordinator of all groups of the cluster, whichever node serves them."""

    # ---- members of the classic protocol

    async def join(self, group_id: str, request: JoinRequest) -> JoinResult:
        """Apply a JoinGroup. Returns when the rebalance has collected all members, or at once with an error.

        Cancelling does not withdraw the member: it stays in the group until its session expires.
        """
        entry = self._entries.get(group_id)
        if entry is None:
            # The member's group was deleted or has expired. The client must join again without an id. Creating the
            # group would accept an id that this coordinator hasn't given out.
            if request.member_id:
                return JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            entry = self._create(group_id)
        if isinstance(entry.group, (ShareGroup, StreamsGroup)):
            # The result doesn't include a member id: no member of such a group has this id.
            return JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if isinstance(entry.group, ConsumerGroup) and entry.group.members:
            result = classic_protocol.join(entry.group, request, self._now())
            self._finish_operation(entry)
            # A static member that restarts with the classic protocol may replace the last member of the consumer
            # protocol. It gets that member's assignment, so there is nothing to rebalance.
            self._downgrade(entry, entry.group.epoch, rebalance=False)
            return result
        # An empty consumer group contains at most offsets, which are kept.
        group = self._convert_to_classic(entry)
        waiter: asyncio.Future[JoinResult] = self._running().create_future()
        group.join(waiter, request, self._now())
        # Finish the operation before the await: the response may be ready already, and the change must be in the log in
        # any case.
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
        """Apply a SyncGroup. Returns when the leader has sent the assignment, or at once with an error.

        Cancelling does not withdraw the member: it stays in the group until its session expires.
        """
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
        """Apply a Heartbeat. REBALANCE_IN_PROGRESS: the member has to send JoinGroup again."""
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
        """Apply LeaveGroup for one member. The instance id alone is enough to identify a static member."""
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
        """Expire a member's session as if it had sent no heartbeat. Works for all group types."""
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
        """Apply a ConsumerGroupHeartbeat of a member that joins or stays. Joining can upgrade a classic group.

        Raises:
            BrokerError: GROUP_ID_NOT_FOUND, or see :meth:`ConsumerGroup.heartbeat`.
        """
        entry, group = self._consumer_group(group_id, joining=heartbeat.epoch == JOIN_GROUP_MEMBER_EPOCH)
        try:
            return group.heartbeat(heartbeat, self._now())
        # The operation is finished after an error too: finding the member may have changed it (a static member that
        # returns).
        finally:
            self._finish_operation(entry)
            if group.subscriptions.resolving:
                self._sliced_work.add(entry, partial(self._resolve, entry, group))

    def _resolve(self, entry: Entry, group: ConsumerGroup) -> bool:
        # The group was deleted, moved to another coordinator, or converted in the meantime.
        if self._entries.get(group.group_id) is not entry or entry.group is not group:
            return True
        complete = group.resolve()
        if complete:
            self._finish_operation(entry)
        return complete

    def consumer_leave(self, group_id: str, member_id: str, instance_id: str | None, epoch: int) -> HeartbeatResult:
        """Apply a ConsumerGroupHeartbeat of a member that leaves. When the last consumer member leaves, the group may
        be downgraded.

        Raises:
            BrokerError: GROUP_ID_NOT_FOUND, or see :meth:`ConsumerGroup.leave`.
        """
        entry, group = self._consumer_group(group_id, joining=False)
        before = group.epoch
        result = group.leave(member_id, instance_id, epoch)
        self._finish_operation(entry)
        self._downgrade(entry, before, rebalance=True)
        return result

    def _tick(self, entry: Entry) -> None:
        group = entry.group
        before = group.epoch if isinstance(group, ConsumerGroup) else 0
        super()._tick(entry)
        # The session that expired may have belonged to the last member of the consumer protocol.
        self._downgrade(entry, before, rebalance=True)

    # ---- migration between classic and consumer groups (KIP-848)

    def _consumer_group(self, group_id: str, joining: bool) -> tuple[Entry, ConsumerGroup]:
        entry = self._entries.get(group_id)
        if entry is not None and isinstance(entry.group, ConsumerGroup):
            return entry, entry.group
        if not joining or (entry is not None and isinstance(entry.group, (ShareGroup, StreamsGroup))):
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, detail=f"there is no consumer group {group_id!r}")
        new_group = ConsumerGroup(group_id, self._topics, self.consumer_settings(group_id))
        if entry is None:
            entry = self._entries[group_id] = Entry(new_group)
            return entry, new_group
        assert isinstance(entry.group, ClassicGroup)
        # A classic group with members can't just be replaced: the members have to be carried over.
        if entry.group.members:
            if not self._can_upgrade(entry.group):
                raise BrokerError(
                    ErrorCode.GROUP_ID_NOT_FOUND,
                    detail=f"group {group_id!r} is a classic group and cannot be upgraded"
                    " (group.consumer.migration.policy, group.consumer.max.size)",
                )
            new_group = upgrade(entry.group, self._topics, new_group.settings, self._now())
        # The tombstones come before any record of the new group: a reader of the log must never see records of both
        # types as current.
        self._write_tombstones(entry)
        # Members waiting in JoinGroup or SyncGroup will send JoinGroup again, and the consumer group will serve it.
        entry.group.kill(ErrorCode.REBALANCE_IN_PROGRESS)
        self._send_responses(entry.group)
        entry.group = new_group
        return entry, new_group

    def _can_upgrade(self, group: ClassicGroup) -> bool:
        limit = self._state.options.number("group.consumer.max.size")
        return self._migration_allowed("upgrade") and group.protocol_type == CONSUMER and len(group.members) <= limit

    def _downgrade(self, entry: Entry, epoch: int, *, rebalance: bool) -> None:
        """Convert a consumer group to a classic group if all its members use the classic protocol.

        ``epoch`` becomes the generation. It's the group epoch before the last consumer member left: with a later epoch
        all others would lose their partitions. If ``rebalance`` is set, they have to join again, so that the partitions
        of the member that left are reassigned.
        """
        group = entry.group
        if not (isinstance(group, ConsumerGroup) and self._migration_allowed("downgrade") and can_downgrade(group)):
            return
        # The limits of the two types differ. A group that would be too large stays a consumer group.
        if len(group.members) > self._state.options.number("group.max.size"):
            return
        into = self._convert_to_classic(entry)
        downgrade(group, into, epoch, self._now())
        if rebalance:
            into.rebalance(self._now())
        self._finish_operation(entry)

    def _convert_to_classic(self, entry: Entry) -> ClassicGroup:
        """Return the entry's group if it is classic; otherwise replace it with a new classic group without members."""
        if isinstance(entry.group, ClassicGroup):
            return entry.group
        self._write_tombstones(entry)
        entry.group = group = self._new_group(entry.group.group_id)
        return group

    def _migration_allowed(self, direction: str) -> bool:
        return self._state.options.value("group.consumer.migration.policy") in (direction, "bidirectional")

    # ---- offsets

    def check_commit(
        self,
        group_id: str,
        identity: Identity,
        version: int,
        partitions: Iterable[TopicIdPartition],
    ) -> ErrorCode:
        """Return the error of an OffsetCommit, or NONE. Committing without a generation creates the group.

        Args:
            group_id: The group.
            identity: The member, and its generation or member epoch; -1 for a consumer with manually assigned
                partitions.
            version: The version of OffsetCommit.
            partitions: The partitions to commit for: a member can commit with an older epoch for those that it has
                owned since then (KIP-1251).
        """
        entry = self._entries.get(group_id)
        if entry is None:
            if identity.generation >= 0:
                # Clients from before KIP-848 can't handle GROUP_ID_NOT_FOUND in OffsetCommit.
                old = version < _MODERN_COMMIT
                return ErrorCode.ILLEGAL_GENERATION if old else ErrorCode.GROUP_ID_NOT_FOUND
            # This is Kafka's "simple" group, which stores offsets and has no members.
            entry = self._create(group_id)
        if isinstance(entry.group, ShareGroup):
            return ErrorCode.GROUP_ID_NOT_FOUND
        if isinstance(entry.group, (ConsumerGroup, StreamsGroup)):
            return _check_commit(entry.group, identity, version, partitions)
        error = entry.group.check_commit(identity, self._now())
        self._finish_operation(entry)
        return error

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> ErrorCode:
        """Return the error of an OffsetFetch, or NONE. Classic groups do not check the member."""
        entry = self._entries.get(group_id)
        if entry is not None and isinstance(entry.group, (ConsumerGroup, StreamsGroup)):
            try:
                entry.group.check_fetch(member_id, epoch)
            except BrokerError as error:
                return error.code
        return ErrorCode.NONE

    def commit(self, group_id: str, offsets: dict[tuple[str, int], OffsetAndMetadata]) -> None:
        """Commit offsets of an existing group. The caller has called :meth:`check_commit`.

        If an open transaction has written an offset for one of the partitions, this later commit supersedes it: the
        transaction's COMMIT marker must not bring the older offset back.
        """
        # There is no await between updating memory and appending, so no other request can see one without the other.
        self._entries[group_id].offsets.update(offsets)
        partition = self.partition_of(group_id)
        self.pending.supersede(partition.index, group_id, offsets)
        self._write(
            partition,
            [(encode_offset_key(group_id, *key), encode_offset_value(offset)) for key, offset in offsets.items()],
        )

    # ---- offsets in transactions

    def check_transactional_commit(
        self, group_id: str, identity: Identity, partitions: Iterable[TopicIdPartition]
    ) -> ErrorCode:
        """Return the error of a TxnOffsetCommit, or NONE.

        This works like :meth:`check_commit`, with two differences. Producers from before KIP-447 (v3) don't send a
        member, which is accepted if the group exists. And a rebalance in progress doesn't fail the commit, because the
        generation fences old members.
        """
        entry = self._entries.get(group_id)
        if entry is not None and isinstance(entry.group, ShareGroup):
            return ErrorCode.GROUP_ID_NOT_FOUND
        # The transactional id alone fences such a producer, in Kafka too.
        if identity == Identity("") and entry is not None:
            return ErrorCode.NONE
        error = self.check_commit(group_id, identity, _MODERN_COMMIT, partitions)
        # Clients don't know these codes in any version of TxnOffsetCommit. ILLEGAL_GENERATION aborts the transaction.
        if error in (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND):
            return ErrorCode.ILLEGAL_GENERATION
        return ErrorCode.NONE if error is ErrorCode.REBALANCE_IN_PROGRESS else error

    def pending_offsets(self, group_id: str) -> set[tuple[str, int]]:
        """Return the topics and partitions for which an open transaction has written offsets."""
        return self.pending.of_group(self.partition_of(group_id).index, group_id)

    def commit_pending(
        self, group_id: str, producer_id: int, producer_epoch: int, offsets: dict[tuple[str, int], OffsetAndMetadata]
    ) -> None:
        """Write offsets as part of a producer's transaction. They take effect when its COMMIT marker is written.

        Raises:
            BrokerError: The producer is fenced or the transaction is unknown. If so, nothing is written.
        """
        partition = self.partition_of(group_id)
        records = [(encode_offset_key(group_id, *key), encode_offset_value(offset)) for key, offset in offsets.items()]
        # Append first: it raises if the producer is fenced, and then nothing must be pending.
        self._write(partition, records, producer_id, producer_epoch)
        self.pending.add(partition.index, producer_id, group_id, offsets)

    def transaction_ended(self, partition: Partition, producer_id: int, committed: bool) -> None:
        """Apply a transaction marker to the pending offsets in the partition of the offsets topic that it was written
        to."""
        # Nothing has to be written: the offsets have been in the log since commit_pending(), and the marker makes them
        # valid.
        for group_id, offsets in self.pending.end(partition.index, producer_id).items():
            if committed:
                # The group may have been deleted while the transaction was open, but the offsets were acknowledged.
                entry = self._entries.get(group_id) or self._create(group_id)
                entry.offsets.update(offsets)

    def delete_offsets(self, group_id: str, partitions: Iterable[tuple[str, int]]) -> None:
        """Delete committed and pending offsets of a group. Partitions without an offset are ignored."""
        entry = self._entries[group_id]
        partition = self.partition_of(group_id)
        pending = self.pending.of_group(partition.index, group_id)
        # A pending offset needs a tombstone too: when the log is replayed, it supersedes the transaction's record.
        deleted = [each for each in partitions if entry.offsets.pop(each, None) is not None or each in pending]
        self.pending.supersede(partition.index, group_id, deleted)
        self._write(partition, [(encode_offset_key(group_id, *each), None) for each in deleted])

    def delete_group(self, group_id: str) -> ErrorCode:
        """Delete a group with its offsets or share states. Returns NON_EMPTY_GROUP if it has members."""
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
        # Offsets are deleted first: a crash in between must leave an empty group, which expires, rather than offsets
        # without a group.
        self.delete_offsets(group_id, {*entry.offsets, *self.pending_offsets(group_id)})
        self._write_tombstones(entry)
        self._unload(self._entries.pop(group_id))
        return ErrorCode.NONE

    def topic_deleted(self, topic: Topic) -> None:
        """Delete the offsets that all groups have for a deleted topic."""
        if topic.name == OFFSETS_TOPIC:
            self.close()
            return
        for group_id, entry in self._entries.items():
            known = {*entry.offsets, *self.pending_offsets(group_id)}
            self.delete_offsets(group_id, [partition for partition in known if partition[0] == topic.name])
            if isinstance(entry.group, ShareGroup):
                self._remove_share_topic(entry, entry.group, topic)

    def expire(self) -> None:
        """Delete offsets older than ``offsets.retention.minutes``, and groups with neither members nor offsets.

        Share groups have no committed offsets and don't expire: only DeleteGroups deletes them.
        """
        retention = self._state.options.number("offsets.retention.minutes") * 60
        age = Age(self._now(), self._state.clock.wall(), retention)
        for group_id, entry in list(self._entries.items()):
            if isinstance(entry.group, ShareGroup):
                continue
            self.delete_offsets(group_id, expired(entry.group, entry.offsets, age))
            pending = self.pending.of_group(self.partition_of(group_id).index, group_id)
            # A pending offset keeps the group: the marker would have to create it again.
            if not entry.offsets and not pending:
                self.delete_group(group_id)


def _check_commit(
    group: ConsumerGroup | StreamsGroup, identity: Identity, version: int, partitions: Iterable[TopicIdPartition]
) -> ErrorCode:
    try:
        group.check_commit(identity.member_id, identity.generation, version, partitions)
    except BrokerError as error:
        stale = error.code is ErrorCode.STALE_MEMBER_EPOCH and version < _MODERN_COMMIT
        return ErrorCode.ILLEGAL_GENERATION if stale else error.code
    return ErrorCode.NONE


# ---- expiration of committed offsets (KIP-211)


class Age(NamedTuple):
    """The time on the group's clock (s) and on the wall clock (ms), and ``offsets.retention.minutes`` (s)."""

    now: float
    wall_ms: int
    retention: float


def expired(
    group: ClassicGroup | ConsumerGroup | StreamsGroup, offsets: Mapping[tuple[str, int], OffsetAndMetadata], age: Age
) -> list[tuple[str, int]]:
    """Return the partitions whose offsets have expired.

    The retention starts at the commit. In a classic group that has had members, it starts when the last member left.
    While a group has members, only offsets of topics that no member subscribes to expire. During a classic rebalance no
    offsets expire, because the subscriptions are incomplete. An expiry that the commit itself set (OffsetCommit v2-4)
    replaces the retention.
    """
    if isinstance(group, ClassicGroup) and group.state not in (ClassicGroupState.EMPTY, ClassicGroupState.STABLE):
        return []
    # If the group has had members, even its oldest offsets are kept for that time after the last member left.
    if isinstance(group, ClassicGroup) and group.protocol_type is not None and group.empty_since is not None:
        late = age.now - group.empty_since >= age.retention
        return [
            partition
            for partition, offset in offsets.items()
            if (late if offset.expires < 0 else offset.expires <= age.wall_ms)
        ]
    # A group without members reads nothing, so its offsets expire by their commit time.
    reads = _reads(group)
    oldest = age.wall_ms - age.retention * 1000
    return [
        partition
        for partition, offset in offsets.items()
        if (offset.timestamp <= oldest if offset.expires < 0 else offset.expires <= age.wall_ms)
        and not reads(partition[0])
    ]


def _reads(group: ClassicGroup | ConsumerGroup | StreamsGroup) -> Callable[[str], bool]:
    """Return a function that returns whether a member subscribes to a topic.

    Only subscriptions of the protocol type "consumer" can be decoded. If a group of another type has members, all
    topics count as read.
    """
    if isinstance(group, (ConsumerGroup, StreamsGroup)):
        return group.subscribed
    if group.members and group.protocol_type != CONSUMER:
        return lambda topic: True
    topics = subscribed_topics(group)
    return lambda topic: topic in topics
