"""A consumer's statistics and health, read from its parts. No I/O."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from aiokproto.consumer.cursor import Cursor, PartitionState
from aiokproto.consumer.engine import Engine
from aiokproto.consumer.silence import SILENT_FOR
from aiokproto.observe.health import Findings, Health
from aiokproto.observe.stats import ClientStats, Durations
from aiokproto.running.summary import RunStats
from aiokproto.types import TopicPartition


@dataclass(frozen=True)
class PartitionStats:
    """An assigned partition.

    Attributes:
        state: What the consumer is doing about it.
        position: The next offset to deliver; None while it is being looked up.
        lag: Offsets between position and end of the log as of the last fetch; None if unknown.
        high_watermark: End of the log for readers as of the last fetch; None if unknown.
        buffered_bytes: Bytes that are fetched and not decoded.
    """

    state: PartitionState
    position: int | None
    lag: int | None
    high_watermark: int | None
    buffered_bytes: int


@dataclass(frozen=True)
class ConsumerStats:
    """What a consumer has done, and what it holds.

    Attributes:
        client: Connections, requests and metadata.
        partitions: The assigned partitions.
        group_id: The group; empty without one.
        member_id: The member's id; empty before the coordinator has given one.
        member_state: The member's state in words; empty without a group.
        generation: The group's generation; -1 outside of any.
        rebalance_latency: How long it took to join each generation; its ``count`` is the number of rebalances.
        assigned: How often partitions were assigned.
        revoked: How often partitions were revoked.
        lost: How often partitions were lost.
        fetch_latency: From a Fetch request to its response; brokers wait for records up to ``fetch_max_wait_ms``.
        fetch_failures: Fetch requests that failed.
        bytes_fetched: Bytes of records, as received.
        batches_delivered: Record batches that the application has received.
        records_delivered: Their records.
        offset_resets: Positions that were not in the log any more.
        commit_latency: Successful commits.
        commit_failures: The others.
        waited: Seconds in which a call waited for records.
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
        """Bytes that are fetched and not decoded, over all partitions."""
        return sum(partition.buffered_bytes for partition in self.partitions.values())

    @property
    def lag(self) -> int:
        """Sum of the known lags."""
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
    """Return whether a consumer works, and what is wrong."""
    findings = engine.cluster.findings()
    ended = engine.ended
    if ended is not None:
        findings.failed = [str(ended)]
        findings.ended = engine.closed_or_failed
    elif engine.running:
        _add_group(engine, findings)
        _add_awaited(engine, findings)
        _add_handling(engine, findings)
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


def _add_handling(engine: Engine, findings: Findings) -> None:
    handled = engine.assignment.handled
    if handled is not None and (problem := handled.problem()):
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
