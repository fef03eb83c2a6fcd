"""The decision which records are handled next, and which offsets may be committed. Pure.

A :class:`Backlog` has the delivered and unfinished records of one partition, in order of their offsets. A :class:`Work`
is the argument of one call of the handler: a record, or some consecutive ones. Its states::

    queued ── its key's turn ──► ready ── start() ──► running ── finish() ──► done
                                   ▲                    │
                                   └── due() ◄─ postpone() (a retry that waits)

* **Order.** Works with the same key form a lane. The next one becomes ready when the one before is done, so a work that
  is retried keeps the later ones of its key waiting. ``order="partition"`` has one lane, ``"none"`` has none. Keys are
  compared as they are and not by a hash, so different keys never wait for each other.
* **Fairness.** Partitions with ready works take turns, one work each.
* **Commits.** :attr:`Backlog.lowest` is the lowest offset that isn't done. All offsets before it are finished. A work
  that is done stays in :attr:`Backlog.works` until all works before it are done. The length is limited
  (:attr:`Limits.span`); at the limit the partition isn't read any further.
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
"""Bytes that a record occupies besides its key, value and headers."""

_HEADER_OVERHEAD = 150
"""Bytes that a header occupies besides its content, for a tuple, a str and bytes."""

Lane = Callable[[Record[Any, Any]], Hashable]
"""Returns the lane of a record: records with equal lanes are handled in order. None means that the record has no
lane."""


class Limits(NamedTuple):
    """How many records may be delivered and not finished.

    Attributes:
        records: Records in all.
        size: Bytes in all.
        running: Calls of the handler at a time.
        batch: Records for one call; 0 if the handler gets single records.
        gathers: Whether a batch with fewer records waits until :meth:`Scheduler.gathered` says that it has waited long
            enough.
    """

    records: int
    size: int
    running: int
    batch: int = 0
    gathers: bool = False

    @property
    def span(self) -> int:
        """Most works of one partition from the lowest one that isn't done."""
        return self.records


