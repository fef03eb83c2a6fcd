"""Partitions that were taken away before their delivered records were committed. They're remembered until the
application knows. Pure.

A member that was removed from the group rejoins automatically, and gets partitions back in a new generation. The
application may not have noticed, and may still have earlier records, which other members process again. If a call
passes records, they show that
(:meth:`Assignment.delivered_by <aiokproto.consumer.assignment.Assignment.delivered_by>`). Other calls (all positions,
offsets in a dict, the identity for a transaction) would commit as the new member what the old one has read. So they're
rejected as long as the application may mean these records: until the loss was reported to it, by its ``on_lost`` or by
a rejected call, and it has then requested the next records.

For transactions, revoked partitions count too if some of their delivered records aren't committed, because their next
owner writes the results again. Other commits are at-least-once anyway, and the application is notified of a revocation.

The partitions of a deleted topic are forgotten: its offsets are gone, and no member will process its records again.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from aiokproto.consumer.cursor import Cursor
from aiokproto.types import OffsetAndMetadata, TopicPartition


class Losses:
    """Partitions that were taken away before all their delivered records were committed.

    Attributes:
        offsets: The offset after the last delivered record of each partition.
        revoked: The partitions that were revoked, not lost.
    """

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        self.revoked: set[TopicPartition] = set()
        self._reported: set[TopicPartition] = set()

    @property
    def lost(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The partitions that were lost, not revoked."""
        return {partition: offset for partition, offset in self.offsets.items() if partition not in self.revoked}

    def add(self, removed: Iterable[Cursor], *, revoked: bool, known: bool) -> None:
        """Note partitions that were revoked or lost. ``known`` says whether the application already knows."""
        for cursor in removed:
            # guard: calls without records are rejected after a loss
            if cursor.outstanding:
                self.offsets[cursor.partition] = OffsetAndMetadata(cursor.delivered_to)
                (self.revoked.add if revoked else self.revoked.discard)(cursor.partition)
                (self._reported.add if known else self._reported.discard)(cursor.partition)

    def report(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that the application knows that these partitions are lost."""
        # guard: a loss that was reported counts until the next request
        #     -> self._reported.update(self.offsets.keys() & set(partitions)); self.requested()
        self._reported.update(self.offsets.keys() & set(partitions))

    def requested(self) -> None:
        """Note that the application has requested records, so it's done with the losses that it knows about."""
        # guard: a loss counts until it was reported -> if self.offsets: self._forget(set(self.offsets))
        if self._reported:
            self._forget(self._reported)

    def retain(self, topics: Container[str]) -> None:
        """Forget the partitions of all other topics, which no longer exist."""
        if deleted := {partition for partition in self.offsets if partition.topic not in topics}:
            self._forget(deleted)

    def _forget(self, partitions: set[TopicPartition]) -> None:
        for partition in partitions:
            del self.offsets[partition]
        self.revoked -= partitions
        # Do this last: ``partitions`` may be this set itself.
        self._reported -= partitions
