"""Partitioners by name choose what librdkafka chooses."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, get_args

import pytest

from aiokproto.broker import Broker
from aiokproto.errors import ConfigurationError
from aiokproto.producer import Producer
from aiokproto.producer.config import PartitionerName
from tests.timeouts import LONG_TIMEOUT

confluent_kafka = pytest.importorskip("confluent_kafka")

PARTITIONS = 7
DETERMINISTIC: tuple[PartitionerName, ...] = (
    "murmur2_random",
    "murmur2",
    "consistent_random",
    "consistent",
    "fnv1a_random",
    "fnv1a",
)


def keys() -> list[bytes]:
    random = Random(3)
    lengths = [*range(1, 40), 100, 1000]
    return [random.randbytes(length) for length in lengths for _ in range(5)] + [b"a", b"\x00", b"\xff" * 9]


async def chosen(broker: Broker, name: PartitionerName, records: list[bytes | None]) -> list[int]:
    async with Producer(bootstrap_servers=broker.bootstrap_servers, partitioner=name) as producer:
        deliveries = [await producer.post("t", b"", key=key) for key in records]
        return [(await delivery).partition for delivery in deliveries]


def by_librdkafka(servers: str, name: str, records: list[bytes | None]) -> list[int]:
    expected: dict[int, int] = {}
    confluent = confluent_kafka.Producer({"bootstrap.servers": servers, "partitioner": name, "linger.ms": 0})
    for number, key in enumerate(records):

        def delivered(error: object, message: Any, number: int = number) -> None:
            assert error is None
            expected[number] = message.partition()

        confluent.produce("t", b"", key=key, on_delivery=delivered)
    assert confluent.flush(LONG_TIMEOUT) == 0
    return [expected[number] for number in range(len(records))]


@pytest.mark.parametrize("name", DETERMINISTIC)
async def test_a_key_goes_where_librdkafka_puts_it(name: PartitionerName) -> None:
    records: list[bytes | None] = [*keys()]
    if name != "consistent_random":
        records += [b""]
    if not name.endswith("_random"):
        # These treat a missing key as an empty one; the others may choose any partition.
        records += [None]
    async with Broker() as broker:
        await broker.create_topic("t", partitions=PARTITIONS)
        expected = await asyncio.to_thread(by_librdkafka, broker.bootstrap_servers, name, records)
        assert await chosen(broker, name, records) == expected


@pytest.mark.parametrize("name", [name for name in DETERMINISTIC if name.endswith("_random")])
async def test_records_without_a_key_fill_batches_of_one_partition(name: PartitionerName) -> None:
    async with Broker() as broker:
        await broker.create_topic("t", partitions=PARTITIONS)
        assert len(set(await chosen(broker, name, [None] * 20))) == 1


async def test_round_robin_and_random_ignore_keys() -> None:
    async with Broker() as broker:
        await broker.create_topic("t", partitions=PARTITIONS)
        found = await chosen(broker, "round_robin", [b"k", None] * PARTITIONS)
        assert found == [*range(PARTITIONS)] * 2
        assert set(await chosen(broker, "random", [b"k"] * 200)) == set(range(PARTITIONS))


async def test_keys_can_be_ignored_by_the_default_partitioner() -> None:
    async with Broker() as broker:
        await broker.create_topic("t", partitions=PARTITIONS)
        async with Producer(bootstrap_servers=broker.bootstrap_servers, partitioner_ignore_keys=True) as producer:
            deliveries = [await producer.post("t", b"", key=b"%d" % number) for number in range(20)]
            assert len({(await delivery).partition for delivery in deliveries}) == 1


async def test_a_partitioner_can_leave_the_choice_to_the_producer() -> None:
    async with Broker() as broker:
        await broker.create_topic("t", partitions=PARTITIONS)
        async with Producer(
            bootstrap_servers=broker.bootstrap_servers,
            partitioner=lambda topic, key, value, partitions, available: None if key is None else 3,
        ) as producer:
            assert (await producer.send("t", b"", key=b"k")).partition == 3
            deliveries = [await producer.post("t", b"") for _ in range(20)]
            assert len({(await delivery).partition for delivery in deliveries}) == 1


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"partitioner": "murmur3"}, "partitioner='murmur3': expected 'default' or 'murmur2_random'"),
        ({"partitioner": 5}, "partitioner=5: expected a callable, or one of 'default', 'murmur2_random'"),
        ({"partitioner": "murmur2", "partitioner_ignore_keys": True}, "is for the default partitioner"),
        ({"partitioner_ignore_keys": "yes"}, "partitioner_ignore_keys='yes': expected True or False"),
        ({"partitioner_rack_aware": True}, "partitioner_rack_aware=True needs client_rack"),
        ({"partitioner_availability_timeout_ms": -1}, "partitioner_availability_timeout_ms=-1"),
        ({"client_rack": None}, "client_rack=None: expected text"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        Producer(bootstrap_servers="a:1", **options)  # type: ignore[arg-type]


def test_every_name_makes_a_producer() -> None:
    for name in get_args(PartitionerName):
        Producer(bootstrap_servers="a:1", partitioner=name)
