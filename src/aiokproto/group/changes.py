"""What the group changes about a member's partitions, and who carries it out."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple, Protocol

from aiokproto.types import TopicPartition


class ChangeKind(Enum):
    """What happens to partitions."""

    REVOKE = auto()
    """They are to be given up: finish the records that are being processed, and commit. They stay this member's until
    the change is carried out, unless the group removes it meanwhile."""
    LOST = auto()
    """They belong to others by now. Nothing of them can be committed."""
    ASSIGN = auto()
    """They are this member's from now on. Empty if a generation brings nothing new."""
    LEFT = auto()
    """There is no subscription, or nobody asks for records: it is no member now, and owns nothing."""


class Change(NamedTuple):
    """One step of a rebalance.

    Attributes:
        kind: What happens.
        partitions: To which partitions, sorted.
        deadline: Loop time by which a REVOKE has to be done, to join the next generation in time.
    """

    kind: ChangeKind
    partitions: list[TopicPartition]
    deadline: float = 0.0


class PartitionOwner(Protocol):
    """Who reads the member's partitions, and carries out what the group changes."""

    async def apply(self, change: Change) -> None:
        """Carry a change out. Nothing else happens to the partitions until this returns, and the group waits for it."""
        ...

    def lost(self) -> None:
        """The group has removed the member. A LOST change follows once :meth:`apply` has returned, which should be
        soon: whatever it waits for can no longer be committed."""
        ...

    def session(self, confirmed: bool) -> None:
        """Whether the coordinator has confirmed the member within the session timeout. While it has not, others may
        have been assigned the partitions."""
        ...
