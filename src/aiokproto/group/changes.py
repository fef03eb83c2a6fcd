"""Changes of a member's partitions, and the interface of the owner that carries them out."""

from __future__ import annotations

from collections.abc import Hashable
from collections.abc import Set as AbstractSet
from enum import Enum, auto
from typing import NamedTuple, Protocol, TypeVar

from aiokproto.types import TopicPartition

Item = TypeVar("Item", bound=Hashable)


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
    # It is a list because callbacks receive it, in a stable order.
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


class ItemOwner(Protocol[Item]):
    """What carries out the changes of a member's items: partitions, or tasks.

    An item is assigned, then either revoked or lost, alternately; one change at a time.
    """

    @property
    def owned(self) -> AbstractSet[TopicPartition]:
        """The partitions whose offsets the member can commit."""
        ...

    def known(self, items: frozenset[Item]) -> frozenset[Item]:
        """Return the items that can be assigned now; others have to wait for metadata."""
        ...

    async def look_up(self, items: frozenset[Item]) -> None:
        """Look up what is missing of items that are not known. Returns when it may be there; raises KafkaError."""
        ...

    async def assign(self, items: frozenset[Item]) -> None:
        """The member owns these from now on; empty if a first target has none."""
        ...

    async def revoke(self, items: frozenset[Item]) -> None:
        """Give up items: the group waits for it."""
        ...

    async def lose(self, items: frozenset[Item]) -> None:
        """Other members may own these already."""
        ...

    async def left(self) -> None:
        """The member has left the group and owns nothing."""
        ...

    def lost(self) -> None:
        """The group has removed the member: :meth:`lose` follows when the change in progress is carried out."""
        ...

    def session(self, confirmed: bool) -> None:
        """The coordinator has confirmed the session, or has not within the session timeout."""
        ...
