"""The share consumer, on the embedded broker and on real Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from aiokproto import Producer, ShareConsumer
from aiokproto.codec.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from aiokproto.errors import AcquisitionLockError, ClientClosedError, ConfigurationError, UnknownTopicError
from aiokproto.hooks import Hooks, ResponseReceived
from aiokproto.share import Acknowledgement, AcknowledgeOutcome, ShareRecord
from tests.behaviour.share_harness import ShareHarness, share_harness
from tests.clusters import BehaviourCluster
from tests.net.waiting import until
from tests.timeouts import LONG_TIMEOUT


def consumer(cluster: BehaviourCluster, topic: str, **options: Any) -> ShareConsumer:
    return ShareConsumer(topic, bootstrap_servers=cluster.bootstrap_servers, group_id=topic, **options)


async def read(consumer: ShareConsumer, count: int) -> list[ShareRecord]:
    """Read records one by one."""
    return [await asyncio.wait_for(anext(consumer), LONG_TIMEOUT) for _ in range(count)]


def seen(records: Sequence[ShareRecord]) -> dict[int, int]:
    """Delivery counts by offset."""
    return {record.offset: record.delivery_count for record in records}


async def left(at: ShareHarness, cluster: BehaviourCluster, count: int) -> dict[int, int]:
    """Return what another member gets: the delivery counts of ``count`` records by offset."""
    async with consumer(cluster, at.topic) as other:
        return seen(await read(other, count))


async def nothing_left(at: ShareHarness, cluster: BehaviourCluster) -> None:
    """Assert that another member gets nothing but a new record."""
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await producer.send(at.topic, b"new", partition=0)
    async with consumer(cluster, at.topic) as other:
        (only,) = await read(other, 1)
        assert only.value == b"new"
        assert only.delivery_count == 1
        assert not await other.poll(300)


async def test_records_are_accepted_when_the_next_one_is_requested(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic) as at:
        await at.produce(3, 2)
        async with consumer(cluster, topic) as jobs:
            records = await read(jobs, 5)
            assert seen(records) == dict.fromkeys(range(5), 1)
            assert [record.value for record in records] == [b"v0", b"v1", b"v2", b"v0", b"v1"]
            assert {record.topic for record in records} == {topic}
        await nothing_left(at, cluster)


async def test_an_exception_that_leaves_the_block_releases_the_current_record(
    cluster: BehaviourCluster, topic: str
) -> None:
    async with share_harness(cluster, topic) as at:
        await at.produce(3)

        async def work() -> None:
            async with consumer(cluster, topic) as jobs:
                await read(jobs, 2)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await work()
        assert await left(at, cluster, 2) == {1: 2, 2: 2}


async def test_a_break_accepts_the_current_record_and_releases_the_buffer(
    cluster: BehaviourCluster, topic: str
) -> None:
    async with share_harness(cluster, topic) as at:
        await at.produce(3)
        async with consumer(cluster, topic) as jobs:
            async for _ in jobs:
                break
        assert await left(at, cluster, 2) == {1: 2, 2: 2}


async def test_lists_and_batches_count_as_a_whole(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic) as at:
        await at.produce(3, 3, 3)

        async def work() -> None:
            async with consumer(cluster, topic) as jobs:
                records: list[ShareRecord] = []
                while not records:
                    records = await jobs.poll(1000, 2)
                assert seen(records) == {0: 1, 1: 1}
                batch = await asyncio.wait_for(anext(jobs.batches()), LONG_TIMEOUT)
                assert (batch.topic, batch.partition, len(batch)) == (topic, 0, 1)
                batch = await asyncio.wait_for(anext(jobs.batches()), LONG_TIMEOUT)
                assert seen(list(batch)) == {3: 1, 4: 1, 5: 1}
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await work()
        assert await left(at, cluster, 6) == dict.fromkeys(range(3, 9), 2)


async def test_poll_collects_min_records_of_several_batches_and_fetches(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic) as at:
        await at.produce(3, 2)
        async with consumer(cluster, topic, max_poll_records=2, share_acquire_mode="record_limit") as jobs:
            collecting = asyncio.create_task(jobs.poll(LONG_TIMEOUT * 1000, 7, min_records=7))
            await until(lambda: jobs.stats().records_delivered >= 4)
            collecting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await collecting
            await at.produce(2)
            records = await jobs.poll(LONG_TIMEOUT * 1000, 7, min_records=7)
            assert seen(records) == dict.fromkeys(range(7), 1)
            assert await jobs.poll(1, 2, min_records=2) == []
            assert {outcome.error for outcome in await jobs.commit()} == {None}
        await nothing_left(at, cluster)


async def test_explicit_acknowledgements_decide_about_each_record(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic) as at:
        await at.produce(6)
        async with consumer(cluster, topic, acknowledgement_mode="explicit") as jobs:
            records = await read(jobs, 6)
            assert jobs.accept(records[0], records[5])
            assert jobs.release(records[1])
            assert jobs.reject([records[2]], (records[3],))
            outcomes = await jobs.commit()
            assert outcomes == [
                AcknowledgeOutcome(topic, 0, 0, 0, Acknowledgement.ACCEPT),
                AcknowledgeOutcome(topic, 0, 1, 1, Acknowledgement.RELEASE),
                AcknowledgeOutcome(topic, 0, 2, 3, Acknowledgement.REJECT),
                AcknowledgeOutcome(topic, 0, 5, 5, Acknowledgement.ACCEPT),
            ]
            assert seen(await read(jobs, 1)) == {1: 2}
        # Nothing acknowledges 4, and the second delivery of 1.
        assert await left(at, cluster, 2) == {1: 3, 4: 2}


async def test_implicit_acknowledgement_leaves_out_what_was_acknowledged_otherwise(
    cluster: BehaviourCluster, topic: str
) -> None:
    async with share_harness(cluster, topic) as at:
        await at.produce(3)
        outcomes: list[AcknowledgeOutcome] = []
        async with consumer(cluster, topic, on_acknowledged=outcomes.extend) as jobs:
            async for record in jobs:
                if record.offset == 1 and record.delivery_count == 1:
                    jobs.release(record)
                if record.delivery_count == 2:
                    assert record.offset == 1
                    break
        assert {(each.first_offset, each.acknowledgement.name) for each in outcomes} >= {(1, "RELEASE"), (1, "ACCEPT")}
        assert all(each.ok for each in outcomes)
        await nothing_left(at, cluster)


async def test_an_acknowledgement_can_be_replaced_until_it_is_sent(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic) as at:
        await at.produce(1)
        options = {"acknowledgement_mode": "explicit", "acknowledge_linger_ms": LONG_TIMEOUT * 1000}
        async with consumer(cluster, topic, **options) as jobs:
            (record,) = await read(jobs, 1)
            assert jobs.release(record)
            assert jobs.accept(record)
            assert record.acknowledgement is Acknowledgement.ACCEPT
            assert await jobs.commit() == [AcknowledgeOutcome(topic, 0, 0, 0, Acknowledgement.ACCEPT)]
            assert not jobs.reject(record), "it is too late"
            assert await jobs.commit() == []
        await nothing_left(at, cluster)


async def test_acknowledgements_are_sent_without_another_call(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic) as at:
        await at.produce(1)
        done = asyncio.Event()
        options = {"acknowledgement_mode": "explicit", "on_acknowledged": lambda _: done.set()}
        async with consumer(cluster, topic, **options) as jobs:
            jobs.accept(await read(jobs, 1))
            await asyncio.wait_for(done.wait(), LONG_TIMEOUT)


async def test_an_expired_lock_is_a_result(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic, record_lock_duration_ms="3000") as at:
        await at.produce(2)
        options = {"acknowledgement_mode": "explicit", "renew_locks": False}
        async with consumer(cluster, topic, **options) as jobs:
            first = await read(jobs, 2)
            again = await read(jobs, 2)
            assert seen(again) == {0: 2, 1: 2}
            assert not jobs.accept(first)
            assert jobs.accept(again[0])
            outcomes = await jobs.commit()
            assert [(each.first_offset, each.last_offset, type(each.error)) for each in outcomes] == [
                (0, 0, AcquisitionLockError),
                (0, 0, type(None)),
                (1, 1, AcquisitionLockError),
            ]


async def test_locks_of_delivered_records_are_renewed(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic, record_lock_duration_ms="2000") as at:
        await at.produce(2)
        async with (
            consumer(cluster, topic, acknowledgement_mode="explicit") as jobs,
            consumer(cluster, topic, acknowledgement_mode="explicit") as other,
        ):
            records = await read(jobs, 2)
            began = asyncio.get_running_loop().time()
            while asyncio.get_running_loop().time() < began + 4:
                assert not await other.poll(500)
            assert jobs.accept(records)
            assert await jobs.commit() == [AcknowledgeOutcome(topic, 0, 0, 1, Acknowledgement.ACCEPT)]


async def test_renewal_ends_after_max_processing_ms(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic, record_lock_duration_ms="1000") as at:
        await at.produce(1)
        async with consumer(cluster, topic, acknowledgement_mode="explicit", max_processing_ms=1200) as jobs:
            await read(jobs, 1)
            assert seen(await read(jobs, 1)) == {0: 2}


async def test_locks_can_be_renewed_by_hand(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic) as at:
        await at.produce(2)
        async with consumer(cluster, topic, acknowledgement_mode="explicit", renew_locks=False) as jobs:
            records = await read(jobs, 2)
            before = records[0].lock_deadline
            # A clock may stop for longer than a renewal takes.
            now = asyncio.get_running_loop().time
            fetched = now()
            await until(lambda: now() > fetched)
            assert jobs.renew(records[0])
            assert await jobs.commit() == [AcknowledgeOutcome(topic, 0, 0, 0, Acknowledgement.RENEW)]
            assert records[0].lock_deadline > before
            assert records[1].lock_deadline == before
            assert jobs.accept(records)
            assert await jobs.commit() == [AcknowledgeOutcome(topic, 0, 0, 1, Acknowledgement.ACCEPT)]


async def test_a_group_that_forbids_renewals_still_takes_acknowledgements(
    cluster: BehaviourCluster, topic: str
) -> None:
    async with share_harness(cluster, topic, record_lock_duration_ms="4000", renew_acknowledge_enable="false") as at:
        await at.produce(2)
        async with consumer(cluster, topic, acknowledgement_mode="explicit") as jobs:
            records = await read(jobs, 2)
            jobs.renew(records[0])
            jobs.accept(records[1])
            outcomes = await jobs.commit()
            assert [(each.first_offset, type(each.error)) for each in outcomes] == [
                (0, AcquisitionLockError),
                (1, type(None)),
            ]
            assert jobs.accept(records[0])
            assert all(each.ok for each in await jobs.commit())


async def test_record_limit_acquires_no_more_than_max_poll_records(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic) as at:
        await at.produce(6)
        options = {"acknowledgement_mode": "explicit", "share_acquire_mode": "record_limit", "max_poll_records": 2}
        async with consumer(cluster, topic, **options) as one, consumer(cluster, topic, **options) as other:
            assert seen(await read(one, 1)) == {0: 1}
            assert seen(await read(other, 2)) == {2: 1, 3: 1}
            assert seen(await read(one, 1)) == {1: 1}
            assert seen(await read(one, 2)) == {4: 1, 5: 1}


async def test_records_delivered_too_often_are_archived(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic, delivery_count_limit="2") as at:
        await at.produce(1)
        async with consumer(cluster, topic, acknowledgement_mode="explicit") as jobs:
            for count in (1, 2):
                (record,) = await read(jobs, 1)
                assert record.delivery_count == count
                jobs.release(record)
            await jobs.commit()
        await nothing_left(at, cluster)


async def test_several_partitions_and_members_share_the_work(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic, partitions=3) as at:
        for partition in range(3):
            await at.produce(10, 10, partition=partition)
        found: list[tuple[int, int]] = []

        async def work() -> None:
            async with consumer(cluster, topic, max_poll_records=10) as jobs:
                while len(found) < 60:
                    found.extend((record.partition, record.offset) for record in await jobs.poll(200))

        await asyncio.wait_for(asyncio.gather(work(), work()), LONG_TIMEOUT)
        assert sorted(found) == [(partition, offset) for partition in range(3) for offset in range(20)]


async def test_run_accepts_releases_and_rejects_by_how_handlers_end(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic) as at:
        await at.produce(6)
        handled: list[tuple[int, int]] = []
        enough = asyncio.Event()

        async def handle(record: ShareRecord) -> None:
            handled.append((record.offset, record.delivery_count))
            if record.offset == 1 and record.delivery_count == 1:
                raise ValueError("not now")
            if record.offset == 2:
                raise TypeError("never")
            if record.offset == 3 and record.delivery_count == 1:
                jobs.release(record)
            if len(handled) == 8:
                enough.set()

        def policy(record: ShareRecord, error: Exception) -> Any:
            return "reject" if isinstance(error, TypeError) else "release"

        async with consumer(cluster, topic) as jobs:
            running = asyncio.create_task(jobs.run(handle, concurrency=3, on_error=policy, redelivery_backoff_ms=0))
            await asyncio.wait_for(enough.wait(), LONG_TIMEOUT)
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            await jobs.commit()
        assert sorted(handled) == [(0, 1), (1, 1), (1, 2), (2, 1), (3, 1), (3, 2), (4, 1), (5, 1)]
        await nothing_left(at, cluster)


async def test_run_waits_for_handlers_and_releases_the_records_of_those_it_cancels(
    cluster: BehaviourCluster, topic: str
) -> None:
    async with share_harness(cluster, topic) as at:
        await at.produce(3)
        started: list[int] = []
        go = asyncio.Event()
        both = asyncio.Event()

        async def handle(record: ShareRecord) -> None:
            started.append(record.offset)
            if len(started) == 2:
                both.set()
            await (go.wait() if record.offset == 0 else asyncio.Event().wait())

        async with consumer(cluster, topic) as jobs:
            running = asyncio.create_task(jobs.run(handle, concurrency=2, drain_timeout_ms=200))
            await asyncio.wait_for(both.wait(), LONG_TIMEOUT)
            running.cancel()
            go.set()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert started == [0, 1], "a cancelled run starts no more"
        # The consumer hadn't acquired the last record, because it had no handler for it.
        assert await left(at, cluster, 2) == {1: 2, 2: 1}


async def test_a_cancelled_read_leaves_records_for_the_next(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic) as at, consumer(cluster, topic) as jobs:
        waiting = asyncio.ensure_future(anext(jobs))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await at.produce(2)
        assert seen(await read(jobs, 2)) == {0: 1, 1: 1}


async def test_a_subscription_can_change(cluster: BehaviourCluster, topic: str) -> None:
    other = f"{topic}-other"
    await cluster.create_topic(other)
    async with share_harness(cluster, topic) as at, consumer(cluster, topic) as jobs:
        await at.produce(2)
        assert seen(await read(jobs, 1)) == {0: 1}
        jobs.subscribe(other)
        assert jobs.subscription() == {other}
        assert not await jobs.poll(300)
        assert await left(at, cluster, 1) == {1: 2}
        jobs.unsubscribe()
        with pytest.raises(ConfigurationError, match="nothing to read"):
            await jobs.poll(0)


async def test_a_consumer_moves_on_to_the_new_leader(cluster3: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster3, topic, replication=3) as at:
        await at.produce(3)
        async with consumer(cluster3, topic, acknowledgement_mode="explicit") as jobs:
            records = await read(jobs, 3)
            jobs.accept(records[0])
            assert all(each.ok for each in await jobs.commit())
            await cluster3.move_leader(topic, 0)
            again = await read(jobs, 2)
            # The new leader knows only stored delivery counts, and an acquisition isn't stored.
            assert sorted(seen(again)) == [1, 2]
            assert not jobs.accept(records[1])
            assert jobs.accept(again)
            outcomes = await jobs.commit()
            assert {each.first_offset for each in outcomes if each.ok} >= {1}
            assert any(not each.ok for each in outcomes)
        await nothing_left(at, cluster3)


@pytest.mark.exclusive
async def test_a_consumer_survives_a_restart_of_its_broker(cluster3: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster3, topic, replication=3) as at:
        await at.produce(3)
        async with consumer(cluster3, topic, request_timeout_ms=5000) as jobs:
            assert seen(await read(jobs, 1)) == {0: 1}
            leader = (await at.client.metadata([topic]))[topic].partitions[0].leader
            await cluster3.stop_broker(leader)
            rest = await read(jobs, 2)
            assert {record.offset for record in rest} <= {0, 1, 2}
            await cluster3.start_broker(leader)


async def test_a_topic_that_does_not_exist_is_reported(cluster: BehaviourCluster, topic: str) -> None:
    with pytest.raises(UnknownTopicError):
        async with consumer(cluster, f"{topic}-missing"):
            pass


async def test_after_close_every_call_says_so(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic) as at:
        await at.produce(1)
        jobs = consumer(cluster, topic)
        await jobs.start()
        (record,) = await read(jobs, 1)
        await jobs.close()
        for call in (jobs.poll(0), anext(jobs), jobs.commit()):
            with pytest.raises(ClientClosedError):
                await call
        with pytest.raises(ClientClosedError):
            jobs.accept(record)


async def test_records_of_another_consumer_are_refused(cluster: BehaviourCluster, topic: str) -> None:
    async with (
        share_harness(cluster, topic) as at,
        consumer(cluster, topic, acknowledgement_mode="explicit") as jobs,
        consumer(cluster, topic) as other,
    ):
        await at.produce(1)
        (record,) = await read(jobs, 1)
        with pytest.raises(ConfigurationError, match="another consumer"):
            other.accept(record)
        with pytest.raises(ConfigurationError, match="expected records"):
            jobs.accept(0)  # type: ignore[arg-type]


async def test_what_was_delivered_before_unsubscribe_can_still_be_acknowledged(
    cluster: BehaviourCluster, topic: str
) -> None:
    async with share_harness(cluster, topic) as at:
        await at.produce(2)
        async with consumer(cluster, topic, acknowledgement_mode="explicit") as jobs:
            records = await read(jobs, 2)
            jobs.unsubscribe()
            # The member has left the group by then.
            await until(lambda: jobs._engine.member.member_epoch < 0)
            jobs.accept(records)
            outcomes = await jobs.commit()
            assert [(each.ok, each.error) for each in outcomes] == [(True, None)]


async def test_a_connection_stays_open_while_records_are_processed(cluster: BehaviourCluster, topic: str) -> None:
    """Requests without an acknowledgement keep it open, because closing it would release the records."""

    class Sent(Hooks):
        count = 0

        def on_response_received(self, event: ResponseReceived) -> None:
            self.count += event.api == "ShareAcknowledge"

    sent = Sent()
    options: dict[str, Any] = {"renew_locks": False, "connections_max_idle_ms": 2000, "hooks": sent}
    async with share_harness(cluster, topic) as at:
        await at.produce(1)
        async with consumer(cluster, topic, acknowledgement_mode="explicit", **options) as jobs:
            records = await read(jobs, 1)
            await until(lambda: sent.count == 3)
            assert jobs.accept(records)
            assert [each.ok for each in await jobs.commit()] == [True]


async def test_a_topic_that_is_created_again_is_read(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic) as at:
        await at.produce(3)
        async with consumer(cluster, topic, acknowledgement_mode="explicit", metadata_max_age_ms=500) as jobs:
            records = await read(jobs, 2)
            deleted = await at.client.request(
                DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=9000)
            )
            assert deleted.responses[0].error_code == 0
            await cluster.create_topic(topic)
            async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
                await producer.send(topic, b"new", partition=0)
            (again,) = [record for record in await new_records(jobs) if record.value == b"new"]
            assert (again.offset, again.delivery_count) == (0, 1)
            jobs.accept(records[0], again)
            outcomes = await jobs.commit()
            assert [each.ok for each in outcomes].count(True) == 1, "that of the new record; the other has no lock"


async def new_records(jobs: ShareConsumer) -> list[ShareRecord]:
    """Read until there is a record of the topic that was created again."""
    found: list[ShareRecord] = []
    deadline = asyncio.get_running_loop().time() + LONG_TIMEOUT
    while not any(record.value == b"new" for record in found):
        assert asyncio.get_running_loop().time() < deadline
        with suppress(UnknownTopicError):
            found += await jobs.poll(500)
    return found
