"""The share group: members, subscriptions and target assignment (KIP-932).

There are a group epoch, an assignment epoch and member epochs as in a consumer group
(:mod:`aiokproto.broker.groups.epoch_group`), but no reconciliation: several members can read a partition, so a member
gets its whole target assignment at its next heartbeat.

A partition needs a state at the share coordinator before it is assigned. A heartbeat therefore has three parts:

1. :meth:`ShareGroup.update_member` updates the member and its subscription;
2. the caller initializes the states that :meth:`ShareGroup.missing` returns;
3. :meth:`ShareGroup.advance` computes a new target if needed, and returns the member's assignment.

The group does no I/O and has no clock: the caller passes each request together with the time. Errors are raised.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from aiokproto.broker.groups.assignment import HeartbeatResult, TopicIdPartition, TopicIdPartitions
from aiokproto.broker.groups.consumer.subscriptions import Topics, metadata_hash
from aiokproto.broker.groups.epoch_group import INITIAL_EPOCH, GroupSettings
from aiokproto.broker.groups.reconciliation import JOIN_GROUP_MEMBER_EPOCH, LEAVE_GROUP_MEMBER_EPOCH
from aiokproto.broker.groups.share.assignor import simple
from aiokproto.broker.groups.share.state_metadata import StatePartitionMetadata
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.texts import counted


@dataclass(frozen=True)
class ShareHeartbeat:
    """A ShareGroupHeartbeat request. A field that is None hasn't changed since the last heartbeat."""

    member_id: str
    epoch: int
    rack_id: str | None = None
    topics: frozenset[str] | None = None
    client_id: str = ""
    client_host: str = ""


@dataclass(eq=False)
class ShareMember:
    """A member of a share group.

    Attributes:
        topics: The topic names it subscribes to.
        epoch: The assignment epoch of ``assigned``.
        previous_epoch: The epoch before that. A heartbeat with it is accepted: the response with the new epoch may have
            been lost.
        assigned: The partitions it reads: its target assignment as of its last heartbeat.
        session_deadline: When it is removed unless it sends a heartbeat (s).
    """

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    epoch: int = 0
    previous_epoch: int = 0
    assigned: TopicIdPartitions = frozenset()
    session_deadline: float | None = None


