"""Changes to real Kafka are done, and are visible, once the call returns."""

from __future__ import annotations

import pytest

from tests.clusters import real_cluster
from tests.kafka import KafkaError
from tests.kafka.pool import RunningKafka

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.mark.parametrize("replication", [1, 2, 3])
async def test_a_partition_is_led_by_another_broker_after_each_move(
    kafka3: RunningKafka, topic: str, replication: int
) -> None:
    async with real_cluster(kafka3) as cluster:
        await cluster.create_topic(topic, partitions=2, replication=replication)
        first = await cluster.move_leader(topic, 1)
        second = await cluster.move_leader(topic, 1)
    assert first != second
    assert {first, second} <= set(kafka3.broker_ids)


@pytest.mark.exclusive
async def test_a_broker_stopped_by_a_test_runs_again_after_it(kafka3: RunningKafka) -> None:
    async with real_cluster(kafka3) as cluster:
        await cluster.stop_broker(3)
        assert kafka3.running == {1, 2}
    assert kafka3.running == {1, 2, 3}


async def test_a_refused_topic_says_why(kafka1: RunningKafka, topic: str) -> None:
    async with real_cluster(kafka1) as cluster:
        with pytest.raises(KafkaError, match="INVALID_REPLICATION_FACTOR"):
            await cluster.create_topic(topic, replication=2)
        await cluster.create_topic(topic, config={"retention.ms": "1000"})
        with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS"):
            await cluster.create_topic(topic)


async def test_the_only_broker_keeps_its_partitions(kafka1: RunningKafka, topic: str) -> None:
    async with real_cluster(kafka1) as cluster:
        await cluster.create_topic(topic)
        with pytest.raises(KafkaError, match="none is running"):
            await cluster.move_leader(topic, 0)
