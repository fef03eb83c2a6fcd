"""A record set is divided into chunks that are quickly decoded, without losing or repeating a batch."""

from __future__ import annotations

import random
import struct
from itertools import pairwise
from typing import Any

import pytest

from aiokproto.codec.messages.fetch import AbortedTransaction
from aiokproto.consumer.assignment import Assignment
from aiokproto.consumer.buffer import RecordBuffer
from aiokproto.consumer.damage import locate
from aiokproto.errors import CorruptBatchError, CorruptRecordError
from aiokproto.fetched.chunk import (
    MAX_BATCHES,
    MAX_WORK,
    BufferedBytes,
    Chunk,
    chunks,
    expected_size,
    read_or_open,
    record_count,
)
from aiokproto.records import BatchBuilder, BatchRecord, Compression, LegacyBatch, RecordBatch, decode, encode
from aiokproto.records.control import encode_end_transaction
from aiokproto.types import TopicPartition
from tests.consumer.parts import EngineStub
from tests.decompressions import count_decompressions

AT = TopicPartition("t", 0)
NOISE = random.Random(1).randbytes(300 * 1024)


def batch(base: int, *values: bytes, producer_id: int = -1, compression: Compression = Compression.NONE) -> bytes:
    transactional = producer_id >= 0
    builder = BatchBuilder(
        producer_id=producer_id, producer_epoch=0, is_transactional=transactional, compression=compression
    )
    for value in values:
        builder.append(0, None, value)
    return bytes(builder.close(base_offset=base))


def abort(base: int, producer_id: int) -> bytes:
    return bytes(
        encode_end_transaction(
            committed=False,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=0,
            base_offset=base,
        )
    )


def bases(found: list[Chunk]) -> list[int]:
    return [one.base_offset for chunk in found for one in chunk.batches]


def cut(data: bytes, position: int = 0, aborted: list[AbortedTransaction] | None = None) -> list[Chunk]:
    return list(chunks(AT, position, memoryview(data), aborted or []))


@pytest.mark.parametrize("count", [1, MAX_BATCHES - 1, MAX_BATCHES, MAX_BATCHES + 1, 3 * MAX_BATCHES])
@pytest.mark.parametrize("position", [0, 5])
def test_many_small_batches(count: int, position: int) -> None:
    found = cut(b"".join(batch(base, b"x") for base in range(position + count)), position)
    assert bases(found) == list(range(position, position + count))
    assert max(len(chunk.batches) for chunk in found) <= MAX_BATCHES
    assert [chunk.end for chunk in found[:-1]] == [chunk.position for chunk in found[1:]]
    assert (found[0].position, found[-1].end) == (position, position + count)
    assert [chunk.size for chunk in found] == [sum(one.size_in_bytes for one in chunk.batches) for chunk in found]


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_a_compressed_batch_counts_with_its_decompressed_size(compression: Compression) -> None:
    """The limit applies to the decompressed size."""
    noise = [bytes((7 * index * step) % 251 for index in range(1 << 14)) for step in range(1, 25)]
    data = b"".join(batch(base, value * 20, compression=compression) for base, value in enumerate(noise))
    found = cut(data)
    assert bases(found) == list(range(len(noise)))
    for chunk in found:
        sizes = [expected_size(one) for one in chunk.batches]
        assert sum(sizes[:-1]) < MAX_WORK
    assert all(sum(map(expected_size, chunk.batches)) >= MAX_WORK for chunk in found[:-1])


@pytest.mark.parametrize(
    ("value", "quick"),
    [(b"", True), (random.Random(1).randbytes(48 * 1024), True), (NOISE, False), (bytes(200 * 1024), True)],
    ids=["empty", "small", "large", "large when decompressed"],
)
@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.LZ4])
def test_a_checksum_is_compared_once(
    monkeypatch: pytest.MonkeyPatch, compression: Compression, magic: int, value: bytes, quick: bool
) -> None:
    compared: list[RecordBatch] = []
    monkeypatch.setattr(RecordBatch, "validate", lambda one: compared.append(one))
    monkeypatch.setattr(LegacyBatch, "validate", lambda one: compared.append(one))
    data = encode([BatchRecord(0, 0, None, value)], magic=magic, compression=compression)
    [found] = decode(data, check_crc=False)
    opened = read_or_open(found, AT, 0, True)
    if not isinstance(opened, list):
        assert opened.is_quick() is quick
        opened = opened.read()
    assert [record.value for record in opened] == [value]
    assert compared == [found]


def test_an_aborted_transaction_is_left_out_of_every_chunk() -> None:
    """Producer 1 aborts a transaction that starts in the first chunk and ends in the last. Later it starts another
    one."""
    last = 2 * MAX_BATCHES
    data = b"".join(batch(base, b"x", producer_id=1 if base in (3, last + 10) else -1) for base in range(last + 20))
    data += abort(last + 20, 1) + batch(last + 21, b"x", producer_id=1)
    found = cut(data, 0, [AbortedTransaction(producer_id=1, first_offset=3)])
    assert bases(found) == [base for base in range(last + 22) if base not in (3, last + 10, last + 20)]


def test_damage_is_reported_after_the_good_records() -> None:
    count = 2 * MAX_BATCHES + 1
    bad = bytearray(batch(count, b"x"))
    bad[16] = 9
    found = cut(b"".join(batch(base, b"x") for base in range(count)) + bytes(bad))
    assert bases(found) == list(range(count))
    assert [chunk.damage is None for chunk in found] == [True] * (len(found) - 1) + [False]
    assert all(first.end == second.position for first, second in pairwise(found))


