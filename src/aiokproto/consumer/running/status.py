"""Makes a :class:`RunStatus` of the scheduler's state."""

from __future__ import annotations

from collections.abc import Mapping

from aiokproto.consumer.running.scheduler import Backlog, Scheduler
from aiokproto.consumer.running.summary import PartitionProgress, RunStatus, RunSummary
from aiokproto.runtime import current
from aiokproto.types import TopicPartition


def status_of(
    scheduler: Scheduler, backlogs: Mapping[TopicPartition, Backlog], counts: RunSummary, *, active: bool
) -> RunStatus:
    """Return the state of a run."""
    now = current().wall()
    partitions = {partition: _progress(backlog, now) for partition, backlog in backlogs.items()}
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
