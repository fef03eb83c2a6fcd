"""How far some delivered records have brought a consumer: what a transaction commits, and where an abort returns to."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from aiokproto.consumer.assignment import Assignment
from aiokproto.consumer.commit_result import after
from aiokproto.errors import CommitError
from aiokproto.types import GroupMetadata, OffsetAndMetadata, Record, TopicPartition


class Progress:
    """How far some records have brought a consumer (:meth:`Consumer.progress`).

    ``txn.send_offsets(progress)`` commits it in a transaction. After an abort :meth:`rewind` lets the same records come
    again. A partition that the group takes away meanwhile is lost for good, also if it comes back later: other members
    can have processed the records.
    """

    def __init__(
        self, records: Iterable[Record[Any, Any]], assignment: Assignment, group_metadata: Callable[[], GroupMetadata]
    ) -> None:
        self._first: dict[TopicPartition, int] = {}
        last: dict[TopicPartition, Record[Any, Any]] = {}
        for record in records:
            where = TopicPartition(record.topic, record.partition)
            self._first.setdefault(where, record.offset)
            last[where] = record
        self._next = {where: after(record) for where, record in last.items()}
        # A partition that was lost and assigned again has another cursor.
        self._cursors = {where: assignment.get(where) for where in self._first}
        self._assignment = assignment
        self._group_metadata = group_metadata

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions of the records."""
        return list(self._first)

    @property
    def lost(self) -> list[TopicPartition]:
        """The partitions that the group has taken away since the records were delivered."""
        cursors = self._assignment.cursors
        return [where for where, cursor in self._cursors.items() if cursors.get(where) is not cursor]

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offset to continue from in each partition: after the last of the records."""
        return dict(self._next)

    def group_metadata(self) -> GroupMetadata:
        """Return the consumer's identity in its group, to which the records belong.

        Raises:
            CommitError: A partition is lost, or the consumer is in no generation of its group.
        """
        if self.lost:
            raise CommitError(f"the group has taken away {', '.join(map(str, self.lost))}")
        return self._group_metadata()

    def rewind(self) -> None:
        """Deliver the records again, of the partitions that are not lost."""
        lost = self.lost
        for where, offset in self._first.items():
            if where not in lost:
                self._assignment.seek(where, offset)