class Work:
    """The argument of one call of the handler, and the state of that call.

    Attributes:
        backlog: The partition's.
        item: The record, or a list of records; None once it is done or dropped.
        rest: Records of a failed batch, which are handled one by one after ``item``.
        lane: The lane in which it waits for its turn; None if it has no lane.
        offset: The lowest offset that isn't done.
        count: How many records it has.
        done: Whether it is finished.
        attempts: Failed calls of the handler.
        started_at: The time at which the call started; meaningful while it runs.
        task: The task that runs it.
        timer: The timer that ends its pause, or cancels its call.
        cancelled: Why its call is being cancelled; empty if it isn't.
    """

    # These are defaults of the class. A work is made for each record, and few need more than __init__ sets.
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
    """The works of one partition from a position on. Each assignment, and each seek, starts another backlog.

    Attributes:
        partition: The partition.
        source: Identifies the position from which they were read.
        works: The works from the first one that isn't done, in order of their offsets.
        queue: If there is one lane, the records after the only work. They become works in their turn.
        lanes: Lane → the works that wait for the one whose turn it is.
        ready: Works that can start.
        running: Works that are being handled.
        postponed: Works that wait for their retry.
        count: Records that are not done.
        size: Approximately their bytes. Each record counts as much as the average.
        blocked: Whether none of its works starts now.
        dropped: Whether none of its works ever starts again.
        abandoned: Whether a revocation has stopped waiting for calls that don't end although they were cancelled.
        full: Whether no more records of its partition are taken now.
        in_turns: Whether it is queued for its turn.
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
        """The lowest offset that is not done; None if there is none."""
        return self.works[0].offset if self.works else None

    def advance(self) -> None:
        """Forget the finished works before the first unfinished one."""
        works = self.works
        while works and works[0].done:
            works.popleft()


class Scheduler:
    """The works of all partitions.

    Attributes:
        count: Records that are not done.
        size: Their bytes.
        running: Works that are being handled.
        stopped: Whether no work starts any more.
    """

    def __init__(self, order: str | Lane, limits: Limits, *, overhead: bool = True) -> None:
        """``order``: ``"partition"``, ``"key"``, ``"none"``, or a function of a record that returns its lane.
        ``overhead`` says whether bytes include the memory that a record occupies besides its key and value."""
        self._size_of = size_of if overhead else _content_size
        self.count = 0
        self.size = 0
        self.running = 0
        self.stopped = False
        self.limits = limits
        self._lane: Lane | None = order if callable(order) else _key if order == "key" else None
        self._one_lane = order == "partition"
        self._turns: deque[Backlog] = deque()
        # The last batch of each backlog that waits for more records.
        self._gathering: dict[Backlog, Work] = {}

    # Records in

    def put(self, backlog: Backlog, records: Iterable[Record[Any, Any]]) -> None:
        """Queue delivered records, in order of their offsets."""
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
        """Return the batch of a backlog that waits for more records; None if there is none."""
        return self._gathering.get(backlog)

    def gathered(self, backlog: Backlog) -> None:
        """Let the batch that waits for more records wait no longer."""
        if (work := self._gathering.pop(backlog, None)) is not None:
            self._queue(work)

    def all_gathered(self) -> None:
        """Let no batch wait any longer, because no more records are taken."""
        for backlog in list(self._gathering):
            self.gathered(backlog)

    def _may_grow(self, work: Work) -> bool:
        """Return whether a batch takes another record. Only a batch that waits for its first call does."""
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
        """Whether another work could start now. It may be True although all works belong to blocked or dropped
        partitions."""
        return bool(self._turns) and not self.stopped and self.running < self.limits.running

    def start(self, now: float, task: object = None) -> Work | None:
        """Return the work to handle next; None if there is none, or if the limit of running works is reached."""
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
        """Note that a running work is done. It never starts again, and the next one of its lane is ready."""
        work.backlog.running.discard(work)
        self.running -= 1
        self._done(work)

    def give_up(self, work: Work) -> None:
        """Note that a postponed work is done without another call."""
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
        """If there is one lane, note that a running work is done, and reuse it for the next record. Do nothing and
        return False if there is no record, or if another partition waits for its turn.

        It has the effect of :meth:`finish` and :meth:`start`, in a part of the time.
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
        """Note that one record of a running batch is done, which is now handled record by record. The next record is
        ready."""
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
        """Note that a running work stops without being done. Unless its backlog was dropped, its lane waits for it
        until :meth:`due` makes it ready again."""
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
        """Note that a postponed work is ready."""
        if work in work.backlog.postponed:
            work.backlog.postponed.discard(work)
            self._make_ready(work)

    # Partitions

    def block(self, backlog: Backlog, blocked: bool) -> None:
        """Stop or continue starting works of a backlog."""
        backlog.blocked = blocked or backlog.dropped
        if not backlog.blocked and backlog.ready and not backlog.in_turns:
            backlog.in_turns = True
            self._turns.append(backlog)

    def drop(self, backlog: Backlog) -> None:
        """Never start a work of this backlog again. Running ones go on, and :attr:`Backlog.lowest` stays right."""
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
            # It keeps the lowest offset right when the running work is done.
            backlog.works.append(Work(backlog, None, None, backlog.queue[0].offset))
            backlog.queue.clear()
        backlog.ready.clear()
        backlog.lanes.clear()
        backlog.postponed.clear()

    def share(self, partitions: int) -> int:
        """Return how many unfinished records one of so many partitions may have.

        It's a part of the limit, so that a partition whose records aren't handled leaves room for the others.
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
        """Return whether a full backlog has become small enough to take more. It must be well below the limit, so that
        this doesn't change with each record."""
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
        """Whether to take records again after :attr:`full`, because a good part of the limits is free."""
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
    # Use the stored bytes. The size of a deserialized object isn't known.
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
    # Use the stored key, because a deserialized key may not be hashable.
    return record.raw_key
