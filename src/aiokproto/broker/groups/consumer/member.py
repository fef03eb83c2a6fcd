"""A member of a consumer group, and how it gets from what it has to what it should have.

Each member walks to the target assignment by itself, in steps that its heartbeats drive::

    STABLE ──a new target──▶ UNREVOKED_PARTITIONS ──given up──▶ UNRELEASED_PARTITIONS ──others have, too──▶ STABLE

It first gives up what it should not have, in its old epoch; then it enters the target's epoch, and receives what it
lacks as the others let go of it. No partition is ever at two members.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum

from aiokproto.broker.groups.member import Protocols

Place = tuple[bytes, int]
"""A partition: its topic's id and its index."""

Places = frozenset[Place]

LEFT_FOR_NOW = -2
"""Epoch of a static member that has left and is expected back; also what it says to leave like that."""

JOINING = 0
LEAVING = -1


class MemberState(IntEnum):
    """Where a member is on its way, with the numbers that its records give these states."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


@dataclass(frozen=True)
class ClassicSide:
    """What is known of a member that came with JoinGroup. The session's timeout in seconds."""

    session_timeout: float
    protocols: Protocols


@dataclass(frozen=True)
class Beat:
    """A ConsumerGroupHeartbeat request: None means that nothing changed since the last. The timeout in seconds."""

    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout: float | None = None
    topics: frozenset[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Places | None = None
    client_id: str = ""
    client_host: str = ""

    @property
    def full(self) -> bool:
        """Whether it says everything: then the answer does so, too."""
        all_given = self.rebalance_timeout is not None and self.topics is not None and self.owned is not None
        return self.epoch == JOINING or all_given


@dataclass(eq=False)
class ConsumerMember:
    """A member.

    Attributes:
        topics: The topics it names.
        regex: The pattern of the topics it wants besides; empty for none.
        classic: Set while it speaks the classic protocol.
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
    topics: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None
    classic: ClassicSide | None = None
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: dict[Place, int] = field(default_factory=dict)
    revoking: dict[Place, int] = field(default_factory=dict)
    session_deadline: float | None = None
    rebalance_deadline: float | None = None

    def reconciled(self, target_epoch: int) -> bool:
        """Whether it has arrived at that target."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def step(self, target_epoch: int, target: Places, owned: Places | None, free: Callable[[Place], bool]) -> bool:
        """Go as far towards the target as is possible now.

        Args:
            target_epoch: The target's epoch.
            target: What it should have.
            owned: What it says that it has; None if it does not say.
            free: Whether nobody has a partition.

        Returns:
            Whether anything changed.
        """
        if self.reconciled(target_epoch):
            return False
        epoch = self.epoch
        if self.state is MemberState.UNREVOKED_PARTITIONS:
            if _holds_any(owned, self.revoking):
                return False
            epoch += 1
        before = (self.epoch, self.state, self.assigned, self.revoking)
        self._advance(epoch, target_epoch, target, owned, free)
        return before != (self.epoch, self.state, self.assigned, self.revoking)

    def _advance(
        self, epoch: int, target_epoch: int, target: Places, owned: Places | None, free: Callable[[Place], bool]
    ) -> None:
        kept = {place: since for place, since in self.assigned.items() if place in target}
        surplus = {place: since for place, since in self.assigned.items() if place not in target}
        if surplus and _holds_any(owned, surplus):
            self.assigned, self.revoking = kept, surplus
            self.state = MemberState.UNREVOKED_PARTITIONS
            self._enter(epoch)
            return
        missing = target - kept.keys()
        given = {place for place in missing if free(place)}
        self.assigned = {**kept, **dict.fromkeys(given, target_epoch)}
        self.revoking = {}
        self.state = MemberState.STABLE if given == missing else MemberState.UNRELEASED_PARTITIONS
        self._enter(target_epoch)

    def _enter(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.previous_epoch, self.epoch = self.epoch, epoch


def _holds_any(owned: Places | None, places: dict[Place, int]) -> bool:
    """Whether a member may still have some of these: it says so, or says nothing."""
    return owned is None or any(place in owned for place in places)
