"""The share consumer in virtual time: slow applications, locks that expire, nothing to do."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from aiokproto.codec.messages.share_fetch import ShareFetchRequest
from aiokproto.codec.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.share import Acknowledgement, AcknowledgeOutcome, ShareRecord
from aiokproto.simulation import Simulation
from tests.patience import PATIENCE
from tests.share.test_share_faults import broker, consumer, fill, of, read
from tests.share.test_share_promises import EXPLICIT, changed
from tests.simulation.sharing import LOCK


def test_a_failing_handler_does_not_use_up_deliveries_at_once() -> None:
    async def program() -> None:
        times: list[float] = []
        enough = asyncio.Event()

        async def handle(record: ShareRecord) -> None:
            times.append(asyncio.get_running_loop().time())
            if record.delivery_count == 4:
                enough.set()
            raise ValueError

        async with broker(1) as cluster, consumer(cluster) as jobs:
            running = asyncio.ensure_future(jobs.run(handle))
            await asyncio.wait_for(enough.wait(), PATIENCE)
            running.cancel()
            await asyncio.wait([running])
        assert [round(later - earlier) for earlier, later in pairwise(times)] == [1, 2, 4]

    Simulation(1).run(program())


def test_a_slow_application_does_not_use_up_deliveries() -> None:
    """One record takes a third of a lock's duration. With 60 at a time, all but a few would expire in the buffer, again
    and again."""
    delivered: list[tuple[int, int]] = []

    async def program() -> None:
        async with broker(*[1] * 60) as cluster, consumer(cluster) as jobs:
            async for record in jobs:
                delivered.append((record.offset, record.delivery_count))
                await asyncio.sleep(LOCK / 3)
                if len({offset for offset, _ in delivered}) == 60:
                    break

    simulation = Simulation(1)
    simulation.run(program())
    assert len(delivered) == 60, "none twice"
    assert max(count for _, count in delivered) <= 3


def test_locks_that_run_out_in_the_buffer_drop_their_records() -> None:
    async def program() -> None:
        async with broker(*[1] * 10) as cluster, consumer(cluster, acknowledgement_mode="explicit") as jobs:
            await read(jobs, 1)
            assert jobs._engine.buffer
            await asyncio.sleep(LOCK + 0.1)
            assert not jobs._engine.buffer, "nothing is kept that cannot be delivered"

    Simulation(1).run(program())


def test_poll_does_not_return_records_whose_locks_ran_out_while_it_collected_others() -> None:
    """If locks aren't renewed, each record is acquired again and again meanwhile, and was returned as often."""

    async def program() -> None:
        async with broker(*[1] * 3) as cluster, consumer(cluster, renew_locks=False) as jobs:
            records = await jobs.poll(2.5 * LOCK * 1000, 100, min_records=100)
            assert sorted(record.offset for record in records) == [0, 1, 2]
            assert [outcome.error for outcome in await jobs.commit()] == [None]

    Simulation(1).run(program())


@pytest.mark.parametrize("options", [{"renew_locks": False}, {"max_processing_ms": 1}])
def test_poll_returns_what_it_has_collected_before_locks_that_are_not_renewed_run_out(options: Any) -> None:
    async def program() -> None:
        loop = asyncio.get_running_loop()
        async with broker(*[1] * 3) as cluster, consumer(cluster, **options) as jobs:
            since = loop.time()
            records = await jobs.poll(10 * LOCK * 1000, 100, min_records=100)
            assert [record.offset for record in records] == [0, 1, 2]
            assert LOCK / 2 < loop.time() - since < LOCK
            assert [record.delivery_count for record in records] == [1, 1, 1]
            assert all(record.lock_deadline - loop.time() >= LOCK / 5 for record in records)

    Simulation(1).run(program())


def test_poll_collects_for_as_long_as_it_may_while_locks_are_renewed() -> None:
    async def program() -> None:
        loop = asyncio.get_running_loop()
        async with broker(*[1] * 3) as cluster, consumer(cluster) as jobs:
            since = loop.time()
            records = await jobs.poll(5 * LOCK * 1000, 100, min_records=100)
            assert [record.offset for record in records] == [0, 1, 2]
            assert 5 * LOCK <= loop.time() - since < 5 * LOCK + 0.1

    Simulation(1).run(program())


def test_nothing_is_requested_while_the_application_requests_nothing() -> None:
    async def program() -> None:
        async with broker(1) as cluster, consumer(cluster, acknowledgement_mode="explicit") as jobs:
            records = await read(jobs, 1)
            fill(cluster, 5)
            jobs.accept(records)
            await jobs.commit()
            with cluster.faults.watch(ShareFetchRequest) as rule:
                await asyncio.sleep(10)
                assert not rule.count

    Simulation(1).run(program())


@pytest.mark.parametrize("way", ["anext", "poll", "batches"])
def test_after_a_suspension_nothing_is_delivered_whose_lock_has_expired(way: str) -> None:
    """The program runs before any timer of the consumer."""
    simulation = Simulation(1)

    async def program() -> None:
        async with broker(5) as cluster, consumer(cluster, acknowledgement_mode="explicit") as jobs:
            (first,) = await read(jobs, 1)
            assert jobs._engine.buffer
            simulation.loop.stall(LOCK + 0.1)
            if way == "anext":
                records = await read(jobs, 1)
            elif way == "poll":
                records = await jobs.poll(PATIENCE * 1000, 1)
            else:
                records = list(await asyncio.wait_for(anext(jobs.batches()), PATIENCE))
            assert simulation.loop.time() > first.lock_deadline
            assert all(record.lock_deadline > simulation.loop.time() for record in records)
            assert records[0].delivery_count == 2
            assert not jobs.accept(first)

    simulation.run(program())


