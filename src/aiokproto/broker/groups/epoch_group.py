"""What the groups have in common whose coordinator assigns: epochs, members that follow at their own pace, fencing.

There are three epochs::

    group epoch  ≥  assignment epoch  ≥  member epochs

The group's grows whenever what is shared out or who shares it changes. The next heartbeat that notices computes a
target assignment for it, and so the assignment's epoch catches up. Each member then follows at its own pace
(:meth:`Reconciling.step`), so that a rebalance stops nobody who is not concerned. A member whose requests are of
another epoch than its own is fenced, and has to join again with epoch 0.

No I/O, no clock: requests come with the time, refusals are raised, and :meth:`EpochGroup.tick` must be called when
:meth:`EpochGroup.next_deadline` has come. Times are seconds on any one clock. What was touched since the last look
is in ``dirty``, for whoever saves it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from aiokproto.broker.groups.reconciliation import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    MemberState,
    ReconciledMember,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

M = TypeVar("M", bound=ReconciledMember[Any])
P = TypeVar("P", bound=Hashable)
P_co = TypeVar("P_co", bound=Hashable, covariant=True)

INITIAL_EPOCH = 1
"""That of a group and its assignment before anybody has come."""


@dataclass(frozen=True)
class GroupSettings:
    """A group's options. Times in seconds."""

    session_timeout: float = 45.0
    heartbeat_interval: float = 5.0
    max_size: int = (1 << 31) - 1


class Heartbeat(Protocol[P_co]):
    """What a heartbeat says of who sends it."""

    @property
    def member_id(self) -> str: ...

    @property
    def epoch(self) -> int: ...

    @property
    def instance_id(self) -> str | None: ...

    @property
    def owned(self) -> frozenset[P_co] | None: ...


