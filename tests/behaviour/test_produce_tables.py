"""Producing tables: on the embedded broker and on real Kafka."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from aiokproto.errors import InvalidRecordError, KafkaError, MessageTooLargeError
from aiokproto.producer import murmur2
from aiokproto.types import RecordMetadata
from tests.behaviour.test_produce import KEEP, producer, stored
from tests.clusters import BehaviourCluster

NOW = 1_760_000_000_000


class Stream:
    """A table of another library, which only has the Arrow interface."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def partition_ids(outcomes: Any) -> list[tuple[int, int]]:
    """Return partition and offset of each record; all records must have been stored."""
    assert outcomes.errors == {}
    found = list(outcomes)
    assert all(isinstance(one, RecordMetadata) for one in found)
    return [(one.partition, one.offset) for one in found]


@pytest.mark.parametrize("wrap", [lambda table: table, Stream], ids=["pyarrow", "PyCapsule"])
async def test_a_table_of_values(cluster: BehaviourCluster, topic: str, wrap: Any) -> None:
    await cluster.create_topic(topic)
    values = [b"%06d" % number * 10 for number in range(3000)]
    table = pa.concat_tables([pa.table({"value": values[:1000]}), pa.table({"value": values[1000:]})])
    async with producer(cluster, batch_size=20_000) as writer:
        outcomes = await writer.send_many(topic, wrap(table))
        assert partition_ids(outcomes) == [(0, offset) for offset in range(3000)]
    assert [record.value for record in (await stored(cluster.bootstrap_servers, topic))[0]] == values


@pytest.mark.parametrize("table", [True, False], ids=["table", "records"])
async def test_many_records_are_buffered_in_order_before_any_is_acknowledged(
    cluster: BehaviourCluster, topic: str, table: bool
) -> None:
    """The table is larger than the buffer's memory, so each call waits for some of it."""
    await cluster.create_topic(topic)
    values = [b"%06d" % number * 10 for number in range(3000)]
    async with producer(cluster, batch_size=10_000, buffer_memory=50_000, linger_ms=0) as writer:
        deliveries = []
        for start in range(0, len(values), 500):
            some = values[start : start + 500]
            deliveries.append(await writer.post_many(topic, pa.table({"value": some}) if table else some))
        found = [place for delivery in deliveries for place in partition_ids(await delivery)]
        assert all(delivery.done() and len(delivery) == 500 for delivery in deliveries)
    assert found == [(0, offset) for offset in range(3000)]
    assert [record.value for record in (await stored(cluster.bootstrap_servers, topic))[0]] == values


