"""Offsets committed by TxnOffsetCommit in transactions that are still open (KIP-98).

They become the group's offsets when a COMMIT marker is written to their partition of the offsets topic, and an ABORT
marker drops them. Until then a fetch with ``require_stable`` reports them as unstable (KIP-447).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

TopicPartition = tuple[str, int]
"""Topic and partition."""

T = TypeVar("T")


class PendingTransactionalOffsets(Generic[T]):
    """The pending offsets, by partition of the offsets topic and producer id: a marker identifies exactly these two."""

    def __init__(self) -> None:
        # None marks a superseded offset: it's unstable until the marker is written, but the marker doesn't commit it.
        self._pending: dict[tuple[int, int], dict[tuple[str, TopicPartition], T | None]] = {}

    def add(self, partition: int, producer_id: int, group_id: str, offsets: Mapping[TopicPartition, T]) -> None:
        """Add offsets that a producer has committed to a group in a partition of the offsets topic."""
        pending = self._pending.setdefault((partition, producer_id), {})
        # A later offset of the same transaction replaces the earlier one: only the last counts when it commits.
        pending.update({(group_id, partition): offset for partition, offset in offsets.items()})

    def supersede(self, partition: int, group_id: str, offsets: Iterable[TopicPartition]) -> None:
        """Discard the pending values of offsets for which a later record was written outside the transaction.

        They stay unstable until the marker is written, but a COMMIT must not replace the newer offset with the older
        one.
        """
        for (index, _), pending in self._pending.items():
            if index == partition:
                pending.update({(group_id, key): None for key in offsets if (group_id, key) in pending})

    def end(self, partition: int, producer_id: int) -> dict[str, dict[TopicPartition, T]]:
        """Remove the offsets of a transaction that has ended and return them, by group."""
        ended: dict[str, dict[TopicPartition, T]] = {}
        for (group_id, key), offset in self._pending.pop((partition, producer_id), {}).items():
            if offset is not None:
                ended.setdefault(group_id, {})[key] = offset
        return ended

    def of_group(self, partition: int, group_id: str) -> set[TopicPartition]:
        """Return the partitions for which a group has pending offsets."""
        return {
            key
            for (index, _), pending in self._pending.items()
            if index == partition
            for group, key in pending
            if group == group_id
        }

    def drop(self, partition: int) -> None:
        """Remove everything in a partition of the offsets topic: its leader is changing, and it will be read again."""
        for key in [key for key in self._pending if key[0] == partition]:
            del self._pending[key]

    def clear(self) -> None:
        """Remove everything: the offsets topic was deleted, or the cluster is closed."""
        self._pending.clear()
