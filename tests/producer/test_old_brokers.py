"""Producing to brokers before Kafka 0.11: formats, no idempotence, and what is refused before anything is sent."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from aiokproto.error_codes import ErrorCode
from aiokproto.errors import KafkaError, UnsupportedVersionError
from aiokproto.interceptors import Interceptor, OutgoingRecord
from aiokproto.net.versions import BrokerVersions
from aiokproto.producer import Producer, ProducerRecord
from aiokproto.records import BatchBuilder, BatchRecord, Compression, decode
from aiokproto.types import Header
from tests.producer.fake import FakeCluster, Make

CODECS = ["none", "gzip", "snappy", "lz4"]
BIG = bytes(100_000)


def old(magic: int, **options: Any) -> FakeCluster:
    fake = FakeCluster(**options)
    fake.produce_version = magic + 1
    fake.idempotence = False
    return fake


def sets(fake: FakeCluster) -> list[bytes]:
    """Return the message set of each batch that was sent."""
    return [
        bytes(data.records)
        for _, request in fake.requests
        for topic in request.topic_data
        for data in topic.partition_data
        if data.records is not None
    ]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", CODECS)
async def test_batches_are_message_sets_of_the_brokers_format(make: Make, magic: int, codec: str) -> None:
    fake = old(magic)
    values = [b"%d" % number for number in range(100)]
    async with make(fake, compression_type=codec, linger_ms=5) as producer:
        results = await producer.send_many("flights", [*values, BIG])
        assert [result.offset for result in results] == list(range(101))  # type: ignore[union-attr]
    assert fake.logs[0].values == [*values, BIG]
    found = [batch for data in sets(fake) for batch in decode(data)]
    assert {batch.magic for batch in found} == {magic}
    assert {batch.compression for batch in found} == {Compression.parse(codec)}
    times = {record.timestamp for batch in found for record in batch}
    assert times == {-1} if magic == 0 else min(times) > 1_600_000_000_000


async def test_a_compressed_set_of_magic_1_has_relative_offsets(make: Make) -> None:
    fake = old(1)
    async with make(fake, compression_type="gzip", linger_ms=5) as producer:
        await producer.send_many("flights", [b"0", b"1", b"2"])
    (data,) = sets(fake)
    assert int.from_bytes(data[:8], "big") == 2
    assert [record.offset for batch in decode(data) for record in batch] == [0, 1, 2]


async def test_idempotence_is_off_by_default_and_one_line_says_so(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    fake = old(1)
    with caplog.at_level(logging.WARNING):
        async with make(fake) as producer:
            await producer.send("flights", b"0")
            assert producer.config.idempotent is False
    assert [record.message for record in caplog.records] == [
        "the brokers have no idempotence, which needs Kafka 0.11: a retry can write a record twice"
    ]


async def test_idempotence_that_was_demanded_is_an_error(make: Make) -> None:
    text = r"idempotence needs Kafka 0\.11 or later.*is like Kafka.*leave enable_idempotence at its default"
    with pytest.raises(UnsupportedVersionError, match=text):
        async with make(old(1), enable_idempotence=True):
            raise AssertionError


async def test_transactions_are_an_error(make: Make) -> None:
    with pytest.raises(UnsupportedVersionError, match=r"transactions need Kafka 0\.11 or later"):
        async with make(old(1), transactional_id="t"):
            raise AssertionError


@pytest.mark.parametrize("version", [1, 6])
async def test_zstd_is_an_error_before_its_release(make: Make, version: int) -> None:
    fake = FakeCluster()
    fake.produce_version = version
    with pytest.raises(UnsupportedVersionError, match=r"zstd needs Kafka 2\.1 or later.*choose another"):
        async with make(fake, compression_type="zstd"):
            raise AssertionError


async def test_one_batch_of_a_partition_is_in_flight_so_that_a_retry_keeps_the_order(make: Make) -> None:
    fake = old(1)
    fake.fail_next(ErrorCode.NOT_ENOUGH_REPLICAS)
    values = [b"%d" % number for number in range(20)]
    async with make(fake, batch_size=1) as producer:
        assert not [one for one in await producer.send_many("flights", values) if isinstance(one, KafkaError)]
    assert fake.logs[0].values == values


async def test_headers_are_refused_by_the_call(make: Make) -> None:
    fake = old(1)
    async with make(fake) as producer:
        calls = (
            producer.send("flights", b"0", headers=[("a", b"b")]),
            producer.post("flights", b"0", headers=[("a", b"b")]),
        )
        for call in calls:
            with pytest.raises(UnsupportedVersionError, match=r"headers of records need Kafka 0\.11 or later"):
                await call
        with pytest.raises(UnsupportedVersionError, match="headers"):
            producer.try_post("flights", b"0", headers=[("a", b"b")])
        assert (await producer.send("flights", b"1", timestamp=1_700_000_000_000)).offset == 0
    assert fake.logs[0].values == [b"1"]


async def test_headers_of_an_interceptor_are_refused_too(make: Make) -> None:
    class Tracing(Interceptor):
        def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
            return replace(record, headers=[("traceparent", b"00")])

    async with make(old(1), interceptors=Tracing()) as producer:
        with pytest.raises(UnsupportedVersionError, match="headers of records"):
            await producer.send("flights", b"0")


async def test_headers_with_serializers_are_refused_too(make: Make) -> None:
    async with make(old(1), value_serializer=str.encode) as producer:
        with pytest.raises(UnsupportedVersionError, match="headers of records"):
            await (await producer.post("flights", "0", headers=[("a", b"b")]))  # type: ignore[arg-type]


@pytest.mark.parametrize("magic", [0, 1])
async def test_records_with_serializers_are_written(make: Make, magic: int) -> None:
    fake = old(magic)
    async with make(fake, value_serializer=str.encode) as producer:
        await producer.send("flights", "0")  # type: ignore[arg-type]
        await (await producer.post("flights", "1"))  # type: ignore[arg-type]
        await producer.try_post("flights", "2")  # type: ignore[arg-type]
        await producer.send_many("flights", ["3", ProducerRecord("4")])  # type: ignore[list-item, arg-type]
    assert fake.logs[0].values == [b"0", b"1", b"2", b"3", b"4"]


async def test_timestamps_are_refused_where_the_broker_has_none(make: Make) -> None:
    fake = old(0)
    async with make(fake) as producer:
        with pytest.raises(UnsupportedVersionError, match=r"timestamps of records need Kafka 0\.10\.0 or later"):
            await producer.send("flights", b"0", timestamp=1)
        await producer.send("flights", b"1")
    assert fake.logs[0].values == [b"1"]


async def test_a_table_with_headers_or_timestamps_is_refused_before_a_row_is_buffered(make: Make) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    header = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))
    fake = old(0)
    async with make(fake) as producer:
        for column, text in (
            ({"headers": pyarrow.array([[("a", b"b")], None], header)}, r"headers of records need Kafka 0\.11"),
            ({"timestamp": pyarrow.array([None, 1_700_000_000_000])}, r"timestamps of records need Kafka 0\.10"),
        ):
            outcomes = await producer.send_many("flights", pyarrow.table({"value": [b"0", b"1"], **column}))
            assert [type(error) for error in outcomes.errors.values()] == [UnsupportedVersionError] * 2
            assert re.search(text, str(outcomes.errors[0]))
        nothing = {"headers": pyarrow.array([[], None], header), "timestamp": pyarrow.nulls(2, pyarrow.int64())}
        assert not (await producer.send_many("flights", pyarrow.table({"value": [b"2", b"3"], **nothing}))).errors
    assert fake.logs[0].values == [b"2", b"3"]


@pytest.mark.parametrize("version", [1, 6])
async def test_an_encoded_batch_with_zstd_is_refused_by_the_call(make: Make, version: int) -> None:
    fake = FakeCluster()
    fake.produce_version = version
    fake.idempotence = version > 2
    async with make(fake) as producer:
        text = r"zstd needs Kafka 2\.1 or later.*is like Kafka.*send its records with send_many"
        with pytest.raises(UnsupportedVersionError, match=text):
            await producer.post_batch("flights", encoded("zstd"), partition=0)
    assert not fake.logs[0].values


async def test_an_encoded_batch_with_headers_is_refused_by_the_call(make: Make) -> None:
    fake = old(1)
    async with make(fake) as producer:
        text = r"headers of records need Kafka 0\.11 or later.*is like Kafka 0\.10\.2"
        with pytest.raises(UnsupportedVersionError, match=text):
            await producer.post_batch("flights", encoded("gzip", headers=[("a", b"b")]), partition=0)
    assert not fake.logs[0].values


def encoded(codec: str, headers: Sequence[Header] = ()) -> bytes:
    builder = BatchBuilder(compression=codec)
    builder.append(1_700_000_000_000, b"k", b"v", headers)
    return bytes(builder.close())


class Mixed(FakeCluster):
    """A cluster that is being upgraded: broker 0 is new, the others are old."""

    magic = 1

    def versions_of(self, node: int) -> BrokerVersions:
        return self.versions if node == 0 else old(self.magic).versions


async def test_a_leader_older_than_the_broker_that_was_seen_gets_its_format(make: Make) -> None:
    fake = Mixed(partitions=2, nodes=2)
    async with make(fake, enable_idempotence=False, compression_type="gzip") as producer:
        await producer.send("flights", b"new", partition=0)
        await producer.send("flights", b"old", partition=1)
        text = (
            r"1 record for flights-1: headers of records need Kafka 0\.11 or later.*the leader.*is like Kafka 0\.10\.2"
        )
        with pytest.raises(UnsupportedVersionError, match=text):
            await producer.send("flights", b"2", partition=1, headers=[("a", b"b")])
        # The sink goes on.
        text = r"1 record for flights-1: compression with zstd needs Kafka 2\.1 or later"
        with pytest.raises(UnsupportedVersionError, match=text):
            await producer.send_batch("flights", encoded("zstd"), partition=1)
        await producer.send("flights", b"3", partition=1)
    assert [log.values for log in fake.logs] == [[b"new"], [b"old", b"3"]]
    assert [next(decode(data)).magic for data in sets(fake)] == [2, 1, 1]


@pytest.mark.parametrize("magic", [0, 1])
async def test_a_batch_that_moves_to_a_broker_of_another_release_is_converted_again(make: Make, magic: int) -> None:
    """Its records have their timestamps again, if the first broker could not store them."""
    fake = Mixed(partitions=1, nodes=2)
    fake.magic = magic
    fake.lead(1)
    gate = asyncio.Event()

    async def moved(node: int, request: Any) -> Any:
        fake.lead(1 - node)
        fake.answer = fake.append
        gate.set()
        return await fake.append(node, request)

    fake.answer = moved
    async with make(fake, enable_idempotence=False) as producer:
        await producer.send("flights", b"0", timestamp=1_700_000_000_000)
    assert gate.is_set()
    assert [next(decode(data)).magic for data in sets(fake)] == [magic, 2]
    found = [record for data in sets(fake) for batch in decode(data) for record in batch]
    given = 1_700_000_000_000
    assert [record.timestamp for record in found] == [given if magic else -1, given]


async def test_the_halves_of_a_split_batch_keep_their_timestamps(make: Make) -> None:
    fake = Mixed(partitions=1, nodes=2)
    fake.magic = 0
    fake.lead(1)

    fake.fail_next(ErrorCode.MESSAGE_TOO_LARGE)
    refuse = fake.answer

    async def refused(node: int, request: Any) -> Any:
        response = await refuse(node, request)
        if node:
            fake.lead(0)
        return response

    fake.answer = refused
    given = 1_700_000_000_000
    async with make(fake, enable_idempotence=False, linger_ms=5) as producer:
        records = [ProducerRecord(b"%d" % number, timestamp=given + number) for number in range(2)]
        assert not (await producer.send_many("flights", records, partition=0)).errors
    assert [next(decode(data)).magic for data in sets(fake)] == [0, 2, 2]
    found = [record.timestamp for data in sets(fake)[1:] for batch in decode(data) for record in batch]
    assert found == [given, given + 1]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, r"idempotence needs.*while the cluster has such brokers"),
        ({"enable_idempotence": False, "compression_type": "zstd"}, r"compression with zstd needs Kafka 2\.1"),
    ],
)
async def test_an_older_leader_refuses_what_the_producer_was_started_with_until_it_is_upgraded(
    make: Make, options: Any, text: str
) -> None:
    fake = Mixed(partitions=2, nodes=2)
    async with make(fake, **options) as producer:
        for _ in range(2):
            with pytest.raises(UnsupportedVersionError, match=text):
                await producer.send("flights", b"old", partition=1)
            await producer.send("flights", b"new", partition=0)
        fake.versions_of = lambda node: fake.versions  # type: ignore[method-assign]
        fake.reported.clear()
        await producer.send("flights", b"upgraded", partition=1)
    assert [log.values for log in fake.logs] == [[b"new", b"new"], [b"upgraded"]]


@pytest.mark.parametrize("acks", ["all", 0])
async def test_a_broker_that_comes_back_with_another_release_gets_its_format(make: Make, acks: Any) -> None:
    """Also if something else than a batch has made the connection: then no request of the sink has failed."""
    fake = FakeCluster()
    async with make(fake, enable_idempotence=False, acks=acks) as producer:
        for produce_version in (12, 2, 12, 1):
            fake.produce_version = produce_version
            fake.reported.clear()
            await fake.broker_versions(0)
            await producer.send("flights", b"%d" % produce_version)
    assert [next(decode(data)).magic for data in sets(fake)] == [2, 1, 2, 0]
    assert fake.logs[0].values == [b"12", b"2", b"12", b"1"]


async def test_a_batch_that_is_too_large_is_split_in_its_format(make: Make) -> None:
    fake = old(1)
    fake.fail_next(ErrorCode.MESSAGE_TOO_LARGE)
    async with make(fake, compression_type="gzip", linger_ms=5) as producer:
        await producer.send_many("flights", [b"0", b"1", b"2", b"3"])
    assert fake.logs[0].values == [b"0", b"1", b"2", b"3"]
    assert {batch.magic for data in sets(fake) for batch in decode(data)} == {1}


async def test_an_encoded_batch_is_converted(make: Make) -> None:
    fake = old(1)
    builder = BatchBuilder(compression="gzip")
    builder.append(1_700_000_000_000, b"k", b"v", ())
    async with make(fake) as producer:
        await producer.send_batch("flights", bytes(builder.close()), partition=0)
    assert [record for data in sets(fake) for batch in decode(data) for record in batch] == [
        BatchRecord(0, 1_700_000_000_000, b"k", b"v")
    ]


async def test_acks_0_gets_the_format_too(make: Make) -> None:
    fake = old(0)
    async with make(fake, acks=0) as producer:
        await producer.send("flights", b"0")
    assert fake.logs[0].values == [b"0"]


def test_a_producer_knows_its_options_before_it_starts() -> None:
    assert Producer(bootstrap_servers="127.0.0.1:9").config.idempotent
