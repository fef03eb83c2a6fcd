"""What all runs of a consumer have done together."""

from __future__ import annotations

from aiokproto.running.runner import Runner
from aiokproto.running.summary import RunStats, TopicCounts


class RunTotals:
    """Sums of all runs; the last one counts by itself, so that handling a record costs nothing here."""

    def __init__(self) -> None:
        self._before = TopicCounts()
        self._last: Runner | None = None

    def begin(self, run: Runner) -> None:
        """A run begins; the one before it has ended."""
        if self._last is not None:
            counts, before = self._last.summary(), self._before
            before.processed += counts.processed
            before.retried += counts.retried
            before.dead_lettered += counts.dead_lettered
            before.failed += counts.failed
        self._last = run

    def stats(self) -> RunStats:
        """Return the totals, and what the run is doing. No I/O."""
        before, last = self._before, self._last
        if last is None:
            return RunStats(0, 0, 0, 0, 0, 0)
        counts, status = last.summary(), last.status()
        return RunStats(
            processed=before.processed + counts.processed,
            retried=before.retried + counts.retried,
            dead_lettered=before.dead_lettered + counts.dead_lettered,
            failed=before.failed + counts.failed,
            # What a run has not finished is given back at its end.
            pending=status.pending if status.active else 0,
            running=status.running,
        )
