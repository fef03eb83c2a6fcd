"""Share partitions in the embedded broker: locks, sessions, and failures of persistence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aiokproto.broker import Broker
from aiokproto.broker.clock import VirtualClock
from aiokproto.broker.share.acquisition import AcquiredRange, AcquireRequest, AcquisitionConfig, FetchedBatch
from aiokproto.broker.share.partition import ACCEPT, RELEASE, RENEW, Acknowledgement, SharePartition
from aiokproto.broker.share.records import ShareGroupOffset, StateBatch
from aiokproto.client import Client
from aiokproto.codec.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from tests.behaviour.share_harness import BROKER_CONFIG, Member, ShareHarness, deliveries, parts_of, share_harness
from tests.broker.wire import parked
from tests.clusters import EmbeddedCluster

CONFIG = AcquisitionConfig(max_in_flight_records=100, max_delivery_count=5, lock_duration=30.0)
STATE = ShareGroupOffset(0, 0, 0, (), 0)


# ---- the state machine


def acquired_of(share: SharePartition, most: int, *batches: FetchedBatch, **fields: Any) -> list[AcquiredRange]:
    return share.acquire(AcquireRequest("m", most, 100, **fields), batches, CONFIG, 0.0)


def test_a_share_partition_continues_from_its_persisted_state() -> None:
    batches = (StateBatch(2, 3, 2, 1), StateBatch(6, 7, 4, 2), StateBatch(8, 9, 0, 3), StateBatch(12, 12, 3, 1))
    share = SharePartition(ShareGroupOffset(2, 7, 1, batches, -1), 2)
    assert (share.start_offset, share.next_offset, share.end_offset) == (4, 4, 13)
    log = (FetchedBatch(0, 5), FetchedBatch(6, 11), FetchedBatch(12, 14))
    assert acquired_of(share, 100, *log) == [(4, 5, 1)]
    assert [acquired_of(share, 100, *log[1:]) for _ in "89"] == [[(8, 8, 4)], [(9, 9, 4)]], (
        "these were delivered too often to be acquired together"
    )
    assert acquired_of(share, 100, *log[1:]) == [(10, 11, 1), (13, 14, 1)]


def test_compacted_records_are_archived() -> None:
    share = SharePartition(STATE, 0)
    assert acquired_of(share, 100, FetchedBatch(3, 5), FetchedBatch(6, 8)) == [(3, 8, 1)]
    assert share.start_offset == 3, "there were no records before it"
    share.apply(share.release("m", CONFIG))
    assert acquired_of(share, 100, FetchedBatch(8, 8)) == [(8, 8, 2)]
    share.apply(share.acknowledge("m", [Acknowledgement(8, 8, [ACCEPT])], CONFIG, 0.0))
    assert (share.start_offset, share.next_offset, share.runs) == (9, 9, [])


def test_alternating_acknowledge_types_take_linear_time() -> None:
    """The work is proportional to the number of records, not to its square."""
    share = SharePartition(STATE, 0)
    size = 100_000
    config = CONFIG._replace(max_in_flight_records=size)
    assert share.acquire(AcquireRequest("m", size, size), [FetchedBatch(0, size - 1)], config, 0.0) == [
        (0, size - 1, 1)
    ]
    acknowledgement = Acknowledgement(0, size - 1, [ACCEPT, RELEASE] * (size // 2))
    share.apply(share.acknowledge("m", [acknowledgement], config, 0.0))
    assert len(share.runs) == size - 1
    assert share.next_offset == 1


# ---- in the broker


@asynccontextmanager
async def shared(
    clock: VirtualClock | None = None, path: Path | None = None, **options: int
) -> AsyncIterator[tuple[Broker, ShareHarness]]:
    config = BROKER_CONFIG | {"group.share." + name.replace("_", "."): value for name, value in options.items()}
    async with (
        Broker(clock=clock, data_dir=path, config=config) as broker,
        share_harness(EmbeddedCluster(broker, 1), "t") as at,
    ):
        yield broker, at


async def waits(broker: Broker, member: Member) -> asyncio.Task[dict[int, int]]:
    """Start a fetch that waits at the broker for available records."""
    task = asyncio.create_task(member.acquire(wait=60_000))
    await parked(broker)
    return task


async def test_a_waiting_fetch_is_woken_when_records_become_available() -> None:
    clock = VirtualClock()
    async with shared(clock) as (broker, at), at.member() as one, at.member() as other:
        waiting = await waits(broker, one)
        await at.produce(3)
        assert await waiting == {0: 1, 1: 1, 2: 1}
        waiting = await waits(broker, other)
        assert await one.acknowledge_error((0, 0, [RELEASE])) is ErrorCode.NONE
        assert await waiting == {0: 2}
        waiting = await waits(broker, other)
        await clock.advance(30.1)
        assert await waiting == {0: 3, 1: 2, 2: 2}
        waiting = await waits(broker, one)
        assert (await other.acknowledge((0, 1, [ACCEPT]), epoch=-1)).error_code == 0
        assert await waiting == {2: 3}
        other.epoch = 0
        waiting = await waits(broker, other)
        one.wire.writer.close()
        assert await waiting == {2: 4}, "its session has ended with its connection"


async def test_a_renewed_lock_expires_later() -> None:
    clock = VirtualClock()
    async with shared(clock) as (_, at), at.member() as one, at.member() as other:
        await at.produce(2)
        assert await one.acquire() == {0: 1, 1: 1}
        await clock.advance(20)
        assert await one.acknowledge_error((1, 1, [RENEW]), renew=True) is ErrorCode.NONE
        await clock.advance(20)
        assert await other.acquire() == {0: 2}
        await clock.advance(20)
        assert await other.acquire() == {1: 2}


async def test_the_maximum_number_of_share_sessions_is_enforced() -> None:
    async with shared(max_share_sessions=1) as (_, at), at.member() as one:
        assert (await one.fetch()).error_code == 0
        assert (await one.fetch(epoch=0)).error_code == 0, "it replaces the session from before"
        async with at.member() as other:
            assert (await other.fetch(wait=1)).error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
            assert (await one.fetch(epoch=-1)).error_code == 0
            assert (await other.fetch()).error_code == 0


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_every_version_of_share_fetch_is_served(version: int) -> None:
    async with shared() as (_, at), at.member() as one:
        await at.produce(3, 3)
        answer = await one.fetch(version=version, most=2)
        assert deliveries(parts_of(answer)[0]) == dict.fromkeys(range(3 if version else 6), 1)
        assert answer.acquisition_lock_timeout_ms == (30_000 if version else 0)
        response = await one.acknowledge((0, 2, [ACCEPT]), version=version)
        assert (response.error_code, response.responses[0].partitions[0].error_code) == (0, 0)
        assert response.acquisition_lock_timeout_ms == (30_000 if version > 1 else 0)


async def test_version_0_adds_only_partitions_with_max_bytes_to_the_session() -> None:
    async with shared() as (_, at), at.member() as one:
        await at.produce(1)
        assert not (await one.fetch(version=0, bytes_wanted=0)).responses
        assert deliveries(parts_of(await one.fetch(version=0))[0]) == {0: 1}


async def test_a_throttled_share_fetch_still_returns_its_records() -> None:
    """Otherwise its records would stay locked until the lock expires."""
    clock = VirtualClock()
    async with shared(clock) as (_, at), at.member() as one:
        entry = AlterClientQuotasRequestEntryData(
            entity=[EntityData(entity_type="client-id", entity_name="test")],
            ops=[OpData(key="consumer_byte_rate", value=1, remove=False)],
        )
        limited = await at.client.request(AlterClientQuotasRequest(entries=[entry], validate_only=False))
        assert limited.entries[0].error_code == 0
        await at.produce(20)
        answer = await one.fetch()
        assert deliveries(parts_of(answer)[0]) == dict.fromkeys(range(20), 1)
        assert answer.throttle_time_ms > 0


async def test_a_crash_loses_no_acknowledgement(tmp_path: Path) -> None:
    async with shared(path=tmp_path) as (broker, at), at.member() as one:
        await at.produce(5)
        assert await one.acquire() == dict.fromkeys(range(5), 1)
        assert await one.acknowledge_error((0, 1, [ACCEPT]), (2, 3, [RELEASE])) is ErrorCode.NONE
        await broker.crash()
    async with (
        Broker(data_dir=tmp_path, config=BROKER_CONFIG) as broker,
        Client(bootstrap_servers=broker.bootstrap_servers) as client,
    ):
        again = ShareHarness(client, "t", at.topic_id)
        async with again.member() as other:
            assert await other.acquire() == {2: 2, 3: 2, 4: 1}


async def test_an_acknowledgement_that_is_not_persisted_is_not_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = VirtualClock()
    async with shared(clock) as (broker, at), at.member() as one, at.member() as other:
        await at.produce(2)
        assert await one.acquire() == {0: 1, 1: 1}
        states = broker._running.share_states
        assert states is not None

        def fail(*_: object) -> None:
            raise BrokerError(ErrorCode.NOT_COORDINATOR)

        with monkeypatch.context() as patch:
            patch.setattr(states, "write", fail)
            assert await one.acknowledge_error((0, 0, [ACCEPT])) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert await one.acknowledge_error((0, 0, [ACCEPT])) is ErrorCode.NONE
        with monkeypatch.context() as patch:
            patch.setattr(states, "write", fail)
            # An expired lock needn't be persisted, because no record is acquired after a crash.
            await clock.advance(30.1)
            assert await other.acquire() == {1: 2}
