"""The consumer group: who belongs to it, what each member should have, and how far it has come.

Theory of operation. There are three epochs::

    group epoch  ≥  assignment epoch  ≥  member epochs

The group's grows whenever what it reads or who reads it changes. The next heartbeat that notices computes a target
assignment for it, and so the assignment's epoch catches up. Each member then follows at its own pace
(:meth:`ConsumerMember.step`), so that a rebalance stops nobody who is not concerned. A member whose requests are of
another epoch than its own is fenced, and has to join again with epoch 0.

No I/O, no clock: requests come with the time, refusals are raised, and :meth:`ConsumerGroup.tick` must be called when
:meth:`ConsumerGroup.next_deadline` has come. Times are seconds on any one clock. What was touched since the last look
is in ``dirty``, for whoever saves it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from aiokproto.broker.groups.consumer.assignors import ASSIGNORS, Wish
from aiokproto.broker.groups.consumer.member import (
    JOINING,
    LEFT_FOR_NOW,
    Beat,
    ConsumerMember,
    MemberState,
    Place,
    Places,
)
from aiokproto.broker.groups.consumer.subscriptions import Subscriptions, Topics
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

INITIAL_EPOCH = 1


@dataclass(frozen=True)
class Settings:
    """A group's options. Times in seconds."""

    session_timeout: float = 45.0
    heartbeat_interval: float = 5.0
    max_size: int = (1 << 31) - 1


class Answer(NamedTuple):
    """The answer to a heartbeat: ``assigned`` is None if the member knows it already."""

    member_id: str
    epoch: int
    assigned: Places | None = None


