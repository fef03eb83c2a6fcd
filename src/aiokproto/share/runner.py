"""The share consumer's part of a run (:meth:`ShareConsumer.run`): each record is acknowledged according to how its call
ends.

Records are acquired as handlers become free: if they were acquired earlier, their locks would expire while they wait. A
record that is waiting to be released counts as running, so a short outage of a service that the handler needs doesn't
affect the whole queue.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Literal, NamedTuple, get_args

from aiokproto.application.calls import calling, check_not_awaitable
from aiokproto.errors import ConfigurationError
from aiokproto.running.runner import NotAwaitableError, Plan, Runner
from aiokproto.running.scheduler import Backlog, Limits, Scheduler, Work
from aiokproto.running.summary import TopicCounts
from aiokproto.share.acknowledgement import Acknowledgement
from aiokproto.share.engine import ShareEngine
from aiokproto.share.ledger import ShareRecord
from aiokproto.texts import repr_of
from aiokproto.types import TopicPartition

log = logging.getLogger("aiokproto.share")

_LONGEST_BACKOFF = 30.0
"""The maximum pause before a failed record is released, in seconds."""

Handler = Callable[[ShareRecord], Awaitable[object]]
Decision = Literal["release", "reject", "accept"]
ErrorPolicy = Literal["release", "reject"] | Callable[[ShareRecord, Exception], Decision]


class ShareOptions(NamedTuple):
    """The arguments of :meth:`ShareConsumer.run`.

    Attributes:
        plan: The arguments common to all runs.
        max_bytes: No more records are taken once this many bytes are in flight.
        on_error: What to do with a record whose call has failed.
        backoff: How many seconds a failed record waits before its first release.
    """

    plan: Plan
    max_bytes: int
    on_error: ErrorPolicy
    backoff: float


class ShareRunner(Runner):
    """One call of :meth:`ShareConsumer.run`."""

    def __init__(self, engine: ShareEngine, options: ShareOptions) -> None:
        most = options.plan.running
        scheduler = Scheduler("none", Limits(records=most, size=options.max_bytes, running=most), overhead=False)
        super().__init__("aiokproto-share-run", options.plan, scheduler, log, engine.observer.hooks)
        self._engine = engine
        self._options = options
        # Each record has its own backlog, because records have no order and are acknowledged individually.
        self._backlogs: dict[ShareRecord, Backlog] = {}
        self._handled = self._accept

    # The strategy

    def _take_over(self) -> None:
        self._engine.runner = self
        self._engine.most_wanted = self._free

    def _closing(self) -> bool:
        return self._engine.closing

    @property
    def _free(self) -> int:
        return self._plan.running - self._scheduler.count

    async def _take_records(self) -> None:
        reader = self._engine.reader
        while True:
            while self._scheduler.full:
                self._has_room.clear()
                await self._has_room.wait()
            record = reader.next_record()
            if record is None:
                await reader.open()
            else:
                self._put(record)

    def _put(self, record: ShareRecord) -> None:
        backlog = self._backlogs[record] = Backlog(TopicPartition(record.topic, record.partition), None)
        self._topics.setdefault(record.topic, TopicCounts())
        self._scheduler.put(backlog, [record])
        self._engine.most_wanted = self._free
        self._wake()

    def _accept(self, work: Work) -> None:
        # This has no effect if the handler has acknowledged the record itself.
        self._done(work, Acknowledgement.ACCEPT)

    async def _recover(self, work: Work, error: Exception) -> None:
        if isinstance(error, NotAwaitableError):
            raise error
        work.attempts += 1
        record: ShareRecord = work.item
        decision = self._decide(record, error)
        counts = self._topics[record.topic]
        counts.retried += decision == "release"
        counts.dead_lettered += decision == "reject"
        log.warning(
            "share consumer: the handler failed for %s-%d at offset %d (delivery %d), which is acknowledged as %s",
            record.topic,
            record.partition,
            record.offset,
            record.delivery_count,
            decision,
            exc_info=error,
        )
        if decision == "release" and not self._stopping.is_set():
            # Wait first: the broker would deliver it again immediately, so even a short outage would get it archived.
            pause = min(self._options.backoff * 2.0 ** min(record.delivery_count - 1, 60), _LONGEST_BACKOFF)
            self._postpone(work)
            self._later(pause, work)
        else:
            self._done(work, Acknowledgement[decision.upper()])
            self._finish(work)

    def _later(self, pause: float, work: Work) -> None:
        def due() -> None:
            self._timers.discard(timer)
            self._done(work, Acknowledgement.RELEASE)
            self._scheduler.give_up(work)
            self._relieve(work.backlog)

        timer = self._loop.call_later(pause, due)
        self._timers.add(timer)

    def _decide(self, record: ShareRecord, error: Exception) -> Decision:
        policy = self._options.on_error
        if not callable(policy):
            return policy
        # An exception of the policy ends the run: it's a bug in the application, and would occur for each record.
        with calling("on_error"):
            decision: object = policy(record, error)
            check_not_awaitable(decision, "on_error")
        for known in get_args(Decision):
            if decision == known:
                return known  # type: ignore[no-any-return]
        raise ConfigurationError(f"on_error returned {repr_of(decision)}: expected 'release', 'reject' or 'accept'")

    def _done(self, work: Work, kind: Acknowledgement) -> None:
        record: ShareRecord = work.item
        self._backlogs.pop(record, None)
        self._engine.acknowledge_rest([record], kind)

    def _relieve(self, backlog: Backlog) -> None:
        if not self._stopping.is_set():
            self._engine.most_wanted = self._free
        if not self._scheduler.full:
            self._has_room.set()
        if self._scheduler.stopped and not self._scheduler.running:
            self._drain.finish()

    def _live(self) -> Iterable[Backlog]:
        return self._backlogs.values()

    def _running(self) -> list[Work]:
        return [work for backlog in self._backlogs.values() for work in backlog.running]

    async def _commit(self) -> None:
        """Do nothing: acknowledgements are sent with the next request."""

    def _release(self) -> None:
        for timer in self._timers:
            timer.cancel()
        # Release the records of calls that were cancelled, never started, or left alone.
        self._engine.acknowledge_rest(list(self._backlogs), Acknowledgement.RELEASE)
        self._engine.most_wanted = None
        self._engine.runner = None
