"""Batches that have to be opened: the event loop does not wait for them, and appends keep their order."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiokproto.broker import Broker, Cluster
from aiokproto.broker.config.options import BrokerOptions, TopicOptions
from aiokproto.broker.groups.records import encode_group_key
from aiokproto.broker.log.conversion import downgrade
from aiokproto.broker.log.stored import first_at_time
from aiokproto.broker.log.validation import check_records, is_quick
from aiokproto.broker.metadata.internal_topics import _records
from aiokproto.broker.share.records import SharePartitionKey, Snapshot
from aiokproto.broker.share.records import encode_key as encode_share_key
from aiokproto.broker.transactions.records import encode_key as encode_transactional_id
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from aiokproto.codec.messages.produce import ProduceResponse
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.records import BatchBuilder, BatchRecord, Compression, decode, encode
from aiokproto.records.patch import update_crc
from tests.broker.gate import Gate
from tests.broker.wire import NOW, Wire, batch, connect, fetch_request, produce, produce_request, records_of


def packed(value: bytes, timestamp: int = NOW) -> bytes:
    builder = BatchBuilder(compression="gzip")
    builder.append(timestamp, b"key", value)
    return bytes(builder.close())


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch, "aiokproto.broker.handlers.produce.check_records", check_records)


async def answer(wire: Wire) -> tuple[int, int]:
    """The error and base offset in the response to a Produce request of version 12."""
    frame = await wire.frame()
    (one,) = ProduceResponse.decode(frame[5:], 12).responses[0].partition_responses
    return one.error_code, one.base_offset


async def test_what_a_batch_is_opened_for_happens_while_others_are_served(gate: Gate) -> None:
    async with Broker() as broker, connect(broker) as first, connect(broker) as second, connect(broker) as third:
        await broker.create_topic("t", 2, config={"cleanup.policy": "compact", "compression.type": "lz4"})
        await broker.create_topic("other")
        first.send(produce_request("t", packed(b"a")), 12)
        await gate.wait()
        # A small batch, which would be quick, waits behind it.
        builder = BatchBuilder(compression="lz4")
        builder.append(NOW, b"key", b"b")
        second.send(produce_request("t", bytes(builder.close())), 12)
        assert (await third.ask(ApiVersionsRequest(), 0)).error_code == 0
        assert (await produce(third, "other", batch([b"c"]))).base_offset == 0
        gate.is_open.set()
        assert [await answer(wire) for wire in (first, second)] == [(0, 0), (0, 1)]
        found = records_of(await third.ask(fetch_request("t"), 12))
        assert [record.value for record in found] == [b"a", b"b"]
        assert gate.in_threads == 2
        # The order holds again without any thread.
        small = BatchBuilder()
        small.append(NOW, b"key", b"d")
        assert (await produce(third, "t", bytes(small.close()))).base_offset == 2
        assert gate.in_threads == 2


async def refuse(cluster: Cluster) -> None:
    await cluster.move_leader("t", 0, 1)


async def delete(cluster: Cluster) -> None:
    state = cluster._running.state
    state.delete_topic(state.topics["t"])


@pytest.mark.parametrize(
    ("change", "error"),
    [(refuse, ErrorCode.NOT_LEADER_OR_FOLLOWER), (delete, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)],
)
async def test_what_changed_while_a_batch_was_opened_is_seen(
    gate: Gate, change: Callable[..., Any], error: int
) -> None:
    async with Cluster(2, auto_create_topics=False) as cluster, connect(cluster, 0) as wire:
        await cluster.create_topic("t", replication=2, config={"compression.type": "lz4"})
        await cluster.move_leader("t", 0, 0)
        wire.send(produce_request("t", packed(b"a")), 12)
        await gate.wait()
        await change(cluster)
        gate.is_open.set()
        assert (await answer(wire))[0] == error


async def test_a_broker_that_stops_leaves_no_thread_and_serves_others_until_then(gate: Gate) -> None:
    before = set(threading.enumerate())
    async with Broker() as broker, Broker() as other, connect(broker) as wire, connect(other) as served:
        await broker.create_topic("t", config={"compression.type": "lz4"})
        wire.send(produce_request("t", packed(b"a")), 12)
        await gate.wait()
        closing = asyncio.create_task(broker.close())
        assert await wire.closed()
        assert (await served.ask(ApiVersionsRequest(), 0)).error_code == 0
        assert not closing.done()
        gate.is_open.set()
        await closing
        left = set(threading.enumerate()) - before
        assert not [thread for thread in left if thread.name.startswith("aiokproto-broker_")]


def by_time(timestamp: int) -> ListOffsetsRequest:
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[partition])])


async def offset_of(wire: Wire) -> tuple[int, int]:
    """The error and offset in the response to a ListOffsets request of version 6."""
    frame = await wire.frame()
    (one,) = ListOffsetsResponse.decode(frame[5:], 6).topics[0].partitions
    return one.error_code, one.offset


@pytest.fixture
def searching(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch, "aiokproto.broker.opening.first_at_time", first_at_time)


@pytest.mark.parametrize("timestamp", [NOW + 1, -3])
async def test_a_batch_is_searched_for_a_time_while_others_are_served(searching: Gate, timestamp: int) -> None:
    async with Broker() as broker, connect(broker) as first, connect(broker) as second:
        await broker.create_topic("t")
        await produce(
            first, "t", bytes(encode([BatchRecord(0, NOW + at, None, b"v") for at in (0, 1)], compression="gzip"))
        )
        first.send(by_time(timestamp), 7)
        await searching.wait()
        assert (await second.ask(ApiVersionsRequest(), 0)).error_code == 0
        searching.is_open.set()
        assert await offset_of(first) == (0, 1)
        assert searching.in_threads == 1


async def test_a_small_batch_is_searched_at_once(searching: Gate, wire: Wire) -> None:
    await produce(wire, "t", batch([b"v"]))
    assert (await wire.ask(by_time(NOW), 6)).topics[0].partitions[0].offset == 0
    assert not searching.in_threads


async def test_a_topic_that_is_deleted_while_it_is_searched_is_an_error(searching: Gate) -> None:
    async with Broker(auto_create_topics=False) as broker, connect(broker) as wire:
        await broker.create_topic("t")
        # Neither has a record at that time, whatever the headers say.
        for _ in range(2):
            data = bytearray(packed(b"v"))
            struct.pack_into(">q", data, 35, NOW + 10)
            update_crc(data)
            await produce(wire, "t", bytes(data))
        wire.send(by_time(NOW + 5), 6)
        await searching.wait()
        await delete(broker)
        searching.is_open.set()
        assert (await offset_of(wire))[0] == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize(
    ("topic", "key"),
    [
        ("__consumer_offsets", encode_group_key("g")),
        ("__transaction_state", encode_transactional_id("t")),
        ("__share_group_state", encode_share_key(SharePartitionKey("g", bytes(16), 0), Snapshot)),
    ],
)
@pytest.mark.parametrize("cancelled", [False, True])
async def test_what_coordinators_have_stored_is_read_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, topic: str, key: bytes, cancelled: bool
) -> None:
    async with Broker(data_dir=tmp_path) as broker:
        broker._running.state.internal_topic(topic)
        stored = encode([BatchRecord(0, NOW, key, None)], compression="gzip")
        broker._running.state.partition(topic, 0).append(stored, NOW)
    reading = Gate(monkeypatch, "aiokproto.broker.metadata.internal_topics._records", _records)
    again = Broker(data_dir=tmp_path)
    starting = asyncio.ensure_future(again.start())
    await reading.wait()
    if cancelled:
        starting.cancel()
        reading.is_open.set()
        with pytest.raises(asyncio.CancelledError):
            await starting
        return
    reading.is_open.set()
    await starting
    assert reading.in_threads == 1
    await again.close()


async def test_what_coordinators_have_stored_in_few_bytes_is_read_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with Broker(data_dir=tmp_path) as broker:
        broker._running.state.internal_topic("__consumer_offsets")
        stored = encode([BatchRecord(0, NOW, encode_group_key("g"), None)])
        broker._running.state.partition("__consumer_offsets", 0).append(stored, NOW)
    reading = Gate(monkeypatch, "aiokproto.broker.metadata.internal_topics._records", _records)
    async with Broker(data_dir=tmp_path):
        assert not reading.in_threads


LARGE = bytes(batch([bytes(40_000)]))


@pytest.mark.parametrize(
    ("configs", "data", "quick"),
    [
        ({}, packed(b"v"), True),
        ({}, LARGE, True),
        ({"cleanup.policy": "compact"}, packed(b"v"), False),
        ({"cleanup.policy": "compact,delete"}, LARGE, False),
        ({"cleanup.policy": "compact"}, batch([b"v"]), True),
        ({"compression.type": "gzip"}, packed(b"v"), True),
        ({"compression.type": "lz4"}, packed(b"v"), False),
        ({"compression.type": "uncompressed"}, LARGE, True),
        ({"compression.type": "uncompressed"}, packed(b"v"), False),
        ({"compression.type": "zstd"}, LARGE, False),
        ({"message.timestamp.after.max.ms": "5"}, packed(b"v", NOW + 5), True),
        ({"message.timestamp.after.max.ms": "5"}, packed(b"v", NOW + 6), False),
        ({"message.timestamp.before.max.ms": "5"}, packed(b"v"), False),
        ({"message.timestamp.before.max.ms": "5", "message.timestamp.type": "LogAppendTime"}, packed(b"v"), True),
        # These are refused by their headers.
        ({"cleanup.policy": "compact"}, b"", True),
        ({"cleanup.policy": "compact"}, LARGE[:40], True),
        ({"cleanup.policy": "compact"}, LARGE[:16] + b"\1" + LARGE[17:], True),
        ({"cleanup.policy": "compact"}, LARGE[:8] + b"\xff" + LARGE[9:], True),
        ({"compression.type": "lz4"}, LARGE[:22] + b"\7" + LARGE[23:], False),
    ],
)
def test_only_a_batch_that_is_opened_and_may_become_large_is_for_a_thread(
    configs: dict[str, str], data: bytes, quick: bool
) -> None:
    assert is_quick(data, TopicOptions(configs, BrokerOptions({})), 9, NOW) is quick


def test_messages_of_old_formats_are_for_a_thread() -> None:
    options = TopicOptions({}, BrokerOptions({}))
    data = encode([BatchRecord(0, NOW, None, b"v")], magic=1)
    assert not is_quick(data, options, 2, NOW)
    assert is_quick(b"", options, 2, NOW)


@pytest.mark.parametrize("version", [2, 3])
async def test_a_codec_that_does_not_exist_is_refused(wire: Wire, broker: Broker, version: int) -> None:
    data = bytearray(encode([BatchRecord(0, NOW, None, b"v")], magic=1 if version == 2 else 2))
    if version == 2:
        data = bytearray(encode([BatchRecord(0, NOW, None, b"v")], magic=1, compression="gzip"))
    await broker.create_topic("compressed", config={"compression.type": "gzip"})
    at = 17 if version == 2 else 22
    data[at] = 7
    error = (await produce(wire, "compressed", bytes(data), version=version)).error_code
    assert error in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


async def test_a_partition_with_many_batches_is_refused_after_the_second(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[object] = []

    def counted(*args: Any, **options: Any) -> Any:
        for each in decode(*args, **options):
            found.append(each)
            yield each

    monkeypatch.setattr("aiokproto.broker.log.validation.decode", counted)
    assert (await produce(wire, "t", batch([b"v"]) * 100)).error_code == ErrorCode.INVALID_RECORD
    assert len(found) == 2


# ---- conversion for old clients


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
def test_a_batch_becomes_several_message_sets_of_limited_size(
    version: int, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = encode([BatchRecord(0, NOW, None, b"%d" % number) for number in range(200)], compression=codec)
    monkeypatch.setattr("aiokproto.broker.log.conversion._SET_BYTES", 1000)
    offset, read = 0, list[tuple[int, bytes | None]]()
    while offset < 200:
        data = downgrade(stored, version, offset, 2500)
        found = [(record.offset, record.value) for each in decode(data) for record in each]
        assert 0 < len(found) < 120
        read += found
        offset = found[-1][0] + 1
    assert read == [(number, b"%d" % number) for number in range(200)]


@pytest.mark.parametrize("version", [0, 2])
def test_a_record_that_becomes_much_larger_than_it_is_stored_is_not_converted(version: int) -> None:
    stored = encode([BatchRecord(0, NOW, None, bytes(17 << 20))], compression=Compression.GZIP)
    with pytest.raises(BrokerError) as refused:
        downgrade(stored, version, 0)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_record_that_is_stored_in_as_many_bytes_is_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiokproto.broker.log.stored._MAX_RECORD_BYTES", 1000)
    stored = encode([BatchRecord(0, NOW, None, bytes(5000))])
    assert [len(record.value or b"") for one in decode(downgrade(stored, 2, 0)) for record in one] == [5000]


def test_a_record_larger_than_the_limit_is_converted_alone() -> None:
    stored = encode(
        [BatchRecord(0, NOW, None, bytes(size)) for size in (10, 3 << 20, 10)], compression=Compression.GZIP
    )
    assert [len(record.value or b"") for one in decode(downgrade(stored, 2, 1, 1)) for record in one] == [3 << 20]