async def test_a_delivery_of_many_records_has_the_outcome_of_each(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    values = [b"x" * 10, b"x" * 20_000, b"x" * 30]
    async with producer(cluster, max_request_size=10_000, linger_ms=60_000) as writer:
        delivery = await writer.post_many(topic, pa.table({"value": values}))
        assert repr(delivery) == "<BulkDelivery pending: 3 records>"
        assert [type(error) for error in delivery.rejections()] == [MessageTooLargeError]
        await writer.flush()
        assert repr(delivery) == "<BulkDelivery done: 3 records>"
        outcomes = await delivery
    assert list(outcomes.errors) == [1]
    assert [place for place, one in enumerate(outcomes) if isinstance(one, RecordMetadata)] == [0, 2]


async def test_every_column(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=3, config=KEEP)
    table = pa.table(
        {
            "key": pa.array([b"k0", None, b"k2", b"", None], pa.binary()),
            "value": pa.array(["a", "b", None, "d", "e"], pa.string()),
            "headers": pa.array(
                [[("h", b"1"), ("h", None)], None, [], [("n", b"")], None],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
            "timestamp": pa.array([NOW, NOW + 1, None, NOW + 3, NOW + 4], pa.timestamp("ms", "UTC")),
            "partition": pa.array([None, 2, 1, None, 2], pa.int32()),
        }
    )
    async with producer(cluster) as writer:
        outcomes = await writer.send_many(topic, table)
    hashed = [(murmur2(key) & 0x7FFFFFFF) % 3 for key in (b"k0", b"")]
    assert [partition for partition, _ in partition_ids(outcomes)] == [hashed[0], 2, 1, hashed[1], 2]
    log = await stored(cluster.bootstrap_servers, topic)
    found = [log[partition][offset] for partition, offset in partition_ids(outcomes)]
    assert [(one.key, one.value, one.headers) for one in found] == [
        (b"k0", b"a", (("h", b"1"), ("h", None))),
        (None, b"b", ()),
        (b"k2", None, ()),
        (b"", b"d", (("n", b""),)),
        (None, b"e", ()),
    ]
    stamps = [one.timestamp for one in found]
    assert [stamp for place, stamp in enumerate(stamps) if place != 2] == [NOW, NOW + 1, NOW + 3, NOW + 4]
    assert stamps[2] > NOW
    assert stamps == [one.timestamp for one in outcomes if isinstance(one, RecordMetadata)]


async def test_keys_are_placed_as_by_other_clients_and_stay_in_order(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=4)
    keys = [b"key-%d" % (number % 37) for number in range(2000)]
    values = [b"%d" % number for number in range(2000)]
    async with producer(cluster, batch_size=4000) as writer:
        outcomes = await writer.send_many(topic, pa.table({"key": keys, "value": values}))
    log = await stored(cluster.bootstrap_servers, topic)
    for number, (partition, offset) in enumerate(partition_ids(outcomes)):
        assert partition == (murmur2(keys[number]) & 0x7FFFFFFF) % 4
        assert log[partition][offset].value == values[number]
    for records in log.values():
        order = [int(record.value or b"") for record in records]
        assert order == sorted(order)


async def test_the_partitioner_and_the_partition_of_the_call(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=3)
    table = pa.table({"value": [b"0", b"1", b"2"], "partition": pa.array([None, 0, None], pa.int64())})

    def last(topic: str, key: bytes | None, value: bytes | None, partitions: Any, available: Any) -> int:
        return int(partitions[-1])

    async with producer(cluster, partitioner=last) as writer:
        assert [partition for partition, _ in partition_ids(await writer.send_many(topic, table))] == [2, 0, 2]
        outcomes = await writer.send_many(topic, table, partition=1)
        assert [partition for partition, _ in partition_ids(outcomes)] == [1, 0, 1]


async def test_a_row_that_is_too_large_fails_alone(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    values = [b"x" * 10, b"x" * 20_000, b"x" * 30]
    async with producer(cluster, max_request_size=10_000) as writer:
        outcomes = await writer.send_many(topic, pa.table({"value": values}))
    assert list(outcomes.errors) == [1]
    assert isinstance(outcomes[1], MessageTooLargeError)
    assert [len(record.value or b"") for record in (await stored(cluster.bootstrap_servers, topic))[0]] == [10, 30]


async def test_rows_that_cannot_be_buffered_each_have_an_error(cluster: BehaviourCluster, topic: str) -> None:
    async with producer(cluster, max_block_ms=2000) as writer:
        outcomes = await writer.send_many("no such topic", pa.table({"value": [b"0", b"1"]}))
    assert len(outcomes) == 2
    assert all(isinstance(one, KafkaError) for one in outcomes)


async def test_a_table_without_record_columns_is_refused_as_a_whole(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    async with producer(cluster) as writer:
        for table, why in (
            (pa.table({"values": [b"0"]}), "unknown columns values"),
            (pa.table({"value": [1]}), "column value is int64"),
            (
                pa.table({"value": [b"0", b"1"], "partition": [0, 2]}),
                "partition 2 does not exist: .* 0 to 1",
            ),
        ):
            with pytest.raises(InvalidRecordError, match=why):
                await writer.send_many(topic, table)
        with pytest.raises(InvalidRecordError, match=r"partition 5 does not exist: topic .* has partitions 0 to 1"):
            await writer.send_many(topic, pa.table({"value": [b"0"]}), partition=5)
    assert await stored(cluster.bootstrap_servers, topic) == {0: [], 1: []}