@pytest.mark.parametrize("check_crc", [True, False])
def test_damage_does_not_hide_a_batch(check_crc: bool) -> None:
    """A wrong bit in its attributes makes it a control batch, which the client wouldn't open."""
    hidden = bytearray(batch(1, b"x"))
    hidden[22] ^= 0x20
    data = memoryview(batch(0, b"x") + hidden + batch(2, b"x"))
    [chunk] = chunks(AT, 0, data, [], check_crc=check_crc)
    assert bases([chunk]) == ([0, 1, 2] if check_crc else [0, 2])


def test_an_empty_record_set_is_one_empty_chunk() -> None:
    [chunk] = cut(b"")
    assert (chunk.exhausted, chunk.position, chunk.end) == (True, 0, 0)


def test_a_paused_partition_keeps_no_more_than_its_own_records() -> None:
    answer = bytearray(1 << 20)
    first, second = batch(0, b"a"), batch(1, b"b", compression=Compression.GZIP)
    answer[1000 : 1000 + len(first + second)] = first + second
    part = memoryview(answer)[1000 : 1000 + len(first + second)]
    engine: Any = EngineStub()
    assignment = Assignment(engine)
    assignment.add([AT], 0)
    cursor = assignment.get(AT)
    cursor.set_position(0)
    supply = BufferedBytes()

    def alive() -> int:
        buffers = [it.raw.obj for chunk in cursor.buffer.chunks for it in chunk.batches]
        return sum({id(buffer): memoryview(buffer).nbytes for buffer in buffers}.values())

    cursor.received(next(chunks(AT, 0, part, [])), supply)
    assert alive() == len(answer)
    assignment.pause([AT], True)
    assert alive() == len(first + second)
    assignment.seek(AT, 0)
    cursor.received(next(chunks(AT, 0, part, [])), supply)  # was in flight when it was paused
    assert alive() == len(first + second)
    values = [record.value for it in cursor.buffer.chunks[0].batches for record in it]
    assert values == [b"a", b"b"]


@pytest.mark.parametrize("magic", [1, 2])
@pytest.mark.parametrize("high_watermark", [-1, 9])
def test_a_batch_whose_offset_is_the_last_number_stops_its_partition_only(magic: int, high_watermark: int) -> None:
    """No checksum covers it. The position behind it would be no offset, and no request could name it."""
    last = bytearray(encode([BatchRecord(0, 0, None, b"v")], magic=magic))
    struct.pack_into(">q", last, 0, 2**63 - 1)
    [found] = cut(batch(0, b"a", b"b") + bytes(last) + batch(3, b"d"))
    assert (bases([found]), found.end) == ([0], 2)
    assert isinstance(found.damage, CorruptRecordError)
    buffer = RecordBuffer()
    buffer.restart(0)
    buffer.put(found)
    buffer.take(1)
    assert buffer.end == 2
    located = locate(AT, buffer, high_watermark, found.damage)
    # Its end isn't known, so the client doesn't guess it.
    assert located in ("refetch", None)


@pytest.mark.parametrize("magic", [0, 1])
def test_records_are_counted_without_decompressing_them(monkeypatch: pytest.MonkeyPatch, magic: int) -> None:
    old = [BatchRecord(0, 1, None, b"v")] * 4
    data = (
        encode(old, magic=magic, compression="gzip", base_offset=0)
        + encode(old, magic=magic, base_offset=4)
        + batch(8, b"a", b"b")
        + encode(old, magic=magic, compression="gzip", base_offset=12)
    )
    calls = count_decompressions(monkeypatch)
    found = list(decode(data))
    # The first set was fetched from its middle on, so only its rest counts. The gap in the log counts with the set
    # behind it.
    assert [record_count(found, position) for position in (0, 3)] == [4 + 4 + 2 + 6, 1 + 4 + 2 + 6]
    # The response of a hostile broker doesn't make the count negative.
    assert record_count([found[0]], 100) == 0
    assert calls == []


def test_what_follows_a_damaged_message_set_is_found_without_decompressing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytearray(encode([BatchRecord(0, 1, None, b"v")] * 4, magic=1, compression="gzip", base_offset=0))
    data[-1] ^= 1
    behind = bytearray(batch(6, b"a"))
    behind[16] = 9
    calls = count_decompressions(monkeypatch)
    (chunk,) = cut(bytes(data + behind))
    buffer = RecordBuffer()
    buffer.end = 0
    buffer.chunks.append(chunk)
    located = locate(AT, buffer, 100, CorruptRecordError("its checksum"))
    assert isinstance(located, CorruptBatchError)
    assert (located.next_offset, calls) == (6, [])


def test_a_record_whose_offset_is_out_of_order_is_not_dropped_with_those_before_the_position() -> None:
    """Something damaged the batch before its checksum was computed. Java compares each offset, too."""
    data = bytearray(batch(0, b"a", b"b", b"c", b"d", b"e"))
    # Record 1 gets the offset 9: its delta is a zigzag varint behind length, attributes and timestamp delta.
    second = data.index(b"\x02b") - 2
    assert data[second] == 2
    data[second] = 18
    (stored,) = decode(bytes(data), check_crc=False)
    found = read_or_open(stored, TopicPartition("t", 0), 4, check_crcs=False)
    assert isinstance(found, list)
    assert [(record.offset, record.value) for record in found] == [(9, b"b"), (4, b"e")]
