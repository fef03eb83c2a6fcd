"""Offsets committed in transactions that are still open: not in force yet, and in doubt for whoever asks (KIP-447)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

TopicPartition = tuple[str, int]
"""Topic and partition."""

T = TypeVar("T")


class PendingTransactionalOffsets(Generic[T]):
    """By the partition of the offsets topic and the producer, which is how the marker that decides them names them."""

    def __init__(self) -> None:
        self._pending: dict[tuple[int, int], dict[tuple[str, TopicPartition], T | None]] = {}

    def add(self, partition: int, producer_id: int, group_id: str, offsets: Mapping[TopicPartition, T]) -> None:
        """Note offsets that a producer has sent to a partition of the offsets topic."""
        pending = self._pending.setdefault((partition, producer_id), {})
        pending.update({(group_id, where): what for where, what in offsets.items()})

    def supersede(self, partition: int, group_id: str, offsets: Iterable[TopicPartition]) -> None:
        """Something newer was written for these: they stay in doubt, but a commit will not bring the older back."""
        for (at, _), pending in self._pending.items():
            if at == partition:
                pending.update({(group_id, where): None for where in offsets if (group_id, where) in pending})

    def end(self, partition: int, producer_id: int) -> dict[str, dict[TopicPartition, T]]:
        """The transaction is over: what was pending by it, by group."""
        ended: dict[str, dict[TopicPartition, T]] = {}
        for (group_id, where), what in self._pending.pop((partition, producer_id), {}).items():
            if what is not None:
                ended.setdefault(group_id, {})[where] = what
        return ended

    def of_group(self, partition: int, group_id: str) -> set[TopicPartition]:
        """Where offsets of a group are in doubt."""
        return {
            where
            for (at, _), pending in self._pending.items()
            if at == partition
            for group, where in pending
            if group == group_id
        }

    def drop(self, partition: int) -> None:
        """Forget all that was sent to a partition: its coordinator moves."""
        for key in [key for key in self._pending if key[0] == partition]:
            del self._pending[key]
