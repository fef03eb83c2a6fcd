"""The state of a run: its :class:`RunStatus`, and calls that are taking long."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from aiokproto.running.scheduler import Backlog, Scheduler, Work
from aiokproto.running.summary import PartitionProgress, RunStatus, RunSummary
from aiokproto.runtime import current
from aiokproto.types import TopicPartition

STUCK_AFTER = 30.0
"""Seconds until a running call is reported, and between reports."""

WATCHED_EVERY = STUCK_AFTER / 6
"""Seconds between checks of a run."""


def status_of(scheduler: Scheduler, backlogs: Iterable[Backlog], counts: RunSummary, *, active: bool) -> RunStatus:
    """Return the state of a run."""
    now = current().milliseconds()
    partitions: dict[TopicPartition, PartitionProgress] = {}
    for backlog in backlogs:
        progress, before = _progress(backlog, now), partitions.get(backlog.partition)
        partitions[backlog.partition] = progress if before is None else _joined(before, progress)
    return RunStatus(
        active=active,
        stopping=scheduler.stopped,
        pending=scheduler.count,
        pending_bytes=scheduler.size,
        running=scheduler.running,
        retrying=sum(each.retrying for each in partitions.values()),
        counts=counts,
        partitions=partitions,
    )


class StuckReport:
    """Logs calls that are taking long, at most one line every :data:`STUCK_AFTER` seconds."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._time = asyncio.get_running_loop().time
        self._reported = -STUCK_AFTER

    def report(self, works: list[Work]) -> None:
        """Log the running ``works`` that are taking long, unless a line was logged recently."""
        now = self._time()
        stuck = [work for work in works if now - work.started_at >= STUCK_AFTER]
        if not stuck or now - self._reported < STUCK_AFTER:
            return
        self._reported = now
        oldest = min(stuck, key=lambda work: work.started_at)
        self._log.warning(
            "run: the handler of %s has been running for %.0f s in task %s; so long do %d of %d running calls",
            oldest,
            now - oldest.started_at,
            oldest.task.get_name(),
            len(stuck),
            len(works),
        )


def problem_of(works: list[Work], after: float) -> str:
    """Return what is wrong with running calls; empty if nothing is wrong. A problem is a call that was cancelled but
    doesn't end, or one that is taking longer than ``after`` seconds."""
    now = asyncio.get_running_loop().time()
    stuck = [work for work in works if work.cancelled or now - work.started_at >= after]
    if not stuck:
        return ""
    oldest = min(stuck, key=lambda work: work.started_at)
    cancelled = f", although it was cancelled: {oldest.cancelled}" if oldest.cancelled else ""
    more = f" ({len(stuck) - 1} more)" if len(stuck) > 1 else ""
    return f"the handler of {oldest} has been running for {now - oldest.started_at:.0f} s{cancelled}{more}"


def _progress(backlog: Backlog, now: int) -> PartitionProgress:
    age = None
    if backlog.works and backlog.works[0].item:
        written = backlog.works[0].records[0].timestamp
        age = max(now - written, 0) if written >= 0 else None
    return PartitionProgress(
        pending=backlog.count,
        running=len(backlog.running),
        retrying=len(backlog.postponed),
        watermark=backlog.lowest,
        oldest_ms=age,
    )


def _joined(one: PartitionProgress, other: PartitionProgress) -> PartitionProgress:
    return PartitionProgress(
        pending=one.pending + other.pending,
        running=one.running + other.running,
        retrying=one.retrying + other.retrying,
        watermark=min((each for each in (one.watermark, other.watermark) if each is not None), default=None),
        oldest_ms=max((each for each in (one.oldest_ms, other.oldest_ms) if each is not None), default=None),
    )
