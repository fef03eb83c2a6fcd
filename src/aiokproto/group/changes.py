"""Changes of a member's partitions, and the interface of what carries them out."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple, Protocol

from aiokproto.types import TopicPartition


class ChangeKind(Enum):
    """What happens to partitions."""

    REVOKE = auto()
    """Give up partitions: finish the records being processed, and commit. The member owns them until the change is
    carried out, unless the group removes it in the meantime."""
    LOST = auto()
    """Other members may own the partitions already. Nothing of them can be committed."""
    ASSIGN = auto()
    """The member owns the partitions from now on. Empty if a generation adds none."""
    LEFT = auto()
    """The member has left the group and owns nothing: it has no subscription, or the application requests no
    records."""


class Change(NamedTuple):
    """One step of a rebalance.

    Attributes:
        kind: What happens.
        partitions: The partitions concerned, sorted.
        deadline: Loop time by which a REVOKE has to be carried out, so that the member joins the next generation in
            time.
    """

    kind: ChangeKind
    # A list and not a set: callbacks receive it, in a stable order.
    partitions: list[TopicPartition]
    deadline: float = 0.0


class PartitionOwner(Protocol):
    """What reads the member's partitions, and carries out the changes that the group makes."""

    async def apply(self, change: Change) -> None:
        """Carry out a change. The group member waits for it, and changes nothing else in the meantime."""
        ...

    def lost(self) -> None:
        """The group has removed the member. A LOST change follows when :meth:`apply` has returned.

        It should return soon: what it waits for can no longer be committed.
        """
        ...

    def session(self, confirmed: bool) -> None:
        """The coordinator has confirmed the session, or has not within the session timeout: then other members may have
        been assigned the partitions."""
        ...
