"""Outcomes of acknowledgements, for commits and for the application's callback."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from aiokproto.application.calls import calling, check_not_awaitable
from aiokproto.hooks import Acknowledged
from aiokproto.observe.observers import ShareObserver
from aiokproto.share.acknowledgement import AcknowledgeOutcome, joined
from aiokproto.share.ledger import Ended, QueuedAck

log = logging.getLogger("aiokproto.share")

MAX_FAILURES = 10_000
"""Maximum number of failures remembered for the next commit. Older failures are forgotten."""

Callback = Callable[[Sequence[AcknowledgeOutcome]], object]


class Outcomes:
    """Collects outcomes.

    Every failure is reported by the next commit and by the callback. If there's no callback, failures are logged,
    because no call raises an error when a record's lock has expired.
    """

    def __init__(self, callback: Callback | None, observer: ShareObserver) -> None:
        self._callback = callback
        self._observer = observer
        # The acknowledgements without an outcome: a dictionary used as an ordered set.
        self._open: dict[QueuedAck, None] = {}
        self._failures: deque[AcknowledgeOutcome] = deque(maxlen=MAX_FAILURES)
        self._to_report: list[AcknowledgeOutcome] = []
        self._changed = asyncio.Event()
        self._commits: list[Commit] = []

    def queued(self, ack: QueuedAck) -> None:
        """Note that an acknowledgement was queued."""
        if ack.reported:
            self._open[ack] = None

    def ended(self, ended: Iterable[Ended]) -> None:
        """Note the outcomes of acknowledgements."""
        outcomes: list[AcknowledgeOutcome] = []
        all_ended = list(ended)
        self._observe(all_ended)
        for ack, error in all_ended:
            self._open.pop(ack, None)
            if not ack.reported:
                continue
            outcome = ack.outcome(error)
            outcomes.append(outcome)
            waited = [commit.take(ack, outcome) for commit in self._commits]
            if error is not None and not any(waited):
                self._failures.append(outcome)
        if not outcomes:
            return
        self._to_report += outcomes
        if self._callback is None:
            for failed in joined(outcome for outcome in outcomes if not outcome.ok):
                log.warning("share consumer: acknowledgement of %s", failed)
            self._to_report.clear()
        self._changed.set()

    def _observe(self, ended: list[Ended]) -> None:
        for ack, error in ended:
            self._observer.settle(ack.kind, ack.last - ack.first + 1, error)
        call = self._observer.hooks.acknowledged
        if call is not None:
            for outcome in joined(ack.outcome(error) for ack, error in ended):
                call(Acknowledged(*outcome[:4], outcome.acknowledgement.name.lower(), outcome.error))

    async def report(self) -> None:
        """Call the callback with outcomes until cancelled. Raises the callback's exceptions."""
        while True:
            self._changed.clear()
            self.report_now()
            await self._changed.wait()

    def report_now(self) -> None:
        """Call the callback with the outcomes that weren't reported to it yet."""
        if self._callback is not None and self._to_report:
            outcomes, self._to_report = joined(self._to_report), []
            with calling("on_acknowledged"):
                check_not_awaitable(self._callback(outcomes), "on_acknowledged")

    def commit(self) -> Commit:
        """Start waiting for the acknowledgements without an outcome. The commit includes the failures since the last
        commit."""
        commit = Commit(self._open, self._failures)
        self._failures.clear()
        self._commits.append(commit)
        return commit

    def end(self, commit: Commit) -> None:
        """End a commit. Failures that it hasn't returned go to the next commit."""
        self._commits.remove(commit)
        if not commit.returned:
            self._failures.extend(outcome for outcome in commit.outcomes if not outcome.ok)

    @property
    def open(self) -> int:
        """The number of acknowledgements without an outcome."""
        return len(self._open)


class Commit:
    """A commit that is waiting for outcomes."""

    def __init__(self, waiting: Iterable[QueuedAck], failures: Iterable[AcknowledgeOutcome]) -> None:
        self.outcomes = list(failures)
        self.returned = False
        self._waiting = set(waiting)
        self._done = asyncio.Event()
        if not self._waiting:
            self._done.set()

    @property
    def left(self) -> int:
        """The number of acknowledgements without an outcome."""
        return len(self._waiting)

    def take(self, ack: QueuedAck, outcome: AcknowledgeOutcome) -> bool:
        """Take an outcome. Return whether this commit was waiting for it."""
        if ack not in self._waiting:
            return False
        self._waiting.discard(ack)
        self.outcomes.append(outcome)
        if not self._waiting:
            self._done.set()
        return True

    async def wait(self) -> None:
        """Wait until everything has an outcome."""
        await self._done.wait()

    def result(self) -> list[AcknowledgeOutcome]:
        """Return the outcomes, joined."""
        self.returned = True
        return joined(self.outcomes)
