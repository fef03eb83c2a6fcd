"""The partition for records without a key: load (KIP-794), availability, racks (KIP-1123)."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from aiokproto.broker import Cluster
from aiokproto.producer import Producer
from aiokproto.producer.batch import ProducerBatch
from aiokproto.producer.outcome import DeliveryContext
from aiokproto.producer.queue import PartitionQueue, TopicQueues
from aiokproto.producer.sticky import StickyPartitioner
from aiokproto.records import Compression
from aiokproto.runtime import Runtime
from aiokproto.types import TopicPartition
from tests.producer.sticky import Lowest, lowest

DRAWS = 20_000


def topic(leaders: list[int | None], backlog: dict[int, int] | None = None, name: str = "t") -> TopicQueues:
    queues = TopicQueues(name)
    for number, leader in enumerate(leaders):
        queue = PartitionQueue(TopicPartition(name, number), leader)
        for count in range((backlog or {}).get(number, 0)):
            queue.closed.append(
                ProducerBatch(
                    queue.topic_partition,
                    count,
                    0.0,
                    DeliveryContext(),
                    max_bytes=1000,
                    compression=Compression.NONE,
                    level=None,
                    transactional=False,
                )
            )
        queues.queues.append(queue)
    queues.available = [number for number, leader in enumerate(leaders) if leader is not None]
    return queues


@pytest.mark.parametrize(
    ("leaders", "current", "chosen"),
    [
        ([None, 1, 1, 1], 1, 2),
        ([None, 1, None, None], 1, 1),  # The only one with a leader stays.
        ([None, None, None], 0, 1),  # Without any leader, any partition will do.
        ([None], 0, 0),
    ],
)
def test_it_is_another_partition_with_a_leader(leaders: list[int | None], current: int, chosen: int) -> None:
    assert lowest().choose(topic(leaders), current, (), 0.0) == chosen


def shares(partitioner: StickyPartitioner, queues: TopicQueues, current: int | None = None) -> dict[int, float]:
    """How often each partition is drawn."""
    counts = Counter(partitioner.choose(queues, current, queues.queues, 0.0) for _ in range(DRAWS))
    return {partition: count / DRAWS for partition, count in counts.items()}


def drawn(adaptive: bool = True) -> StickyPartitioner:
    runtime = Runtime(Random(1))
    return StickyPartitioner(lambda: runtime, adaptive=adaptive)


def test_the_odds_of_a_partition_fall_with_its_backlog() -> None:
    """As in Java: the weight is the longest backlog plus one, minus the partition's own."""
    found = shares(drawn(), topic([1, 1, 1], {1: 3, 2: 1}))
    assert found == pytest.approx({0: 4 / 8, 1: 1 / 8, 2: 3 / 8}, abs=0.02)


def test_equal_backlogs_give_equal_odds() -> None:
    assert shares(drawn(), topic([1, 1], {0: 7, 1: 7})) == pytest.approx({0: 0.5, 1: 0.5}, abs=0.02)


def test_backlogs_of_other_topics_do_not_count() -> None:
    other = topic([1, 1], {0: 9}, name="other")
    partitioner, queues = drawn(), topic([1, 1])
    counts = Counter(partitioner.choose(queues, None, other.queues, 0.0) for _ in range(DRAWS))
    assert counts[0] / DRAWS == pytest.approx(0.5, abs=0.02)


def test_without_adaptive_partitioning_the_backlog_does_not_count() -> None:
    found = shares(drawn(adaptive=False), topic([1, 1], {0: 9}))
    assert found == pytest.approx({0: 0.5, 1: 0.5}, abs=0.02)


def test_a_broker_without_capacity_is_avoided_after_the_timeout() -> None:
    partitioner = StickyPartitioner(lambda: Runtime(Lowest()), availability_timeout=5.0)
    queues = topic([1, 2])
    partitioner.capacity_checked(1, 10.0, has_capacity=False)
    partitioner.capacity_checked(1, 14.0, has_capacity=False)
    assert partitioner.choose(queues, None, (), 15.0) == 0, "not yet"
    assert partitioner.choose(queues, None, (), 15.1) == 1
    partitioner.capacity_checked(2, 11.0, has_capacity=False)
    assert partitioner.choose(queues, None, (), 20.0) == 0, "all brokers are late, so none is left out"
    partitioner.capacity_checked(2, 21.0, has_capacity=True)
    partitioner.capacity_checked(1, 21.0, has_capacity=True)
    assert partitioner.choose(queues, None, (), 21.0) == 0, "both have capacity again"


def test_without_a_timeout_no_broker_is_avoided() -> None:
    partitioner = lowest()
    partitioner.capacity_checked(1, 0.0, has_capacity=False)
    assert partitioner.choose(topic([1, 2]), None, (), 1e6) == 0


def test_leaders_in_the_rack_are_preferred() -> None:
    partitioner = lowest()
    partitioner.local_nodes = frozenset({2})
    assert partitioner.choose(topic([1, 1, 2]), None, (), 0.0) == 2
    assert partitioner.choose(topic([1, 1, 2]), 2, (), 0.0) == 2, "the only one in the rack stays"
    assert partitioner.choose(topic([1, 1, None]), None, (), 0.0) == 0, "no leader is in the rack"


async def test_records_without_a_key_go_to_leaders_in_the_producers_rack() -> None:
    async with Cluster(3, racks=["a", "b", "a"]) as cluster:
        await cluster.create_topic("t", partitions=9, replication=1)
        local = {number for number in range(9) if cluster.partition("t", number).leader != 1}
        assert 0 < len(local) < 9
        async with Producer(
            bootstrap_servers=cluster.bootstrap_servers,
            client_rack="a",
            partitioner_rack_aware=True,
            batch_size=200,
            linger_ms=0,
        ) as producer:
            used = {(await producer.send("t", bytes(150))).partition for _ in range(60)}
            assert used <= local
            assert len(used) > 1
            keyed = {(await producer.send("t", b"", key=b"%d" % number)).partition for number in range(60)}
            assert keyed == set(range(9)), "keys decide alone"
