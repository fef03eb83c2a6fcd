"""Statistics, health, hooks, interceptors and adapters of the share consumer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import prometheus_client
import pytest
from prometheus_client import CollectorRegistry

from aiokproto import TopicPartition
from aiokproto.codec.messages.share_fetch import ShareFetchRequest
from aiokproto.codec.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.hooks import Acknowledged, BatchFetched, Rebalanced, RecordsDelivered
from aiokproto.interceptors import Interceptor
from aiokproto.observe.health import HealthStatus
from aiokproto.prometheus import KafkaCollector
from aiokproto.share import ShareRecord
from aiokproto.types import Record
from tests.net.waiting import until
from tests.observe.recording import Recording
from tests.share.test_share_faults import broker, consumer, fill, of, read
from tests.timeouts import LONG_TIMEOUT

EXPLICIT = {"acknowledgement_mode": "explicit"}
WHERE = TopicPartition("t", 0)


async def test_statistics_count_what_was_delivered_and_what_became_of_it() -> None:
    async with broker(5) as cluster, consumer(cluster, **EXPLICIT) as jobs:
        records = await read(jobs, 4)
        held = jobs.stats()
        assert (held.held, held.records_delivered, held.records_acquired) == (4, 4, 5)
        assert held.partitions[WHERE].assigned
        jobs.accept(records[:2])
        jobs.release(records[2])
        jobs.renew(records[3])
        assert jobs.stats().partitions[WHERE].unsent == 3
        await jobs.commit()
        jobs.reject(records[3])
        await jobs.commit()
        again = await read(jobs, 2)
        assert sorted(of(again)) == [(2, 2), (4, 1)]
        stats = jobs.stats()
    assert (stats.records_accepted, stats.records_released, stats.records_rejected, stats.locks_renewed) == (2, 1, 1, 1)
    assert (stats.records_acquired, stats.records_redelivered, stats.records_delivered) == (6, 1, 6)
    assert (stats.acknowledgement_failures, stats.locks_expired, stats.fetch_failures) == (0, 0, 0)
    assert (stats.assigned, stats.revoked, stats.lost) == (1, 0, 0)
    assert stats.bytes_fetched > 0
    assert stats.fetch_latency.count > 0
    assert stats.rebalance_latency.count == 1
    assert stats.group_id == "g"
    assert stats.generation > 0
    assert stats.client.brokers[0].requests > 0
    assert stats.waited > 0


async def test_failed_acknowledgements_and_fetches_are_counted() -> None:
    async with broker(2) as cluster, consumer(cluster, **EXPLICIT) as jobs:
        records = await read(jobs, 2)
        jobs.accept(records)
        fill(cluster, 1)
        with cluster.faults.fail(ShareFetchRequest, ErrorCode.SHARE_SESSION_NOT_FOUND, times=1):
            await read(jobs, 1)
        stats = jobs.stats()
        assert (stats.acknowledgement_failures, stats.fetch_failures) == (2, 1)


async def test_health_says_what_is_wrong() -> None:
    async with broker(1) as cluster:
        jobs = consumer(cluster)
        assert jobs.health().status is HealthStatus.FAILED
        assert not jobs.health().ended
        async with jobs:
            await read(jobs, 1)
            assert str(jobs.health()) == "ok"
            with cluster.faults.fail(ShareFetchRequest, ErrorCode.SHARE_SESSION_LIMIT_REACHED) as rule:
                waiting = asyncio.ensure_future(anext(jobs))
                await asyncio.wait_for(rule.wait(2), LONG_TIMEOUT)
                await until(lambda: jobs.health().status is HealthStatus.DEGRADED)
                assert "SHARE_SESSION_LIMIT_REACHED" in jobs.health().reasons[0]
                waiting.cancel()
                await asyncio.wait([waiting])
        assert jobs.health().status is HealthStatus.FAILED
        assert jobs.health().ended


async def test_hooks_learn_of_each_step() -> None:
    hooks = Recording()
    async with broker(3) as cluster, consumer(cluster, hooks=hooks, **EXPLICIT) as jobs:
        records = await read(jobs, 3)
        jobs.accept(records[:2])
        jobs.release(records[2])
        await jobs.commit()
    (fetched,) = hooks.of(BatchFetched)
    assert fetched[:5] == (0, "t", 0, 0, 3)
    assert hooks.of(RecordsDelivered) == [RecordsDelivered("t", 0, 3, 3)]
    assert [event[2:] for event in hooks.of(Acknowledged)] == [(0, 1, "accept", None), (2, 2, "release", None)]
    assert next((event.kind, event.partitions) for event in hooks.of(Rebalanced)) == ("assigned", (WHERE,))


async def test_interceptors_can_change_and_leave_out_records() -> None:
    class Third(Interceptor):
        """Leaves out the first, rejects the second, and replaces the third."""

        def on_records(self, records: Sequence[Record]) -> Sequence[Record]:
            _first, second, third, *rest = records
            assert isinstance(second, ShareRecord)
            jobs.reject(second)
            changed: Record = Record(third.topic, third.partition, third.offset, third.timestamp, None, b"changed")
            return [changed, *rest]

    hooks = Recording()
    async with broker(4) as cluster:
        jobs = consumer(cluster, interceptors=Third(), hooks=hooks, **EXPLICIT)
        async with jobs:
            records = await read(jobs, 2)
            assert [(record.offset, record.value) for record in records] == [(2, b"changed"), (3, b"3")]
            jobs.release(records)
            await jobs.commit()
    assert [event[2:] for event in hooks.of(Acknowledged)] == [
        (0, 0, "accept", None),
        (1, 1, "reject", None),
        (2, 3, "release", None),
    ]


async def test_what_an_interceptor_invents_is_not_delivered(caplog: pytest.LogCaptureFixture) -> None:
    class Inventor(Interceptor):
        def on_records(self, records: Sequence[Record]) -> Sequence[Record]:
            return [Record("t", 0, 99, 0, None, b"new"), *records]

    async with broker(2) as cluster, consumer(cluster, interceptors=Inventor()) as jobs:
        assert of(await read(jobs, 2)) == [(0, 1), (1, 1)]
    assert "it did not get" in caplog.text


async def test_prometheus_has_the_statistics_of_a_share_consumer() -> None:
    async with broker(2) as cluster, consumer(cluster, **EXPLICIT) as jobs:
        records = await read(jobs, 2)
        jobs.accept(records[0])
        await jobs.commit()
        registry = CollectorRegistry()
        registry.register(KafkaCollector(jobs))
        page = prometheus_client.generate_latest(registry).decode()
    labels = 'kind="share-consumer"'
    wanted: dict[str, Any] = {
        "aiokproto_records_delivered_total{": 2.0,
        "aiokproto_records_held{": 1.0,
        'aiokproto_records_acknowledged_total{acknowledgement="accept"': 1.0,
    }
    for name, value in wanted.items():
        (line,) = [line for line in page.splitlines() if line.startswith(name) and labels in line]
        assert float(line.split()[-1]) == value, line


async def test_an_assignment_that_a_fenced_member_loses_is_reported_as_lost() -> None:
    hooks = Recording()
    async with broker(1) as cluster, consumer(cluster, hooks=hooks) as jobs:
        await read(jobs, 1)
        with cluster.faults.fail(ShareGroupHeartbeatRequest, ErrorCode.FENCED_MEMBER_EPOCH, times=1) as rule:
            await asyncio.wait_for(rule.wait(), LONG_TIMEOUT)
        await until(lambda: jobs.stats().assigned == 2)
        assert jobs.stats().lost == 1
    assert [event.kind for event in hooks.of(Rebalanced)][:3] == ["assigned", "lost", "assigned"]
