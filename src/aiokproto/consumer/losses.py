"""What was delivered, and taken away before it was committed: remembered until the application knows. Pure.

A member that the group has removed joins again by itself, and gets partitions back in a new generation. The application
may not have noticed: it still has records of before, which other members process again. Calls that name records are
decided by the records (:meth:`Assignment.delivered_by <aiokproto.consumer.assignment.Assignment.delivered_by>`). Those
that do not (all positions, offsets in a dict, the identity for a transaction) would commit as the new member what the
old one has read, so they are refused as long as the application may mean these records: until the loss was reported to
it, by its ``on_lost`` or by a call that was refused, and it has requested the next records after that.

Partitions that were revoked count for transactions, if records of them are left that nobody has committed: their next
owner writes the results again. Other commits are at least once anyway, and the partition was not taken away without
notice.

Of a topic that is deleted nothing is remembered: its offsets are gone, and nobody processes its records again.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from aiokproto.consumer.cursor import Cursor
from aiokproto.types import OffsetAndMetadata, TopicPartition


class Losses:
    """Partitions that were taken away before all their delivered records were committed.

    Attributes:
        offsets: For each of them, the offset behind the last of these records.
        revoked: Those that were revoked, and not lost.
    """

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        self.revoked: set[TopicPartition] = set()
        self._reported: set[TopicPartition] = set()

    @property
    def lost(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Those that were not revoked in order."""
        return {partition: offset for partition, offset in self.offsets.items() if partition not in self.revoked}

    def add(self, removed: Iterable[Cursor], *, revoked: bool, known: bool) -> None:
        """Take note of partitions that were revoked or lost; ``known`` if the application knows already."""
        for cursor in removed:
            # guard: calls without records are rejected after a loss
            if cursor.outstanding:
                self.offsets[cursor.partition] = OffsetAndMetadata(cursor.delivered_to)
                (self.revoked.add if revoked else self.revoked.discard)(cursor.partition)
                (self._reported.add if known else self._reported.discard)(cursor.partition)

    def report(self, partitions: Iterable[TopicPartition]) -> None:
        """The application knows that these are lost."""
        # guard: a loss that was reported counts until the next request
        #     -> self._reported.update(self.offsets.keys() & set(partitions)); self.requested()
        self._reported.update(self.offsets.keys() & set(partitions))

    def requested(self) -> None:
        """The application requests records: it is done with what it knows to be lost."""
        # guard: a loss counts until it was reported -> if self.offsets: self._forget(set(self.offsets))
        if self._reported:
            self._forget(self._reported)

    def retain(self, topics: Container[str]) -> None:
        """Forget the partitions of other topics: they do not exist any more."""
        if gone := {partition for partition in self.offsets if partition.topic not in topics}:
            self._forget(gone)

    def _forget(self, partitions: set[TopicPartition]) -> None:
        for partition in partitions:
            del self.offsets[partition]
        self.revoked -= partitions
        # Last: it may be the set itself.
        self._reported -= partitions
