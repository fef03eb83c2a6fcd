"""The table of assigned partitions: which one delivers next, and what the application is processing. Pure.

This is where at-least-once delivery is decided. A record is *being processed* from its delivery until the application
requests the next one. Only then does it count as processed; automatic commits stop before it. Delivery takes two steps
(see ``delivery``): pop a record from :attr:`Assignment.open`, store it in :attr:`Assignment.current`. A pause, seek,
hold or removal of the partition that is being delivered replaces the list, so the hot path doesn't have to check
anything.

Partitions with buffered records queue up and deliver in turn, one opened batch each, so no partition starves another.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from aiokproto.consumer.batch import FetchedBatch
from aiokproto.consumer.cursor import Cursor
from aiokproto.consumer.delivery import DeliveryState
from aiokproto.consumer.losses import Losses
from aiokproto.consumer.offset_reset import OffsetReset
from aiokproto.consumer.start_lookup import FormerPosition
from aiokproto.errors import AuthorizationError, ConfigurationError, KafkaError, UnknownTopicError
from aiokproto.observe.observers import ConsumerObserver
from aiokproto.runtime import thread_id
from aiokproto.types import OffsetAndMetadata, Record, TopicPartition

if TYPE_CHECKING:
    from aiokproto.consumer.engine import Engine
    from aiokproto.consumer.running.runner import ConsumerRunner

log = logging.getLogger("aiokproto.consumer")


class Assignment(DeliveryState):
    """The assigned partitions.

    Attributes:
        cursors: The cursor of each partition.
        delivered: How many batches were delivered so far.
        runner: The call of :meth:`Consumer.run`; None while there is none.
        last_runner: The latest call, even if it has ended: some of its handler calls may still be running.
        losses: Partitions that were taken away before their records were committed. They stay here until the
            application knows.
        observer: Counts what is fetched and delivered.
    """

    def __init__(self, engine: Engine, observer: ConsumerObserver | None = None) -> None:
        super().__init__()
        self.observer = observer or ConsumerObserver()
        # The number of records in `open` when serve() set it, and the offset after the last record.
        self._served = 0
        self._served_to = -1
        self.cursors: dict[TopicPartition, Cursor] = {}
        self.delivered = 0
        self.runner: ConsumerRunner | None = None
        self.last_runner: ConsumerRunner | None = None
        self.losses = Losses()
        # The partition that `open` belongs to; None if no records are open.
        self._serving: Cursor | None = None
        # The queue of partitions with something to deliver. An entry is stale if its partition was paused or removed;
        # next_cursor() drops it.
        self._turns: deque[Cursor] = deque()
        self._engine = engine

    def get(self, partition: TopicPartition) -> Cursor:
        """Return the cursor of an assigned partition.

        Raises:
            ConfigurationError: The partition is not assigned.
        """
        if partition not in self.cursors:
            raise ConfigurationError(
                f"{partition} is not assigned to this consumer; with a subscription, call this in on_assigned or later"
            )
        return self.cursors[partition]

    # Membership of the table

    def add(self, partitions: Iterable[TopicPartition], start: int, held: str = "") -> None:
        """Add partitions that aren't assigned yet. With ``held``, a reason, they are neither fetched nor delivered
        until :meth:`release`."""
        # A partition that is already assigned keeps its cursor and position.
        added = [Cursor(partition, start, held) for partition in partitions if partition not in self.cursors]
        self.cursors.update((cursor.partition, cursor) for cursor in added)
        self._engine.assignment_changed(added)

    def remove(self, partitions: Iterable[TopicPartition]) -> list[Cursor]:
        """Remove partitions: none of their records are delivered any more. Return their cursors."""
        removed = [cursor for partition in partitions if (cursor := self.cursors.pop(partition, None)) is not None]
        for cursor in removed:
            self._interrupt(cursor)
            cursor.hold("not assigned")
            # The seek gives it a new version, so responses in flight for the removed partition are dropped on arrival.
            cursor.seek(cursor.lookup.start)
        self._engine.assignment_changed(removed)
        return removed

    def take_away(self, partitions: Iterable[TopicPartition], *, revoked: bool, known: bool) -> None:
        """Like :meth:`remove`, when the group has ``revoked`` the partitions or has continued without this member.
        ``known`` says whether the application knows about it."""
        self.losses.add(self.remove(partitions), revoked=revoked, known=known)

    def report_lost(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that the application knows that these partitions are lost."""
        if self.losses.offsets:
            self.losses.report(partitions)
            # End the turn. The application has to request the next record instead of taking an open one.
            self.end_turn()

    def hold(self, partitions: Iterable[TopicPartition], why: str) -> None:
        """Stop delivering records of these partitions until :meth:`release`."""
        held = self._present(partitions)
        for cursor in held:
            cursor.hold(why)
            self._interrupt(cursor)
        self._engine.assignment_changed(held)

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        """End :meth:`hold`."""
        released = self._present(partitions)
        for cursor in released:
            cursor.hold("")
            self.enqueue(cursor)
        self._engine.assignment_changed(released)

    def _present(self, partitions: Iterable[TopicPartition]) -> list[Cursor]:
        return [self.cursors[partition] for partition in partitions if partition in self.cursors]

    # Calls of the application

    def pause(self, partitions: Iterable[TopicPartition], paused: bool) -> None:
        """Pause or resume partitions; their buffered records stay."""
        # Look up all partitions before changing any: if one isn't assigned, this raises, and none may have changed.
        cursors = [self.get(partition) for partition in partitions]
        for cursor in cursors:
            cursor.pause(paused)
            if paused:
                # guard: a paused partition is not delivered
                self._interrupt(cursor)
            else:
                self.enqueue(cursor)
        self._engine.assignment_changed(cursors)

    def fill(self, cursor: Cursor, full: bool) -> None:
        """Stop or continue taking a partition's records for :meth:`Consumer.run`."""
        cursor.fill(full)
        if full:
            self._interrupt(cursor)
        else:
            self.arrived(cursor)
        self._engine.assignment_changed([cursor])

    def seek(self, partition: TopicPartition, offset: int, epoch: int = -1) -> None:
        """Continue from an offset; ``epoch`` is the leader epoch that was committed with it, -1 if unknown."""
        cursor = self.get(partition)
        # Drop the open records before the position changes: they're from before the seek.
        self._interrupt(cursor)
        cursor.set_position(offset, epoch)
        self._engine.assignment_changed([cursor])

    def seek_to(self, partitions: Iterable[TopicPartition], start: int) -> None:
        """Continue from ``EARLIEST``, ``LATEST``, or a timestamp (ms)."""
        cursors = [self.get(partition) for partition in partitions]
        for cursor in cursors:
            self._interrupt(cursor)
            cursor.seek(start)
        self._engine.assignment_changed(cursors)

    # Events of fetching and lookups

    def resolved(self, cursor: Cursor, offset: int, epoch: int = -1, leader_epoch: int = -1) -> None:
        """Set the position that was looked up. For the epochs, see :meth:`Cursor.set_position`."""
        former = cursor.lookup.reset
        cursor.set_position(offset, epoch, leader_epoch)
        self._engine.assignment_changed([cursor])
        if former is not None:
            self.reset_happened(cursor, former, offset)

    def reset(self, cursor: Cursor, start: int, former: FormerPosition) -> None:
        """Look up a new position because the current one isn't in the log."""
        self._interrupt(cursor)
        cursor.seek(start, former)
        self._engine.assignment_changed([cursor])

    def refetch(self, cursor: Cursor, offset: int) -> None:
        """Fetch again from this offset: the last fetched records ended with damage."""
        cursor.fetch.advance(offset)
        self._engine.assignment_changed([cursor])

    def rewind(self, cursor: Cursor, offset: int, epoch: int) -> None:
        """Continue from an earlier offset, where the leader's log diverges from the fetched records."""
        self._interrupt(cursor)
        cursor.rewind(offset, epoch)
        self._engine.assignment_changed([cursor])

    def validated(self, cursor: Cursor) -> None:
        """Note that a position was validated, or has to be validated before the partition is fetched again."""
        self._engine.assignment_changed([cursor])

    def reset_happened(self, cursor: Cursor, former: FormerPosition, offset: int) -> None:
        """Report that the consumer has moved a position on its own. Every reset is reported here."""
        event = OffsetReset(cursor.partition, former.reason, former.offset, offset, former.leader_epoch)
        self.observer.reset(cursor.partition, former.reason.value, former.offset, offset, former.leader_epoch)
        log.warning("consumer: %s", event)
        self._engine.position_reset(event)

    def fail(self, cursor: Cursor, error: KafkaError) -> None:
        """Stop a partition until the application seeks; the next read raises the error."""
        cursor.fail(error)
        self._engine.assignment_changed([cursor])
        # Queue the error like records. It's raised when it's the partition's turn.
        self.arrived(cursor)

    # Delivery

    def enqueue(self, cursor: Cursor) -> None:
        """Queue a partition for delivery if it has something to deliver."""
        # A partition that is being served isn't queued; end_turn() queues it again.
        if cursor.ready and not cursor.queued and cursor is not self._serving:
            cursor.queued = True
            self._turns.append(cursor)

    def arrived(self, cursor: Cursor) -> None:
        """Note that records, or an error to raise, have arrived."""
        self.enqueue(cursor)
        self._engine.records_arrived()

    def next_cursor(self, among: Collection[TopicPartition] | None = None) -> Cursor | None:
        """Return the partition to deliver next, None if there is none. It stays first until :meth:`serve` or
        :meth:`yield_turn`. With ``among``, only these partitions are considered; all others keep their turns."""
        # The application has taken all open records, or a seek has dropped them, so it's the next partition's turn.
        self.end_turn()
        if among is not None:
            self._turns = deque(sorted(self._turns, key=lambda cursor: cursor.partition not in among))
        while self._turns:
            cursor = self._turns[0]
            # Compare cursors: a partition that was removed and assigned again has a new cursor.
            if cursor.ready and self.cursors.get(cursor.partition) is cursor:
                return cursor if among is None or cursor.partition in among else None
            cursor.queued = False
            self._turns.popleft()
        return None

    def ready(self) -> list[Cursor]:
        """Return the partitions that have something to deliver, in the order of their turns."""
        self.end_turn()
        return [each for each in self._turns if each.ready and self.cursors.get(each.partition) is each]

    def opened(self, cursor: Cursor) -> None:
        """Note that records were opened before their partition's turn, which makes room to fetch more."""
        # Queue the partition again: its turn ended while a thread was opening the records.
        self.enqueue(cursor)
        self._engine.buffer_has_room()

    def serve(self, cursor: Cursor) -> None:
        """Start delivering the opened records of this partition."""
        self.yield_turn(cursor)
        self._serving = cursor
        # Use the buffer's own list: popping a record from it advances the partition's position (RecordBuffer.position).
        self.open = cursor.buffer.records
        self.thread = thread_id()
        self._served = len(self.open)
        # The list has its last record first.
        self._served_to = self.open[0].offset + 1
        self.delivered += 1
        self._engine.buffer_has_room()

    def delivered_at_once(self, cursor: Cursor, records: int) -> None:
        """Note that all open records of this partition are delivered as one batch of ``records``."""
        self.yield_turn(cursor)
        self.enqueue(cursor)
        self.observer.delivered(cursor.partition, records, cursor.buffer.end)
        cursor.delivered(cursor.buffer.end)
        self.delivered += 1
        self._engine.buffer_has_room()

    def yield_turn(self, cursor: Cursor) -> None:
        """Remove a partition from the head of the queue. If it has more to deliver, it goes to the end of the queue."""
        if self._turns and self._turns[0] is cursor:
            self._turns.popleft()
            cursor.queued = False

    def report(self, cursor: Cursor) -> KafkaError:
        """Return the partition's error for the caller to raise. A missing topic is retried."""
        error = cursor.error
        assert error is not None
        self.yield_turn(cursor)
        if isinstance(error, UnknownTopicError):
            cursor.retry()
            self._engine.assignment_changed([cursor])
        else:
            # Move it to the end of the queue: at the head it would keep the others from ever delivering again.
            self.enqueue(cursor)
        if isinstance(error, AuthorizationError):
            others = [each.error for each in self.cursors.values() if isinstance(each.error, AuthorizationError)]
            return AuthorizationError.together([error, *others])
        return error

    def take(self, count: int) -> list[Record]:
        """Take up to ``count`` of the opened records, in order of offsets."""
        records = self.open
        # The list has its last record first.
        taken = records[: -count - 1 : -1]
        del records[-count:]
        return taken

    def take_open(self, cursors: Iterable[Cursor], count: int) -> list[Record]:
        """Take up to ``count`` of the opened records of these partitions, one partition at a time."""
        taken: list[Record] = []
        for cursor in cursors:
            if len(taken) == count:
                break
            self.end_turn()
            self.serve(cursor)
            taken += self.take(count - len(taken))
        return taken

    def end_turn(self) -> None:
        """Close the open records. If their partition has more, it goes to the end of the queue."""
        if self._serving is not None:
            self._report_delivered(self._serving)
        cursor, self._serving, self.open = self._serving, None, []
        if cursor is not None:
            # Do this once per turn, because the hot path only pops a record.
            cursor.buffer.delivered()
            self.enqueue(cursor)

    def served(self) -> Cursor:
        """Return the partition whose records are open."""
        assert self._serving is not None
        return self._serving

    def stop(self) -> None:
        """Stop delivering records."""
        if self._serving is not None:
            self._report_delivered(self._serving)
        self._serving = None
        self.open = []

    def forget_open(self) -> None:
        """Forget the open records in a forked child: they belong to the parent."""
        self._serving = None
        self.open = []

    def mark_processed(self) -> None:
        """Note that the application has requested the next record, so it has processed the records it has."""
        self.current = None
        self.losses.requested()

    # Progress

    def delivered_by(self, what: Record[Any, Any] | FetchedBatch) -> Cursor | None:
        """Return the cursor that has delivered a record or batch. It's None if the partition has been taken away since,
        even if it's back, because other members may have processed the record."""
        cursor = self.cursors.get(TopicPartition(what.topic, what.partition))
        # guard: a record from before a loss does not count after it -> True
        if cursor is None or what._ownership is cursor.ownership:
            return cursor
        # The application, an interceptor or another process created the record, so only the offset can tell.
        offset = what.base_offset if isinstance(what, FetchedBatch) else what.offset
        return cursor if what._ownership is None and cursor.has_delivered(offset) else None

    def being_processed(self) -> dict[TopicPartition, int]:
        """Return the first offset that is being processed in each partition. Records of partitions that were taken away
        don't count."""
        current = self.current
        if current is None:
            return {}
        if isinstance(current, FetchedBatch):
            mine = self.delivered_by(current) is not None
            return {TopicPartition(current.topic, current.partition): current.base_offset} if mine else {}
        first: dict[TopicPartition, int] = {}
        # The records are in order of offsets, so setdefault keeps each partition's first.
        for record in [current] if isinstance(current, Record) else current:
            # guard: a lost record is not being processed -> True
            if self.delivered_by(record) is not None:
                first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        return first

    def is_busy(self, partitions: Collection[TopicPartition]) -> bool:
        """Return whether the application is processing a record of these partitions."""
        if self.runner is not None:
            # guard: a revocation waits for handlers -> False
            return self.runner.is_busy(partitions)
        return not self.being_processed().keys().isdisjoint(partitions)

    def committable(
        self, *, processed: bool, among: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit: positions, or with ``processed`` offsets up to the last processed record.

        During :meth:`Consumer.run`, both stop before the first record that its handler hasn't finished. A partition
        whose start position is unknown has no offset to commit.
        """
        first: Mapping[TopicPartition, int] = {}
        if self.runner is not None:
            # guard: a commit ends before the first record that run() has not finished -> {}
            first = self.runner.unfinished()
        elif processed:
            # guard: a record that is being processed is not committed -> {}
            first = self.being_processed()
        found = {
            partition: cursor.committable(first.get(partition))
            for partition, cursor in self.cursors.items()
            if among is None or partition in among
        }
        return {partition: position for partition, position in found.items() if position is not None}

    def _interrupt(self, cursor: Cursor) -> None:
        if cursor is self._serving:
            self._report_delivered(cursor)
            self._serving = None
            # Make a new list instead of clearing the old one: the buffer still owns it, with its undelivered records.
            self.open = []

    @property
    def delivering(self) -> int:
        """The number of open records that the application has taken and that aren't reported to the observer yet."""
        return self._served - len(self.open) if self._serving is not None else 0

    def _report_delivered(self, cursor: Cursor) -> None:
        if taken := self.delivering:
            self.observer.delivered(cursor.partition, taken, cursor.buffer.position)
            # Report the last record's offset and not the position: the markers and gaps after it aren't delivered.
            cursor.delivered(self.open[-1].offset if self.open else self._served_to)
