"""A consumer's reports about itself: statistics, health, metrics for brokers, and why no records arrive. No I/O."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiokproto.consumer.cursor import Cursor, PartitionState
from aiokproto.fetched.time_slice import TimeSlice
from aiokproto.group.member import GroupMember
from aiokproto.observe.health import Findings, Health
from aiokproto.observe.metrics import MetricSource
from aiokproto.observe.stats import ClientStats, Durations
from aiokproto.running.summary import RunStats
from aiokproto.texts import counted
from aiokproto.types import TopicPartition

if TYPE_CHECKING:
    from aiokproto.consumer.engine import Engine

log = logging.getLogger("aiokproto.consumer")

SILENT_FOR = 5.0
"""If a call has been waiting this many seconds without a record, and something is wrong, the cause is logged."""

REPEATED_AFTER = 30.0
"""Seconds until the same causes are logged again."""

_NAMED = 3
"""Maximum number of causes in a log line. They're sorted by frequency."""


@dataclass(frozen=True)
class PartitionStats:
    """Statistics of an assigned partition.

    Attributes:
        state: What the consumer is doing about it.
        position: The next offset to deliver; None while it's being looked up.
        lag: The number of offsets between the position and the end of the log as of the last fetch; None if unknown.
        high_watermark: The end of the log for readers as of the last fetch; None if unknown.
        buffered_bytes: Bytes that are fetched but not decoded.
    """

    state: PartitionState
    position: int | None
    lag: int | None
    high_watermark: int | None
    buffered_bytes: int


@dataclass(frozen=True)
class ConsumerStats:
    """A consumer's statistics.

    Attributes:
        client: Statistics of connections, requests and metadata.
        partitions: The assigned partitions.
        group_id: The group; empty if there is none.
        member_id: The member's id; empty until the coordinator has assigned it.
        member_state: The member's state in words; empty if there's no group.
        generation: The group's generation; -1 if the member isn't in one.
        rebalance_latency: How long it took to join each generation; its ``count`` is the number of rebalances.
        assigned: How often partitions were assigned.
        revoked: How often partitions were revoked.
        lost: How often partitions were lost.
        fetch_latency: The time from a Fetch request to its response; brokers wait for records up to
            ``fetch_max_wait_ms``.
        fetch_failures: Fetch requests that failed.
        bytes_fetched: Bytes of records, as received.
        batches_delivered: Record batches that the application has received.
        records_delivered: The records in these batches.
        offset_resets: How often a position was no longer in the log.
        commit_latency: How long successful commits took.
        commit_failures: Failed commits.
        waited: Total seconds that calls have waited for records.
        run: What ``run()`` has done and is doing.
    """

    client: ClientStats
    partitions: Mapping[TopicPartition, PartitionStats]
    group_id: str
    member_id: str
    member_state: str
    generation: int
    rebalance_latency: Durations
    assigned: int
    revoked: int
    lost: int
    fetch_latency: Durations
    fetch_failures: int
    bytes_fetched: int
    batches_delivered: int
    records_delivered: int
    offset_resets: int
    commit_latency: Durations
    commit_failures: int
    waited: float
    run: RunStats

    @property
    def buffered_bytes(self) -> int:
        """Bytes that are fetched but not decoded, in all partitions."""
        return sum(partition.buffered_bytes for partition in self.partitions.values())

    @property
    def lag(self) -> int:
        """The sum of the known lags."""
        return sum(partition.lag or 0 for partition in self.partitions.values())


def stats_of(engine: Engine) -> ConsumerStats:
    """Return a consumer's statistics."""
    seen, member = engine.observer, engine.member
    who = None if member is None else member.metadata
    return ConsumerStats(
        client=engine.cluster.stats(),
        partitions={
            partition: _partition_stats(engine, cursor) for partition, cursor in engine.assignment.cursors.items()
        },
        group_id="" if who is None else who.group_id,
        member_id="" if who is None else who.member_id,
        member_state="" if member is None else member.state,
        generation=-1 if who is None else who.generation,
        rebalance_latency=Durations() if member is None else Durations.of(member.rebalances),
        assigned=seen.assigned,
        revoked=seen.revoked,
        lost=seen.lost,
        fetch_latency=Durations.of(seen.fetches),
        fetch_failures=seen.failed_fetches,
        bytes_fetched=seen.bytes,
        batches_delivered=seen.batches,
        records_delivered=seen.records + engine.assignment.delivering,
        offset_resets=seen.resets,
        commit_latency=Durations.of(seen.commits),
        commit_failures=seen.failed_commits,
        waited=seen.waited,
        run=engine.runs.stats(),
    )


def health_of(engine: Engine) -> Health:
    """Return whether a consumer is working, and if not, what is wrong."""
    findings = engine.cluster.findings()
    ended = engine.ended
    if ended is not None:
        findings.failed = [str(ended)]
        findings.ended = engine.closed_or_failed
    elif engine.running:
        _add_group(engine, findings)
        _add_awaited(engine, findings)
        _add_handlers(engine, findings)
        _add_partitions(engine, findings)
    return findings.health()


