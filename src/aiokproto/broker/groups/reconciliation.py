"""A member of any group whose coordinator assigns, and how it gets from what it has to what it should have.

Each member walks to the target assignment by itself, in steps that its heartbeats drive::

    STABLE ──a new target──▶ UNREVOKED_PARTITIONS ──given up──▶ UNRELEASED_PARTITIONS ──others have, too──▶ STABLE

It first gives up what it should not have, in its old epoch; then it enters the target's epoch, and receives what it
lacks as the others let go of it. Nothing is ever at two members that must not be.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Generic, TypeVar

P = TypeVar("P", bound=Hashable)

LEAVE_GROUP_STATIC_MEMBER_EPOCH = -2
"""Epoch of a static member that has left and is expected back; also what it says to leave like that."""

JOIN_GROUP_MEMBER_EPOCH = 0
LEAVE_GROUP_MEMBER_EPOCH = -1


class MemberState(IntEnum):
    """Where a member is on its way, with the numbers that its records give these states."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


@dataclass(eq=False)
class ReconciledMember(Generic[P]):
    """What is known of a member of any group whose coordinator assigns: it has partitions, or what else there is.

    Attributes:
        epoch: The epoch of the target assignment that it follows.
        previous_epoch: The one before: a heartbeat of that epoch may have missed its answer.
        assigned: What it has, and the epochs in which it was given that.
        revoking: What it had and must give up.
        session_deadline: When it is given up for lost.
        rebalance_deadline: When it must have done what the rebalance asks of it; None while it owes nothing.
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
        """Whether it has arrived at that target."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def reconcile(
        self, target_epoch: int, target: frozenset[P], owned: frozenset[P] | None, free: Callable[[P], bool]
    ) -> bool:
        """Go as far towards the target as is possible now.

        Args:
            target_epoch: The target's epoch.
            target: What it should have.
            owned: What it says that it has; None if it does not say.
            free: Whether nobody has a partition.

        Returns:
            Whether anything changed.
        """
        if self.is_reconciled_to(target_epoch):
            return False
        epoch = self.epoch
        if self.state is MemberState.UNREVOKED_PARTITIONS:
            if _owns_any(owned, self.pending_revocation):
                return False
            epoch += 1
        before = (self.epoch, self.state, self.assigned, self.pending_revocation)
        self._reconcile(epoch, target_epoch, target, owned, free)
        return before != (self.epoch, self.state, self.assigned, self.pending_revocation)

    def _reconcile(
        self, epoch: int, target_epoch: int, target: frozenset[P], owned: frozenset[P] | None, free: Callable[[P], bool]
    ) -> None:
        kept = {place: since for place, since in self.assigned.items() if place in target}
        surplus = {place: since for place, since in self.assigned.items() if place not in target}
        if surplus and _owns_any(owned, surplus):
            self.assigned, self.pending_revocation = kept, surplus
            self.state = MemberState.UNREVOKED_PARTITIONS
            self._enter_epoch(epoch)
            return
        missing = target - kept.keys()
        given = {place for place in missing if free(place)}
        self.assigned = {**kept, **dict.fromkeys(given, target_epoch)}
        self.pending_revocation = {}
        self.state = MemberState.STABLE if given == missing else MemberState.UNRELEASED_PARTITIONS
        self._enter_epoch(target_epoch)

    def _enter_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.previous_epoch, self.epoch = self.epoch, epoch


def _owns_any(owned: frozenset[P] | None, places: dict[P, int]) -> bool:
    """Whether a member may still have some of these: it says so, or says nothing."""
    return owned is None or any(place in owned for place in places)
