"""The tasks of :meth:`Consumer.run`: one takes records from the reader, and workers call the handler.

Who writes what: the scheduler decides, and is changed by the intake (new records), the workers (what starts, what is
done) and the consumer's signals (partitions that are paused, sought or revoked), all in one event loop. A worker is a
task that awaits one call after the other, so that a handler that does not suspend costs no task switch; it ends with a
call that is cancelled, and another one takes its place.

What ends a run: :meth:`Runner.stop`, a failure (of a handler, of reading, of a worker), or the cancellation of the
task that awaits it. In each case nothing more starts, running calls may end within the drain timeout and are then
cancelled, what is finished is committed, and the position of each partition moves back to its first unfinished record:
whoever reads next, this consumer or another, begins there.

What can never happen: a commit beyond an unfinished record (the assignment asks :meth:`Runner.unfinished` for each
commit, of whatever cause); two calls for one key at once, also across a rebalance or a seek (a partition starts nothing
while calls from before are running).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Collection
from contextlib import nullcontext
from functools import partial
from types import CoroutineType
from typing import Any

from aiokproto.consumer.cursor import Cursor
from aiokproto.consumer.deserializing import DeserializingReader
from aiokproto.consumer.engine import Engine
from aiokproto.consumer.running.drain import Drain
from aiokproto.consumer.running.failed import Failures
from aiokproto.consumer.running.options import NotAwaitableError, RunOptions
from aiokproto.consumer.running.scheduler import Backlog, Scheduler, Work
from aiokproto.consumer.running.signals import signals_handled
from aiokproto.consumer.running.status import STUCK_AFTER, report_stuck, status_of, trouble_of
from aiokproto.consumer.running.summary import RunStatus, RunSummary, TopicCounts
from aiokproto.errors import ClientClosedError, KafkaError
from aiokproto.fetched.time_slice import TimeSlice
from aiokproto.plurals import counted
from aiokproto.runtime import create_task
from aiokproto.types import Record, TopicPartition

log = logging.getLogger("aiokproto.consumer")

_COMMIT_TIMEOUT = 5.0
"""Seconds for the commit at the end of a run."""

_CANCELLED_WITHIN = 1.0
"""Seconds that cancelled calls have to end before they are left alone."""

_TIMED_OUT = "handler_timeout_ms"
"""Why a call is cancelled that takes too long."""

_FOLLOWING = (True,) * 7 + (False,)
"""Whether another call may follow without a look at the clock, and at the other partitions."""


class Runner:
    """One call of :meth:`Consumer.run`. Without deserializers, ``deserializing`` is None."""

    def __init__(
        self, engine: Engine, options: RunOptions, deserializing: DeserializingReader[Any, Any] | None
    ) -> None:
        self._deserializing = deserializing
        self._engine = engine
        self._assignment = engine.assignment
        self._options = options
        self._scheduler = Scheduler(options.order, options.limits)
        self._topics: dict[str, TopicCounts] = {}
        self._failures = Failures(options, engine.config.group)
        self._loop = asyncio.get_running_loop()
        # By partition; dropped ones until their partition is revoked.
        self._backlogs: dict[TopicPartition, Backlog] = {}
        # Of before a seek or a revocation, whose calls still run: nothing of the partition starts meanwhile.
        self._leaving: dict[TopicPartition, set[Backlog]] = {}
        # Partitions of retry topics whose next record is not due, with what continues them.
        self._undue: dict[TopicPartition, asyncio.TimerHandle] = {}
        self._timers: set[asyncio.TimerHandle] = set()
        self._workers: set[asyncio.Task[None]] = set()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._stopping = asyncio.Event()
        self._error: BaseException | None = None
        self._drain = Drain()
        self._ended = asyncio.Event()

    # The run

    async def run(self) -> RunSummary:
        """Handle records until the run is ended."""
        with signals_handled(self._signalled) if self._options.handle_signals else nullcontext():
            self._assignment.mark_processed()
            self._assignment.end_turn()
            self._assignment.handling = self._assignment.handled = self
            self._engine.reader.owner = self
            intake = create_task(self._take_records(), name="aiokproto-consumer-run-intake")
            watch = create_task(report_stuck(self._running), name="aiokproto-consumer-run-watch")
            for helper in (intake, watch):
                helper.add_done_callback(self._helper_ended)
            try:
                await self._stopping.wait()
            finally:
                await self._end(intake, watch)
        if self._error is not None:
            raise self._error
        return self.summary()

    def stop(self) -> None:
        """End the run: start nothing more, and let running calls end."""
        self._scheduler.stopped = True
        self._stopping.set()

    def _signalled(self) -> None:
        if self._stopping.is_set():
            log.warning("run: a signal while the run ends: running handlers are cancelled")
            self._drain.expire()
        self.stop()

    def _fail(self, error: BaseException) -> None:
        # The first: others are its consequences, or have the same cause.
        if self._error is None:
            self._error = error
        self.stop()

    def _helper_ended(self, task: asyncio.Task[None]) -> None:
        error = ClientClosedError(f"run: {task.get_name()} was cancelled") if task.cancelled() else task.exception()
        if error is None or self._stopping.is_set():
            return
        if self._engine.closing and isinstance(error, ClientClosedError):
            self.stop()
        else:
            self._fail(error)

    # Records in

    async def _take_records(self) -> None:
        reader = self._engine.reader
        while True:
            while self._scheduler.full:
                self._has_room.clear()
                await self._has_room.wait()
            await reader.open(by=self)
            await self._take()
            # Buffered records are opened without waiting: the workers would get them all at once.
            await asyncio.sleep(0)

    async def _take(self) -> None:
        """Take open records of one partition, as many as may be pending."""
        cursor = self._assignment.served()
        backlog = self._backlog(cursor)
        room = self._scheduler.room(backlog, len(self._assignment.cursors))
        due = self._due(cursor, room)
        try:
            records = await self._taken(due) if due else []
        finally:
            self._assignment.end_turn()
        if backlog.source != cursor.version or self._assignment.cursors.get(cursor.partition) is not cursor:
            # Sought, revoked or lost while deserializers were awaited.
            return
        if records:
            try:
                self._scheduler.put(backlog, records)
            except BaseException:
                # The function that returns lanes failed: the records are delivered again, once the cause is gone, and
                # with them the unfinished ones before.
                first = records[0].offset if backlog.lowest is None else backlog.lowest
                self._assignment.seek(cursor.partition, first)
                raise
        backlog.full = self._scheduler.room(backlog, len(self._assignment.cursors)) == 0
        self._fill(cursor)
        self._wake()

    async def _taken(self, most: int) -> list[Record[Any, Any]]:
        if self._deserializing is not None:
            return await self._deserializing.take(most, self)
        return self._assignment.take(most)

    def _due(self, cursor: Cursor, room: int) -> int:
        """Return how many open records may be taken. If one of a retry topic is not due, its partition waits for it."""
        topics = self._options.retry_topics
        records = self._assignment.open
        if topics is None or cursor.partition.topic not in topics.topics:
            return min(room, len(records))
        for count, record in enumerate(reversed(records)):
            if count >= room:
                return room
            if (wait := topics.wait(record)) > 0:
                partition = cursor.partition
                self._undue[partition] = self._loop.call_later(wait, self._is_due, partition, cursor.version)
                return count
        return len(records)

    def _is_due(self, partition: TopicPartition, version: object) -> None:
        self._undue.pop(partition, None)
        cursor = self._assignment.cursors.get(partition)
        if cursor is not None and cursor.version == version:
            self._fill(cursor)

    def _fill(self, cursor: Cursor) -> None:
        backlog = self._backlogs.get(cursor.partition)
        full = cursor.partition in self._undue or (backlog is not None and backlog.full)
        if full != cursor.full:
            self._assignment.fill(cursor, full)

    def _backlog(self, cursor: Cursor) -> Backlog:
        backlog = self._backlogs.get(cursor.partition)
        if backlog is None:
            backlog = self._backlogs[cursor.partition] = Backlog(cursor.partition, cursor.version)
            self._topics.setdefault(cursor.partition.topic, TopicCounts())
            self._scheduler.block(backlog, cursor.partition in self._leaving)
        return backlog

    # Workers

    def _wake(self) -> None:
        """Let a worker look for work, if there is some."""
        if not self._scheduler.may_start:
            return
        while self._idle:
            waiting = self._idle.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return
        if len(self._workers) < self._options.limits.running:
            self._workers.add(task := create_task(self._work(), name=f"aiokproto-consumer-run-{len(self._workers)}"))
            task.add_done_callback(self._worker_ended)

    def _worker_ended(self, task: asyncio.Task[None]) -> None:
        self._workers.discard(task)
        error = ClientClosedError(f"run: {task.get_name()} was cancelled") if task.cancelled() else task.exception()
        if error is not None and not self._stopping.is_set():
            self._fail(error)
        self._wake()

    async def _work(self) -> None:
        task = asyncio.current_task()
        scheduler, time = self._scheduler, self._loop.time
        time_slice = TimeSlice()
        while not self._ended.is_set():
            work = scheduler.start(time(), task)
            if work is None:
                await self._wait_for_work()
            else:
                if scheduler.may_start:
                    self._wake()
                if not await self._handle(work):
                    return
            await time_slice.pause()

    async def _handle(self, work: Work) -> bool:
        """Call the handler for a work, and for some that follow it. Return whether the worker goes on."""
        scheduler, handler, time = self._scheduler, self._options.handler, self._loop.time
        timeout, backlog, work_task = self._options.handler_timeout, work.backlog, work.task
        counts = self._topics[backlog.partition.topic]
        for following in _FOLLOWING:
            try:
                if timeout is not None:
                    work.timer = self._loop.call_later(timeout, _cancel, work, _TIMED_OUT)
                call = handler(work.item)
                if not isinstance(call, CoroutineType) and not hasattr(call, "__await__"):
                    raise NotAwaitableError(f"run({handler!r}): it is no coroutine function: it returned {call!r:.80}")
                await call
            except BaseException as error:  # noqa: BLE001 - each is an outcome of the record
                return await self._failed(work, error)
            if timeout is not None:
                work.timer.cancel()
            counts.processed += 1 if work.rest else work.count
            if following and not work.cancelled and scheduler.follow(work):
                work.began = time()
                if backlog.full or not self._has_room.is_set():
                    self._relieve(backlog)
                continue
            # The handler may have swallowed a cancellation: its task then counts as cancelled.
            cancelled, work.cancelled = work.cancelled, ""
            self._finish(work)
            if cancelled:
                return False
            another = scheduler.start(time(), work_task) if following else None
            if another is None:
                return True
            if scheduler.may_start:
                self._wake()
            work, backlog = another, another.backlog
            counts = self._topics[backlog.partition.topic]
        return True

    async def _wait_for_work(self) -> None:
        waiting = self._loop.create_future()
        self._idle.append(waiting)
        await waiting

    def _finish(self, work: Work) -> None:
        """The records of a call are done."""
        backlog, scheduler = work.backlog, self._scheduler
        if work.rest:
            scheduler.finish_one(work)
        else:
            scheduler.finish(work)
        self._relieve(backlog)

    def _relieve(self, backlog: Backlog) -> None:
        """A call has ended: continue what waited for it."""
        scheduler = self._scheduler
        if backlog.full and scheduler.relieved(backlog, len(self._assignment.cursors)):
            backlog.full = False
            cursor = self._assignment.cursors.get(backlog.partition)
            if cursor is not None and cursor.version == backlog.source:
                self._fill(cursor)
        if not self._has_room.is_set() and scheduler.has_room:
            self._has_room.set()
        if backlog.dropped and not backlog.running:
            self._settled(backlog)
        if scheduler.stopped and not scheduler.running:
            self._drain.finish()

    # Failed calls

    async def _failed(self, work: Work, error: BaseException) -> bool:
        """Decide what becomes of records whose call has raised. Return whether the worker goes on."""
        if work.timer is not None:
            work.timer.cancel()
        # A cancellation from here on concerns what becomes of the record, such as its dead letter.
        why, work.cancelled = work.cancelled, ""
        if isinstance(error, asyncio.CancelledError) and why == _TIMED_OUT:
            limit = self._options.handler_timeout
            error = asyncio.TimeoutError(f"the handler took longer than {limit} s ({_TIMED_OUT})")
        self._topics[work.backlog.partition.topic].failed += not isinstance(error, asyncio.CancelledError)
        try:
            if isinstance(error, Exception):
                # One that is cancelled may raise anything: its record is not done, whatever it says.
                if why in ("", _TIMED_OUT):
                    await self._recover(work, error)
            elif not why or not isinstance(error, asyncio.CancelledError):
                raise error
        except asyncio.CancelledError as cancelled:
            # Of the call, or while a dead letter is written; with a reason, the run goes on.
            why = work.cancelled or "from outside"
            if not work.cancelled:
                failure = ClientClosedError(f"run: the handler of {work} was cancelled, and not by the run")
                failure.__cause__ = cancelled
                self._fail(failure)
        except BaseException as failure:  # noqa: BLE001 - the run ends with it
            log.error("run: %s: %r: the run ends", work, failure)
            self._fail(failure)
        if work in work.backlog.running:
            self._postpone(work)
        work.cancelled = ""
        self._wake()
        return not why

    async def _recover(self, work: Work, error: Exception) -> None:
        """Repeat the call later, or write its records elsewhere. Raises the error if neither is possible."""
        work.attempts += 1
        partition = work.backlog.partition
        counts = self._topics[partition.topic]
        if work.backlog.dropped:
            log.info("run: %s, which is not assigned any more: %r", work, error)
        elif (pause := self._failures.pause(work, error)) is not None:
            counts.retried += 1
            # A run that stops makes none: the record comes again after the restart.
            following = "the run ends" if self._stopping.is_set() else f"the next is in {pause * 1000:.0f} ms"
            log.info("run: %s: attempt %d failed, %s: %r", work, work.attempts, following, error)
            self._postpone(work)
            self._timed(pause, work)
        elif self._failures.splits(work, error):
            log.info("run: %s: the records are handled one by one: %r", work, error)
            work.item, work.rest = work.item[:1], work.item[1:]
            work.attempts = 0
            self._postpone(work)
            self._scheduler.due(work)
        else:
            kind = await self._failures.give_up(work, error)
            counts.retried += kind == "retried"
            counts.dead_lettered += kind == "dead-lettered"
            self._finish(work)

    def _postpone(self, work: Work) -> None:
        """A call has ended, and its records are not done."""
        self._scheduler.postpone(work)
        self._relieve(work.backlog)

    def _timed(self, seconds: float, work: Work) -> None:
        def due() -> None:
            self._timers.discard(timer)
            self._scheduler.due(work)
            self._wake()

        timer = self._loop.call_later(seconds, due)
        self._timers.add(timer)

    # The consumer's signals (Handling)

    @property
    def full(self) -> bool:
        """Whether no record is taken, because as many are unfinished as may be."""
        return not self._has_room.is_set()

    def unfinished(self) -> dict[TopicPartition, int]:
        """Return the lowest unfinished offset of each partition that has one."""
        return {partition: lowest for partition, each in self._backlogs.items() if (lowest := each.lowest) is not None}

    def is_busy(self, partitions: Collection[TopicPartition]) -> bool:
        """Return whether a call runs for one of these partitions, and may still end."""
        return any(each.running and not each.abandoned for each in self._of(partitions))

    def oldest(self) -> float | None:
        """Return the loop time at which the oldest running call began. Those that were cancelled for more than their
        time, and those whose partition is being revoked, do not count."""
        revoked = {id(backlog) for backlog in self._backlogs.values() if backlog.dropped}
        running = (work for work in self._running() if _goes_on(work) and id(work.backlog) not in revoked)
        return min((work.began for work in running), default=None)

    def changed(self, cursors: Collection[Cursor]) -> None:
        """Cursors were added, removed, sought, paused, held or released."""
        for cursor in cursors:
            backlog = self._backlogs.get(cursor.partition)
            if backlog is None:
                continue
            if backlog.source != cursor.version:
                self._forget(backlog)
            else:
                blocked = cursor.paused or bool(cursor.held) or cursor.partition in self._leaving
                self._scheduler.block(backlog, blocked)
        self._wake()

    def revoke(self, partitions: Collection[TopicPartition], deadline: float) -> None:
        """Start nothing more of these partitions; what runs may end within the drain timeout, at most until then."""
        backlogs = self._of(partitions)
        for backlog in backlogs:
            self._scheduler.drop(backlog)
        at = min(self._loop.time() + self._options.drain_timeout, deadline)
        self._loop.call_at(at, partial(self._cancel_running, backlogs, "the partition is revoked"))
        self._loop.call_at(at + _CANCELLED_WITHIN, partial(self._abandon, backlogs))

    def _abandon(self, backlogs: list[Backlog]) -> None:
        """Let a rebalance go on without the calls that do not end although they were cancelled."""
        for backlog in backlogs:
            if backlog.running:
                backlog.abandoned = True
                names = ", ".join(map(str, backlog.running))
                log.error("run: handlers do not end although they are cancelled: %s is revoked without them", names)
        self._engine.reader.give_up_waiting()

    def check_outside(self, call: str) -> None:
        """Raise in a handler: ``call`` would wait for it."""
        if asyncio.current_task() in self._workers:
            raise RuntimeError(
                f"a handler cannot await {call}, which would wait for the handler: call stop_run(), and {call} after it"
            )

    async def finish(self, deadline: float) -> None:
        """End the run; at that loop time what still runs is cancelled."""
        timer = self._loop.call_at(deadline, self._drain.expire)
        self.stop()
        try:
            await self._ended.wait()
        finally:
            # A close() that is cancelled waits no longer.
            if not self._ended.is_set():
                self._drain.expire()
            timer.cancel()

    def _of(self, partitions: Collection[TopicPartition]) -> list[Backlog]:
        current = [self._backlogs[each] for each in partitions if each in self._backlogs]
        return current + [each for partition in partitions for each in self._leaving.get(partition, ())]

    def _forget(self, backlog: Backlog) -> None:
        """The partition was revoked, lost or sought: its records count no more."""
        partition = backlog.partition
        del self._backlogs[partition]
        if (timer := self._undue.pop(partition, None)) is not None:
            timer.cancel()
        self._scheduler.drop(backlog)
        if backlog.running:
            self._leaving.setdefault(partition, set()).add(backlog)
            # After a seek they may end: the partition is still this consumer's.
            if partition not in self._assignment.cursors:
                self._cancel_running([backlog], "the partition is not assigned any more")
        if (cursor := self._assignment.cursors.get(partition)) is not None:
            self._fill(cursor)
        self._relieve(backlog)

    def _settled(self, backlog: Backlog) -> None:
        """The last call of a dropped backlog has ended."""
        partition = backlog.partition
        leaving = self._leaving.get(partition)
        if leaving is not None:
            leaving.discard(backlog)
            if not leaving:
                del self._leaving[partition]
                cursor = self._assignment.cursors.get(partition)
                if cursor is not None:
                    self.changed([cursor])
        # A revocation waits for it.
        self._engine.reader.give_up_waiting()

    def _running(self) -> list[Work]:
        leaving = [each for backlogs in self._leaving.values() for each in backlogs]
        return [work for backlog in (*self._backlogs.values(), *leaving) for work in backlog.running]

    def _cancel_running(self, backlogs: Collection[Backlog], why: str) -> None:
        works = [work for backlog in backlogs for work in backlog.running if _goes_on(work)]
        if works:
            calls = counted(len(works), "call")
            log.warning("run: %s: %s of the handler cancelled, such as that for %s", why, calls, works[0])
        for work in works:
            _cancel(work, why)

    # The end

    async def _end(self, *helpers: asyncio.Task[None]) -> None:
        """Wind down, also if this task is cancelled; a second time, cancel what runs at once."""
        if self._ended.is_set():
            return
        winding_down = create_task(self._wind_down(helpers), name="aiokproto-consumer-run-end")
        cancelled: asyncio.CancelledError | None = None
        while not winding_down.done():
            try:
                await asyncio.wait([winding_down])
            except asyncio.CancelledError as error:
                cancelled = error
                self._drain.expire()
        if cancelled is not None:
            raise cancelled
        if winding_down.cancelled():
            raise ClientClosedError("run: its end was cancelled, and not by the task that awaits run()")
        winding_down.result()

    async def _wind_down(self, helpers: tuple[asyncio.Task[None], ...]) -> None:
        try:
            await self._drain_and_commit(helpers)
        finally:
            # Also if this task is cancelled, as all are when an event loop is shut down: close() waits for it.
            self._release()
            for task in self._workers:
                task.cancel()
        if self._workers:
            await asyncio.wait(self._workers, timeout=_CANCELLED_WITHIN)

    async def _drain_and_commit(self, helpers: tuple[asyncio.Task[None], ...]) -> None:
        self.stop()
        for helper in helpers:
            helper.cancel()
        await asyncio.wait(helpers)
        if self._scheduler.running and not await self._drain.wait(self._options.drain_timeout):
            self._cancel_running({work.backlog for work in self._running()}, "the run ends")
            if self._scheduler.running and not await self._drain.wait(_CANCELLED_WITHIN, expires=False):
                names = ", ".join(str(work) for work in self._running())
                log.error("run: handlers do not end although they are cancelled, and are left alone: %s", names)
        # close() makes the last commit itself.
        if self._engine.member is not None and self._engine.config.enable_auto_commit and not self._engine.closing:
            try:
                await self._engine.commit_processed(_COMMIT_TIMEOUT)
            except KafkaError as error:
                log.warning("run: the last commit: %s", error)

    def _release(self) -> None:
        """Give the consumer back: each partition continues at its first unfinished record."""
        self._ended.set()
        unfinished = self.unfinished()
        self._assignment.handling = self._engine.reader.owner = None
        for timer in (*self._timers, *self._undue.values()):
            timer.cancel()
        for partition, cursor in list(self._assignment.cursors.items()):
            backlog = self._backlogs.get(partition)
            if backlog is not None and backlog.source == cursor.version and partition in unfinished:
                self._assignment.seek(partition, unfinished[partition])
            if cursor.full:
                self._assignment.fill(cursor, False)
        self._engine.reader.give_up_waiting()

    # Reports

    def trouble(self) -> str:
        """See :class:`~aiokproto.consumer.handling.Handling`."""
        group = self._engine.config.group
        limit = STUCK_AFTER if group is None else min(STUCK_AFTER, group.max_poll_interval / 2)
        return trouble_of(self._running(), limit)

    def summary(self) -> RunSummary:
        """Return what was done so far."""
        return RunSummary(dict(self._topics))

    def status(self) -> RunStatus:
        """Return what is being done."""
        active = self._assignment.handling is self
        return status_of(self._scheduler, self._backlogs, self.summary(), active=active)


def _goes_on(work: Work) -> bool:
    """Whether a running call may go on. One that ignores its timeout does."""
    return work.cancelled in ("", _TIMED_OUT)


def _cancel(work: Work, why: str) -> None:
    work.cancelled = why
    work.task.cancel()
