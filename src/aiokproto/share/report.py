"""A share consumer's reports about itself: statistics, health, and metrics for brokers. No I/O."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiokproto.observe.health import Health
from aiokproto.observe.metrics import MetricSource, ShareMetrics
from aiokproto.observe.stats import ClientStats, Durations
from aiokproto.running.summary import RunStats
from aiokproto.share.acknowledgement import Acknowledgement
from aiokproto.types import TopicPartition

if TYPE_CHECKING:
    from aiokproto.share.engine import ShareEngine


@dataclass(frozen=True)
class SharePartitionStats:
    """A partition that is assigned, or that this member has records of.

    Attributes:
        assigned: Whether it's assigned.
        held: Records that are delivered but not acknowledged.
        unsent: Acknowledgements that aren't sent yet.
        buffered_bytes: Bytes that are acquired but not decoded.
    """

    assigned: bool
    held: int
    unsent: int
    buffered_bytes: int


@dataclass(frozen=True)
class ShareConsumerStats:
    """A share consumer's statistics.

    Attributes:
        client: Statistics of connections, requests and metadata.
        partitions: The partitions that are assigned, or that this member has records of.
        group_id: The share group.
        member_id: The member's id.
        member_state: The member's state in words.
        generation: The member epoch; -1 if it isn't in the group.
        rebalance_latency: How long it took to join, and to carry out each assignment.
        assigned: How often partitions were assigned.
        revoked: How often partitions were revoked.
        lost: How often partitions were lost.
        fetch_latency: The time from a ShareFetch request to its response; brokers wait for records up to
            ``fetch_max_wait_ms``.
        fetch_failures: ShareFetch requests that failed.
        bytes_fetched: Bytes of records, as received.
        records_acquired: Records that were acquired.
        records_redelivered: Acquired records that had been delivered before, to any member.
        batches_delivered: Record batches that the application has received.
        records_delivered: The records in these batches.
        records_accepted: Records whose acceptance took effect.
        records_released: Records whose release took effect.
        records_rejected: Records whose rejection took effect.
        locks_renewed: Records whose lock was renewed.
        locks_expired: Records whose lock expired before they were acknowledged.
        acknowledgement_failures: Records whose acknowledgement had no effect, or whose outcome is unknown.
        waited: Total seconds that calls have waited for records.
        run: What ``run()`` has done and is doing.
    """

    client: ClientStats
    partitions: Mapping[TopicPartition, SharePartitionStats]
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
    records_acquired: int
    records_redelivered: int
    batches_delivered: int
    records_delivered: int
    records_accepted: int
    records_released: int
    records_rejected: int
    locks_renewed: int
    locks_expired: int
    acknowledgement_failures: int
    waited: float
    run: RunStats

    @property
    def held(self) -> int:
        """Records that are delivered but not acknowledged, in all partitions."""
        return sum(partition.held for partition in self.partitions.values())

    @property
    def buffered_bytes(self) -> int:
        """Bytes that are acquired but not decoded, in all partitions."""
        return sum(partition.buffered_bytes for partition in self.partitions.values())


def stats_of(engine: ShareEngine) -> ShareConsumerStats:
    """Return a share consumer's statistics."""
    seen, member = engine.observer, engine.member
    return ShareConsumerStats(
        client=engine.cluster.stats(),
        partitions=_partitions(engine),
        group_id=engine.config.group_id,
        member_id=member.member_id,
        member_state=member.state,
        generation=member.member_epoch if member.member_epoch > 0 else -1,
        rebalance_latency=Durations.of(member.rebalances),
        assigned=seen.assigned,
        revoked=seen.revoked,
        lost=seen.lost,
        fetch_latency=Durations.of(seen.fetches),
        fetch_failures=seen.failed_fetches,
        bytes_fetched=int(seen.sizes.total),
        records_acquired=int(seen.acquired.total),
        records_redelivered=seen.redelivered,
        batches_delivered=seen.batches,
        records_delivered=engine.reader.delivered,
        records_accepted=seen.settled[Acknowledgement.ACCEPT],
        records_released=seen.settled[Acknowledgement.RELEASE],
        records_rejected=seen.settled[Acknowledgement.REJECT],
        locks_renewed=seen.settled[Acknowledgement.RENEW],
        locks_expired=seen.expired,
        acknowledgement_failures=seen.failed,
        waited=seen.waited,
        run=engine.runs.stats(),
    )


def health_of(engine: ShareEngine) -> Health:
    """Return whether a share consumer is working, and if not, what is wrong."""
    findings = engine.cluster.findings()
    ended = engine.ended
    if ended is not None:
        findings.failed = [str(ended)]
        findings.ended = engine.closed_or_failed
    elif engine.running:
        member, since = engine.member, engine.member.joining_since
        findings.add_member(
            member.state, member.problem, None if since is None else asyncio.get_running_loop().time() - since
        )
        findings.add_some(engine.fetcher.problems())
    return findings.health()


def _partitions(engine: ShareEngine) -> dict[TopicPartition, SharePartitionStats]:
    held, unsent = engine.fetcher.counts()
    buffered = engine.buffer.sizes()
    assigned = engine.assignment
    return {
        partition: SharePartitionStats(
            partition in assigned, held.get(partition, 0), unsent.get(partition, 0), buffered.get(partition, 0)
        )
        for partition in sorted({*assigned, *held, *unsent, *buffered})
    }


def metric_source(engine: ShareEngine) -> MetricSource:
    """Return the metrics that a share consumer pushes to its brokers (KIP-714), with the names of the Java client."""
    reader, member, group_id = engine.reader, engine.member, engine.config.group_id
    return MetricSource(
        "consumer",
        engine.cluster.observer,
        share=ShareMetrics(
            engine.observer, lambda: reader.delivered, lambda: member.rebalances, lambda: member.heartbeats
        ),
        labels=lambda: {"group_id": group_id, "group_member_id": member.member_id},
    )
