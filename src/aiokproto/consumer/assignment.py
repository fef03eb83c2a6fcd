"""All assigned partitions, whose turn it is, and what the user has in hand. Pure.

At least once is kept here: a record is *in hand* from when it is handed out until the next is asked for, and what is in
hand is not finished. Handing out a record is two steps (see ``handing``): pop from :attr:`Assignment.open`, put into
:attr:`Assignment.hand`. Whatever ends a partition's right to be handed out takes the list away.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from aiokproto.consumer.batch import FetchedBatch
from aiokproto.consumer.cursor import Cursor
from aiokproto.consumer.handing import Hand
from aiokproto.errors import ConfigurationError, KafkaError, UnknownTopicError
from aiokproto.types import OffsetAndMetadata, Record, TopicPartition


class Signals(NamedTuple):
    """What is called when something has happened here.

    Attributes:
        changed: These came, went, moved, or may be fetched or read now, or not any more.
        arrived: There is something to deliver.
        room: Records were opened: there is room for others.
    """

    changed: Callable[[Collection[Cursor]], None]
    arrived: Callable[[], None]
    room: Callable[[], None]


class Assignment(Hand):
    """The table of cursors.

    Attributes:
        cursors: The assigned partitions.
        delivered: How many batches were delivered.
    """

    def __init__(self, signals: Signals) -> None:
        super().__init__()
        self.cursors: dict[TopicPartition, Cursor] = {}
        self.delivered = 0
        self._serving: Cursor | None = None
        self._turns: deque[Cursor] = deque()
        self._signals = signals

    def get(self, partition: TopicPartition) -> Cursor:
        """The cursor of an assigned partition.

        Raises:
            ConfigurationError: It is not assigned.
        """
        if partition not in self.cursors:
            raise ConfigurationError(f"{partition} is not assigned to this consumer")
        return self.cursors[partition]

    # Who is assigned

    def add(self, partitions: Iterable[TopicPartition], start: int, held: str = "") -> None:
        """Begin partitions that are not there yet; while ``held``, nothing of them is fetched."""
        added = [Cursor(partition, start, held) for partition in partitions if partition not in self.cursors]
        self.cursors.update((cursor.partition, cursor) for cursor in added)
        self._signals.changed(added)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """End partitions: nothing of them is delivered any more."""
        removed = [cursor for partition in partitions if (cursor := self.cursors.pop(partition, None)) is not None]
        for cursor in removed:
            self._interrupt(cursor)
            cursor.hold("not assigned")
            cursor.seek(cursor.lookup.start)
        self._signals.changed(removed)

    def hold(self, partitions: Iterable[TopicPartition], why: str) -> None:
        """Deliver nothing of these until :meth:`release`."""
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

    # What the user does with them

    def pause(self, partitions: Iterable[TopicPartition], paused: bool) -> None:
        """Pause or resume; what is fetched already is kept."""
        cursors = [self.get(partition) for partition in partitions]
        for cursor in cursors:
            cursor.pause(paused)
            if paused:
                self._interrupt(cursor)
            else:
                self.enqueue(cursor)
        self._signals.changed(cursors)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on from an offset."""
        cursor = self.get(partition)
        self._interrupt(cursor)
        cursor.locate(offset)
        self._signals.changed([cursor])

    def seek_to(self, partitions: Iterable[TopicPartition], start: int) -> None:
        """Go on from ``EARLIEST``, ``LATEST``, or a time in ms."""
        cursors = [self.get(partition) for partition in partitions]
        for cursor in cursors:
            self._interrupt(cursor)
            cursor.seek(start)
        self._signals.changed(cursors)

    # What is found out about them

    def located(self, cursor: Cursor, offset: int, leader_epoch: int = -1) -> None:
        """It is known where a partition starts."""
        cursor.locate(offset, leader_epoch)
        self._signals.changed([cursor])

    def reset(self, cursor: Cursor, start: int) -> None:
        """The position of a partition means nothing in its log: it starts anew."""
        self._interrupt(cursor)
        cursor.seek(start)
        self._signals.changed([cursor])

    def fail(self, cursor: Cursor, error: KafkaError) -> None:
        """A partition cannot go on until the user seeks; the next read raises the error."""
        cursor.fail(error)
        self._signals.changed([cursor])
        self.arrived(cursor)

    # Handing out

    def enqueue(self, cursor: Cursor) -> None:
        """Let it have a turn, if it has something to hand out."""
        if cursor.ready and not cursor.queued and cursor is not self._serving:
            cursor.queued = True
            self._turns.append(cursor)

    def arrived(self, cursor: Cursor) -> None:
        """Records of it have come, or its error."""
        self.enqueue(cursor)
        self._signals.arrived()

    def next_cursor(self) -> Cursor | None:
        """Whose turn it is; it stays first until :meth:`serve` or :meth:`yield_turn`. None: nobody has anything."""
        self._yield_serving()
        while self._turns:
            cursor = self._turns[0]
            if cursor.ready and self.cursors.get(cursor.partition) is cursor:
                return cursor
            cursor.queued = False
            self._turns.popleft()
        return None

    def serve(self, cursor: Cursor) -> None:
        """Hand out its opened records from now on."""
        self.yield_turn(cursor)
        self._serving = cursor
        self.open = cursor.buffer.records
        self.delivered += 1
        self._signals.room()

    def handed(self, cursor: Cursor) -> None:
        """All that was opened of it is handed out at once."""
        self.yield_turn(cursor)
        self.enqueue(cursor)
        self.delivered += 1
        self._signals.room()

    def yield_turn(self, cursor: Cursor) -> None:
        """It was its turn. If it has more, it queues up again behind the others."""
        if self._turns and self._turns[0] is cursor:
            self._turns.popleft()
            cursor.queued = False

    def report(self, cursor: Cursor) -> KafkaError:
        """Its error, which is about to be raised. A missing topic is looked for again: it may come back."""
        error = cursor.error
        assert error is not None
        self.yield_turn(cursor)
        if isinstance(error, UnknownTopicError):
            cursor.retry()
            self._signals.changed([cursor])
        else:
            # Behind the others, or their records would never come again.
            self.enqueue(cursor)
        return error

    def take(self, count: int) -> list[Record]:
        """Up to ``count`` of the opened records, in their order."""
        records = self.open
        taken = records[: -count - 1 : -1]
        del records[-count:]
        return taken

    def stop(self) -> None:
        """Hand out nothing more."""
        self._serving = None
        self.open = []

    def put_down(self) -> None:
        """The next is asked for: what was in hand is finished."""
        self.hand = None

    # How far it got

    def in_hand(self) -> dict[TopicPartition, int]:
        """What the user is busy with: the first offset in hand of each partition."""
        hand = self.hand
        if hand is None:
            return {}
        if isinstance(hand, FetchedBatch):
            return {TopicPartition(hand.topic, hand.partition): hand.base_offset}
        first: dict[TopicPartition, int] = {}
        for record in [hand] if isinstance(hand, Record) else hand:
            first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        return first

    def committable(
        self, *, finished: bool, among: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """What to commit: positions, or where ``finished`` only what is finished. Where to start comes first."""
        hand = self.in_hand() if finished else {}
        found = {
            partition: cursor.committable(hand.get(partition))
            for partition, cursor in self.cursors.items()
            if among is None or partition in among
        }
        return {partition: position for partition, position in found.items() if position is not None}

    def _interrupt(self, cursor: Cursor) -> None:
        if cursor is self._serving:
            self._serving = None
            self.open = []

    def _yield_serving(self) -> None:
        cursor, self._serving, self.open = self._serving, None, []
        if cursor is not None:
            cursor.buffer.delivered()
            self.enqueue(cursor)