def test_what_a_former_leader_has_granted_is_not_delivered() -> None:
    """The new leader gives the records to any member, because records in the buffer aren't locked."""

    async def program() -> None:
        async with broker(5, brokers=2) as cluster, consumer(cluster, acknowledgement_mode="explicit") as jobs:
            (first,) = await read(jobs, 1)
            assert jobs._engine.buffer
            await cluster.move_leader("t", 0)
            jobs._engine.cluster.metadata.invalidate("the test has moved a leader")
            await asyncio.sleep(LOCK / 4)
            assert asyncio.get_running_loop().time() < first.lock_deadline
            assert not jobs._engine.buffer
            again = await read(jobs, 5)
            assert [record.offset for record in again] == list(range(5))
            assert not jobs.accept(first)
            assert jobs.accept(again)
            outcomes = await jobs.commit()
            assert {each.first_offset for each in outcomes if each.ok} == {0}

    Simulation(1).run(program())


def test_what_is_acquired_again_has_lost_its_former_locks() -> None:
    """The leadership comes back before the client has noticed that it was away. A new leader releases all records."""

    async def program() -> None:
        options = {"acknowledgement_mode": "explicit", "share_acquire_mode": "record_limit", "max_poll_records": 3}
        async with broker(5, brokers=2) as cluster, consumer(cluster, **options) as jobs:
            records = await read(jobs, 3)
            await cluster.move_leader("t", 0)
            await cluster.move_leader("t", 0)
            again = await read(jobs, 3)
            assert [record.offset for record in again] == [0, 1, 2]
            assert not jobs.accept(records[0])
            assert not jobs.release(records[2])
            assert jobs.accept(again)
            outcomes = await jobs.commit()
            accepted = [(each.first_offset, each.last_offset) for each in outcomes if each.ok]
            assert accepted == [(0, 1), (2, 2)], "the failures of the former deliveries stand between"

    Simulation(1).run(program())


@pytest.mark.parametrize("milliseconds", [0, -1])
def test_a_response_without_a_lock_time_uses_up_no_deliveries(milliseconds: int) -> None:
    """Such a response says nothing about the locks: otherwise every record would expire at once, and be fetched
    again."""

    def forget(response: Any) -> None:
        response.acquisition_lock_timeout_ms = milliseconds

    async def program() -> None:
        async with broker(2) as cluster:
            with cluster.faults.intercept(ShareFetchRequest, changed(forget)):
                async with consumer(cluster, **EXPLICIT) as jobs:
                    records = await read(jobs, 2)
                    assert of(records) == [(0, 1), (1, 1)]
                    jobs.accept(records)
                    assert all(each.ok for each in await jobs.commit())

    simulation = Simulation(1)
    simulation.run(program())


def test_records_that_handlers_cannot_take_yet_are_not_acquired() -> None:
    """Handlers take longer than a lock lasts, and become free one by one."""
    seen: list[tuple[int, int]] = []

    async def program() -> None:
        done = asyncio.Event()

        async def handle(record: ShareRecord) -> None:
            seen.append((record.offset, record.delivery_count))
            await asyncio.sleep(LOCK * (1.5 + record.offset % 4))
            if len(seen) == 20:
                done.set()

        async with broker(*[1] * 20) as cluster, consumer(cluster) as jobs:
            running = asyncio.ensure_future(jobs.run(handle, concurrency=4))
            await asyncio.wait_for(done.wait(), 1000)
            running.cancel()
            await asyncio.wait([running])

    Simulation(1).run(program())
    assert sorted(seen) == [(offset, 1) for offset in range(20)]


@pytest.mark.parametrize(("seconds", "ok"), [(3.0, [True]), (30.0, [])])
def test_closing_waits_for_the_handlers_of_a_run_for_half_its_time(seconds: float, ok: list[bool]) -> None:
    outcomes: list[AcknowledgeOutcome] = []

    async def program() -> None:
        begun = asyncio.Event()

        async def handle(record: ShareRecord) -> None:
            begun.set()
            await asyncio.sleep(seconds)

        async with broker(2) as cluster:
            jobs = consumer(cluster, on_acknowledged=outcomes.extend)
            await jobs.start()
            running = asyncio.ensure_future(jobs.run(handle, concurrency=1))
            await begun.wait()
            began = asyncio.get_running_loop().time()
            await jobs.close(20_000)
            assert asyncio.get_running_loop().time() - began < 12
            assert (await running).processed == len(ok)

    Simulation(1).run(program())
    assert [each.ok for each in outcomes if each.acknowledgement is Acknowledgement.ACCEPT] == ok
    assert outcomes, "each has an outcome"


def test_idle_connections_stay_open_while_records_are_locked() -> None:
    """Closing the connection would release them."""

    async def program() -> None:
        options: dict[str, Any] = {"connections_max_idle_ms": 200, "renew_locks": False, **EXPLICIT}
        async with broker(2) as cluster, consumer(cluster, **options) as jobs:
            records = await read(jobs, 2)
            await asyncio.sleep(LOCK * 0.8)
            assert jobs.accept(records)
            assert [each.ok for each in await jobs.commit()] == [True]

    Simulation(1).run(program())


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH])
def test_a_member_that_is_refused_for_ever_pauses_before_it_joins_again(code: ErrorCode) -> None:
    async def program() -> None:
        async with broker(1) as cluster, consumer(cluster) as jobs:
            await read(jobs, 1)
            with cluster.faults.fail(ShareGroupHeartbeatRequest, code) as rule:
                assert await jobs.poll(30_000) == []
                assert 5 <= rule.count <= 100
            fill(cluster, 1)
            await read(jobs, 1)

    Simulation(1).run(program())