class EpochGroup(ABC, Generic[M, P]):
    """A group of such members.

    Attributes:
        group_id: Its name.
        epoch: Grows with each change of members and of what they share.
        assignment_epoch: The epoch that the target assignment was computed for.
        members: The members by id, in the order they came.
        targets: What each of them should have.
        metadata_hash: Hash of the topics at the time of ``epoch``.
        changed: Something that has to outlive this coordinator changed; who saves it clears this and ``dirty``.
        dirty: Ids of the members it concerns, some of which may be gone.
    """

    def __init__(self, group_id: str, epoch: int) -> None:
        self.group_id = group_id
        self.epoch = self.assignment_epoch = epoch
        self.members: dict[str, M] = {}
        self.targets: dict[str, frozenset[P]] = {}
        self.metadata_hash = 0
        self.changed = False
        self.dirty: set[str] = set()
        self._static: dict[str, str] = {}

    # ---- what a kind of group decides

    @property
    @abstractmethod
    def max_size(self) -> int:
        """The most members it may have."""

    @abstractmethod
    def _new_member(self, member_id: str) -> M: ...

    @abstractmethod
    def _session_timeout(self, member: M) -> float: ...

    @abstractmethod
    def _is_free(self, place: P, member: M) -> bool:
        """Whether nobody has what would be in that member's way."""

    def _refresh_topics(self) -> None:
        """The members have changed: see which topics matter to them now."""

    def _is_replaceable(self, member: M) -> bool:
        """Whether somebody with its instance id may take over from it."""
        return member.epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH

    def _rebalance_timeout_applies(self, member: M) -> bool:
        """Whether it is given up if it does not give up in time what it must."""
        return member.state is MemberState.UNREVOKED_PARTITIONS

    def _register_owned(self, member: M) -> None:
        """What a member has is not what it was."""
        self._mark_dirty(member)

    def _unregister_owned(self, member: M) -> None:
        """A member is about to have something else, or nothing."""
        self._mark_dirty(member)

    # ---- leaving, and what time does

    def remove_or_keep_static(self, member_id: str, instance_id: str | None, epoch: int) -> None:
        """A member leaves, for good (-1) or to come back (-2; static members alone).

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
        """
        member = self.find(member_id, instance_id)
        if epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH:
            self._unregister_owned(member)
            member.epoch, member.state, member.pending_revocation = (
                LEAVE_GROUP_STATIC_MEMBER_EPOCH,
                MemberState.STABLE,
                {},
            )
            member.rebalance_deadline = None
            self._register_owned(member)
        else:
            self.remove(member)

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

    def restore(self, members: Iterable[M], targets: dict[str, frozenset[P]], now: float) -> None:
        """Become what was written down, or what another kind of group was. Sessions begin anew."""
        for member in members:
            self._register(member)
            member.session_deadline = now + self._session_timeout(member)
            if self._rebalance_timeout_applies(member):
                member.rebalance_deadline = now + member.rebalance_timeout
        self.targets = {member_id: targets.get(member_id, frozenset()) for member_id in self.members}
        self._refresh_topics()

    # ---- questions

    @property
    def state(self) -> str:
        """Its state, as its kind's Describe request names it."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        settled = all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values())
        return "Stable" if settled else "Reconciling"

    def static_member(self, instance_id: str | None) -> M | None:
        """The member with that instance id."""
        return self.members.get(self._static.get(instance_id, "")) if instance_id is not None else None

    def find(self, member_id: str, instance_id: str | None = None) -> M:
        """A member, by both ids if it is static.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID, if another has that instance id.
        """
        member = self.members.get(member_id) if instance_id is None else self.static_member(instance_id)
        if member is None:
            identity = f"member {member_id!r}" if instance_id is None else f"instance {instance_id!r}"
            raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, detail=f"there is no {identity} in group {self.group_id!r}")
        if member.member_id != member_id:
            raise BrokerError(
                ErrorCode.FENCED_INSTANCE_ID, detail=f"instance {instance_id!r} is member {member.member_id!r} now"
            )
        return member

    def check_not_full(self, member_id: str) -> None:
        """Raise :class:`BrokerError` GROUP_MAX_SIZE_REACHED if there is no room for one more member."""
        if member_id not in self.members and len(self.members) >= self.max_size:
            raise BrokerError(
                ErrorCode.GROUP_MAX_SIZE_REACHED, detail=f"the group has {len(self.members)} members, its maximum"
            )

    # ---- joining and moving on

    def _get_or_add_member(self, heartbeat: Heartbeat[P]) -> M:
        if heartbeat.epoch != JOIN_GROUP_MEMBER_EPOCH:
            member = self.find(heartbeat.member_id, heartbeat.instance_id)
            _check_epoch(member, heartbeat)
            return member
        known = self.static_member(heartbeat.instance_id)
        if known is None or known.member_id == heartbeat.member_id:
            return self.members.get(heartbeat.member_id) or self.add(heartbeat.member_id)
        if not self._is_replaceable(known):
            raise BrokerError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                detail=f"instance {heartbeat.instance_id!r} is member {known.member_id!r}",
            )
        if heartbeat.member_id in self.members:
            raise BrokerError(
                ErrorCode.INVALID_REQUEST, detail=f"member {heartbeat.member_id!r} cannot take over from another one"
            )
        return self.replace(known, heartbeat.member_id)

    def add(self, member_id: str) -> M:
        """A new member, of which nothing is known yet."""
        member = self._new_member(member_id)
        self._register(member)
        self.targets[member_id] = frozenset()
        return member

    def replace(self, old: M, member_id: str) -> M:
        """A static member has come back under another id: it has what it had."""
        self._unregister(old)
        member = replace(old, member_id=member_id, epoch=0, previous_epoch=0)
        self._register(member)
        self.targets[member_id] = self.targets.pop(old.member_id)
        return member

    def remove(self, member: M) -> None:
        """A member is gone for good. Who takes over what it had is decided at the next heartbeat."""
        self._unregister(member)
        del self.targets[member.member_id]
        self.epoch += 1
        self._refresh_topics()
        if not self.members:
            self._set_targets({})

    def _set_instance_id(self, member: M, instance_id: str | None) -> None:
        """The member says that this is its instance id; None if it says nothing."""
        if instance_id is not None:
            if member.instance_id is not None:
                self._static.pop(member.instance_id, None)
            member.instance_id = instance_id
            self._static[instance_id] = member.member_id

    def _reconcile(self, member: M, owned: frozenset[P] | None, now: float) -> None:
        """Let a member go on towards its target as far as it can."""
        before = replace(member)
        target = self.targets[member.member_id]
        if not member.reconcile(self.assignment_epoch, target, owned, lambda place: self._is_free(place, member)):
            return
        self._unregister_owned(before)
        self._register_owned(member)
        member.rebalance_deadline = now + member.rebalance_timeout if self._rebalance_timeout_applies(member) else None

    def _set_targets(self, targets: dict[str, frozenset[P]]) -> None:
        self.dirty |= {member_id for member_id, target in targets.items() if target != self.targets[member_id]}
        self.targets = targets
        self.assignment_epoch = self.epoch
        self.changed = True

    def _register(self, member: M) -> None:
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        self._register_owned(member)

    def _unregister(self, member: M) -> None:
        self._unregister_owned(member)
        del self.members[member.member_id]
        if member.instance_id is not None and self._static.get(member.instance_id) == member.member_id:
            del self._static[member.instance_id]

    def _mark_dirty(self, member: M) -> None:
        self.changed = True
        self.dirty.add(member.member_id)


def _check_epoch(member: ReconciledMember[P], heartbeat: Heartbeat[P]) -> None:
    if heartbeat.epoch == member.epoch:
        return
    # It may have missed the answer that told it of its new epoch.
    missed = (
        heartbeat.epoch == member.previous_epoch
        and heartbeat.owned is not None
        and heartbeat.owned <= member.assigned.keys()
    )
    if not missed:
        raise BrokerError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            detail=f"the member's epoch is {member.epoch}, not {heartbeat.epoch}: it has to join again",
        )
