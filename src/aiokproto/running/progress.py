"""The progress of a run, as its hook gets it: changes since the last event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping

from aiokproto.hooks import RunProgressed
from aiokproto.running.scheduler import Backlog, Work
from aiokproto.running.summary import TopicCounts

_NOTHING = (0,) * 6


class Progress:
    """Calls the hook for each topic with changes. Changes and not totals, so that an object can serve several runs."""

    def __init__(self, hook: Callable[[RunProgressed], None] | None, counts: Mapping[str, TopicCounts]) -> None:
        """``counts``: what the run does, by topic, as it goes on."""
        self._hook = hook
        self._counts = counts
        self._reported: dict[str, tuple[int, ...]] = {}

    def report(self, backlogs: Iterable[Backlog], running: Collection[Work]) -> None:
        """Report the changes, with these backlogs and running calls."""
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
