"""Partitions that were taken away before their delivered records were committed, remembered until the application
knows. Pure.

A member that the group has removed joins again by itself, and gets partitions back in a new generation. The application
may not have noticed, and may still have earlier records, which other members process again. For calls that name
records, the records show that (:meth:`Assignment.delivered_by
<aiokproto.consumer.assignment.Assignment.delivered_by>`). Other calls (all positions, offsets in a dict, the identity
for a transaction) would commit as the new member what the old one has read. So they're refused as long as the
application may mean these records: until the loss was reported to it, by its ``on_lost`` or by a refused call, and it
has requested the next records after that.

Revoked partitions count for transactions if some of their delivered records aren't committed, because their next owner
writes the results again. Other commits are at least once anyway, and a revocation isn't without notice.

The partitions of a deleted topic are forgotten, because its offsets are gone and no member processes its records again.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from aiokproto.consumer.cursor import Cursor
from aiokproto.types import OffsetAndMetadata, TopicPartition


class Losses:
    """Partitions that were taken away before all their delivered records were committed.

    Attributes:
        offsets: For each of them, the offset behind the last delivered record. revoked: The partitions that were
        revoked, and not lost.
    """

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        self.revoked: set[TopicPartition] = set()
        self._reported: set[TopicPartition] = set()

    @property
    def lost(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The partitions that were lost, and not revoked."""
        return {partition: offset for partition, offset in self.offsets.items() if partition not in self.revoked}

    def add(self, removed: Iterable[Cursor], *, revoked: bool, known: bool) -> None:
        """Note partitions that were revoked or lost. ``known`` says whether the application knows already."""
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
        """Note that the application requests records, so it's done with the losses that it knows of."""
        # guard: a loss counts until it was reported -> if self.offsets: self._forget(set(self.offsets))
        if self._reported:
            self._forget(self._reported)

    def retain(self, topics: Container[str]) -> None:
        """Forget the partitions of other topics, which don't exist any more."""
        if deleted := {partition for partition in self.offsets if partition.topic not in topics}:
            self._forget(deleted)

    def _forget(self, partitions: set[TopicPartition]) -> None:
        for partition in partitions:
            del self.offsets[partition]
        self.revoked -= partitions
        # Do this last, because ``partitions`` may be this set itself.
        self._reported -= partitions
