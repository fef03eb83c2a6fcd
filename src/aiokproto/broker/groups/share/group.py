"""The share group: who belongs to it, and what each member reads.

As in a consumer group there are a group epoch, which grows with each change of members, subscriptions and topics, and
an assignment epoch that catches up with it; but since partitions may be read by several members at once, nobody has
to wait for anybody: a member is at its target as soon as it is told. Before a partition is given to members, it needs a
state at the share coordinator, so that a heartbeat has three parts: :meth:`ShareGroup.receive` takes over what a member
says; whoever calls then sees to the states that :meth:`ShareGroup.missing` names; and :meth:`ShareGroup.advance` tells
the member what it should read.

No I/O, no clock: see :mod:`aiokproto.broker.groups.consumer.group`, whose ways are the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

from aiokproto.broker.groups.assignment import HeartbeatResult, TopicIdPartition, TopicIdPartitions
from aiokproto.broker.groups.consumer.subscriptions import Topics, metadata_hash
from aiokproto.broker.groups.epoch_group import INITIAL_EPOCH, GroupSettings
from aiokproto.broker.groups.reconciliation import JOIN_GROUP_MEMBER_EPOCH, LEAVE_GROUP_MEMBER_EPOCH
from aiokproto.broker.groups.share.assignor import simple
from aiokproto.broker.groups.share.member import ShareHeartbeat, ShareMember
from aiokproto.broker.groups.share.state_metadata import StatePartitionMetadata
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError


class ShareGroup:
    """A share group.

    Attributes:
        group_id: Its name.
        topics: The cluster's topics.
        settings: Its options; they may change at any time.
        epoch: Grows with each change of members, subscriptions and topics.
        assignment_epoch: The epoch that the target assignment was computed for.
        members: The members by id, in the order they came.
        targets: What each of them should read.
        states: Which partitions have a state.
        metadata_hash: Hash of the topics at the time of ``epoch``.
        changed: Something that has to outlive this coordinator changed; who saves it clears this and ``dirty``.
        dirty: Ids of the members it concerns, some of which may be gone.
    """

    type: ClassVar = "share"

    def __init__(self, group_id: str, topics: Topics, settings: GroupSettings | None = None) -> None:
        self.group_id = group_id
        self.topics = topics
        self.settings = settings or GroupSettings()
        self.epoch = self.assignment_epoch = INITIAL_EPOCH
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, TopicIdPartitions] = {}
        self.states = StatePartitionMetadata()
        self.metadata_hash = 0
        self.changed = False
        self.dirty: set[str] = set()
        self._known: dict[str, tuple[bytes, int]] = {}

    # ---- a heartbeat

    def update_member(self, heartbeat: ShareHeartbeat, now: float) -> None:
        """Take over what a member says that joins or stays. ``now`` in seconds, on the group's clock.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, GROUP_MAX_SIZE_REACHED. Nothing has changed then.
        """
        member = self._get_or_add_member(heartbeat)
        before = replace(member)
        member.rack_id = heartbeat.rack_id or member.rack_id
        member.topics = member.topics if heartbeat.topics is None else heartbeat.topics
        member.client_id, member.client_host = heartbeat.client_id, heartbeat.client_host
        if vars(before) != vars(member):
            self._mark_dirty(member.member_id)
        member.session_deadline = now + self.settings.session_timeout
        self._refresh_topics()
        found = metadata_hash(self._known)
        if before.topics != member.topics or found != self.metadata_hash:
            self._bump(found)

    def missing(self) -> dict[bytes, frozenset[int]]:
        """The partitions that are to be read and have no state yet, by topic id."""
        return self.states.missing(dict(self._known.values()))

    def advance(self, heartbeat: ShareHeartbeat) -> HeartbeatResult:
        """What the member of that heartbeat should read from now on; not told if it knows that already."""
        member = self.members[heartbeat.member_id]
        if self.epoch == self.assignment_epoch and self._readable() != frozenset().union(*self.targets.values()):
            self._bump(self.metadata_hash)
        if self.epoch > self.assignment_epoch:
            self._assign()
        before = member.assigned
        if member.epoch != self.assignment_epoch:
            member.previous_epoch, member.epoch = member.epoch, self.assignment_epoch
            member.assigned = self.targets[member.member_id]
            self._mark_dirty(member.member_id)
        told = heartbeat.epoch == JOIN_GROUP_MEMBER_EPOCH or heartbeat.topics is not None or member.assigned != before
        return HeartbeatResult(member.member_id, member.epoch, member.assigned if told else None)

    def leave(self, member_id: str) -> HeartbeatResult:
        """The heartbeat of a member that leaves.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID.
        """
        self._remove(self._find(member_id))
        return HeartbeatResult(member_id, LEAVE_GROUP_MEMBER_EPOCH)

    # ---- time

    def next_deadline(self) -> float | None:
        """When :meth:`tick` has something to do; None if nothing can happen by time alone."""
        deadlines = [each.session_deadline for each in self.members.values() if each.session_deadline is not None]
        return min(deadlines, default=None)

    def tick(self, now: float) -> None:
        """Give up members that were silent."""
        for member in list(self.members.values()):
            if member.session_deadline is not None and member.session_deadline <= now:
                self._remove(member)

    def restore(self, members: Iterable[ShareMember], targets: dict[str, TopicIdPartitions], now: float) -> None:
        """Become what was written down. Sessions begin anew."""
        for member in members:
            self.members[member.member_id] = member
            member.session_deadline = now + self.settings.session_timeout
        self.targets = {member_id: targets.get(member_id, frozenset()) for member_id in self.members}
        self._refresh_topics()

    # ---- questions

    @property
    def state(self) -> str:
        """Its state, as ShareGroupDescribe names it."""
        return "Stable" if self.members else "Empty"

    # ---- inside

    def _find(self, member_id: str) -> ShareMember:
        member = self.members.get(member_id)
        if member is None:
            raise BrokerError(
                ErrorCode.UNKNOWN_MEMBER_ID, detail=f"there is no member {member_id!r} in group {self.group_id!r}"
            )
        return member

    def _get_or_add_member(self, heartbeat: ShareHeartbeat) -> ShareMember:
        known = self.members.get(heartbeat.member_id)
        if known is None and len(self.members) >= self.settings.max_size:
            raise BrokerError(
                ErrorCode.GROUP_MAX_SIZE_REACHED, detail=f"the group has {len(self.members)} members, its maximum"
            )
        if heartbeat.epoch != JOIN_GROUP_MEMBER_EPOCH:
            member = self._find(heartbeat.member_id)
            if heartbeat.epoch not in (member.epoch, member.previous_epoch):
                raise BrokerError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    detail=f"the member's epoch is {member.epoch}, not {heartbeat.epoch}: it has to join again",
                )
            return member
        if known is None:
            known = self.members[heartbeat.member_id] = ShareMember(heartbeat.member_id)
            self.targets[heartbeat.member_id] = frozenset()
            self._mark_dirty(heartbeat.member_id)
        return known

    def _remove(self, member: ShareMember) -> None:
        del self.members[member.member_id], self.targets[member.member_id]
        self._mark_dirty(member.member_id)
        self._refresh_topics()
        self._bump(metadata_hash(self._known))
        if not self.members:
            self.assignment_epoch = self.epoch

    def _mark_dirty(self, member_id: str) -> None:
        self.changed = True
        self.dirty.add(member_id)

    def _bump(self, found: int) -> None:
        self.epoch += 1
        self.metadata_hash = found
        self.changed = True

    def _refresh_topics(self) -> None:
        names = sorted(frozenset().union(*(member.topics for member in self.members.values())))
        found = {name: self.topics.find(name) for name in names}
        self._known = {name: topic for name, topic in found.items() if topic is not None}

    def _readable(self) -> frozenset[TopicIdPartition]:
        """The partitions that members want and that have a state."""
        return frozenset((topic_id, index) for topic_id, indexes in self._assignable().items() for index in indexes)

    def _assignable(self) -> dict[bytes, frozenset[int]]:
        return {
            topic_id: self.states.partitions_of(topic_id).intersection(range(size))
            for topic_id, size in self._known.values()
        }

    def _assign(self) -> None:
        specs = {
            member_id: frozenset(self._known[name][0] for name in member.topics if name in self._known)
            for member_id, member in self.members.items()
        }
        targets = simple(specs, self.targets, self._assignable())
        self.dirty |= {member_id for member_id, target in targets.items() if target != self.targets[member_id]}
        self.targets = targets
        self.assignment_epoch = self.epoch
        self.changed = True
