"""The base of consumer and streams groups: members, epochs, fencing, and the target assignment (KIP-848, KIP-1071).

There are three epochs::

    group epoch  ≥  assignment epoch  ≥  member epochs

- The *group epoch* grows whenever the input of the assignor changes: members, subscriptions, or topic metadata.
- The *assignment epoch* is the group epoch for which the target assignment was computed. If it's behind the group
  epoch, the next heartbeat computes a new target.
- A *member epoch* is the assignment epoch that the member has been reconciled to. Members are reconciled one by one, at
  their own heartbeats (:meth:`ReconciledMember.reconcile`), so a rebalance doesn't interrupt members whose assignment
  stays the same. This replaces the barrier of JoinGroup and SyncGroup in classic groups.

Fencing: a request with an epoch other than the member's current one fails with FENCED_MEMBER_EPOCH, and the client
joins again with epoch 0. The one exception is a heartbeat with the previous epoch from a member whose last response was
lost.

The group does no I/O and has no clock: the caller passes each request together with the time. Errors are raised. The
caller must call :meth:`EpochGroup.tick` when :meth:`EpochGroup.next_deadline` has passed. Times are seconds on one
monotonic clock. The ids of members that changed are in ``dirty`` until the store has written their records.
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
from aiokproto.texts import counted

M = TypeVar("M", bound=ReconciledMember[Any])
P = TypeVar("P", bound=Hashable)
P_co = TypeVar("P_co", bound=Hashable, covariant=True)

INITIAL_EPOCH = 1
"""The group epoch and the assignment epoch of a group that has not had members yet."""


@dataclass(frozen=True)
class GroupSettings:
    """The options of a consumer or share group. Times are in seconds."""

    session_timeout: float = 45.0
    heartbeat_interval: float = 5.0
    max_size: int = (1 << 31) - 1


class Heartbeat(Protocol[P_co]):
    """The fields common to heartbeats of all group types. ``owned`` is None if the member does not report it."""

    @property
    def member_id(self) -> str: ...

    @property
    def epoch(self) -> int: ...

    @property
    def instance_id(self) -> str | None: ...

    @property
    def owned(self) -> frozenset[P_co] | None: ...


class EpochGroup(ABC, Generic[M, P]):
    """A group whose assignment the coordinator computes.

    Attributes:
        group_id: Its id.
        epoch: The group epoch.
        assignment_epoch: The group epoch for which ``targets`` was computed.
        members: The members by id, in the order in which they joined.
        targets: The target assignment: what each member should own.
        metadata_hash: Hash of the subscribed topics as of ``epoch``.
        changed: Whether something has to be written to the offsets topic. The store resets it after writing, and clears
            ``dirty``.
        dirty: Ids of members whose records changed. Removed members are included: they need tombstones.
    """

    def __init__(self, group_id: str, epoch: int) -> None:
        self.group_id = group_id
        self.epoch = self.assignment_epoch = epoch
        self.members: dict[str, M] = {}
        self.targets: dict[str, frozenset[P]] = {}
        self.metadata_hash = 0
        self.changed = False
        self.dirty: set[str] = set()
        # Member id by instance id.
        self._static: dict[str, str] = {}

    # ---- what subclasses define

    @property
    @abstractmethod
    def max_size(self) -> int:
        """The maximum number of members."""

    @abstractmethod
    def _new_member(self, member_id: str) -> M: ...

    @abstractmethod
    def _session_timeout(self, member: M) -> float: ...

    @abstractmethod
    def _is_free(self, wanted: P, member: M) -> bool:
        """Return whether a partition or task can be assigned to a member: no other member owns it."""

    def _refresh_topics(self) -> None:
        """Resolve the topics that the members need. Called after members changed."""

    def _is_replaceable(self, member: M) -> bool:
        """Return whether a new member with the same instance id can replace the member."""
        return member.epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH

    def _rebalance_timeout_applies(self, member: M) -> bool:
        """Return whether the member is removed if it does not revoke within its rebalance timeout."""
        return member.state is MemberState.UNREVOKED_PARTITIONS

    def _register_owned(self, member: M) -> None:
        """Record a member as the owner of its assignment. Called after the assignment changed."""
        self._mark_dirty(member)

    def _unregister_owned(self, member: M) -> None:
        """Remove a member as the owner of its assignment. Called before the assignment changes."""
        self._mark_dirty(member)

    # ---- leaving, and timeouts

    def remove_or_keep_static(self, member_id: str, instance_id: str | None, epoch: int) -> None:
        """Let a member leave: remove it (-1), or keep its assignment until it returns (-2, static members only).

        A static member that is away has epoch -2, and its session timeout keeps running.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
        """
        member = self.find(member_id, instance_id)
        if epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH:
            # Owned partitions stay owned while the member is away. What it had to revoke becomes free: its process has
            # ended.
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
        """Return when :meth:`tick` has to be called; None if no timeout is running."""
        deadlines = [
            deadline
            for member in self.members.values()
            for deadline in (member.session_deadline, member.rebalance_deadline)
            if deadline is not None
        ]
        return min(deadlines, default=None)

    def tick(self, now: float) -> None:
        """Remove members whose session or rebalance timeout has expired."""
        for member in list(self.members.values()):
            deadlines = (member.session_deadline, member.rebalance_deadline)
            # Both deadlines have the same effect: a member that doesn't revoke in time blocks the others as much as one
            # that is gone.
            if any(deadline is not None and deadline <= now for deadline in deadlines):
                self.remove(member)

    def restore(self, members: Iterable[M], targets: dict[str, frozenset[P]], now: float) -> None:
        """Restore members and target assignment from records or from a classic group. Session timeouts restart."""
        for member in members:
            self._register(member)
            member.session_deadline = now + self._session_timeout(member)
            if self._rebalance_timeout_applies(member):
                member.rebalance_deadline = now + member.rebalance_timeout
        self.targets = {member_id: targets.get(member_id, frozenset()) for member_id in self.members}
        self._refresh_topics()

    # ---- queries

    @property
    def state(self) -> str:
        """The group's state, as the Describe request of its type reports it."""
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        stable = all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values())
        return "Stable" if stable else "Reconciling"

    def static_member(self, instance_id: str | None) -> M | None:
        """Return the member with an instance id, or None."""
        return self.members.get(self._static.get(instance_id, "")) if instance_id is not None else None

    def find(self, member_id: str, instance_id: str | None = None) -> M:
        """Return a member. It's looked up by instance id if the request includes one.

        Raises:
            BrokerError: UNKNOWN_MEMBER_ID; FENCED_INSTANCE_ID, if another member has this instance id.
        """
        member = self.members.get(member_id) if instance_id is None else self.static_member(instance_id)
        if member is None:
            identity = f"member {member_id!r}" if instance_id is None else f"instance {instance_id!r}"
            raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID, detail=f"there is no {identity} in group {self.group_id!r}")
        # This is fatal for the client, on purpose: another process has taken over its instance id.
        if member.member_id != member_id:
            raise BrokerError(
                ErrorCode.FENCED_INSTANCE_ID, detail=f"instance {instance_id!r} is member {member.member_id!r} now"
            )
        return member

    def check_not_full(self, member_id: str) -> None:
        """Raise :class:`BrokerError` GROUP_MAX_SIZE_REACHED if this is a new member and the group is full."""
        # Existing members stay if the limit is lowered.
        if member_id not in self.members and len(self.members) >= self.max_size:
            full = f"the group has {counted(len(self.members), 'member')}, its maximum"
            raise BrokerError(ErrorCode.GROUP_MAX_SIZE_REACHED, detail=full)

    # ---- joining and reconciliation

    def _get_or_add_member(self, heartbeat: Heartbeat[P]) -> M:
        if heartbeat.epoch != JOIN_GROUP_MEMBER_EPOCH:
            member = self.find(heartbeat.member_id, heartbeat.instance_id)
            _check_epoch(member, heartbeat)
            return member
        known = self.static_member(heartbeat.instance_id)
        # A fenced member also comes back with epoch 0 and its member id.
        if known is None or known.member_id == heartbeat.member_id:
            # A known member that joins again keeps its assignment: it may not have received the response.
            return self.members.get(heartbeat.member_id) or self.add(heartbeat.member_id)
        # A static member restarted (KIP-345). The previous member must have left with epoch -2. If it hasn't, two
        # processes have the same instance id, and the second is rejected.
        if not self._is_replaceable(known):
            raise BrokerError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                detail=f"instance {heartbeat.instance_id!r} is member {known.member_id!r}",
            )
        if heartbeat.member_id in self.members:
            raise BrokerError(
                ErrorCode.INVALID_REQUEST,
                detail=f"member {heartbeat.member_id!r} is in the group, and cannot replace member {known.member_id!r}",
            )
        return self.replace(known, heartbeat.member_id)

    def add(self, member_id: str) -> M:
        """Add a member with an empty target assignment."""
        member = self._new_member(member_id)
        self._register(member)
        self.targets[member_id] = frozenset()
        return member

    def replace(self, old: M, member_id: str) -> M:
        """Replace a static member with a member that has a new id and takes over its assignment and target
        assignment."""
        self._unregister(old)
        # The epoch is 0: the new process has to receive the assignment before it counts as reconciled.
        member = replace(old, member_id=member_id, epoch=0, previous_epoch=0)
        self._register(member)
        self.targets[member_id] = self.targets.pop(old.member_id)
        return member

    def remove(self, member: M) -> None:
        """Remove a member. The next heartbeat of any member computes the new target assignment."""
        # Unregister the member before removing its target, because subclasses look up what it owned.
        self._unregister(member)
        del self.targets[member.member_id]
        # The assignor doesn't run until the next heartbeat, so members that leave together cost only one assignment.
        self.epoch += 1
        self._refresh_topics()
        if not self.members:
            # No heartbeat will follow, so the assignment epoch catches up now.
            self._set_targets({})

    def _set_instance_id(self, member: M, instance_id: str | None) -> None:
        """Set a member's instance id from its heartbeat; None leaves it as it is."""
        if instance_id is not None:
            if member.instance_id is not None:
                self._static.pop(member.instance_id, None)
            member.instance_id = instance_id
            self._static[instance_id] = member.member_id

    def _reconcile(self, member: M, owned: frozenset[P] | None, now: float) -> None:
        """Reconcile a member with its target assignment, and start or stop its rebalance timeout."""
        before = replace(member)
        target = self.targets[member.member_id]
        if not member.reconcile(self.assignment_epoch, target, owned, lambda each: self._is_free(each, member)):
            return
        # Unregister the member as it was before. Otherwise, what it released would stay owned and could never be
        # assigned again.
        self._unregister_owned(before)
        self._register_owned(member)
        member.rebalance_deadline = now + member.rebalance_timeout if self._rebalance_timeout_applies(member) else None

    def _set_targets(self, targets: dict[str, frozenset[P]]) -> None:
        # Members whose target stays the same don't need a record: only the assignment epoch changes for them.
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
        # replace() may already have given the instance id to its successor.
        if member.instance_id is not None and self._static.get(member.instance_id) == member.member_id:
            del self._static[member.instance_id]

    def _mark_dirty(self, member: M) -> None:
        self.changed = True
        self.dirty.add(member.member_id)


def _check_epoch(member: ReconciledMember[P], heartbeat: Heartbeat[P]) -> None:
    if heartbeat.epoch == member.epoch:
        return
    # The response with the new epoch may have been lost. The member isn't fenced if it owns nothing beyond its
    # assignment: another member may own the rest by now.
    missed = (
        # Only the last response can have been lost: each heartbeat waits for its response.
        heartbeat.epoch == member.previous_epoch
        and heartbeat.owned is not None
        and heartbeat.owned <= member.assigned.keys()
    )
    if not missed:
        raise BrokerError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            detail=f"the member epoch is {member.epoch}, not {heartbeat.epoch}: join again with epoch 0",
        )