class ConsumerGroup:
    """A consumer group.

    Attributes:
        group_id: Its name.
        settings: Its options; they may change at any time.
        epoch: Grows with each change of members, subscriptions and topics.
        assignment_epoch: The epoch that the target assignment was computed for.
        members: The members by id, in the order they came.
        targets: What each of them should have.
        subscriptions: What they read.
        metadata_hash: Hash of the topics at the time of ``epoch``.
        changed: Something that has to outlive this coordinator changed; who saves it clears this and ``dirty``.
        dirty: Ids of the members it concerns, some of which may be gone.
    """

    def __init__(self, group_id: str, topics: Topics, settings: Settings | None = None) -> None:
        self.group_id = group_id
        self.topics = topics
        self.settings = settings or Settings()
        self.epoch = self.assignment_epoch = INITIAL_EPOCH
        self.members: dict[str, ConsumerMember] = {}
        self.targets: dict[str, Places] = {}
        self.subscriptions = Subscriptions()
        self.metadata_hash = 0
        self.changed = False
        self.dirty: set[str] = set()
        self._static: dict[str, str] = {}
        self._owners: dict[Place, str] = {}

    # ---- what the coordinator calls

    def heartbeat(self, beat: Beat, now: float) -> Answer:
        """ConsumerGroupHeartbeat of a member that joins or stays.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID,
                INVALID_REQUEST, GROUP_MAX_SIZE_REACHED. Nothing has changed then.
        """
        self.check_room(beat.member_id)
        member = self._member_of(beat)
        if member.classic is not None:
            member.classic, member.rebalance_deadline = None, None
            self._touch(member)
        before = member.assigned.keys()
        self.advance(member, beat, now)
        told = beat.full or member.assigned.keys() != before
        return Answer(member.member_id, member.epoch, frozenset(member.assigned) if told else None)

    def leave(self, member_id: str, instance_id: str | None, epoch: int) -> Answer:
        """ConsumerGroupHeartbeat of a member that leaves, for good (-1) or to come back (-2; static members alone).

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
        """
        member = self.find(member_id, instance_id)
        if epoch == LEFT_FOR_NOW:
            self._disown(member)
            member.epoch, member.state, member.revoking = LEFT_FOR_NOW, MemberState.STABLE, {}
            member.rebalance_deadline = None
            self._own(member)
        else:
            self.remove(member)
        return Answer(member_id, epoch)

    def check_commit(self, member_id: str, epoch: int, version: int, places: Iterable[Place]) -> None:
        """Whether a member may commit offsets for these partitions.

        One that is an epoch behind may, for what it had then and still has (KIP-1251).

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH or ILLEGAL_GENERATION, UNSUPPORTED_VERSION.
        """
        if epoch < 0 and not self.members:
            return
        member = self.find(member_id)
        if member.classic is None and version < 9:
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, detail="a consumer group commits with OffsetCommit v9")
        late = epoch < member.epoch and all(member.assigned.get(place, member.epoch) <= epoch for place in places)
        if not (late and member.classic is None):
            _check_same_epoch(member, epoch)

    def check_fetch(self, member_id: str | None, epoch: int) -> None:
        """Whether a member may ask for committed offsets. Who is no member may.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH or ILLEGAL_GENERATION.
        """
        if member_id is not None or epoch >= 0:
            _check_same_epoch(self.find(member_id or ""), epoch)

    def next_deadline(self) -> float | None:
        """When :meth:`tick` has something to do; None if nothing can happen by time alone."""
        deadlines = [
            deadline
            for member in self.members.values()
            for deadline in (member.session_deadline, member.rebalance_deadline)
            if deadline is not None
        ]
        return min(deadlines, default=None)

    def tick(self, now: float) -> None:
        """Give up members that were silent, or that do not give up what they must."""
        for member in list(self.members.values()):
            deadlines = (member.session_deadline, member.rebalance_deadline)
            if any(deadline is not None and deadline <= now for deadline in deadlines):
                self.remove(member)

    def restore(self, members: Iterable[ConsumerMember], targets: dict[str, Places], now: float) -> None:
        """Become what was written down, or what another kind of group was. Sessions begin anew."""
        for member in members:
            self._enter(member)
            member.session_deadline = now + self._session_timeout(member)
            if member.classic is None and member.state is MemberState.UNREVOKED_PARTITIONS:
                member.rebalance_deadline = now + member.rebalance_timeout
        self.targets = {member_id: targets.get(member_id, frozenset()) for member_id in self.members}
        self._look_at_topics()

    # ---- questions

    @property
    def state(self) -> str:
        """Its state, as ConsumerGroupDescribe names it."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        settled = all(member.reconciled(self.assignment_epoch) for member in self.members.values())
        return "Stable" if settled else "Reconciling"

    @property
    def assignor(self) -> str:
        """The assignor that most of those members ask for that ask for one."""
        votes = Counter(member.assignor for member in self.members.values() if member.assignor is not None)
        return votes.most_common(1)[0][0] if votes else next(iter(ASSIGNORS))

    def subscribed(self, topic: str) -> bool:
        """Whether a member reads that topic."""
        return any(topic in self.subscriptions.names_of(member) for member in self.members.values())

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member with that instance id."""
        return self.members.get(self._static.get(instance_id, "")) if instance_id is not None else None

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether somebody else still has what this member should have."""
        missing = self.targets.get(member.member_id, frozenset()) - member.assigned.keys()
        return any(place in self._owners for place in missing)

    def find(self, member_id: str, instance_id: str | None = None) -> ConsumerMember:
        """A member, by both ids if it is static.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID, if another has that instance id.
        """
        member = self.members.get(member_id) if instance_id is None else self.static_member(instance_id)
        if member is None:
            who = f"member {member_id!r}" if instance_id is None else f"instance {instance_id!r}"
            raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, detail=f"there is no {who} in group {self.group_id!r}")
        if member.member_id != member_id:
            raise BrokerError(
                ErrorCode.FENCED_INSTANCE_ID, detail=f"instance {instance_id!r} is member {member.member_id!r} now"
            )
        return member

    def check_room(self, member_id: str) -> None:
        """Raise :class:`BrokerError` GROUP_MAX_SIZE_REACHED if there is no room for one more member."""
        if member_id not in self.members and len(self.members) >= self.settings.max_size:
            raise BrokerError(
                ErrorCode.GROUP_MAX_SIZE_REACHED, detail=f"the group has {len(self.members)} members, its maximum"
            )

    # ---- joining and leaving

    def _member_of(self, beat: Beat) -> ConsumerMember:
        if beat.epoch != JOINING:
            member = self.find(beat.member_id, beat.instance_id)
            _check_epoch(member, beat)
            return member
        known = self.static_member(beat.instance_id)
        if known is None or known.member_id == beat.member_id:
            return self.members.get(beat.member_id) or self.add(beat.member_id)
        if known.classic is None and known.epoch != LEFT_FOR_NOW:
            raise BrokerError(
                ErrorCode.UNRELEASED_INSTANCE_ID, detail=f"instance {beat.instance_id!r} is member {known.member_id!r}"
            )
        if beat.member_id in self.members:
            raise BrokerError(
                ErrorCode.INVALID_REQUEST, detail=f"member {beat.member_id!r} cannot take over from another one"
            )
        return self.replace(known, beat.member_id)

    def add(self, member_id: str) -> ConsumerMember:
        """A new member, of which nothing is known yet."""
        member = ConsumerMember(member_id)
        self._enter(member)
        self.targets[member_id] = frozenset()
        return member

    def replace(self, old: ConsumerMember, member_id: str) -> ConsumerMember:
        """A static member has come back under another id: it has what it had."""
        self._exit(old)
        member = replace(old, member_id=member_id, epoch=0, previous_epoch=0)
        self._enter(member)
        self.targets[member_id] = self.targets.pop(old.member_id)
        return member

    def remove(self, member: ConsumerMember) -> None:
        """A member is gone for good. Who takes over what it had is decided at the next heartbeat."""
        self._exit(member)
        del self.targets[member.member_id]
        self.epoch += 1
        self._look_at_topics()

    def _enter(self, member: ConsumerMember) -> None:
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        self._own(member)

    def _exit(self, member: ConsumerMember) -> None:
        self._disown(member)
        del self.members[member.member_id]
        if member.instance_id is not None and self._static.get(member.instance_id) == member.member_id:
            del self._static[member.instance_id]

    def _own(self, member: ConsumerMember) -> None:
        self._owners.update(dict.fromkeys((*member.assigned, *member.revoking), member.member_id))
        self._touch(member)

    def _disown(self, member: ConsumerMember) -> None:
        for place in (*member.assigned, *member.revoking):
            del self._owners[place]
        self._touch(member)

    def _touch(self, member: ConsumerMember) -> None:
        self.changed = True
        self.dirty.add(member.member_id)

    # ---- moving on

    def advance(self, member: ConsumerMember, beat: Beat, now: float) -> None:
        """Take over what a member says, see whether that changes the target, and let it go on towards it."""
        subscribed_anew = self._update(member, beat)
        self._look_at_topics()
        if subscribed_anew or self.subscriptions.hash != self.metadata_hash:
            self.epoch += 1
            self.metadata_hash = self.subscriptions.hash
            self.changed = True
        if self.epoch > self.assignment_epoch:
            self._assign()
        self._follow(member, beat.owned, now)
        member.session_deadline = now + self._session_timeout(member)

    def _update(self, member: ConsumerMember, beat: Beat) -> bool:
        """Take over what a heartbeat says; whether it reads other topics now."""
        before = replace(member)
        if beat.instance_id is not None:
            if member.instance_id is not None:
                self._static.pop(member.instance_id, None)
            member.instance_id = beat.instance_id
            self._static[beat.instance_id] = member.member_id
        member.rack_id = beat.rack_id or member.rack_id
        member.topics = member.topics if beat.topics is None else beat.topics
        member.regex = member.regex if beat.regex is None else beat.regex
        member.assignor = beat.assignor or member.assignor
        if beat.rebalance_timeout is not None:
            member.rebalance_timeout = beat.rebalance_timeout
        member.client_id, member.client_host = beat.client_id, beat.client_host
        if vars(before) != vars(member):
            self._touch(member)
        return (before.topics, before.regex) != (member.topics, member.regex)

    def _look_at_topics(self) -> None:
        self.subscriptions.update(self.members.values(), self.topics)

    def _assign(self) -> None:
        wishes = {
            member_id: Wish(self.subscriptions.ids_of(member), self.targets[member_id], member.instance_id)
            for member_id, member in self.members.items()
        }
        targets = ASSIGNORS[self.assignor](wishes, self.subscriptions.sizes)
        self.dirty |= {member_id for member_id, target in targets.items() if target != self.targets[member_id]}
        self.targets = targets
        self.assignment_epoch = self.epoch
        self.changed = True

    def _follow(self, member: ConsumerMember, owned: Places | None, now: float) -> None:
        had = (*member.assigned, *member.revoking)
        target = self.targets[member.member_id]
        if not member.step(self.assignment_epoch, target, owned, lambda place: place not in self._owners):
            return
        for place in had:
            del self._owners[place]
        self._own(member)
        late = member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None
        member.rebalance_deadline = now + member.rebalance_timeout if late else None

    def _session_timeout(self, member: ConsumerMember) -> float:
        return member.classic.session_timeout if member.classic is not None else self.settings.session_timeout


def _check_epoch(member: ConsumerMember, beat: Beat) -> None:
    if beat.epoch == member.epoch:
        return
    # It may have missed the answer that told it of its new epoch.
    missed = beat.epoch == member.previous_epoch and beat.owned is not None and beat.owned <= member.assigned.keys()
    if not missed:
        raise BrokerError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            detail=f"the member's epoch is {member.epoch}, not {beat.epoch}: it has to join again",
        )


def _check_same_epoch(member: ConsumerMember, epoch: int) -> None:
    if epoch != member.epoch:
        code = ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
        raise BrokerError(code, detail=f"the member's epoch is {member.epoch}, not {epoch}")
