"""The tasks of ``run()``, for both consumers and share consumers: one task takes records, and workers call the handler.

Who writes what: the scheduler decides what starts. The intake (new records), the workers (calls that start or end) and
the consumer's events change it, all in one event loop. A worker is a task that awaits calls one after another, so a
handler that doesn't suspend doesn't cost a task switch. When a call is cancelled, its worker ends with it, and a new
worker replaces it.

What ends a run: :meth:`Runner.stop`, a signal, a failure (of a handler, of reading, of a worker), or the cancellation
of the task that awaits it. In each case no more calls start. Running calls have until the drain timeout to end, and are
then cancelled. A consumer commits finished records. A call that ignores its cancellation is left alone, and named in
the log.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import nullcontext
from types import CoroutineType
from typing import Any, NamedTuple

from aiokproto.application.calls import failure
from aiokproto.errors import ClientClosedError, ConfigurationError
from aiokproto.fetched.time_slice import TimeSlice
from aiokproto.hooks import HookCalls, RunProgressed
from aiokproto.running.scheduler import Backlog, Scheduler, Work
from aiokproto.running.signals import signals_handled
from aiokproto.running.status import STUCK_AFTER, WATCHED_EVERY, StuckReport, problem_of, status_of
from aiokproto.running.summary import RunStats, RunStatus, RunSummary, TopicCounts
from aiokproto.runtime import create_task
from aiokproto.texts import counted, repr_of

CANCELLED_WITHIN = 1.0
"""How many seconds cancelled calls have to end before they're left alone."""

_TIMED_OUT = "handler_timeout_ms"
"""The reason for cancelling a call that takes too long."""

_FOLLOWING = (True,) * 7 + (False,)
"""Whether the next call may follow without checking the clock and the other partitions."""


_NOTHING = (0,) * 6


class NotAwaitableError(ConfigurationError):
    """The handler is not a coroutine function. There was nothing to await, so no record is finished."""


class Plan(NamedTuple):
    """The arguments common to all runs. Durations are in seconds.

    Attributes:
        handler: The coroutine function.
        running: Maximum number of concurrent calls.
        drain_timeout: How long running calls may take when the run ends.
        handler_timeout: How long one call may take; None for no limit.
        handle_signals: Whether SIGTERM and SIGINT end the run.
    """

    handler: Callable[[Any], Awaitable[object]]
    running: int
    drain_timeout: float
    handler_timeout: float | None
    handle_signals: bool


class _Drain:
    """The wait for running calls at the end of a run. It ends when all calls have ended, after a timeout, or on
    :meth:`expire`."""

    def __init__(self) -> None:
        self._finished = asyncio.Event()
        self._expired = asyncio.Event()

    def finish(self) -> None:
        """Note that all calls have ended."""
        self._finished.set()

    def expire(self) -> None:
        """Stop waiting."""
        self._expired.set()

    async def wait(self, seconds: float, *, expires: bool = True) -> bool:
        """Wait for at most ``seconds``, and return whether all calls have ended. If ``expires``, :meth:`expire` ends
        the wait, too."""
        events = [self._finished, self._expired] if expires else [self._finished]
        waits = [asyncio.ensure_future(event.wait()) for event in events]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return self._finished.is_set()


class _Progress:
    """Calls the hook for each topic with changes. The hook gets changes instead of totals, so one object can be the
    hook of several runs."""

    def __init__(self, hook: Callable[[RunProgressed], None] | None, counts: Mapping[str, TopicCounts]) -> None:
        """``counts`` are the run's counts by topic, which the run updates."""
        self._hook = hook
        self._counts = counts
        self._reported: dict[str, tuple[int, ...]] = {}

    def report(self, backlogs: Iterable[Backlog], running: Collection[Work]) -> None:
        """Report the changes since the last report."""
        if self._hook is None:
            return
        pending: Counter[str] = Counter()
        for backlog in backlogs:
            pending[backlog.partition.topic] += backlog.count
        calls = Counter(work.backlog.partition.topic for work in running)
        for topic, counts in list(self._counts.items()):
            done = (counts.processed, counts.retried, counts.dead_lettered, counts.failed)
            now = (*done, pending[topic], calls[topic])
            before = self._reported.get(topic, _NOTHING)
            if now != before:
                self._reported[topic] = now
                self._hook(RunProgressed(topic, *(new - old for new, old in zip(now, before, strict=True))))


