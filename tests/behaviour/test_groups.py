"""Reading as a group, on the embedded broker and on real Kafka."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from aiokproto.client import Client
from aiokproto.cluster import CoordinatorKind
from aiokproto.codec.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from aiokproto.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from aiokproto.consumer import Consumer, PartitionStatus
from aiokproto.errors import ConfigurationError, GroupError, OffsetOutOfRangeError
from aiokproto.types import TopicPartition
from tests.behaviour.feed import fill
from tests.clusters import BehaviourCluster, embedded_cluster
from tests.timeouts import LONG_TIMEOUT

Place = tuple[int, int]

_GROUP_RESOURCE = 32

QUICK: dict[str, Any] = {"heartbeat_interval_ms": 100, "auto_offset_reset": "earliest"}
"""Members learn of a rebalance by heartbeats, so a short interval makes tests fast."""


@pytest.fixture(autouse=True, params=["classic", "consumer"])
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The protocol of the members that :func:`member` makes: what a user sees is the same."""
    name = str(request.param)
    monkeypatch.setitem(QUICK, "group_protocol", name)
    return name


only_classic = pytest.mark.parametrize("protocol", ["classic"], indirect=True)
only_consumer = pytest.mark.parametrize("protocol", ["consumer"], indirect=True)


def member(cluster: BehaviourCluster, topic: str, **options: Any) -> Consumer:
    return Consumer(topic, bootstrap_servers=cluster.bootstrap_servers, group_id=f"{topic}-group", **QUICK | options)


async def configure(cluster: BehaviourCluster, group: str, **options: str) -> None:
    """Set options of a group, and wait until brokers have them."""
    changes = [
        AlterableConfig(name=name.replace("_", "."), config_operation=0, value=value) for name, value in options.items()
    ]
    resource = AlterConfigsResource(resource_type=_GROUP_RESOURCE, resource_name=group, configs=changes)
    described = DescribeConfigsResource(resource_type=_GROUP_RESOURCE, resource_name=group, configuration_keys=None)
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        response = await client.request(IncrementalAlterConfigsRequest(resources=[resource]))
        assert response.responses[0].error_code == 0, response
        while True:
            found = await client.request(DescribeConfigsRequest(resources=[described]))
            values = {each.name: each.value for each in found.results[0].configs}
            if all(values.get(change.name) == change.value for change in changes):
                return


async def take(consumer: Consumer, count: int) -> list[Place]:
    records = [await anext(consumer) for _ in range(count)]
    return [(record.partition, record.offset) for record in records]


def everything(partitions: int, count: int, start: int = 0) -> list[Place]:
    return [(partition, offset) for partition in range(partitions) for offset in range(start, start + count)]


async def until(condition: Callable[[], bool], *consumers: Consumer) -> None:
    """Let the members read until the condition holds."""
    while not condition():
        for consumer in consumers:
            assert await consumer.poll(timeout_ms=20) == []


