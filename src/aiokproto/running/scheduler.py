"""Decides which records are handled next, and which offsets may be committed. Pure.

A :class:`Backlog` contains the delivered, unfinished records of one partition, in order of offsets. A :class:`Work`
item is the argument of one call of the handler: a record, or several consecutive records. Its states::

    queued ── its key's turn ──► ready ── start() ──► running ── finish() ──► done
                                   ▲                    │
                                   └── due() ◄─ postpone() (a retry that waits)

* **Order.** Work items with the same key form a lane. An item becomes ready when the previous one is done, so an item
  that is being retried makes the later items of its key wait. ``order="partition"`` has one lane per partition,
  ``"none"`` has no lanes. The keys themselves are compared, not their hashes, so different keys never wait for each
  other.
* **Fairness.** Partitions with ready work items take turns, one item each.
* **Commits.** :attr:`Backlog.lowest` is the lowest offset that isn't done. All offsets before it are finished. A
  finished work item stays in :attr:`Backlog.works` until all items before it are done. The length of that list is
  limited (:attr:`Limits.span`); at the limit, no more of the partition is read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from types import CoroutineType
from typing import Any, NamedTuple

from aiokproto.application.calls import check_not_awaitable
from aiokproto.texts import repr_of
from aiokproto.types import Record, TopicPartition

_RECORD_OVERHEAD = 200
"""The number of bytes that a record occupies in addition to its key, value and headers."""

_HEADER_OVERHEAD = 150
"""The number of bytes that a header occupies in addition to its content: a tuple, a str and bytes."""

Lane = Callable[[Record[Any, Any]], Hashable]
"""Returns the lane of a record: records with equal lanes are handled in order. If None, the record has no lane."""


class Limits(NamedTuple):
    """Limits on the records that are delivered but not finished.

    Attributes:
        records: Maximum number of records.
        size: Maximum number of bytes.
        running: Maximum number of concurrent calls of the handler.
        batch: Maximum number of records per call; 0 if the handler gets individual records.
        gathers: Whether a batch with fewer records waits until :meth:`Scheduler.gathered` ends the wait.
    """

    records: int
    size: int
    running: int
    batch: int = 0
    gathers: bool = False

    @property
    def span(self) -> int:
        """Maximum number of work items of one partition, starting at the lowest one that isn't done."""
        return self.records


class Work:
    """The argument of one call of the handler, and the state of that call.

    Attributes:
        backlog: The backlog of its partition.
        item: The record, or a list of records; None once it's done or dropped.
        rest: The remaining records of a failed batch, which are handled one at a time after ``item``.
        lane: The lane where it waits for its turn; None if it has no lane.
        offset: The lowest offset that isn't done.
        count: The number of its records.
        done: Whether it's finished.
        attempts: The number of failed calls of the handler.
        started_at: When the call started; only meaningful while it's running.
        task: The task that is running it.
        timer: The timer that ends its pause, or cancels its call.
        cancelled: Why its call is being cancelled; empty if it isn't.
    """

    # These are class-level defaults: a work item is created for each record, and few need more than __init__ sets.
    rest: list[Record[Any, Any]] | None = None
    done = False
    attempts = 0
    started_at = 0.0
    task: Any = None
    timer: Any = None
    cancelled = ""

    def __init__(self, backlog: Backlog, item: Any, lane: Hashable, offset: int) -> None:
        self.backlog = backlog
        self.item = item
        self.lane = lane
        self.offset = offset
        self.count = 1

    @property
    def records(self) -> list[Record[Any, Any]]:
        """The records of the next call."""
        return [self.item] if isinstance(self.item, Record) else list(self.item)

    def __str__(self) -> str:
        first = self.records[0] if self.item else None
        key = "" if first is None or first.raw_key is None else f" (key {first.raw_key!r:.80})"
        more = f" and {count - 1} more" if (count := len(self.records) if self.item else 0) > 1 else ""
        return f"{self.backlog.partition} at offset {self.offset}{key}{more}"


