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
    """Other members may already own the partitions. Their offsets can't be committed."""
    ASSIGN = auto()
    """The member now owns the partitions. They're empty if a generation adds none."""
    LEFT = auto()
    """The member has left the group and owns nothing: it has no subscription, or the application isn't requesting
    records."""


class Change(NamedTuple):
    """One step of a rebalance.

    Attributes:
        kind: What happens.
        partitions: The affected partitions, sorted.
        deadline: The loop time when a REVOKE has to be carried out, for the member to join the next generation in time.
    """

    kind: ChangeKind
    # This is a list because it's passed to callbacks, in a stable order.
    partitions: list[TopicPartition]
    deadline: float = 0.0


class PartitionOwner(Protocol):
    """The owner reads the member's partitions, and carries out the group's changes."""

    async def apply(self, change: Change) -> None:
        """Carry out a change. The group member waits for it, and doesn't change anything else in the meantime."""
        ...

    def lost(self) -> None:
        """Note that the group has removed the member. A LOST change follows once :meth:`apply` has returned.

        :meth:`apply` should return soon: the offsets that it's waiting for can no longer be committed.
        """
        ...

    def session(self, confirmed: bool) -> None:
        """Note whether the coordinator has confirmed the session. If it hasn't within the session timeout, the
        partitions may have been assigned to other members."""
        ...


class ItemOwner(Protocol[Item]):
    """The owner carries out the changes to a member's items: partitions, or tasks.

    Each item is alternately assigned and then either revoked or lost. There is one change at a time.
    """

    @property
    def owned(self) -> AbstractSet[TopicPartition]:
        """The partitions whose offsets the member can commit."""
        ...

    def known(self, items: frozenset[Item]) -> frozenset[Item]:
        """Return the items that can be assigned now. All others have to wait for metadata."""
        ...

    async def look_up(self, items: frozenset[Item]) -> None:
        """Look up the missing metadata of unknown items. Return once it may be available. Raises KafkaError."""
        ...

    async def assign(self, items: frozenset[Item]) -> None:
        """Note that the member now owns these items. They're empty if the first target is."""
        ...

    async def revoke(self, items: frozenset[Item]) -> None:
        """Give up items. The group waits for it."""
        ...

    async def lose(self, items: frozenset[Item]) -> None:
        """Note that other members may already own these items."""
        ...

    async def left(self) -> None:
        """Note that the member has left the group and owns nothing."""
        ...

    def lost(self) -> None:
        """Note that the group has removed the member. :meth:`lose` follows once the change in progress is carried
        out."""
        ...

    def session(self, confirmed: bool) -> None:
        """Note whether the coordinator has confirmed the session within the session timeout."""
        ...
