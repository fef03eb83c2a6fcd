"""The table of assigned partitions: which one delivers next, and what the application is processing. Pure.

At least once is decided here. A record is *being processed* from its delivery until the next one is requested, and only
then counts as processed; automatic commits stop before it. Delivery takes two steps (see ``delivery``): pop a record
from :attr:`Assignment.open`, store it in :attr:`Assignment.current`. A pause, seek, hold or removal of the partition
that is being delivered replaces the list, so that the hot path has nothing to check.

Partitions with buffered records queue up and deliver in turn, one opened batch each: no partition starves another.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from aiokproto.consumer.batch import FetchedBatch
from aiokproto.consumer.cursor import Cursor
from aiokproto.consumer.delivery import DeliveryState
from aiokproto.consumer.handling import Handling
from aiokproto.consumer.losses import Losses
from aiokproto.consumer.offset_reset import OffsetReset
from aiokproto.consumer.start_lookup import FormerPosition
from aiokproto.errors import AuthorizationError, ConfigurationError, KafkaError, UnknownTopicError
from aiokproto.observe.observers import ConsumerObserver
from aiokproto.runtime import thread_id
from aiokproto.types import OffsetAndMetadata, Record, TopicPartition

log = logging.getLogger("aiokproto.consumer")


class Signals(NamedTuple):
    """Callbacks of the assignment.

    Attributes:
        changed: Called with cursors that were added or removed, have another position, or can or cannot be fetched or
            delivered any more.
        arrived: Called when there is something to deliver.
        room: Called when buffered bytes were delivered, so that more can be fetched.
        reset: Called when the consumer has moved a position by itself.
    """

    changed: Callable[[Collection[Cursor]], None]
    arrived: Callable[[], None]
    room: Callable[[], None]
    reset: Callable[[OffsetReset], None] = lambda _: None


class Assignment(DeliveryState):
    """The assigned partitions.

    Attributes:
        cursors: A cursor per partition.
        delivered: How many batches were delivered so far.
        handling: What :meth:`Consumer.run` has taken; None while it does not run.
        handled: The same of the last run too, of which calls may be left.
        losses: What was taken away before it was committed, while the application may not know.
        observer: Counts what is fetched and delivered.
    """

    def __init__(self, signals: Signals, observer: ConsumerObserver | None = None) -> None:
        super().__init__()
        self.observer = observer or ConsumerObserver()
        # How many records `open` had when its delivery began, and the offset behind them.
        self._served = 0
        self._served_to = -1
        self.cursors: dict[TopicPartition, Cursor] = {}
        self.delivered = 0
        self.handling: Handling | None = None
        self.handled: Handling | None = None
        self.losses = Losses()
        # The partition that `open` belongs to; None when no record is open.
        self._serving: Cursor | None = None
        # Partitions with something to deliver, in turn. An entry can be outdated (paused, removed): next_cursor() drops
        # it.
        self._turns: deque[Cursor] = deque()
        self._signals = signals

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
        """Add partitions that are not there yet; while ``held`` (a reason), they are neither fetched nor delivered."""
        # One that is there already keeps its cursor, and so its position.
        added = [Cursor(partition, start, held) for partition in partitions if partition not in self.cursors]
        self.cursors.update((cursor.partition, cursor) for cursor in added)
        self._signals.changed(added)

    def remove(self, partitions: Iterable[TopicPartition]) -> list[Cursor]:
        """Remove partitions: nothing of them is delivered any more. Return their cursors."""
        removed = [cursor for partition in partitions if (cursor := self.cursors.pop(partition, None)) is not None]
        for cursor in removed:
            self._interrupt(cursor)
            cursor.hold("not assigned")
            # A new version: whatever is in flight for the removed partition is dropped when it arrives.
            cursor.seek(cursor.lookup.start)
        self._signals.changed(removed)
        return removed

    def take_away(self, partitions: Iterable[TopicPartition], *, revoked: bool, known: bool) -> None:
        """As :meth:`remove`, for the group, which has ``revoked`` them, or continued without this member; ``known`` if
        the application knows that they are gone."""
        self.losses.add(self.remove(partitions), revoked=revoked, known=known)

    def report_lost(self, partitions: Iterable[TopicPartition]) -> None:
        """The application knows that these are lost."""
        if self.losses.offsets:
            self.losses.report(partitions)
            # So that the next record is requested, and not taken from those that are open.
            self.end_turn()

    def hold(self, partitions: Iterable[TopicPartition], why: str) -> None:
        """Deliver nothing of these partitions until :meth:`release`."""
        held = self._present(partitions)
        for cursor in held:
            cursor.hold(why)
            self._interrupt(cursor)
        self._signals.changed(held)

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        """End :meth:`hold`."""
        released = self._present(partitions)
        for cursor in released:
            cursor.hold("")
            self.enqueue(cursor)
        self._signals.changed(released)

    def _present(self, partitions: Iterable[TopicPartition]) -> list[Cursor]:
        return [self.cursors[partition] for partition in partitions if partition in self.cursors]

    # Calls of the application

    def pause(self, partitions: Iterable[TopicPartition], paused: bool) -> None:
        """Pause or resume partitions; their buffered records stay."""
        # All are looked up before one is changed: an unassigned partition raises, and nothing is half done.
        cursors = [self.get(partition) for partition in partitions]
        for cursor in cursors:
            cursor.pause(paused)
            if paused:
                # guard: a paused partition is not delivered
                self._interrupt(cursor)
            else:
                self.enqueue(cursor)
        self._signals.changed(cursors)

    def fill(self, cursor: Cursor, full: bool) -> None:
        """Take nothing of a partition for :meth:`Consumer.run`, or take it again."""
        cursor.fill(full)
        if full:
            self._interrupt(cursor)
        else:
            self.arrived(cursor)
        self._signals.changed([cursor])

    def seek(self, partition: TopicPartition, offset: int, epoch: int = -1) -> None:
        """Continue from an offset; ``epoch`` is the leader epoch that was committed with it, -1 if unknown."""
        cursor = self.get(partition)
        # Before the position changes: the open records are those of before the seek.
        self._interrupt(cursor)
        cursor.set_position(offset, epoch)
        self._signals.changed([cursor])

    def seek_to(self, partitions: Iterable[TopicPartition], start: int) -> None:
        """Continue from ``EARLIEST``, ``LATEST``, or a timestamp (ms)."""
        cursors = [self.get(partition) for partition in partitions]
        for cursor in cursors:
            self._interrupt(cursor)
            cursor.seek(start)
        self._signals.changed(cursors)

    # Events of fetching and lookups

    def resolved(self, cursor: Cursor, offset: int, epoch: int = -1, leader_epoch: int = -1) -> None:
        """Set the position that was looked up; the epochs are those of :meth:`Cursor.set_position`."""
        former = cursor.lookup.reset
        cursor.set_position(offset, epoch, leader_epoch)
        self._signals.changed([cursor])
        if former is not None:
            self.reset_happened(cursor, former, offset)

    def reset(self, cursor: Cursor, start: int, former: FormerPosition) -> None:
        """Look up a new position: the current one is not in the log."""
        self._interrupt(cursor)
        cursor.seek(start, former)
        self._signals.changed([cursor])

    def refetch(self, cursor: Cursor, offset: int) -> None:
        """Fetch from this offset: what was fetched last ended with damage."""
        cursor.fetch.advance(offset)
        self._signals.changed([cursor])

    def rewind(self, cursor: Cursor, offset: int, epoch: int) -> None:
        """Continue from an earlier offset, up to which the leader's log has what was fetched."""
        self._interrupt(cursor)
        cursor.rewind(offset, epoch)
        self._signals.changed([cursor])

    def validated(self, cursor: Cursor) -> None:
        """A position was validated, or has to be: it can be fetched now, or not any more."""
        self._signals.changed([cursor])

    def reset_happened(self, cursor: Cursor, former: FormerPosition, offset: int) -> None:
        """Report that the consumer has moved a position by itself. All resets come through here."""
        event = OffsetReset(cursor.partition, former.reason, former.offset, offset, former.leader_epoch)
        self.observer.reset(cursor.partition, former.reason.value, former.offset, offset, former.leader_epoch)
        log.warning("consumer: %s", event)
        self._signals.reset(event)

    def fail(self, cursor: Cursor, error: KafkaError) -> None:
        """Stop a partition until the application seeks; the next read raises the error."""
        cursor.fail(error)
        self._signals.changed([cursor])
        # An error is queued like records are, so that it is raised in its turn.
        self.arrived(cursor)

    # Delivery

    def enqueue(self, cursor: Cursor) -> None:
        """Queue a partition for delivery if it has something to deliver."""
        # While it is served it is in no queue: end_turn() queues it again.
        if cursor.ready and not cursor.queued and cursor is not self._serving:
            cursor.queued = True
            self._turns.append(cursor)

    def arrived(self, cursor: Cursor) -> None:
        """Take note of received records, or of an error to raise."""
        self.enqueue(cursor)
        self._signals.arrived()

    def next_cursor(self, among: Collection[TopicPartition] | None = None) -> Cursor | None:
        """Return the partition to deliver next, None if there is nothing. It stays first until :meth:`serve` or
        :meth:`yield_turn`. With ``among``, only these partitions are delivered; the others keep their turns."""
        # The application has taken all open records, or a seek has dropped them: the next partition's turn.
        self.end_turn()
        if among is not None:
            self._turns = deque(sorted(self._turns, key=lambda cursor: cursor.partition not in among))
        while self._turns:
            cursor = self._turns[0]
            # The same partition may have been removed and assigned again: that is another cursor.
            if cursor.ready and self.cursors.get(cursor.partition) is cursor:
                return cursor if among is None or cursor.partition in among else None
            cursor.queued = False
            self._turns.popleft()
        return None

    def ready(self) -> list[Cursor]:
        """Return the partitions that have something to deliver, in turn."""
        self.end_turn()
        return [each for each in self._turns if each.ready and self.cursors.get(each.partition) is each]

    def opened(self, cursor: Cursor) -> None:
        """Take note of records that were opened before it is their turn: there is room to fetch more."""
        # A thread that opens them has ended the partition's turn.
        self.enqueue(cursor)
        self._signals.room()

    def serve(self, cursor: Cursor) -> None:
        """Deliver the opened records of this partition from now on."""
        self.yield_turn(cursor)
        self._serving = cursor
        # The buffer's own list: popping a record from it moves the partition's position (RecordBuffer.position).
        self.open = cursor.buffer.records
        self.thread = thread_id()
        self._served = len(self.open)
        # The list has its last record first.
        self._served_to = self.open[0].offset + 1
        self.delivered += 1
        self._signals.room()

    def delivered_at_once(self, cursor: Cursor, records: int) -> None:
        """Take note that everything opened of this partition is delivered in one piece (a batch of ``records``)."""
        self.yield_turn(cursor)
        self.enqueue(cursor)
        self.observer.delivered(cursor.partition, records, cursor.buffer.end)
        cursor.delivered(cursor.buffer.end)
        self.delivered += 1
        self._signals.room()

    def yield_turn(self, cursor: Cursor) -> None:
        """Remove a partition from the head of the queue; if it has more, it queues behind the others."""
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
            self._signals.changed([cursor])
        else:
            # Behind the others: at the head it would keep them from ever delivering again.
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
        """Take up to ``count`` of the opened records of these partitions, one after the other."""
        taken: list[Record] = []
        for cursor in cursors:
            if len(taken) == count:
                break
            self.end_turn()
            self.serve(cursor)
            taken += self.take(count - len(taken))
        return taken

    def end_turn(self) -> None:
        """Take back what is open; if there is more of its partition, it queues behind the others."""
        if self._serving is not None:
            self._report_delivered(self._serving)
        cursor, self._serving, self.open = self._serving, None, []
        if cursor is not None:
            # Not at each record: the hot path only pops.
            cursor.buffer.delivered()
            self.enqueue(cursor)

    def served(self) -> Cursor:
        """Return the partition whose records are open."""
        assert self._serving is not None
        return self._serving

    def stop(self) -> None:
        """Deliver nothing more."""
        if self._serving is not None:
            self._report_delivered(self._serving)
        self._serving = None
        self.open = []

    def forget_open(self) -> None:
        """In a forked child: what is open is the parent's."""
        self._serving = None
        self.open = []

    def mark_processed(self) -> None:
        """The application requests the next record: what it has is processed."""
        self.current = None
        self.losses.requested()

    # Progress

    def delivered_by(self, what: Record[Any, Any] | FetchedBatch) -> Cursor | None:
        """Return the cursor that has delivered a record or batch; None if its partition was taken away since, even if
        it is back: other members may have processed it."""
        cursor = self.cursors.get(TopicPartition(what.topic, what.partition))
        # guard: a record from before a loss does not count after it -> True
        if cursor is None or what._ownership is cursor.ownership:
            return cursor
        # Made by the application or an interceptor, or in another process: only the offset can tell.
        offset = what.base_offset if isinstance(what, FetchedBatch) else what.offset
        return cursor if what._ownership is None and cursor.has_delivered(offset) else None

    def being_processed(self) -> dict[TopicPartition, int]:
        """Return the first offset being processed in each partition; what was taken away does not count."""
        current = self.current
        if current is None:
            return {}
        if isinstance(current, FetchedBatch):
            mine = self.delivered_by(current) is not None
            return {TopicPartition(current.topic, current.partition): current.base_offset} if mine else {}
        first: dict[TopicPartition, int] = {}
        # In order of offsets, so setdefault keeps the first one of each partition.
        for record in [current] if isinstance(current, Record) else current:
            # guard: a lost record is not being processed -> True
            if self.delivered_by(record) is not None:
                first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        return first

    def is_busy(self, partitions: Collection[TopicPartition]) -> bool:
        """Return whether the application is processing a record of these partitions."""
        if self.handling is not None:
            # guard: a revocation waits for handlers -> False
            return self.handling.is_busy(partitions)
        return not self.being_processed().keys().isdisjoint(partitions)

    def committable(
        self, *, processed: bool, among: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets to commit: positions, or with ``processed`` only up to what is processed.

        While :meth:`Consumer.run` runs, both are up to what its handler has finished. A partition whose start position
        is unknown has none.
        """
        first: Mapping[TopicPartition, int] = {}
        if self.handling is not None:
            # guard: a commit ends before the first record that run() has not finished -> {}
            first = self.handling.unfinished()
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
            # A new list and not clear(): the buffer still owns the old one, with its undelivered records.
            self.open = []

    @property
    def delivering(self) -> int:
        """How many of the open records the application has taken; not reported to the observer yet."""
        return self._served - len(self.open) if self._serving is not None else 0

    def _report_delivered(self, cursor: Cursor) -> None:
        if taken := self.delivering:
            self.observer.delivered(cursor.partition, taken, cursor.buffer.position)
            # Not the position behind the last one: markers and gaps that follow it are not delivered.
            cursor.delivered(self.open[-1].offset if self.open else self._served_to)