class Backlog:
    """The work items of one partition, starting at some position. Each assignment and each seek starts a new backlog.

    Attributes:
        partition: The partition.
        source: Identifies the position that reading started from.
        works: The work items starting at the first one that isn't done, in order of offsets.
        queue: If there is one lane, the records after the only work item. They become work items one at a time.
        lanes: Lane → the work items waiting for the one whose turn it is.
        ready: Work items that can start.
        running: Work items that are being handled.
        postponed: Work items that are waiting for their retry.
        count: The number of records that aren't done.
        size: The approximate number of bytes of these records. Each counts as the average.
        blocked: Whether none of its work items may start at the moment.
        dropped: Whether none of its work items will ever start again.
        abandoned: Whether a revocation has stopped waiting for calls that were cancelled but don't end.
        full: Whether no more records of its partition are being taken.
        in_turns: Whether it's queued for its turn.
    """

    def __init__(self, partition: TopicPartition, source: object) -> None:
        self.partition = partition
        self.source = source
        self.works: deque[Work] = deque()
        self.queue: deque[Record[Any, Any]] = deque()
        self.lanes: dict[Hashable, deque[Work]] = {}
        self.ready: deque[Work] = deque()
        self.running: set[Work] = set()
        self.postponed: set[Work] = set()
        self.count = 0
        self.size = 0
        self.blocked = False
        self.dropped = False
        self.abandoned = False
        self.full = False
        self.in_turns = False

    @property
    def lowest(self) -> int | None:
        """The lowest offset that isn't done, if any."""
        return self.works[0].offset if self.works else None

    def advance(self) -> None:
        """Forget the finished work items before the first unfinished one."""
        works = self.works
        while works and works[0].done:
            works.popleft()


