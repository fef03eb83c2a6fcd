"""Reconciliation: how a member gets from its current assignment to its target assignment (KIP-848).

Each member is reconciled on its own, one step at each of its heartbeats::

    STABLE ──new target──▶ UNREVOKED_PARTITIONS ──revoked──▶ UNRELEASED_PARTITIONS ──released by others──▶ STABLE

1. *Revoke.* What isn't in the target moves from ``assigned`` to ``pending_revocation``. The member stays in its old
   epoch, so that it can still commit the offsets of what it revokes.
2. *Enter the target's epoch* once a heartbeat reports that the member no longer owns any of that.
3. *Assign* what the member lacks, if it is free. What another member still owns or has yet to revoke is assigned at a
   later heartbeat, once that member has released it.

A member skips states that it doesn't need: one that has nothing to revoke enters the new epoch at once. A partition or
task therefore never has two owners. A heartbeat that doesn't report what the member owns (``owned`` is None) does not
end the first step.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Generic, TypeVar

P = TypeVar("P", bound=Hashable)

LEAVE_GROUP_STATIC_MEMBER_EPOCH = -2
"""The epoch that a static member sends when it leaves but keeps its assignment, and its epoch until it returns
(KIP-345, KIP-848)."""

JOIN_GROUP_MEMBER_EPOCH = 0
"""The epoch that a member sends when it joins."""
LEAVE_GROUP_MEMBER_EPOCH = -1
"""The epoch that a member sends when it leaves."""


class MemberState(IntEnum):
    """The states of the reconciliation, with their numbers in the records of consumer groups."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


@dataclass(eq=False)
class ReconciledMember(Generic[P]):
    """A member of a consumer or streams group. Times are in seconds. ``P`` is a partition or a task.

    Attributes:
        epoch: The member epoch: the epoch of the target assignment that it was last reconciled to, perhaps
            incompletely.
        previous_epoch: The epoch before that. A heartbeat with it is accepted: the response with the new epoch may have
            been lost.
        assigned: What it owns, with the epoch in which each partition or task was assigned.
        pending_revocation: What it has to revoke, but still owns.
        session_deadline: When it is removed unless it sends a heartbeat.
        rebalance_deadline: When it is removed unless it has revoked; None while it has nothing to revoke.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: float = 0.0
    epoch: int = field(default=0, kw_only=True)
    previous_epoch: int = field(default=-1, kw_only=True)
    state: MemberState = field(default=MemberState.STABLE, kw_only=True)
    assigned: dict[P, int] = field(default_factory=dict, kw_only=True)
    pending_revocation: dict[P, int] = field(default_factory=dict, kw_only=True)
    session_deadline: float | None = field(default=None, kw_only=True)
    rebalance_deadline: float | None = field(default=None, kw_only=True)

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Return whether the reconciliation with the target of this epoch is complete."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def reconcile(
        self, target_epoch: int, target: frozenset[P], owned: frozenset[P] | None, free: Callable[[P], bool]
    ) -> bool:
        """Take one step towards the target assignment.

        Args:
            target_epoch: The epoch of the target assignment.
            target: What the member should own.
            owned: What its heartbeat reports that it owns; None if it does not report it.
            free: Returns whether no other member owns a partition or task, so that it can be assigned.

        Returns:
            Whether anything changed.
        """
        # Most heartbeats end here.
        if self.is_reconciled_to(target_epoch):
            return False
        epoch = self.epoch
        if self.state is MemberState.UNREVOKED_PARTITIONS:
            # The member is still processing, or doesn't report what it owns. Only a report without these partitions
            # proves that they were revoked.
            if _owns_any(owned, self.pending_revocation):
                return False
            # A member that has revoked moves to the next epoch, even if a newer target makes it revoke more: each round
            # of revocations has its own epoch, as in Kafka's CurrentAssignmentBuilder.
            epoch += 1
        before = (self.epoch, self.state, self.assigned, self.pending_revocation)
        self._reconcile(epoch, target_epoch, target, owned, free)
        return before != (self.epoch, self.state, self.assigned, self.pending_revocation)

    def _reconcile(
        self, epoch: int, target_epoch: int, target: frozenset[P], owned: frozenset[P] | None, free: Callable[[P], bool]
    ) -> None:
        retained = {each: since for each, since in self.assigned.items() if each in target}
        to_revoke = {each: since for each, since in self.assigned.items() if each not in target}
        # A member that reports owning none of these, such as one that joins, has nothing to revoke.
        if to_revoke and _owns_any(owned, to_revoke):
            # Nothing is added in this step. As in Kafka, the smaller assignment is sent first, so revoking never waits
            # for other members.
            self.assigned, self.pending_revocation = retained, to_revoke
            self.state = MemberState.UNREVOKED_PARTITIONS
            self._enter_epoch(epoch)
            return
        missing = target - retained.keys()
        added = {each for each in missing if free(each)}
        # Retained partitions keep the epoch in which they were assigned: commits with that epoch are valid (KIP-1251).
        self.assigned = {**retained, **dict.fromkeys(added, target_epoch)}
        self.pending_revocation = {}
        self.state = MemberState.STABLE if added == missing else MemberState.UNRELEASED_PARTITIONS
        self._enter_epoch(target_epoch)

    def _enter_epoch(self, epoch: int) -> None:
        # There may be several steps in one epoch. previous_epoch must stay the epoch that the client still uses if it
        # lost a response.
        if epoch != self.epoch:
            self.previous_epoch, self.epoch = self.epoch, epoch


def _owns_any(owned: frozenset[P] | None, revoked: dict[P, int]) -> bool:
    """Return whether a member may still own any of these: it says so, or doesn't report what it owns."""
    return owned is None or any(each in owned for each in revoked)
