"""The persisted state of a share partition, and the interface of what stores it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StateBatch:
    """Consecutive offsets in the same state.

    Attributes:
        first_offset: The first offset.
        last_offset: The last offset.
        delivery_state: 0 available, 2 acknowledged, 3 archiving (to a dead-letter topic), 4 archived: Kafka's numbers.
        delivery_count: How often they were delivered.
    """

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class ShareGroupOffset:
    """The persisted state of a share partition (Kafka's ShareGroupOffset).

    Attributes:
        start_offset: The first offset that is not in a terminal state; -1: ``share.auto.offset.reset`` decides.
        state_epoch: Grows each time the start offset is reset. An older epoch cannot write.
        leader_epoch: The leader epoch of the last writer. An older epoch cannot read or write.
        batches: The states from the start offset on, in order and without overlaps.
        delivery_complete_count: Number of offsets from the start offset on in a terminal state (KIP-1226); -1: unknown.
    """

    start_offset: int
    state_epoch: int
    leader_epoch: int
    batches: tuple[StateBatch, ...]
    delivery_complete_count: int


class SharePersister(Protocol):
    """Stores the states of share partitions. A method that raises ``BrokerError`` has changed nothing."""

    def read(self, group: str, topic_id: bytes, partition: int, leader_epoch: int) -> ShareGroupOffset:
        """Return the state, and fence leaders with an older epoch from now on."""
        ...

    def write(self, group: str, topic_id: bytes, partition: int, state: ShareGroupOffset) -> None:
        """Merge a state into the stored one.

        Its batches are added to the stored ones; where they overlap, the higher delivery count wins, then the higher
        delivery state. Batches before the start offset are removed.
        """
        ...
