"""What is kept of a share partition, and by whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StateBatch:
    """A run of offsets of one state.

    Attributes:
        first_offset: The first of them.
        last_offset: The last of them.
        delivery_state: 0 available, 2 acknowledged, 4 archived, as Kafka numbers them.
        delivery_count: How often they were delivered.
    """

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class PartitionState:
    """What a share group has done with a partition.

    Attributes:
        start_offset: All before is done; -1 where ``share.auto.offset.reset`` has still to say.
        state_epoch: Grows when an administrator sets the offset.
        leader_epoch: That of the partition's leader who wrote last.
        batches: From the start offset on, in order, without overlap.
        delivery_complete_count: How many offsets from the start on are done; -1 for unknown.
    """

    start_offset: int
    state_epoch: int
    leader_epoch: int
    batches: tuple[StateBatch, ...]
    delivery_complete_count: int


class SharePersister(Protocol):
    """Keeps the states. What it cannot do it refuses with a ``BrokerError``, and has then changed nothing."""

    def read(self, group: str, topic_id: bytes, partition: int, leader_epoch: int) -> PartitionState:
        """The state, for the leader of an epoch: older leaders are refused from now on."""
        ...

    def write(self, group: str, topic_id: bytes, partition: int, state: PartitionState) -> None:
        """Keep a state. Its batches are added to those that are kept; where they overlap, the one that was delivered
        more often counts, and among these the one further on its way. The start offset prunes what is before it.
        """
        ...