class Scheduler:
    """The work items of all partitions.

    Attributes:
        count: The number of records that aren't done.
        size: The number of bytes of these records.
        running: Work items that are being handled.
        stopped: Whether no more work may start.
    """

    def __init__(self, order: str | Lane, limits: Limits, *, overhead: bool = True) -> None:
        """``order`` is ``"partition"``, ``"key"``, ``"none"``, or a function of a record that returns its lane.
        ``overhead`` says whether sizes include the memory that a record occupies in addition to its key and value."""
        self._size_of = size_of if overhead else _content_size
        self.count = 0
        self.size = 0
        self.running = 0
        self.stopped = False
        self.limits = limits
        self._lane: Lane | None = order if callable(order) else _key if order == "key" else None
        self._one_lane = order == "partition"
        self._turns: deque[Backlog] = deque()
        # The last batch of each backlog, if it's waiting for more records.
        self._gathering: dict[Backlog, Work] = {}

    # Records in

    def put(self, backlog: Backlog, records: Iterable[Record[Any, Any]]) -> None:
        """Queue delivered records, in order of offsets."""
        if self.limits.batch:
            self._put_batches(backlog, records)
            return
        records = list(records)
        self._grow(backlog, len(records), sum(map(self._size_of, records)))
        if self._one_lane:
            backlog.queue.extend(records)
            if backlog.queue and not backlog.works:
                self._next_in_queue(backlog)
            return
        lane: Hashable = None
        for record in records:
            if self._lane is not None:
                lane = self._lane(record)
                if lane.__class__ is CoroutineType:
                    check_not_awaitable(lane, "order")
            work = Work(backlog, record, lane, record.offset)
            backlog.works.append(work)
            self._queue(work)

    def _put_batches(self, backlog: Backlog, records: Iterable[Record[Any, Any]]) -> None:
        last = backlog.works[-1] if backlog.works else None
        for record in records:
            self._grow(backlog, 1, self._size_of(record))
            if last is None or not self._may_grow(last):
                last = Work(backlog, [record], True if self._one_lane else None, record.offset)
                backlog.works.append(last)
                if self.limits.gathers:
                    self._gathering[backlog] = last
                else:
                    self._queue(last)
            else:
                last.item.append(record)
                last.count += 1
            if self.limits.gathers and last.count == self.limits.batch:
                self.gathered(backlog)

    def gathering(self, backlog: Backlog) -> Work | None:
        """Return the batch of a backlog that is waiting for more records, if any."""
        return self._gathering.get(backlog)

    def gathered(self, backlog: Backlog) -> None:
        """Release the batch that is waiting for more records."""
        if (work := self._gathering.pop(backlog, None)) is not None:
            self._queue(work)

    def all_gathered(self) -> None:
        """Release all waiting batches: no more records will be taken."""
        for backlog in list(self._gathering):
            self.gathered(backlog)

    def _may_grow(self, work: Work) -> bool:
        """Return whether a batch accepts another record. Only a batch waiting for its first call does."""
        started = work.done or work.attempts or work.rest is not None or work in work.backlog.running
        return not started and work.count < self.limits.batch

    def _next_in_queue(self, backlog: Backlog) -> None:
        record = backlog.queue.popleft()
        work = Work(backlog, record, None, record.offset)
        backlog.works.append(work)
        self._make_ready(work)

    def _grow(self, backlog: Backlog, count: int, size: int) -> None:
        backlog.count += count
        backlog.size += size
        self.count += count
        self.size += size

    def _queue(self, work: Work) -> None:
        backlog, lane = work.backlog, work.lane
        if lane is not None:
            try:
                waiting = backlog.lanes.get(lane)
            except TypeError as error:
                raise TypeError(f"order returned {repr_of(lane, 80)}, which cannot be hashed") from error
            if waiting is not None:
                waiting.append(work)
                return
            backlog.lanes[lane] = deque()
        self._make_ready(work)

    def _make_ready(self, work: Work) -> None:
        backlog = work.backlog
        backlog.ready.append(work)
        if not backlog.in_turns and not backlog.blocked:
            backlog.in_turns = True
            self._turns.append(backlog)

    # Works

    @property
    def may_start(self) -> bool:
        """Whether more work could start now. It may be True even if all work items belong to blocked or dropped
        partitions."""
        return bool(self._turns) and not self.stopped and self.running < self.limits.running

    def start(self, now: float, task: object = None) -> Work | None:
        """Return the work item to handle next; None if there is none, or if the limit on running calls is reached."""
        turns = self._turns
        # guard: nothing starts once a run is being ended -> self.running >= self.limits.running
        if self.stopped or self.running >= self.limits.running:
            return None
        while turns:
            backlog = turns.popleft()
            ready = backlog.ready
            if backlog.blocked or not ready:
                backlog.in_turns = False
                continue
            work = ready.popleft()
            if ready:
                turns.append(backlog)
            else:
                backlog.in_turns = False
            work.started_at = now
            work.task = task
            backlog.running.add(work)
            self.running += 1
            return work
        return None

    def finish(self, work: Work) -> None:
        """Note that a running work item is done. It never starts again, and the next item in its lane becomes ready."""
        work.backlog.running.discard(work)
        self.running -= 1
        self._done(work)

    def give_up(self, work: Work) -> None:
        """Note that a postponed work item is done without another call."""
        if work in work.backlog.postponed:
            work.backlog.postponed.discard(work)
            self._done(work)

    def _done(self, work: Work) -> None:
        backlog = work.backlog
        work.done = True
        self._shrink(backlog, work.count)
        work.item = work.task = None
        backlog.advance()
        if backlog.queue:
            self._next_in_queue(backlog)
        elif work.lane is not None and not backlog.dropped:
            self._next_in_lane(work)

    def follow(self, work: Work) -> bool:
        """If there is one lane, note that a running work item is done, and reuse it for the next record. If there is no
        record, or if another partition is waiting for its turn, do nothing and return False.

        It has the effect of :meth:`finish` and :meth:`start`, in a fraction of the time.
        """
        backlog = work.backlog
        queue = backlog.queue
        if not queue or backlog.blocked or self.stopped or (self._turns and self.running >= self.limits.running):
            return False
        self._shrink(backlog, 1)
        work.item = item = queue.popleft()
        work.offset = item.offset
        work.attempts = 0
        return True

    def finish_one(self, work: Work) -> None:
        """Note that one record of a running batch is done, where the batch is now handled one record at a time. The
        next record becomes ready."""
        assert work.rest, "the last one of a batch is done with finish()"
        backlog = work.backlog
        self._shrink(backlog, 1)
        work.count -= 1
        work.attempts = 0
        work.item = [work.rest.pop(0)]
        work.offset = work.item[0].offset
        self.postpone(work)
        self.due(work)

    def postpone(self, work: Work) -> None:
        """Note that a running work item has stopped without being done. Unless its backlog was dropped, its lane waits
        for it until :meth:`due` makes it ready again."""
        backlog = work.backlog
        backlog.running.discard(work)
        self.running -= 1
        work.task = None
        if backlog.dropped:
            self._shrink(backlog, work.count)
            work.item = work.rest = None
        else:
            backlog.postponed.add(work)

    def due(self, work: Work) -> None:
        """Note that a postponed work item is ready."""
        if work in work.backlog.postponed:
            work.backlog.postponed.discard(work)
            self._make_ready(work)

    # Partitions

    def block(self, backlog: Backlog, blocked: bool) -> None:
        """Stop or continue starting work items of a backlog."""
        backlog.blocked = blocked or backlog.dropped
        if not backlog.blocked and backlog.ready and not backlog.in_turns:
            backlog.in_turns = True
            self._turns.append(backlog)

    def drop(self, backlog: Backlog) -> None:
        """Never start a work item of this backlog again. Running items continue, and :attr:`Backlog.lowest` stays
        correct."""
        if backlog.dropped:
            return
        backlog.dropped = backlog.blocked = True
        self._gathering.pop(backlog, None)
        for work in backlog.works:
            if not work.done and work not in backlog.running:
                self._shrink(backlog, work.count)
                work.item = work.rest = None
        if backlog.queue:
            self._shrink(backlog, len(backlog.queue))
            # This item keeps the lowest offset correct when the running one is done.
            backlog.works.append(Work(backlog, None, None, backlog.queue[0].offset))
            backlog.queue.clear()
        backlog.ready.clear()
        backlog.lanes.clear()
        backlog.postponed.clear()

    def share(self, partitions: int) -> int:
        """Return how many unfinished records each of ``partitions`` partitions may have.

        It's a fraction of the limit: a partition whose records aren't handled leaves room for the others.
        """
        return max(self.limits.records // max(partitions, 1), 1)

    def room(self, backlog: Backlog, partitions: int) -> int:
        """Return how many more records of a partition may be taken."""
        limits = self.limits
        if backlog.size and backlog.size >= max(limits.size // max(partitions, 1), 1):
            return 0
        span = limits.span - len(backlog.works)
        return max(min(self.share(partitions) - backlog.count, limits.records - self.count, span), 0)

    def relieved(self, backlog: Backlog, partitions: int) -> bool:
        """Return whether a full backlog has become small enough to take more. It must be well below the limit, or this
        would change with each record."""
        limits = self.limits
        return (
            backlog.count <= self.share(partitions) // 2
            and backlog.size <= limits.size // max(partitions, 1) // 2
            and len(backlog.works) <= limits.span - max(limits.span // 4, 1)
        )

    @property
    def full(self) -> bool:
        """Whether no more records may be taken from any partition."""
        return self.count >= self.limits.records or self.size >= self.limits.size

    @property
    def has_room(self) -> bool:
        """Whether there is enough room to take records again after :attr:`full`."""
        records, size = self.limits.records, self.limits.size
        return self.count <= records - max(records // 4, 1) and self.size <= size - max(size // 4, 1)

    def _next_in_lane(self, work: Work) -> None:
        lanes = work.backlog.lanes
        waiting = lanes[work.lane]
        if waiting:
            self._make_ready(waiting.popleft())
        else:
            del lanes[work.lane]

    def _shrink(self, backlog: Backlog, count: int) -> None:
        size = backlog.size * count // backlog.count
        backlog.count -= count
        backlog.size -= size
        self.count -= count
        self.size -= size


def size_of(record: Record[Any, Any]) -> int:
    """Return approximately how many bytes of memory a record occupies."""
    # Use the stored bytes: the size of a deserialized object isn't known.
    key, value = record.raw_key, record.raw_value
    size = _RECORD_OVERHEAD
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    if record.headers:
        size += sum(_HEADER_OVERHEAD + len(name) + len(content or b"") for name, content in record.headers)
    return size


def _content_size(record: Record[Any, Any]) -> int:
    return len(record.raw_key or b"") + len(record.raw_value or b"")


def _key(record: Record[Any, Any]) -> Hashable:
    # Use the stored key: a deserialized key may not be hashable.
    return record.raw_key
