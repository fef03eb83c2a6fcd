"""Clients before 0.11: they produce and fetch message sets, whatever format the log has."""

from __future__ import annotations

import pytest

from aiokproto.broker import Broker
from aiokproto.codec.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from aiokproto.codec.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from aiokproto.codec.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.records import BatchBuilder, BatchRecord, RecordBatch, decode, encode
from tests.broker.wire import NOW, Wire

OLD = [(0, 0), (1, 0), (1, 1), (2, 1)]
"""Versions of Produce, each with a magic that it may carry."""


async def produce(wire: Wire, records: bytes, version: int) -> PartitionProduceResponse:
    data = [PartitionProduceData(index=0, records=records)]
    request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)])
    return (await wire.ask(request, version)).responses[0].partition_responses[0]


async def fetch(wire: Wire, version: int, offset: int = 0, limit: int = 1 << 20) -> tuple[int, bytes]:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=limit)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic="t", partitions=[partition])], forgotten_topics_data=[]
    )
    answer = (await wire.ask(request, version)).responses[0].partitions[0]
    return answer.error_code, bytes(answer.records or b"")


def rows(data: bytes) -> list[tuple[int, int, bytes | None, bytes | None]]:
    return [(each.offset, each.timestamp, each.key, each.value) for batch in decode(data) for each in batch]


def records(count: int = 3) -> list[BatchRecord]:
    return [BatchRecord(number, NOW + number, b"k%d" % number, b"v" * 50) for number in range(count)]


@pytest.mark.parametrize(("version", "magic"), OLD)
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
async def test_old_messages_become_one_batch(wire: Wire, version: int, magic: int, codec: str) -> None:
    sent = encode(records(), magic=magic, compression=codec) + encode(records(1), magic=magic)
    for base in (0, 4):
        answer = await produce(wire, sent, version)
        assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, base)
    _, stored = await fetch(wire, 4)
    batches = list(decode(stored))
    assert [(type(batch), batch.count, batch.compression.name.lower()) for batch in batches] == 2 * [
        (RecordBatch, 4, codec)
    ]
    times = [NOW, NOW + 1, NOW + 2, NOW] if magic else [-1] * 4
    assert rows(stored)[:4] == [
        (offset, time, b"k%d" % number, b"v" * 50)
        for offset, (time, number) in enumerate(zip(times, [0, 1, 2, 0], strict=True))
    ]


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
async def test_old_clients_get_old_messages(wire: Wire, version: int, magic: int, codec: str) -> None:
    builder = BatchBuilder(compression=RecordBatch(encode(records(), compression=codec)).compression)
    for record in records():
        builder.append(record.timestamp, record.key, record.value, [("lost", b"on the way")])
    await produce(wire, bytes(builder.close()), 3)
    await produce(wire, encode(records(1)), 3)
    for offset in (0, 1, 3):
        error, got = await fetch(wire, version, offset)
        assert error == ErrorCode.NONE
        assert {batch.magic for batch in decode(got)} == {magic}
        times = [NOW, NOW + 1, NOW + 2, NOW] if magic else [-1] * 4
        assert (
            rows(got) == list(zip(range(4), times, [b"k0", b"k1", b"k2", b"k0"], [b"v" * 50] * 4, strict=True))[offset:]
        )


async def test_offset_gaps_are_kept(broker: Broker, wire: Wire) -> None:
    """Compaction leaves gaps, and no other record may take the offset of a removed one."""
    keys = [b"a", b"b", b"a", b"c", b"c", b"d", b"e", b"a"]
    await produce(wire, encode([BatchRecord(0, NOW, key, b"v") for key in keys], compression="gzip"), 3)
    await broker.compact("t")
    for version in (0, 2):
        _, got = await fetch(wire, version)
        assert [(row[0], row[2]) for row in rows(got)] == [(1, b"b"), (4, b"c"), (5, b"d"), (6, b"e"), (7, b"a")]


@pytest.mark.parametrize("version", [0, 2, 3])
async def test_a_message_that_does_not_fit_is_truncated_for_old_clients(wire: Wire, version: int) -> None:
    """Before v3 (KIP-74) a client accepts no more than it requested. If it gets part of a message, it requests more."""
    await produce(wire, encode(records(1)), 3)
    _, got = await fetch(wire, version, limit=30)
    assert len(got) == 30 if version < 3 else rows(got)


async def test_zstd_is_refused_in_old_formats(wire: Wire) -> None:
    await produce(wire, encode(records(), compression="zstd"), 7)
    assert await fetch(wire, 3) == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, b"")
    error, got = await fetch(wire, 4)
    assert (error, len(rows(got))) == (ErrorCode.NONE, 3)


@pytest.mark.parametrize(
    ("data", "version", "code"),
    [
        (encode(records()), 2, ErrorCode.INVALID_RECORD),
        (encode(records(), magic=1), 3, ErrorCode.INVALID_RECORD),
        (encode(records(), magic=1)[:-1], 2, ErrorCode.CORRUPT_MESSAGE),
        (encode(records(), magic=1, compression="gzip")[:-5] + b"wrong", 2, ErrorCode.CORRUPT_MESSAGE),
        (b"", 2, ErrorCode.INVALID_RECORD),
    ],
    ids=["too new", "too old", "cut", "damaged", "nothing"],
)
async def test_invalid_message_sets_are_refused(wire: Wire, data: bytes, version: int, code: ErrorCode) -> None:
    assert (await produce(wire, data, version)).error_code == code


async def test_list_offsets_in_version_0(wire: Wire) -> None:
    for _ in range(3):
        await produce(wire, encode(records(2)), 3)

    async def ask(timestamp: int, number: int) -> list[int]:
        partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp, max_num_offsets=number)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[partition])])
        answer = (await wire.ask(request, 0)).topics[0].partitions[0]
        assert not answer.error_code
        return answer.old_style_offsets

    assert await ask(-1, 10) == [6, 0]
    assert await ask(-1, 1) == [6]
    assert await ask(-2, 10) == [0]
    assert await ask(1, 10) == []
