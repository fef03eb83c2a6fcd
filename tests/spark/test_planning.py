from __future__ import annotations

import asyncio

import pytest

from aiokproto.broker.metadata.topics import OFFSETS_TOPIC
from aiokproto.cluster import CoordinatorKind
from aiokproto.errors import BootstrapError, BrokerError, ConfigurationError, UnknownTopicError
from aiokproto.producer import Producer
from aiokproto.records import BatchRecord
from aiokproto.spark.offsets import LATEST, DataLossError
from aiokproto.spark.options import TOPIC_IDS
from aiokproto.spark.planning import TopicChangedError, list_offsets, plan_now
from aiokproto.types import TopicPartition
from tests.spark.kafka import Kafka


def records(count: int, start: int = 0) -> list[BatchRecord]:
    """Records whose timestamps are 1000 times their offsets."""
    return [BatchRecord(offset, 1000 * offset, None, b"v") for offset in range(start, start + count)]


@pytest.fixture
def filled(kafka: Kafka, topic: str) -> str:
    """A topic with two partitions, of ten and of five records."""
    kafka.create_topic(topic, 2)
    for base in (0, 5):
        kafka.produce(topic, 0, records(5, base))
    kafka.produce(topic, 1, records(5))
    return topic


def planned(
    kafka: Kafka, resume: dict[TopicPartition, int] | None = None, /, **options: str
) -> dict[tuple[str, int], tuple[int, int]]:
    ranges = plan_now(kafka.read_options(**options), resume).ranges
    return {(one.topic, one.partition): (one.start, one.end) for one in ranges}


def test_all_partitions_of_a_topic_from_start_to_end(kafka: Kafka, filled: str) -> None:
    plan = plan_now(kafka.read_options(subscribe=filled))
    assert [(one.partition, one.start, one.end) for one in plan.ranges] == [(0, 0, 10), (1, 0, 5)]
    assert plan.cluster_id
    assert {one.topic_id for one in plan.ranges} == {kafka.run(kafka.client.topic(filled)).topic_id}


def test_the_end_offset_of_a_leader_with_an_older_epoch_is_not_used(kafka: Kafka, filled: str) -> None:
    one = TopicPartition(filled, 0)
    kafka.run(kafka.client.topic(filled))
    snapshot = kafka.client.snapshot
    leader, epoch = snapshot.leader(*one), snapshot.leader_epoch(*one)
    assert leader is not None
    assert kafka.client.metadata.update_leader(*one, leader, epoch + 1)
    options = kafka.read_options(subscribe=filled, **{"fetchOffset.numRetries": "0"})
    with pytest.raises(BrokerError, match="UNKNOWN_LEADER_EPOCH"):
        kafka.run(list_offsets(kafka.client, {one: LATEST}, options))


def test_some_partitions(kafka: Kafka, filled: str) -> None:
    assert planned(kafka, assign=f'{{"{filled}": [1]}}') == {(filled, 1): (0, 5)}
    with pytest.raises(ConfigurationError, match=f"topic {filled} has 2 partitions, no partition 2"):
        planned(kafka, assign=f'{{"{filled}": [0, 2]}}')


def test_topics_that_match_a_pattern(kafka: Kafka, filled: str) -> None:
    """Part of a name is enough, as in the official connector."""
    token = filled[-8:]
    for pattern in (f"{filled[:-3]}...", token[:-1], f" {token}$ ", f"^{filled[:-1]}"):
        assert planned(kafka, subscribePattern=pattern).keys() == {(filled, 0), (filled, 1)}
    assert planned(kafka, subscribePattern=f"{filled}.") == {}
    assert planned(kafka, subscribePattern=f"^{token}") == {}


def test_a_pattern_does_not_match_kafkas_own_topics(kafka: Kafka) -> None:
    kafka.run(kafka.client.coordinator(CoordinatorKind.GROUP, "any"))
    assert OFFSETS_TOPIC in kafka.run(kafka.client.topics())
    assert planned(kafka, subscribePattern=OFFSETS_TOPIC) == {}
    assert planned(kafka, subscribe=OFFSETS_TOPIC) != {}


def test_given_offsets(kafka: Kafka, filled: str) -> None:
    starting, ending = f'{{"{filled}": {{"0": 3, "1": -2}}}}', f'{{"{filled}": {{"0": 7, "1": -1}}}}'
    assert planned(kafka, subscribe=filled, startingOffsets=starting, endingOffsets=ending) == {
        (filled, 0): (3, 7),
        (filled, 1): (0, 5),
    }
    with pytest.raises(ConfigurationError, match=f"startingOffsets has no value for {filled}-1"):
        planned(kafka, subscribe=filled, startingOffsets=f'{{"{filled}": {{"0": 3}}}}')


def test_timestamps(kafka: Kafka, filled: str) -> None:
    assert planned(kafka, subscribe=filled, startingTimestamp="2500", endingTimestamp="4000") == {
        (filled, 0): (3, 4),
        (filled, 1): (3, 4),
    }
    each = f'{{"{filled}": {{"0": 1000, "1": 4000}}}}'
    assert planned(kafka, subscribe=filled, startingOffsetsByTimestamp=each, endingTimestamp="4500") == {
        (filled, 0): (1, 5),
        (filled, 1): (4, 5),
    }


