"""The progress made by processing records: the offsets that a transaction commits, and the positions to return to after
an abort."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aiokproto.application.gates import PROGRESS, Use, gated
from aiokproto.consumer.commit_result import after
from aiokproto.consumer.cursor import Cursor
from aiokproto.consumer.engine import Engine
from aiokproto.errors import CommitError
from aiokproto.types import GroupMetadata, OffsetAndMetadata, Record, TopicPartition


class Delivered:
    """Offsets to commit in a transaction, and the ownerships under which the records before them were delivered.

    Each attempt of a request reads the identity again and checks the ownerships, in one turn of the event loop. As long
    as this consumer has owned a partition without interruption, the current generation is the right one to send, even
    if there were rebalances in between. After that, no generation is right.
    """

    def __init__(
        self,
        engine: Engine,
        cursors: Mapping[TopicPartition, Cursor],
        positions: Mapping[TopicPartition, OffsetAndMetadata],
        taken: Iterable[TopicPartition] = (),
    ) -> None:
        """``taken`` contains partitions that were already taken away."""
        self._engine = engine
        self._assignment = engine.assignment
        self._cursors = cursors
        self._positions = positions
        self._taken = set(taken)
        self._managed = engine.group_assigns

    @property
    def lost(self) -> list[TopicPartition]:
        """The partitions that the group has taken away since the records were delivered."""
        if not self._managed:
            return []
        cursors = self._assignment.cursors
        lost = {partition for partition, cursor in self._cursors.items() if cursors.get(partition) is not cursor}
        return sorted(self._taken | lost)

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offset to continue from in each partition: the offset after the last record."""
        return dict(self._positions)

    def group_metadata(self) -> GroupMetadata:
        """Return the consumer's identity in its group, which the records belong to.

        Raises:
            CommitError: A partition is lost, or the consumer isn't in a generation of its group.
        """
        # guard: a lost partition is not committed
        if lost := self.lost:
            self._assignment.report_lost(lost)
            raise CommitError(
                f"the group has taken away {', '.join(map(str, lost))} since records of it were delivered: they are "
                "processed again"
            )
        return self._engine.group_metadata()

    def _committed(self) -> None:
        """Note that a transaction has committed the positions."""
        for partition, cursor in self._cursors.items():
            if partition in self._positions and self._assignment.cursors.get(partition) is cursor:
                cursor.committed(self._positions[partition].offset)


@gated(PROGRESS)
class Progress(Delivered):
    """A consumer's progress after processing some records (:meth:`Consumer.progress`).

    ``txn.send_offsets(progress)`` commits it in a transaction. After an abort, :meth:`rewind` makes the consumer
    deliver the same records again. If the group takes a partition away in the meantime, it's lost for good, even if it
    comes back later: other members may have processed the records.
    """

    def __init__(self, engine: Engine, records: Iterable[Record[Any, Any]]) -> None:
        assignment, managed = engine.assignment, engine.group_assigns
        self._first: dict[TopicPartition, int] = {}
        last: dict[TopicPartition, Record[Any, Any]] = {}
        cursors: dict[TopicPartition, Cursor] = {}
        taken: set[TopicPartition] = set()
        for record in records:
            partition = TopicPartition(record.topic, record.partition)
            last[partition] = record
            cursor = assignment.delivered_by(record) if managed else assignment.cursors.get(partition)
            if cursor is None:
                # guard: progress knows what was lost before it was made
                taken.add(partition)
            else:
                self._first.setdefault(partition, record.offset)
                cursors[partition] = cursor
        positions = {partition: after(record) for partition, record in last.items()}
        super().__init__(engine, cursors, positions, taken)

    def _admit(self, use: Use) -> None:
        self._engine.admit(use)

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions of the records."""
        return list(self._positions)

    def rewind(self) -> None:
        """Deliver the records again, unless their partition is lost.

        Raises:
            ConfigurationError: The consumer belongs to an :class:`~aiokproto.exactly_once.ExactlyOnce`.
        """
        self._rewind()

    def _rewind(self) -> None:
        for partition, offset in self._first.items():
            # guard: rewinding concerns only what is still owned -> partition in self._assignment.cursors
            if self._assignment.cursors.get(partition) is self._cursors[partition]:
                self._assignment.seek(partition, offset)
