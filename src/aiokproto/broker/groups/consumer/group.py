"""The consumer group: members, subscriptions, target assignment and owners (KIP-848).

See :mod:`aiokproto.broker.groups.epoch_group` for the epochs. The group assigns the partitions of the topics that its
members subscribe to by name or by regular expression.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import ClassVar

from aiokproto.broker.groups.assignment import HeartbeatResult, TopicIdPartition, TopicIdPartitions
from aiokproto.broker.groups.consumer.assignors import ASSIGNORS, MemberSpec
from aiokproto.broker.groups.consumer.member import ConsumerHeartbeat, ConsumerMember
from aiokproto.broker.groups.consumer.resolution import MAX_PATTERNS
from aiokproto.broker.groups.consumer.subscriptions import Subscriptions, Topics
from aiokproto.broker.groups.epoch_group import INITIAL_EPOCH, EpochGroup, GroupSettings
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError


class ConsumerGroup(EpochGroup[ConsumerMember, TopicIdPartition]):
    """A consumer group.

    Attributes:
        settings: Its options, which can change at any time.
        subscriptions: The topics that its members subscribe to.
    """

    type: ClassVar = "consumer"

    def __init__(self, group_id: str, topics: Topics, settings: GroupSettings | None = None) -> None:
        super().__init__(group_id, INITIAL_EPOCH)
        self.topics = topics
        self.settings = settings or GroupSettings()
        self.subscriptions = Subscriptions()
        # The owner of each partition that is assigned or pending revocation. Only a partition that isn't listed here
        # can be assigned to another member. _register_owned() and _unregister_owned() maintain it.
        self._owners: dict[TopicIdPartition, str] = {}

    # ---- requests

    def heartbeat(self, heartbeat: ConsumerHeartbeat, now: float) -> HeartbeatResult:
        """Apply a ConsumerGroupHeartbeat of a member that joins or stays.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID,
                INVALID_REQUEST, GROUP_MAX_SIZE_REACHED, INVALID_REGULAR_EXPRESSION. In that case the group is
                unchanged.
        """
        # These checks come first: a rejected request must leave the group as it was.
        self.check_not_full(heartbeat.member_id)
        self._check_pattern(heartbeat.regex)
        member = self._get_or_add_member(heartbeat)
        if member.classic is not None:
            # The client was upgraded and has joined with its old member id. The rebalance deadline was for its next
            # JoinGroup or SyncGroup.
            member.classic, member.rebalance_deadline = None, None
            self._mark_dirty(member)
        # This view stays valid because reconcile() replaces the dict and never modifies it.
        before = member.assigned.keys()
        self.advance(member, heartbeat, now)
        # Most heartbeats don't change anything, and their responses don't contain an assignment.
        changed = heartbeat.full or member.assigned.keys() != before
        return HeartbeatResult(member.member_id, member.epoch, frozenset(member.assigned) if changed else None)

    def leave(self, member_id: str, instance_id: str | None, epoch: int) -> HeartbeatResult:
        """Apply a ConsumerGroupHeartbeat of a member that leaves: permanently (-1), or as a static member (-2).

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
        """
        self.remove_or_keep_static(member_id, instance_id, epoch)
        return HeartbeatResult(member_id, epoch)

    def resolve(self) -> bool:
        """Do one slice of resolving regular expressions. Return whether it is complete. If so, the next heartbeat of
        any member computes the new target."""
        complete = self.subscriptions.resolve()
        self.changed = self.changed or complete
        return complete

    def check_commit(self, member_id: str, epoch: int, version: int, partitions: Iterable[TopicIdPartition]) -> None:
        """Check that a member can commit offsets for these partitions.

        An older epoch is accepted for partitions that the member has owned since that epoch: no other member can have
        committed for them since (KIP-1251). A request without a member is accepted only if the group is empty.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH or ILLEGAL_GENERATION, UNSUPPORTED_VERSION.
        """
        # An admin client, or a consumer with manually assigned partitions, may use the offsets of a group without
        # members.
        if epoch < 0 and not self.members:
            return
        member = self.find(member_id)
        # Before v9, clients treat the epoch as a generation and don't know STALE_MEMBER_EPOCH.
        if member.classic is None and version < 9:
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, detail="a consumer group commits with OffsetCommit v9")
        late = epoch < member.epoch and all(
            member.assigned.get(partition, member.epoch) <= epoch for partition in partitions
        )
        # A classic member never commits with an older epoch, because its generation ends when it joins again.
        if not (late and member.classic is None):
            _check_same_epoch(member, epoch)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Check the member epoch of an OffsetFetch. A request without a member id and epoch, as admin clients send it,
        passes.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH or ILLEGAL_GENERATION.
        """
        if member_id is not None or epoch >= 0:
            _check_same_epoch(self.find(member_id or ""), epoch)

    def restore(
        self,
        members: Iterable[ConsumerMember],
        targets: dict[str, TopicIdPartitions],
        now: float,
        matches: Mapping[str, frozenset[str]] | None = None,
    ) -> None:
        """Restore the group from records or from a classic group. Session timeouts restart.

        Args:
            members: The members.
            targets: The target assignment.
            now: The current time (s).
            matches: The topics that each regular expression matches.
        """
        # Restore the matches before the members: looking up the members' topics needs them, and they can't be resolved
        # before a heartbeat arrives.
        self.subscriptions.matches.update(matches or {})
        super().restore(members, targets, now)

    # ---- queries

    @property
    def assignor(self) -> str:
        """The assignor that most members prefer; members without a preference don't vote."""
        votes = Counter(member.assignor for member in self.members.values() if member.assignor is not None)
        # In a tie, the assignor that comes first in joining order wins, so the result doesn't change while the members
        # stay the same.
        return votes.most_common(1)[0][0] if votes else next(iter(ASSIGNORS))

    def subscribed(self, topic: str) -> bool:
        """Return whether a member subscribes to a topic."""
        return any(topic in self.subscriptions.names_of(member) for member in self.members.values())

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Return whether another member still owns a partition of this member's target."""
        missing = self.targets.get(member.member_id, frozenset()) - member.assigned.keys()
        return any(partition in self._owners for partition in missing)

    # ---- what EpochGroup needs

    @property
    def max_size(self) -> int:
        """The maximum number of members."""
        return self.settings.max_size

    def _new_member(self, member_id: str) -> ConsumerMember:
        return ConsumerMember(member_id)

    def _session_timeout(self, member: ConsumerMember) -> float:
        return member.classic.session_timeout if member.classic is not None else self.settings.session_timeout

    def _is_free(self, wanted: TopicIdPartition, member: ConsumerMember) -> bool:
        return wanted not in self._owners

    def _refresh_topics(self) -> None:
        self.subscriptions.update(self.members.values(), self.topics)

    def _is_replaceable(self, member: ConsumerMember) -> bool:
        # A static member that uses the classic protocol doesn't send LeaveGroup when it restarts, so its epoch is never
        # -2.
        return member.classic is not None or super()._is_replaceable(member)

    def _rebalance_timeout_applies(self, member: ConsumerMember) -> bool:
        return member.classic is None and super()._rebalance_timeout_applies(member)

    def _register_owned(self, member: ConsumerMember) -> None:
        super()._register_owned(member)
        self._owners.update(dict.fromkeys((*member.assigned, *member.pending_revocation), member.member_id))

    def _unregister_owned(self, member: ConsumerMember) -> None:
        super()._unregister_owned(member)
        for partition in (*member.assigned, *member.pending_revocation):
            del self._owners[partition]

    # ---- heartbeat

    def advance(self, member: ConsumerMember, heartbeat: ConsumerHeartbeat, now: float) -> None:
        """Update a member from its heartbeat, compute a new target if needed, and reconcile the member."""
        subscription_changed = self._update(member, heartbeat)
        if heartbeat.describable is not None:
            self.subscriptions.match(self.members.values(), self.topics, now, heartbeat.describable)
        self._refresh_topics()
        # The hash detects topics that were created, deleted or extended since the last heartbeat of any member. Nothing
        # else notifies the group.
        if subscription_changed or self.subscriptions.hash != self.metadata_hash:
            self.epoch += 1
            self.metadata_hash = self.subscriptions.hash
            self.changed = True
        if self.epoch > self.assignment_epoch:
            self._assign()
        # Reconcile after computing the target: a member that doesn't have to wait for anything then needs only one
        # heartbeat.
        self._reconcile(member, heartbeat.owned, now)
        # This comes last: a request that fails must not extend the session.
        member.session_deadline = now + self._session_timeout(member)

    def _check_pattern(self, regex: str | None) -> None:
        patterns = {member.regex for member in self.members.values()} if regex else set()
        if regex and regex not in patterns and len(patterns - {""}) >= MAX_PATTERNS:
            raise BrokerError(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                detail=f"the group has {MAX_PATTERNS} other regular expressions, the most",
            )

    def _update(self, member: ConsumerMember, heartbeat: ConsumerHeartbeat) -> bool:
        """Update a member from its heartbeat, and return whether its subscription changed."""
        before = replace(member)
        self._set_instance_id(member, heartbeat.instance_id)
        member.rack_id = heartbeat.rack_id or member.rack_id
        # In all of these, None means unchanged: clients repeat unchanged fields only after an error (KIP-848).
        member.topics = member.topics if heartbeat.topics is None else heartbeat.topics
        member.regex = member.regex if heartbeat.regex is None else heartbeat.regex
        member.assignor = heartbeat.assignor or member.assignor
        if heartbeat.rebalance_timeout is not None:
            member.rebalance_timeout = heartbeat.rebalance_timeout
        member.client_id, member.client_host = heartbeat.client_id, heartbeat.client_host
        if vars(before) != vars(member):
            self._mark_dirty(member)
        return (before.topics, before.regex) != (member.topics, member.regex)

    def _assign(self) -> None:
        specs = {
            member_id: MemberSpec(self.subscriptions.ids_of(member), self.targets[member_id], member.instance_id)
            for member_id, member in self.members.items()
        }
        self._set_targets(ASSIGNORS[self.assignor](specs, self.subscriptions.sizes))


def _check_same_epoch(member: ConsumerMember, epoch: int) -> None:
    if epoch != member.epoch:
        code = ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
        raise BrokerError(code, detail=f"the member's epoch is {member.epoch}, not {epoch}")