class Worker:
    """A member that reads until it is stopped, or has read enough records."""

    def __init__(self, consumer: Consumer, seen: Counter[Place], news: asyncio.Event) -> None:
        self.consumer = consumer
        self.mine: Counter[Place] = Counter()
        self._seen = seen
        self._news = news
        self._task: asyncio.Task[None] | None = None

    async def _work(self) -> None:
        async for record in self.consumer:
            place = (record.partition, record.offset)
            # A real application awaits while it processes a record: rebalances happen in between.
            await asyncio.sleep(0)
            self._seen[place] += 1
            self.mine[place] += 1
            self._news.set()

    async def start(self) -> Worker:
        await self.consumer.start()
        self._task = asyncio.create_task(self._work())
        return self

    async def stop(self) -> None:
        """Stop between two records: all returned records are processed by then."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.consumer.close()


async def wait_for(news: asyncio.Event, condition: Callable[[], bool]) -> None:
    """Wait until the condition holds; ``news`` is set whenever that may have changed."""
    while not condition():
        news.clear()
        await asyncio.wait_for(news.wait(), LONG_TIMEOUT)


async def test_finished_records_are_committed_and_not_read_again(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    await fill(cluster, topic, 25, [0, 1])
    async with member(cluster, topic) as consumer:
        seen = await take(consumer, 30)
    async with member(cluster, topic) as consumer:
        seen += await take(consumer, 20)
        assert sorted(seen) == everything(2, 25)
        assert await consumer.poll(timeout_ms=50) == []
    async with member(cluster, topic) as consumer:
        assert await consumer.poll(timeout_ms=500) == []
        at = TopicPartition(topic, 0), TopicPartition(topic, 1)
        committed = await consumer.committed(*at)
        assert {partition: known and known.offset for partition, known in committed.items()} == dict.fromkeys(at, 25)


async def test_a_record_whose_loop_body_raises_is_read_again(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 20)

    async def fail_at(offset: int) -> None:
        async with member(cluster, topic) as consumer:
            async for record in consumer:
                if record.offset == offset:
                    raise ZeroDivisionError

    for offset in (7, 7, 12):
        with pytest.raises(ZeroDivisionError):
            await fail_at(offset)
    async with member(cluster, topic) as consumer:
        assert await take(consumer, 1) == [(0, 12)]


@pytest.mark.parametrize(("blocks_at", "committed"), [(7, 7), (None, 20)])
async def test_a_cancelled_loop_commits_the_records_whose_body_has_ended(
    cluster: BehaviourCluster, topic: str, blocks_at: int | None, committed: int
) -> None:
    """All records count as processed if the cancellation interrupts the wait for the next record."""
    await cluster.create_topic(topic)
    await fill(cluster, topic, 20)
    reached = asyncio.Event()

    async def read() -> None:
        async with member(cluster, topic) as consumer:
            async for record in consumer:
                if record.offset == blocks_at:
                    reached.set()
                    await asyncio.Event().wait()
                if record.offset == 19:
                    # The task does not stop before it waits for the record after this one.
                    reached.set()

    reading = asyncio.create_task(read())
    await asyncio.wait_for(reached.wait(), LONG_TIMEOUT)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    async with member(cluster, topic) as consumer:
        (known,) = (await consumer.committed((topic, 0))).values()
        assert known is not None
        assert known.offset == committed


async def test_a_partition_without_processed_records_is_committed_at_its_start(
    cluster: BehaviourCluster, topic: str
) -> None:
    await cluster.create_topic(topic, partitions=2)
    await fill(cluster, topic, 5)
    async with member(cluster, topic) as consumer:
        await take(consumer, 5)
        await consumer.position((topic, 1))
    async with member(cluster, topic) as consumer:
        at = await consumer.committed((topic, 0), (topic, 1))
    assert [known and known.offset for known in at.values()] == [5, 0]


async def test_closing_in_finally_commits_only_after_success(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 20)

    async def work(fail: bool) -> int:
        consumer = member(cluster, topic)
        await consumer.start()
        try:
            record = await anext(consumer)
            if fail:
                raise ZeroDivisionError
            return record.offset
        finally:
            await asyncio.wait_for(consumer.close(), LONG_TIMEOUT)

    with pytest.raises(ZeroDivisionError):
        await work(True)
    assert await work(False) == 0
    assert await work(False) == 1


async def test_batches_and_polled_lists_are_committed_as_a_whole(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 30)

    async def fail_in_second_list() -> None:
        async with member(cluster, topic) as consumer:
            assert len(await consumer.poll(timeout_ms=LONG_TIMEOUT * 1000, max_records=5)) == 5
            assert len(await consumer.poll(timeout_ms=LONG_TIMEOUT * 1000, max_records=5)) == 5
            raise ZeroDivisionError

    async def fail_in_batch() -> None:
        async with member(cluster, topic) as consumer:
            async for batch in consumer.batches():
                assert batch.base_offset == 5
                raise ZeroDivisionError

    for fail in (fail_in_second_list, fail_in_batch):
        with pytest.raises(ZeroDivisionError):
            await fail()
    async with member(cluster, topic) as consumer:
        assert next(iter(await anext(consumer.batches()))).offset == 5


async def test_finished_records_are_committed_while_the_loop_runs(cluster: BehaviourCluster, topic: str) -> None:
    """All records but the one being processed are committed, without waiting for the end of the loop."""
    await cluster.create_topic(topic)
    await fill(cluster, topic, 20)
    async with member(cluster, topic, auto_commit_interval_ms=20) as consumer:
        await take(consumer, 8)
        at = TopicPartition(topic, 0)
        while (known := (await consumer.committed(at))[at]) is None or known.offset < 7:
            await asyncio.sleep(0)
        assert known.offset == 7


async def test_an_assigned_consumer_commits_to_its_group(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 10)
    for start in (0, 4):
        options = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": topic, **QUICK}
        async with Consumer(**options) as consumer:
            consumer.assign((topic, 0))
            assert await take(consumer, 4) == [(0, offset) for offset in range(start, start + 4)]


async def test_a_commit_from_outside_is_refused_while_the_group_has_members(
    cluster: BehaviourCluster, topic: str
) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 1)
    async with member(cluster, topic) as consumer, member(cluster, topic) as observer:
        await observer.unsubscribe()
        observer.assign((topic, 0))
        await take(consumer, 1)
        with pytest.raises(
            GroupError, match=r"UNKNOWN_MEMBER_ID.*: the group has active members.*stop all members first"
        ):
            await observer.commit({(topic, 0): 0})
        await consumer.close()
        await observer.commit({(topic, 0): 0})


async def test_without_a_group_there_is_nothing_to_commit_to(cluster: BehaviourCluster) -> None:
    async with Consumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        with pytest.raises(ConfigurationError, match="group_id"):
            await consumer.commit()


async def test_a_missing_offset_without_auto_offset_reset_raises(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    async with member(cluster, topic, auto_offset_reset="none") as consumer:
        with pytest.raises(OffsetOutOfRangeError, match="has committed no offset"):
            await anext(consumer)


@pytest.mark.parametrize(
    ("protocol", "assignor"),
    [
        *(("classic", name) for name in ("range", "roundrobin", "sticky", "cooperative-sticky")),
        *(("consumer", name) for name in ("range", "uniform")),
    ],
    indirect=["protocol"],
)
async def test_every_record_exactly_once_while_members_come_and_go(
    cluster: BehaviourCluster, topic: str, protocol: str, assignor: str
) -> None:
    """A third member joins two others, and one leaves. With every assignor, no record is lost or repeated without
    failures."""
    option = {"classic": "partition_assignment_strategy", "consumer": "group_remote_assignor"}[protocol]
    await cluster.create_topic(topic, partitions=6)
    partitions = range(6)
    seen: Counter[Place] = Counter()
    news = asyncio.Event()
    workers: list[Worker] = []

    def worker() -> Worker:
        consumer = member(cluster, topic, **{option: assignor})
        consumer.subscribe(topic, on_assigned=lambda _: news.set())
        return Worker(consumer, seen, news)

    def gathered(count: int) -> bool:
        return sum(seen.values()) >= count

    def shared() -> bool:
        sizes = [len(one.consumer.assignment()) for one in workers]
        return sum(sizes) == 6 and max(sizes) == -(-6 // len(workers))

    try:
        for round_number in range(4):
            if round_number == 3:
                await workers.pop(0).stop()
            else:
                workers.append(await worker().start())
            feeding = asyncio.create_task(fill(cluster, topic, 20, partitions, start=20 * round_number, per_batch=2))
            await wait_for(news, partial(gathered, 120 * (round_number + 1)))
            await feeding
            await wait_for(news, shared)
        assert seen == Counter(everything(6, 80))
        assert all(one.mine for one in workers)
    finally:
        await asyncio.gather(*(one.stop() for one in workers))


async def test_cooperative_members_keep_reading_partitions_that_do_not_move(
    cluster: BehaviourCluster, topic: str, protocol: str
) -> None:
    await cluster.create_topic(topic, partitions=4)
    revoked: list[TopicPartition] = []
    options = {"partition_assignment_strategy": "cooperative-sticky"} if protocol == "classic" else {}
    async with member(cluster, topic, **options) as first:
        first.subscribe(topic, on_revoked=revoked.extend)
        await until(lambda: len(first.assignment()) == 4, first)
        async with member(cluster, topic, **options) as second:
            await until(lambda: len(second.assignment()) == 2, first, second)
            assert len(first.assignment()) == 2
            assert sorted(revoked) == sorted(second.assignment())
            assert first.assignment().isdisjoint(second.assignment())


@only_classic
async def test_eager_members_revoke_all_partitions(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=4)
    events: list[tuple[str, int]] = []

    async def assigned(partitions: list[TopicPartition]) -> None:
        await asyncio.sleep(0)
        events.append(("assigned", len(partitions)))

    async with member(cluster, topic) as first:
        first.subscribe(topic, on_assigned=assigned, on_revoked=lambda gone: events.append(("revoked", len(gone))))
        await until(lambda: len(first.assignment()) == 4, first)
        async with member(cluster, topic) as second:
            await until(lambda: len(second.assignment()) == 2, first, second)
            await until(lambda: len(first.assignment()) == 2, first, second)
            # Check this before the other member leaves, because that is another rebalance.
            assert events == [("assigned", 4), ("revoked", 4), ("assigned", 2)]


async def test_callbacks_may_seek_and_commit(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 20)
    async with member(cluster, topic, enable_auto_commit=False) as consumer:

        def assigned(partitions: list[TopicPartition]) -> None:
            for partition in partitions:
                consumer.seek(partition, 15)

        async def revoked(partitions: list[TopicPartition]) -> None:
            await consumer.commit(dict.fromkeys(partitions, 17))

        consumer.subscribe(topic, on_assigned=assigned, on_revoked=revoked)
        assert await take(consumer, 2) == [(0, 15), (0, 16)]
        await consumer.unsubscribe()
        assert consumer.assignment() == frozenset()
    async with member(cluster, topic) as consumer:
        assert await take(consumer, 1) == [(0, 17)]


async def test_polling_in_a_rebalance_callback_raises(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    failures: list[str] = []
    async with member(cluster, topic) as consumer:

        async def assigned(_: list[TopicPartition]) -> None:
            with pytest.raises(RuntimeError) as caught:
                await anext(consumer)
            failures.append(str(caught.value))

        consumer.subscribe(topic, on_assigned=assigned)
        await until(lambda: bool(failures), consumer)
        assert "rebalance callback" in failures[0]


@only_classic
async def test_a_rebalance_waits_for_the_record_being_processed(cluster: BehaviourCluster, topic: str) -> None:
    """No record of a revoked partition is returned afterwards."""
    await cluster.create_topic(topic, partitions=2)
    await fill(cluster, topic, 50, [0, 1])
    async with member(cluster, topic) as first:
        handed = await take(first, 11)
        joining = member(cluster, topic)
        await joining.start()
        try:
            getting = asyncio.create_task(take(joining, 1))
            in_hand = TopicPartition(topic, handed[-1][0])
            while first.partition_state(in_hand).status is not PartitionStatus.REVOKING:
                await first.committed(in_hand)
            assert len(first.assignment()) == 2
            assert not getting.done()
            handed += await take(first, 1)
            # Once the group has a new generation, the other member reads its part.
            after = await getting
            while sum(len(one.assignment()) for one in (first, joining)) < 2:
                await first.committed(in_hand)
            mine = {partition.partition for partition in first.assignment()}
            assert {handed[-1][0]} == mine
            assert set(handed).isdisjoint(after)
            [(partition, offset)] = after
            assert offset == sum(1 for place in handed if place[0] == partition)
        finally:
            await joining.close()


async def test_a_killed_members_partitions_are_reassigned_after_its_session(
    cluster: BehaviourCluster, topic: str, protocol: str
) -> None:
    """The member's session expires, and another member continues from its committed offset."""
    if protocol == "consumer":
        await configure(cluster, f"{topic}-group", consumer_session_timeout_ms="3000")
    await cluster.create_topic(topic)
    await fill(cluster, topic, 20)
    dying = member(cluster, topic, session_timeout_ms=3000, enable_auto_commit=False)
    await dying.start()
    await take(dying, 8)
    await dying.commit({(topic, 0): 5})
    # The member ends as in a power failure, without LeaveGroup or more heartbeats.
    for task in [task for task in asyncio.all_tasks() if task.get_name() == "aiokproto-consumer-group"]:
        task.cancel()
    await dying._engine.cluster.close()
    async with member(cluster, topic) as consumer:
        assert await asyncio.wait_for(take(consumer, 1), LONG_TIMEOUT) == [(0, 5)]
    await dying.close(timeout_ms=100)


