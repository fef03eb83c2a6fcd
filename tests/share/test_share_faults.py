"""The share consumer on an embedded broker that misbehaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aiokproto import ShareConsumer
from aiokproto.broker import Cluster
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.codec.messages.share_acknowledge import ShareAcknowledgeRequest
from aiokproto.codec.messages.share_fetch import ShareFetchRequest
from aiokproto.codec.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from aiokproto.codec.schema import Response
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import (
    AcquisitionLockError,
    AuthorizationError,
    BrokerConnectionError,
    ClientClosedError,
    ConfigurationError,
    CorruptRecordError,
    DeadlineError,
    UnsupportedCompressionError,
    UnsupportedVersionError,
)
from aiokproto.records import BatchRecord, encode
from aiokproto.share import Acknowledgement, AcknowledgeOutcome, ShareRecord
from tests.simulation.sharing import OPTIONS, configure
from tests.timeouts import LONG_TIMEOUT

ACCEPT, RELEASE, REJECT = Acknowledgement.ACCEPT, Acknowledgement.RELEASE, Acknowledgement.REJECT


@asynccontextmanager
async def broker(*batches: int, brokers: int = 1, **options: Any) -> AsyncIterator[Cluster]:
    """A cluster with a topic of one partition, and batches of that many records."""
    async with Cluster(brokers, config=OPTIONS, **options) as cluster:
        await cluster.create_topic("t", replication=brokers)
        if options.get("as_version") != "3.9":
            await configure(cluster)
        fill(cluster, *batches)
        yield cluster


def fill(cluster: Cluster, *batches: int) -> None:
    partition = cluster._running.state.partition("t", 0)
    for size in batches:
        partition.append(encode([BatchRecord(0, 0, None, b"%d" % number) for number in range(size)]), 0)


def consumer(cluster: Cluster, **options: Any) -> ShareConsumer:
    return ShareConsumer("t", bootstrap_servers=cluster.bootstrap_servers, group_id="g", **options)


async def read(jobs: ShareConsumer, count: int) -> list[ShareRecord]:
    return [await asyncio.wait_for(anext(jobs), LONG_TIMEOUT) for _ in range(count)]


def of(records: list[ShareRecord]) -> list[tuple[int, int]]:
    return [(record.offset, record.delivery_count) for record in records]


@pytest.mark.parametrize(("policy", "kind"), [("reject", REJECT), ("release", RELEASE)])
async def test_damaged_records_are_acknowledged_and_the_others_delivered(policy: str, kind: Acknowledgement) -> None:
    outcomes: list[AcknowledgeOutcome] = []
    async with broker(2, 3, 2) as cluster:
        cluster.corrupt_batch("t", 0, 3)
        async with consumer(cluster, corrupt_records=policy, on_acknowledged=outcomes.extend) as jobs:
            assert of(await read(jobs, 4)) == [(0, 1), (1, 1), (5, 1), (6, 1)]
            await jobs.commit()
    damaged = [each for each in outcomes if each.cause is not None]
    assert damaged[0][:5] == ("t", 0, 2, 4, kind)
    assert damaged[0].ok
    assert isinstance(damaged[0].cause, CorruptRecordError)
    assert "t-0" in str(damaged[0])


async def test_a_missing_codec_is_raised_and_its_records_are_released(monkeypatch: pytest.MonkeyPatch) -> None:
    async with broker(1) as cluster:
        data = encode([BatchRecord(0, 0, None, b"x" * 100)], compression="lz4")
        cluster._running.state.partition("t", 0).append(data, 0)
        fill(cluster, 1)
        async with consumer(cluster) as jobs:

            def missing(*_: object) -> bytes:
                raise UnsupportedCompressionError("lz4 is not installed")

            with monkeypatch.context() as patched:
                patched.setattr("aiokproto.records.batch.chunks", missing)
                assert of(await read(jobs, 1)) == [(0, 1)]
                with pytest.raises(UnsupportedCompressionError, match="t-0"):
                    await read(jobs, 1)
            found = of(await read(jobs, 2))
            assert sorted(offset for offset, _ in found) == [1, 2]
            assert dict(found)[1] >= 2


async def test_a_large_compressed_batch_is_opened_in_a_thread() -> None:
    async with broker() as cluster:
        data = encode([BatchRecord(0, 0, None, bytes(400_000)) for _ in range(3)], compression="gzip")
        cluster._running.state.partition("t", 0).append(data, 0)
        big = encode([BatchRecord(0, 0, None, bytes([number]) * 300_000) for number in range(3)])
        cluster._running.state.partition("t", 0).append(big, 0)
        async with consumer(cluster) as jobs:
            for _ in range(20):
                # Records that are being fetched aren't lost.
                waiting = asyncio.ensure_future(anext(jobs))
                await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.wait([waiting])
                if not waiting.cancelled():
                    break
            assert jobs._engine.reader.delivered <= 1
            rest = await jobs.poll(LONG_TIMEOUT * 1000)
            while jobs._engine.reader.delivered < 6:
                rest += await jobs.poll(1000)
            assert rest[-1].value == bytes([2]) * 300_000


async def test_a_broker_that_cannot_renew_says_so_in_the_outcome() -> None:
    async with broker(2, as_version="4.1") as cluster, consumer(cluster, acknowledgement_mode="explicit") as jobs:
        records = await read(jobs, 2)
        jobs.renew(records[0])
        jobs.accept(records)
        outcomes = await jobs.commit()
        assert [(each.acknowledgement.name, type(each.error)) for each in outcomes] == [
            ("ACCEPT", type(None)),
            ("RENEW", UnsupportedVersionError),
        ] or [(each.acknowledgement.name, each.ok) for each in outcomes] == [("RENEW", False), ("ACCEPT", True)]


async def test_a_broker_without_share_groups_is_refused_with_a_reason() -> None:
    async with broker(as_version="3.9") as cluster:
        jobs = consumer(cluster)
        await jobs.start()
        with pytest.raises(UnsupportedVersionError):
            await asyncio.wait_for(anext(jobs), LONG_TIMEOUT)
        await jobs.close()


async def test_a_fenced_member_goes_on() -> None:
    async with broker(2) as cluster, consumer(cluster, acknowledgement_mode="explicit") as jobs:
        first = await read(jobs, 1)
        with cluster.faults.fail(ShareGroupHeartbeatRequest, ErrorCode.FENCED_MEMBER_EPOCH, times=1) as rule:
            await asyncio.wait_for(rule.wait(), LONG_TIMEOUT)
        second = await read(jobs, 1)
        assert of(first + second) == [(0, 1), (1, 1)]
        assert jobs.accept(first, second), "locks do not depend on the membership"
        assert all(each.ok for each in await jobs.commit())


async def test_a_lost_session_is_a_result_and_the_records_come_again() -> None:
    async with broker(3) as cluster, consumer(cluster, acknowledgement_mode="explicit") as jobs:
        records = await read(jobs, 2)
        with cluster.faults.fail(ShareAcknowledgeRequest, ErrorCode.SHARE_SESSION_NOT_FOUND, times=1):
            assert jobs.accept(records[0])
            (outcome,) = await jobs.commit()
        assert outcome[:5] == ("t", 0, 0, 0, ACCEPT)
        assert "SHARE_SESSION_NOT_FOUND" in str(outcome.error)
        again = await read(jobs, 3)
        assert of(again) == [(0, 2), (1, 2), (2, 2)]
        assert not jobs.accept(records[1])
        assert jobs.accept(again)
        assert [each.ok for each in await jobs.commit()] == [True, False, True]


async def test_a_lost_response_is_an_unknown_outcome() -> None:
    options = {"acknowledgement_mode": "explicit", "request_timeout_ms": 300}
    async with broker(1) as cluster, consumer(cluster, **options) as jobs:
        records = await read(jobs, 1)
        with cluster.faults.drop(ShareAcknowledgeRequest, "response", times=1):
            jobs.accept(records)
            (outcome,) = await jobs.commit()
        assert isinstance(outcome.error, DeadlineError | BrokerConnectionError)
        assert not await jobs.poll(500), "it had been applied"


async def test_acknowledgements_that_were_not_applied_are_sent_again() -> None:
    async with broker(1) as cluster, consumer(cluster, acknowledgement_mode="explicit") as jobs:
        attempts = 0

        async def unavailable(call: RequestInfo, serve: Serve) -> Response | None:
            nonlocal attempts
            attempts += 1
            response: Any = await serve(type(call.request)(**_without_topics(call.request)))
            for topic in _results(call.request, ErrorCode.COORDINATOR_NOT_AVAILABLE):
                response.responses.append(topic)
            return response  # type: ignore[no-any-return]

        records = await read(jobs, 1)
        with cluster.faults.intercept(ShareAcknowledgeRequest, unavailable, times=2):
            jobs.accept(records)
            outcomes = await jobs.commit()
        assert outcomes == [AcknowledgeOutcome("t", 0, 0, 0, ACCEPT)]
        assert attempts == 2


async def test_one_record_without_a_lock_does_not_take_the_others_with_it() -> None:
    async with broker(1) as cluster:
        options = {
            "acknowledgement_mode": "explicit",
            "acknowledge_linger_ms": LONG_TIMEOUT * 1000,
            "renew_locks": False,
        }
        async with consumer(cluster, **options) as jobs:
            first = await read(jobs, 1)
            fill(cluster, 1)
            second = await read(jobs, 1)
            # Simulate that the broker's lock has expired early: the record is released, and another member gets it.
            shares = cluster._running.shares
            ((key, cached),) = shares._cache.items()
            config = shares.settings("g").config
            run = cached.share.runs[0]
            cached.share.apply(cached.share._transition([run._replace(last=0, deadline=0.0, member_id="another")]))
            del key, config
            jobs.accept(first, second)
            outcomes = await jobs.commit()
            assert [(each.first_offset, type(each.error)) for each in outcomes] == [
                (0, AcquisitionLockError),
                (1, type(None)),
            ]


def _without_topics(request: Any) -> dict[str, Any]:
    return {
        "group_id": request.group_id,
        "member_id": request.member_id,
        "share_session_epoch": request.share_session_epoch,
    }


def _results(request: Any, code: ErrorCode) -> list[Any]:
    from aiokproto.codec.messages.share_acknowledge import PartitionData, ShareAcknowledgeTopicResponse

    return [
        ShareAcknowledgeTopicResponse(
            topic_id=topic.topic_id,
            partitions=[
                PartitionData(partition_index=each.partition_index, error_code=code) for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]


async def test_a_group_that_may_not_be_read_ends_the_consumer() -> None:
    async with broker(1) as cluster, consumer(cluster) as jobs:
        await read(jobs, 1)
        with cluster.faults.fail(ShareFetchRequest, ErrorCode.GROUP_AUTHORIZATION_FAILED):
            for _ in range(2):
                with pytest.raises(AuthorizationError):
                    await asyncio.wait_for(anext(jobs), LONG_TIMEOUT)


async def test_an_error_in_the_callback_ends_the_consumer() -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError

    async with broker(2) as cluster, consumer(cluster, on_acknowledged=fail) as jobs:
        await read(jobs, 2)
        with pytest.raises(ClientClosedError, match="ZeroDivisionError"):
            await asyncio.wait_for(anext(jobs), LONG_TIMEOUT)


async def test_an_error_of_the_policy_ends_the_run() -> None:
    async def handle(record: ShareRecord) -> None:
        raise ValueError

    def policy(record: ShareRecord, error: Exception) -> Any:
        raise ZeroDivisionError

    async with broker(1) as cluster, consumer(cluster) as jobs:
        with pytest.raises(ZeroDivisionError):
            await asyncio.wait_for(jobs.run(handle, on_error=policy), LONG_TIMEOUT)


async def test_run_starts_no_more_handlers_than_their_bytes_allow() -> None:
    running = most = handled = 0
    done = asyncio.Event()

    async def handle(record: ShareRecord) -> None:
        nonlocal running, most, handled
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        handled += 1
        if handled == 6:
            done.set()

    async with broker() as cluster:
        data = encode([BatchRecord(0, 0, None, bytes(100)) for _ in range(6)])
        cluster._running.state.partition("t", 0).append(data, 0)
        async with consumer(cluster) as jobs:
            task = asyncio.ensure_future(jobs.run(handle, concurrency=6, max_in_flight_bytes=150))
            await asyncio.wait_for(done.wait(), LONG_TIMEOUT)
            task.cancel()
            await asyncio.wait([task])
    assert most == 2


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"auto_offset_reset": "earliest"}, "share.auto.offset.reset"),
        ({"isolation_level": "read_committed"}, "share.isolation.level"),
        ({"enable_auto_commit": True}, "acknowledgement_mode"),
        ({"max_poll_record": 1}, "did you mean 'max_poll_records'"),
        ({"acknowledgement_mode": "auto"}, "'implicit' or 'explicit'"),
        ({"share_acquire_mode": "strict"}, "'batch_optimized' or 'record_limit'"),
        ({"max_poll_records": 0}, "max_poll_records=0"),
        ({"corrupt_records": "skip"}, "'reject' or 'release'"),
        ({"on_acknowledged": 1}, "expected a function"),
        ({"group_id": ""}, "group_id=''"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], text: str) -> None:
    given: dict[str, Any] = {"group_id": "g", "bootstrap_servers": "localhost", **options}
    with pytest.raises(ConfigurationError, match=text):
        ShareConsumer("t", **given)


async def test_wrong_calls_are_refused() -> None:
    async with broker(1) as cluster, consumer(cluster) as jobs:
        for call in (
            lambda: jobs.poll(-1),
            lambda: jobs.poll(max_records=0),
            lambda: jobs.run(print, concurrency=0),  # type: ignore[arg-type]
            lambda: jobs.run(print, on_error="skip"),  # type: ignore[arg-type]
            lambda: jobs.run(None),  # type: ignore[arg-type]
        ):
            with pytest.raises(ConfigurationError):
                await call()
        with pytest.raises(ConfigurationError):
            jobs.subscribe()
        with pytest.raises(ConfigurationError):
            jobs.subscribe(["t"])  # type: ignore[arg-type]
        await read(jobs, 1)
        waiting = asyncio.ensure_future(anext(jobs))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="another task"):
            await jobs.poll(0)
        waiting.cancel()
        await asyncio.wait([waiting])