class Runner(ABC):
    """One call of ``run()``. A subclass defines where records come from, and what to do after their calls."""

    _handled: Callable[[Work], None] | None = None
    """Called for each work item whose call has returned. If None, only the scheduler is notified."""

    def __init__(self, name: str, plan: Plan, scheduler: Scheduler, log: logging.Logger, hooks: HookCalls) -> None:
        """``name`` is the prefix of the tasks' names."""
        self._name = name
        self._plan = plan
        self._scheduler = scheduler
        self._log = log
        self._topics: dict[str, TopicCounts] = {}
        self._progress = _Progress(hooks.run_progressed, self._topics)
        self._loop = asyncio.get_running_loop()
        self._timers: set[asyncio.TimerHandle] = set()
        self._workers: set[asyncio.Task[None]] = set()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._stopping = asyncio.Event()
        self._error: BaseException | None = None
        self._drain = _Drain()
        self._ended = asyncio.Event()
        self._active = False

    # What differs

    @abstractmethod
    def _take_over(self) -> None:
        """Take over the consumer."""

    @abstractmethod
    def _closing(self) -> bool:
        """Return whether the consumer is being closed, which is not a failure."""

    @abstractmethod
    async def _take_records(self) -> None:
        """Put records into the scheduler until cancelled."""

    @abstractmethod
    async def _recover(self, work: Work, error: Exception) -> None:
        """Decide what to do with a work item whose call has failed. An exception ends the run."""

    @abstractmethod
    def _relieve(self, backlog: Backlog) -> None:
        """Continue the work that was waiting for a call to end."""

    @abstractmethod
    def _live(self) -> Iterable[Backlog]:
        """Return the backlogs whose work items count."""

    @abstractmethod
    def _running(self) -> list[Work]:
        """Return the work items with a running call."""

    @abstractmethod
    async def _commit(self) -> None:
        """Commit finished records, once all calls have ended or been left alone."""

    @abstractmethod
    def _release(self) -> None:
        """Release the consumer."""

    # The run

    async def run(self) -> RunSummary:
        """Handle records until the run is ended."""
        with signals_handled(self._signalled) if self._plan.handle_signals else nullcontext():
            self._take_over()
            self._active = True
            intake = create_task(self._take_records(), name=f"{self._name}-intake")
            watch = create_task(self._watch(), name=f"{self._name}-watch")
            for helper in (intake, watch):
                helper.add_done_callback(self._helper_ended)
            try:
                await self._stopping.wait()
            finally:
                await self._end(intake, watch)
        if self._error is not None:
            raise self._error
        return self.summary()

    async def _watch(self) -> None:
        stuck = StuckReport(self._log)
        while True:
            await asyncio.sleep(WATCHED_EVERY)
            stuck.report(self._running())
            self._progress.report(self._live(), self._running())

    def stop(self) -> None:
        """End the run: start no more calls, and let running calls end."""
        self._scheduler.stopped = True
        self._stopping.set()

    def _signalled(self) -> None:
        if self._stopping.is_set():
            self._log.warning("run: a signal while the run ends: running handlers are cancelled")
            self._drain.expire()
        self.stop()

    def _fail(self, error: BaseException) -> None:
        # Keep the first error: later errors are its consequences, or have the same cause.
        if self._error is None:
            self._error = error
        self.stop()

    def _helper_ended(self, task: asyncio.Task[None]) -> None:
        error = ClientClosedError(f"run: {task.get_name()} was cancelled") if task.cancelled() else task.exception()
        if error is None or self._stopping.is_set():
            return
        if self._closing() and isinstance(error, ClientClosedError):
            self.stop()
        else:
            self._fail(error)

    def _wake(self) -> None:
        """Wake a worker if there is work."""
        if not self._scheduler.may_start:
            return
        while self._idle:
            waiting = self._idle.popleft()
            if not waiting.done():
                waiting.set_result(None)
                return
        if len(self._workers) < self._plan.running:
            self._workers.add(task := create_task(self._work(), name=f"{self._name}-{len(self._workers)}"))
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
        """Call the handler for a work item, and possibly for some more after it. Return whether the worker
        continues."""
        scheduler, handler, time = self._scheduler, self._plan.handler, self._loop.time
        timeout, backlog, work_task = self._plan.handler_timeout, work.backlog, work.task
        counts, handled = self._topics[backlog.partition.topic], self._handled
        for following in _FOLLOWING:
            try:
                if timeout is not None:
                    work.timer = self._loop.call_later(timeout, _cancel, work, _TIMED_OUT)
                call = handler(work.item)
                if not isinstance(call, CoroutineType) and not hasattr(call, "__await__"):
                    raise NotAwaitableError(
                        f"run({repr_of(handler)}): it is no coroutine function: it returned {repr_of(call, 80)}"
                    )
                await call
            except BaseException as error:  # noqa: BLE001 - each is an outcome of the record
                return await self._failed(work, error)
            if timeout is not None:
                work.timer.cancel()
            counts.processed += 1 if work.rest else work.count
            if handled is not None:
                handled(work)
            if following and not work.cancelled and scheduler.follow(work):
                work.started_at = time()
                if backlog.full or not self._has_room.is_set():
                    self._relieve(backlog)
                continue
            # If the handler has swallowed a cancellation, its task still counts as cancelled.
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
        """Note that the records of a call are done."""
        backlog, scheduler = work.backlog, self._scheduler
        if work.rest:
            scheduler.finish_one(work)
        else:
            scheduler.finish(work)
        self._relieve(backlog)

    async def _failed(self, work: Work, error: BaseException) -> bool:
        """Decide what to do with records whose call has raised. Return whether the worker continues."""
        if work.timer is not None:
            work.timer.cancel()
        # Any later cancellation concerns the record's retry or dead letter.
        # guard: a handler's timeout is not the reason when its dead letter is cancelled -> why = work.cancelled
        why, work.cancelled = work.cancelled, ""
        if isinstance(error, asyncio.CancelledError) and why == _TIMED_OUT:
            limit = self._plan.handler_timeout
            error = asyncio.TimeoutError(f"the handler took longer than {limit} s ({_TIMED_OUT})")
        try:
            if not why:
                error = failure(error, "the handler", awaited=True)
            self._topics[work.backlog.partition.topic].failed += not isinstance(error, asyncio.CancelledError)
            if isinstance(error, Exception):
                # A cancelled call may raise any error. Its record is not done either way, so the error doesn't matter.
                # guard: a call that is cancelled has not failed, whatever it raises -> True
                if why in ("", _TIMED_OUT):
                    await self._recover(work, error)
            elif not why or not isinstance(error, asyncio.CancelledError):
                raise error
        except asyncio.CancelledError as cancelled:
            # The call or the write of its dead letter was cancelled. If that was the run itself, it continues.
            why = work.cancelled or "from outside"
            if not work.cancelled:
                outside = ClientClosedError(f"run: the handler of {work} was cancelled, and not by the run")
                outside.__cause__ = cancelled
                self._fail(outside)
        except BaseException as final:  # noqa: BLE001 - the run ends with it
            self._log.error("run: %s: %s: the run ends", work, repr_of(final))
            self._fail(final)
        if work in work.backlog.running:
            self._postpone(work)
        work.cancelled = ""
        self._wake()
        return not why

    def _postpone(self, work: Work) -> None:
        """Note that a call has ended, and its records aren't done."""
        self._scheduler.postpone(work)
        # guard: a call that failed and is retried has ended
        self._relieve(work.backlog)

    def _timed(self, seconds: float, work: Work) -> None:
        def due() -> None:
            self._timers.discard(timer)
            self._scheduler.due(work)
            self._wake()

        timer = self._loop.call_later(seconds, due)
        self._timers.add(timer)

    def check_outside(self, call: str) -> None:
        """Raise if this is a handler: ``call`` would wait for it."""
        if asyncio.current_task() in self._workers:
            raise RuntimeError(
                f"a handler cannot await {call}, which would wait for the handler: call stop_run(), and {call} after it"
            )

    async def finish(self, deadline: float) -> None:
        """End the run. Calls that are still running at ``deadline`` (loop time) are cancelled."""
        timer = self._loop.call_at(deadline, self._drain.expire)
        self.stop()
        try:
            await self._ended.wait()
        finally:
            # If close() is cancelled, stop waiting.
            if not self._ended.is_set():
                self._drain.expire()
            timer.cancel()

    def _cancel_running(self, backlogs: Collection[Backlog], why: str) -> None:
        works = [work for backlog in backlogs for work in backlog.running if goes_on(work)]
        if works:
            calls = counted(len(works), "call")
            self._log.warning("run: %s: %s of the handler cancelled, such as that for %s", why, calls, works[0])
        for work in works:
            _cancel(work, why)

    async def _end(self, *helpers: asyncio.Task[None]) -> None:
        """Wind down, even if this task is cancelled. If it's cancelled again, cancel running calls immediately."""
        if self._ended.is_set():
            return
        winding_down = create_task(self._wind_down(helpers), name=f"{self._name}-end")
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
            # Set it even if this task is cancelled, for example because the event loop is shutting down: close() waits
            # for it.
            self._ended.set()
            self._release()
            # Pending records were given back, so don't report any.
            self._progress.report((), self._running())
            for task in self._workers:
                task.cancel()
        if self._workers:
            await asyncio.wait(self._workers, timeout=CANCELLED_WITHIN)

    async def _drain_and_commit(self, helpers: tuple[asyncio.Task[None], ...]) -> None:
        self.stop()
        for helper in helpers:
            helper.cancel()
        _, left = await asyncio.wait(helpers, timeout=CANCELLED_WITHIN)
        if left:
            # It's stuck in a deserializer, which the intake awaits.
            names = ", ".join(task.get_name() for task in left)
            self._log.error("run: %s does not end although it is cancelled, and is left alone", names)
        if self._scheduler.running and not await self._drain.wait(self._plan.drain_timeout):
            self._cancel_running({work.backlog for work in self._running()}, "the run ends")
            if self._scheduler.running and not await self._drain.wait(CANCELLED_WITHIN, expires=False):
                names = ", ".join(str(work) for work in self._running())
                self._log.error("run: handlers do not end although they are cancelled, and are left alone: %s", names)
        await self._commit()

    def summary(self) -> RunSummary:
        """Return the counts so far."""
        return RunSummary(dict(self._topics))

    def status(self) -> RunStatus:
        """Return what the run is doing."""
        return status_of(
            self._scheduler, self._live(), self.summary(), active=self._active and not self._ended.is_set()
        )

    def problem(self) -> str:
        """Describe a call that hangs or has ignored its cancellation; empty if none does. Works after a run, too."""
        return problem_of(self._running(), self._stuck_after())

    def _stuck_after(self) -> float:
        return STUCK_AFTER

    def oldest(self) -> float | None:
        """Return the loop time when the oldest running call started; None if none is running."""
        return min((work.started_at for work in self._running() if goes_on(work)), default=None)