async def test_a_member_that_does_not_poll_leaves_until_it_polls_again(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 20)
    lost: list[TopicPartition] = []
    gone = asyncio.Event()

    def on_lost(partitions: list[TopicPartition]) -> None:
        lost.extend(partitions)
        gone.set()

    # The interval is long enough for a slow machine to poll within it.
    async with member(cluster, topic, max_poll_interval_ms=2000, auto_commit_interval_ms=20) as idle:
        idle.subscribe(topic, on_lost=on_lost)
        assert await take(idle, 3) == [(0, 0), (0, 1), (0, 2)]
        await asyncio.wait_for(gone.wait(), LONG_TIMEOUT)
        async with member(cluster, topic) as other:
            assert await take(other, 1) == [(0, 2)]
        assert lost == [TopicPartition(topic, 0)]
        assert idle.assignment() == frozenset()
        assert "max_poll_interval_ms" in str(idle.partition_state((topic, 0)))
        # The member doesn't read records again that the other one finished while it was away.
        assert await take(idle, 1) == [(0, 3)]


async def test_a_static_member_returns_without_a_rebalance(
    cluster: BehaviourCluster, topic: str, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    await cluster.create_topic(topic, partitions=2)
    async with member(cluster, topic, group_instance_id="one") as one:
        await until(lambda: len(one.assignment()) == 2, one)
        async with member(cluster, topic, group_instance_id="two") as two:
            await until(lambda: len(one.assignment()) == len(two.assignment()) == 1, one, two)
            had = two.assignment()
        caplog.clear()
        with caplog.at_level(logging.INFO, logger="aiokproto.group"):
            async with member(cluster, topic, group_instance_id="two") as two:
                await until(lambda: len(two.assignment()) == 1, one, two)
                assert two.assignment() == had
            kind = {"classic": "generation", "consumer": "epoch"}[protocol]
            steps = [record for record in caplog.records if f"{topic}-group: {kind}" in record.getMessage()]
            assert len(steps) == 1, caplog.text


async def test_new_partitions_are_noticed(cluster: BehaviourCluster, topic: str) -> None:
    from aiokproto.codec.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic

    await cluster.create_topic(topic, partitions=1)
    options = {"metadata_max_age_ms": 200}
    async with (
        member(cluster, topic, **options) as consumer,
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        await until(lambda: len(consumer.assignment()) == 1, consumer)
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic, count=3, assignments=None)],
            timeout_ms=10_000,
            validate_only=False,
        )
        response = await client.request(request)
        assert [result.error_code for result in response.results] == [0]
        await until(lambda: len(consumer.assignment()) == 3, consumer)