def test_a_timestamp_after_the_last_record(kafka: Kafka, filled: str) -> None:
    with pytest.raises(ConfigurationError, match=f"startingTimestamp: {filled}-1 has no record"):
        planned(kafka, subscribe=filled, startingTimestamp="6000")
    assert planned(kafka, subscribe=filled, startingTimestamp="6000", startingOffsetsByTimestampStrategy="latest") == {
        (filled, 0): (6, 10),
        (filled, 1): (5, 5),
    }


def test_going_on_from_where_a_read_has_ended(kafka: Kafka, filled: str) -> None:
    """Partitions that the last read did not have start at the offsets of the options."""
    assert planned(kafka, {TopicPartition(filled, 0): 8}, subscribe=filled) == {
        (filled, 0): (8, 10),
        (filled, 1): (0, 5),
    }


def test_going_on_after_a_read_of_transactions_that_are_still_open(kafka: Kafka, topic: str) -> None:
    kafka.create_topic(topic)
    servers = kafka.bootstrap_servers
    going_on: list[dict[tuple[str, int], tuple[int, int]]] = []

    async def write() -> None:
        async with Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
            async with producer.transaction() as transaction:
                await transaction.send_many(topic, [b"v"] * 5)
                uncommitted = await asyncio.to_thread(planned, kafka, subscribe=topic)
                assert uncommitted == {(topic, 0): (0, 5)}
                going_on.append(await asyncio.to_thread(committed, 5))
            going_on.append(await asyncio.to_thread(committed, 5))

    def committed(start: int) -> dict[tuple[str, int], tuple[int, int]]:
        return planned(
            kafka, {TopicPartition(topic, 0): start}, subscribe=topic, **{"kafka.isolation.level": "read_committed"}
        )

    asyncio.run(write())
    # The second one has the marker.
    assert going_on == [{(topic, 0): (5, 5)}, {(topic, 0): (5, 6)}]
    with pytest.raises(ConfigurationError, match="ends at offset 6, before 7"):
        committed(7)


def test_deleted_records(kafka: Kafka, filled: str) -> None:
    kafka.delete_records(filled, 0, 4)
    assert planned(kafka, subscribe=filled)[filled, 0] == (4, 10)
    starting = f'{{"{filled}": {{"0": 3, "1": 0}}}}'
    with pytest.raises(DataLossError, match=f"{filled}-0 begins at offset 4: 1 offsets from 3 on were deleted"):
        planned(kafka, subscribe=filled, startingOffsets=starting)
    assert planned(kafka, subscribe=filled, startingOffsets=starting, failOnDataLoss="false")[filled, 0] == (4, 10)


def test_an_empty_topic(kafka: Kafka, topic: str) -> None:
    kafka.create_topic(topic)
    assert planned(kafka, subscribe=topic) == {(topic, 0): (0, 0)}


def test_an_unknown_topic_is_named(kafka: Kafka) -> None:
    with pytest.raises(UnknownTopicError, match="no-such-topic"):
        planned(
            kafka, subscribe="no-such-topic", **{"kafka.retry.backoff.ms": "10", "kafka.retry.backoff.max.ms": "20"}
        )


def test_a_topic_with_another_id_is_refused(kafka: Kafka, filled: str) -> None:
    old = kafka.run(kafka.client.topic(filled)).topic_id.hex()
    assert planned(kafka, subscribe=filled, **{TOPIC_IDS: f'{{"{filled}": "{old}"}}'})
    with pytest.raises(TopicChangedError, match=f"topic {filled} was deleted and created again"):
        planned(kafka, subscribe=filled, **{TOPIC_IDS: f'{{"{filled}": "{"1" * 32}"}}'})
    without = {TOPIC_IDS: f'{{"{filled}": "{"0" * 32}"}}'}
    assert planned(kafka, subscribe=filled, **without), "brokers were upgraded since"


def test_a_lost_end_offset_is_an_error_with_any_options(kafka: Kafka, filled: str) -> None:
    topic_id = kafka.run(kafka.client.topic(filled)).topic_id.hex()
    count = len(kafka.client.snapshot.topics[filled].partitions)
    ends = ", ".join(f'"{partition}": 1000' for partition in range(count))
    options = {"endingOffsets": f'{{"{filled}": {{{ends}}}}}', "failOnDataLoss": "false"}
    assert planned(kafka, subscribe=filled, **options)
    with pytest.raises(ConfigurationError, match="before 1000"):
        planned(kafka, subscribe=filled, **options, **{TOPIC_IDS: f'{{"{filled}": "{topic_id}"}}'})


def test_no_broker_is_named_with_its_address(kafka: Kafka) -> None:
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.bootstrap.resolve.timeout.ms": "0", "subscribe": "t"}
    with pytest.raises(BootstrapError, match=r"127\.0\.0\.1:1"):
        plan_now(kafka.read_options(**options))