class ShareGroup:
    """A share group.

    Attributes:
        group_id: Its id.
        topics: The cluster's topics.
        settings: Its options, which can change at any time.
        epoch: The group epoch: it grows when members, subscriptions or topics change.
        assignment_epoch: The group epoch for which ``targets`` was computed.
        members: The members by id, in the order in which they joined.
        targets: The target assignment: what each member should read.
        states: Which partitions have a state at the share coordinator.
        metadata_hash: Hash of the subscribed topics as of ``epoch``.
        changed: Whether something has to be written to the offsets topic. The store resets it after writing, and clears
            ``dirty``.
        dirty: Ids of members whose records changed. Removed members are included: they need tombstones.
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
        self._subscribed_topics: dict[str, tuple[bytes, int]] = {}

    # ---- a heartbeat

    def update_member(self, heartbeat: ShareHeartbeat, now: float) -> None:
        """Update the member that sent a heartbeat to join or stay. ``now`` is in seconds, on the group's clock.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, GROUP_MAX_SIZE_REACHED. In that case the group is
                unchanged.
        """
        member = self._get_or_add_member(heartbeat)
        before = replace(member)
        member.rack_id = heartbeat.rack_id or member.rack_id
        member.topics = member.topics if heartbeat.topics is None else heartbeat.topics
        member.client_id, member.client_host = heartbeat.client_id, heartbeat.client_host
        # Compare before setting the session deadline, which isn't stored in any record.
        if vars(before) != vars(member):
            self._mark_dirty(member.member_id)
        member.session_deadline = now + self.settings.session_timeout
        self._refresh_topics()
        found = metadata_hash(self._subscribed_topics)
        # Joining counts as a change of topics: a new member didn't have any before.
        if before.topics != member.topics or found != self.metadata_hash:
            self._bump(found)

    def missing(self) -> dict[bytes, frozenset[int]]:
        """Return the subscribed partitions that don't have a state yet, by topic id."""
        return self.states.missing(dict(self._subscribed_topics.values()))

    def advance(self, heartbeat: ShareHeartbeat) -> HeartbeatResult:
        """Compute a new target assignment if needed, and return the member's assignment, or None if the member has it
        already."""
        member = self.members[heartbeat.member_id]
        # States have been initialized since the last assignment, perhaps by another member's heartbeat. Neither the
        # subscriptions nor the topics have changed.
        if self.epoch == self.assignment_epoch and self._readable() != frozenset().union(*self.targets.values()):
            self._bump(self.metadata_hash)
        if self.epoch > self.assignment_epoch:
            self._assign()
        before = member.assigned
        # The member enters the new epoch with its whole target: nothing has to be revoked first, unlike in a consumer
        # group.
        if member.epoch != self.assignment_epoch:
            member.previous_epoch, member.epoch = member.epoch, self.assignment_epoch
            member.assigned = self.targets[member.member_id]
            self._mark_dirty(member.member_id)
        joins = heartbeat.epoch == JOIN_GROUP_MEMBER_EPOCH
        # A client that sends its subscription again has lost its state or is changing the subscription.
        send = joins or heartbeat.topics is not None or member.assigned != before
        return HeartbeatResult(member.member_id, member.epoch, member.assigned if send else None)

    def leave(self, member_id: str) -> HeartbeatResult:
        """Apply the heartbeat of a member that leaves.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID.
        """
        self._remove(self._find(member_id))
        return HeartbeatResult(member_id, LEAVE_GROUP_MEMBER_EPOCH)

    # ---- timeouts

    def next_deadline(self) -> float | None:
        """Return when :meth:`tick` has to be called; None if no timeout is running."""
        deadlines = [each.session_deadline for each in self.members.values() if each.session_deadline is not None]
        return min(deadlines, default=None)

    def tick(self, now: float) -> None:
        """Remove members whose session has expired."""
        for member in list(self.members.values()):
            if member.session_deadline is not None and member.session_deadline <= now:
                self._remove(member)

    def restore(self, members: Iterable[ShareMember], targets: dict[str, TopicIdPartitions], now: float) -> None:
        """Restore members and target assignment from records. Session timeouts restart."""
        for member in members:
            self.members[member.member_id] = member
            member.session_deadline = now + self.settings.session_timeout
        self.targets = {member_id: targets.get(member_id, frozenset()) for member_id in self.members}
        self._refresh_topics()

    # ---- queries

    @property
    def state(self) -> str:
        """The group's state, as ShareGroupDescribe reports it."""
        return "Stable" if self.members else "Empty"

    # ---- internals

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
            full = f"the group has {counted(len(self.members), 'member')}, its maximum"
            raise BrokerError(ErrorCode.GROUP_MAX_SIZE_REACHED, detail=full)
        if heartbeat.epoch != JOIN_GROUP_MEMBER_EPOCH:
            member = self._find(heartbeat.member_id)
            # The response with the new epoch may have been lost. Unlike in consumer groups, it doesn't matter what the
            # member owns, because a partition can have several readers.
            if heartbeat.epoch not in (member.epoch, member.previous_epoch):
                raise BrokerError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    detail=f"the member epoch is {member.epoch}, not {heartbeat.epoch}: join again with epoch 0",
                )
            return member
        if known is None:
            known = self.members[heartbeat.member_id] = ShareMember(heartbeat.member_id)
            self.targets[heartbeat.member_id] = frozenset()
            self._mark_dirty(heartbeat.member_id)
        return known

    def _remove(self, member: ShareMember) -> None:
        del self.members[member.member_id], self.targets[member.member_id]
        # The member's records need tombstones.
        self._mark_dirty(member.member_id)
        self._refresh_topics()
        self._bump(metadata_hash(self._subscribed_topics))
        # No heartbeat will follow to compute a target.
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
        self._subscribed_topics = {name: topic for name, topic in found.items() if topic is not None}

    def _readable(self) -> frozenset[TopicIdPartition]:
        """Return the subscribed partitions that have a state."""
        return frozenset((topic_id, index) for topic_id, indexes in self._assignable().items() for index in indexes)

    def _assignable(self) -> dict[bytes, frozenset[int]]:
        return {
            # There can be more states than partitions if the topic was deleted and recreated while the group was empty.
            topic_id: self.states.partitions_of(topic_id).intersection(range(size))
            for topic_id, size in self._subscribed_topics.values()
        }

    def _assign(self) -> None:
        specs = {
            member_id: frozenset(
                self._subscribed_topics[name][0] for name in member.topics if name in self._subscribed_topics
            )
            for member_id, member in self.members.items()
        }
        targets = simple(specs, self.targets, self._assignable())
        self.dirty |= {member_id for member_id, target in targets.items() if target != self.targets[member_id]}
        self.targets = targets
        self.assignment_epoch = self.epoch
        self.changed = True