def goes_on(work: Work) -> bool:
    """Return whether a running call may continue. A call that ignores its timeout may."""
    return work.cancelled in ("", _TIMED_OUT)


def _cancel(work: Work, why: str) -> None:
    work.cancelled = why
    work.task.cancel()


class RunTotals:
    """The totals of all runs of a consumer. The current run keeps its own counts, so handling a record adds no cost
    here."""

    def __init__(self) -> None:
        self._before = TopicCounts()
        self._last: Runner | None = None

    def start(self, run: Runner) -> None:
        """Note that a run is starting. The previous run has ended."""
        if self._last is not None:
            counts, before = self._last.summary(), self._before
            before.processed += counts.processed
            before.retried += counts.retried
            before.dead_lettered += counts.dead_lettered
            before.failed += counts.failed
        self._last = run

    def stats(self) -> RunStats:
        """Return the totals, and what the current run is doing. No I/O."""
        before, last = self._before, self._last
        if last is None:
            return RunStats(0, 0, 0, 0, 0, 0)
        counts, status = last.summary(), last.status()
        return RunStats(
            processed=before.processed + counts.processed,
            retried=before.retried + counts.retried,
            dead_lettered=before.dead_lettered + counts.dead_lettered,
            failed=before.failed + counts.failed,
            # When a run ends, its unfinished records are given back.
            pending=status.pending if status.active else 0,
            running=status.running,
        )