def _partition_stats(engine: Engine, cursor: Cursor) -> PartitionStats:
    high = cursor.fetch.high_watermark
    return PartitionStats(
        state=engine.state(cursor.partition),
        position=cursor.position,
        lag=cursor.lag(engine.config.fetch.read_committed),
        high_watermark=None if high < 0 else high,
        buffered_bytes=cursor.buffer.size,
    )


def _add_group(engine: Engine, findings: Findings) -> None:
    member = engine.member
    if member is None:
        return
    since = member.joining_since
    findings.add_member(
        member.state, member.problem, None if since is None else asyncio.get_running_loop().time() - since
    )


def _add_awaited(engine: Engine, findings: Findings) -> None:
    awaited = engine.reader.awaited
    if awaited is not None and (age := asyncio.get_running_loop().time() - awaited.since) >= SILENT_FOR:
        findings.degraded.append(f"{awaited}, for {age:.0f} s")


def _add_handlers(engine: Engine, findings: Findings) -> None:
    runner = engine.assignment.last_runner
    if runner is not None and (problem := runner.problem()):
        findings.degraded.append(problem)


def _add_partitions(engine: Engine, findings: Findings) -> None:
    fetcher = engine.fetcher
    causes: Counter[str] = Counter()
    example: dict[str, TopicPartition] = {}
    for partition, cursor in engine.assignment.cursors.items():
        cause = str(cursor.error) if cursor.error is not None else fetcher.problem(cursor)
        if cause:
            causes[cause] += 1
            example.setdefault(cause, partition)
    more = {cause: f" and {count - 1} more" if count > 1 else "" for cause, count in causes.most_common()}
    findings.add_some([f"{example[cause]}{more[cause]}: {cause}" for cause in more])


class SilenceWatch:
    """Logs why a consumer gets no records.

    The absence of new records isn't a cause. Causes are partitions that cannot be read, a group that cannot be joined,
    a group without a partition for this member, and a deserializer or a dead letter that a read is waiting for.
    """

    def __init__(self, engine: Engine) -> None:
        self._assignment = engine.assignment
        self._fetcher = engine.fetcher
        self._reader = engine.reader
        self._member = engine.member
        self._logged = ""
        self._logged_at = 0.0

    async def run(self) -> None:
        """Watch until cancelled."""
        loop = asyncio.get_running_loop()
        # Compare counters instead of adding hooks: the code that delivers records doesn't need to know about this
        # watch.
        delivered, requests, since = -1, 0, loop.time()
        while True:
            if self._assignment.delivered != delivered:
                delivered, since, self._logged = self._assignment.delivered, loop.time(), ""
            # If the application isn't requesting records, it isn't waiting, so nothing is wrong.
            waiting = self._reader.waiting or self._reader.awaited is not None
            waited, requests = waiting or self._reader.requests != requests, self._reader.requests
            if waited and loop.time() - since >= SILENT_FOR and (causes := await self._causes()):
                self._log(causes, loop.time() - since, loop.time())
            await asyncio.sleep(SILENT_FOR)

    def _log(self, causes: str, silent: float, now: float) -> None:
        if causes != self._logged or now - self._logged_at >= REPEATED_AFTER:
            log.warning("consumer: no record in %.0f s: %s", silent, causes)
            self._logged, self._logged_at = causes, now

    async def _causes(self) -> str:
        """Return what is wrong; empty if nothing is."""
        if self._reader.awaited is not None:
            return str(self._reader.awaited)
        if self._member is not None and (problem := self._member.problem):
            return problem
        time_slice, found = TimeSlice(), Counter[str]()
        for cursor in list(self._assignment.cursors.values()):
            if problem := self._fetcher.problem(cursor):
                found[problem] += 1
            await time_slice.pause()
        size = len(self._assignment.cursors)
        if not size and self._member is not None and not self._member.outside:
            return (
                "the group has assigned no partition to this member yet: other members have not given theirs up, or "
                "there are more members than partitions"
            )
        causes = [f"{count} of {counted(size, 'partition')}: {cause}" for cause, count in found.most_common(_NAMED)]
        if len(found) > _NAMED:
            causes.append(f"and {len(found) - _NAMED} other causes")
        return "; ".join(causes)


def metric_source(engine: Engine) -> MetricSource:
    """Return the metrics that a consumer pushes to its brokers (KIP-714)."""
    assignment, member = engine.assignment, engine.member
    return MetricSource(
        "consumer",
        engine.cluster.observer,
        consumer=engine.observer,
        rebalances=None if member is None else lambda: member.rebalances,
        assigned=lambda: len(assignment.cursors),
        labels=lambda: {} if member is None else _labels(member),
    )


def _labels(member: GroupMember) -> dict[str, str]:
    who = member.metadata
    labels = {
        "group_id": who.group_id,
        "group_member_id": who.member_id,
        "group_instance_id": who.instance_id or "",
    }
    return {name: value for name, value in labels.items() if value}
