"""How far some delivered records have brought a consumer: what a transaction commits, and where an abort returns to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from aiokproto.application.gates import PROGRESS, Use, gated
from aiokproto.consumer.assignment import Assignment
from aiokproto.consumer.commit_result import after
from aiokproto.consumer.cursor import Cursor
from aiokproto.errors import CommitError
from aiokproto.types import GroupMetadata, OffsetAndMetadata, Record, TopicPartition


class Delivered:
    """Offsets to commit in a transaction, and the ownerships in which what is before them was delivered.

    Each attempt of a request takes the identity anew, together with a look at the ownerships: both of one turn of the
    event loop. As long as a partition has one owner, the current generation is the right one to send, whatever
    rebalances came in between; afterwards none is.
    """

    def __init__(
        self,
        assignment: Assignment,
        identity: Callable[[], GroupMetadata],
        cursors: Mapping[TopicPartition, Cursor],
        positions: Mapping[TopicPartition, OffsetAndMetadata],
        taken: Iterable[TopicPartition] = (),
        *,
        managed: bool,
    ) -> None:
        """``taken`` are partitions that were taken away already. With ``managed``, the group assigns the partitions."""
        self._assignment = assignment
        self._identity = identity
        self._cursors = cursors
        self._positions = positions
        self._taken = set(taken)
        self._managed = managed

    @property
    def lost(self) -> list[TopicPartition]:
        """The partitions that the group has taken away since the records were delivered."""
        if not self._managed:
            return []
        cursors = self._assignment.cursors
        gone = {where for where, cursor in self._cursors.items() if cursors.get(where) is not cursor}
        return sorted(self._taken | gone)

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offset to continue from in each partition: after the last of the records."""
        return dict(self._positions)

    def group_metadata(self) -> GroupMetadata:
        """Return the consumer's identity in its group, to which the records belong.

        Raises:
            CommitError: A partition is lost, or the consumer is in no generation of its group.
        """
        # guard: a lost partition is not committed
        if lost := self.lost:
            self._assignment.report_lost(lost)
            raise CommitError(
                f"the group has taken away {', '.join(map(str, lost))} since records of it were delivered: they are "
                "processed again"
            )
        return self._identity()

    def _committed(self) -> None:
        """A transaction has committed the positions."""
        for where, cursor in self._cursors.items():
            if where in self._positions and self._assignment.cursors.get(where) is cursor:
                cursor.committed(self._positions[where].offset)


@gated(PROGRESS)
class Progress(Delivered):
    """How far some records have brought a consumer (:meth:`Consumer.progress`).

    ``txn.send_offsets(progress)`` commits it in a transaction. After an abort :meth:`rewind` lets the same records come
    again. A partition that the group takes away meanwhile is lost for good, also if it comes back later: other members
    can have processed the records.
    """

    def __init__(
        self,
        records: Iterable[Record[Any, Any]],
        assignment: Assignment,
        group_metadata: Callable[[], GroupMetadata],
        admit: Callable[[Use], None],
        *,
        managed: bool = True,
    ) -> None:
        self._admit = admit
        self._first: dict[TopicPartition, int] = {}
        last: dict[TopicPartition, Record[Any, Any]] = {}
        cursors: dict[TopicPartition, Cursor] = {}
        taken: set[TopicPartition] = set()
        for record in records:
            where = TopicPartition(record.topic, record.partition)
            last[where] = record
            cursor = assignment.delivered_by(record) if managed else assignment.cursors.get(where)
            if cursor is None:
                # guard: progress knows what was lost before it was made
                taken.add(where)
            else:
                self._first.setdefault(where, record.offset)
                cursors[where] = cursor
        positions = {where: after(record) for where, record in last.items()}
        super().__init__(assignment, group_metadata, cursors, positions, taken, managed=managed)

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions of the records."""
        return list(self._positions)

    def rewind(self) -> None:
        """Deliver the records again, of the partitions that are not lost.

        Raises:
            ConfigurationError: The consumer belongs to an :class:`~aiokproto.exactly_once.ExactlyOnce`.
        """
        self._rewind()

    def _rewind(self) -> None:
        for where, offset in self._first.items():
            # guard: rewinding concerns only what is still owned -> where in self._assignment.cursors
            if self._assignment.cursors.get(where) is self._cursors[where]:
                self._assignment.seek(where, offset)