async def test_partitions_that_are_added_are_read_from_their_first_record(
    cluster: BehaviourCluster, topic: str
) -> None:
    from aiokproto.codec.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic

    await cluster.create_topic(topic, partitions=1)
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": f"{topic}-group"}
    async with Consumer(topic, auto_offset_reset="latest", metadata_max_age_ms=200, **options) as consumer:
        await until(lambda: len(consumer.assignment()) == 1, consumer)
        await consumer.position((topic, 0))
        async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            added = CreatePartitionsTopic(name=topic, count=2, assignments=None)
            await client.request(CreatePartitionsRequest(topics=[added], timeout_ms=10_000, validate_only=False))
        await fill(cluster, topic, 3, [1])
        record = await asyncio.wait_for(anext(consumer), LONG_TIMEOUT)
        assert (record.partition, record.offset) == (1, 0)


@only_classic
async def test_members_without_a_common_assignor_are_refused(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    async with member(cluster, topic, partition_assignment_strategy="range") as first:
        await until(lambda: len(first.assignment()) == 1, first)
        async with member(cluster, topic, partition_assignment_strategy="roundrobin") as second:
            with pytest.raises(GroupError, match="share no partition assignment strategy"):
                await anext(second)


@only_classic
async def test_each_rebalance_logs_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async with embedded_cluster(1) as cluster:
        await cluster.create_topic("t")
        with caplog.at_level(logging.INFO, logger="aiokproto"):
            async with member(cluster, "t") as consumer:
                await until(lambda: len(consumer.assignment()) == 1, consumer)
        [line] = [record.getMessage() for record in caplog.records if record.name == "aiokproto.group"]
        assert line.startswith("group t-group: generation 1 as ")
        assert "1 partition, 1 added, 0 revoked" in line


@pytest.mark.exclusive
async def test_a_group_survives_its_coordinator(cluster3: BehaviourCluster, topic: str) -> None:
    """The group's coordinator stops: the members find the new one, continue reading, and commit there."""
    await cluster3.create_topic(topic, partitions=2, replication=3)
    await fill(cluster3, topic, 20, [0, 1])
    async with member(cluster3, topic) as consumer:
        seen = await take(consumer, 40)
        await consumer.commit()
        node = await consumer._engine.cluster.coordinator(CoordinatorKind.GROUP, f"{topic}-group")
        await cluster3.stop_broker(node)
        await fill(cluster3, topic, 20, [0, 1], start=20)
        seen += await take(consumer, 40)
        assert sorted(seen) == everything(2, 40)
        await consumer.commit(timeout_ms=LONG_TIMEOUT * 1000)
        committed = await consumer.committed()
        assert [known and known.offset for known in committed.values()] == [40, 40]
