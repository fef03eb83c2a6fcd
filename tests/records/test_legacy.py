"""Message sets of magic 0 and 1: round trips, offsets and timestamps, truncation, damage, other readers and writers."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.errors import CorruptRecordError, InvalidRecordError, KafkaError, UnsupportedCompressionError
from aiokproto.records import (
    BatchRecord,
    Compression,
    LegacyBatch,
    LegacyBuilder,
    RecordBatch,
    decode,
    encode,
    first_batch_size,
)
from aiokproto.types import TimestampType
from tests.records.legacy_sets import message, wrapped
from tests.records.strategies import BASE_TIMESTAMP, payloads, simple_records, timestamps

CODECS = [codec for codec in Compression if codec is not Compression.ZSTD]
magics = st.sampled_from([0, 1])
codecs = st.sampled_from(CODECS)
rows = st.lists(st.tuples(timestamps, payloads, payloads), min_size=1, max_size=20)


def as_read(
    magic: int, base_offset: int, given_rows: list[tuple[int, bytes | None, bytes | None]]
) -> list[BatchRecord]:
    return [
        BatchRecord(base_offset + index, timestamp if magic else -1, key, value)
        for index, (timestamp, key, value) in enumerate(given_rows)
    ]


def read(data: bytes | bytearray, **options: Any) -> list[BatchRecord]:
    return [record for batch in decode(data, **options) for record in batch]


@st.composite
def message_sets(draw: st.DrawFn) -> bytes:
    magic, codec, base_offset = draw(magics), draw(codecs), draw(st.integers(0, 10_000))
    records = as_read(magic, base_offset, draw(rows))
    return encode(records, magic=magic, compression=codec, base_offset=base_offset)


@given(rows, magics, codecs, st.integers(0, 2**62))
def test_round_trip(
    given_rows: list[tuple[int, bytes | None, bytes | None]], magic: int, codec: Compression, base_offset: int
) -> None:
    records = as_read(magic, base_offset, given_rows)
    given_records = [BatchRecord(0, *row) for row in given_rows]
    data = encode(given_records, magic=magic, compression=codec, base_offset=base_offset)
    batches = list(decode(data))
    assert [record for batch in batches for record in batch] == records
    assert [record.offset for record in records] == [
        offset for batch in batches for offset in range(batch.base_offset, batch.next_offset)
    ]
    assert sum(map(len, batches)) == len(records)
    assert {(batch.magic, batch.compression) for batch in batches} == {(magic, codec)}
    assert max(batch.max_timestamp for batch in batches) == max(record.timestamp for record in records)
    assert b"".join(batch.raw for batch in batches) == data


@given(st.lists(message_sets(), max_size=3), st.data())
def test_a_set_cut_anywhere_gives_its_whole_messages(stored: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(stored)
    cut = data.draw(st.integers(0, len(whole)))
    every = [bytes(batch.raw) for batch in decode(whole)]
    expected = 0
    while expected < len(every) and len(b"".join(every[: expected + 1])) <= cut:
        expected += 1
    assert [bytes(batch.raw) for batch in decode(whole[:cut])] == every[:expected]


@given(message_sets(), st.integers(1, 255), st.data())
def test_one_changed_byte_is_found_by_the_checksum(stored: bytes, change: int, data: st.DataObject) -> None:
    """The checksum of every message covers everything but its offset."""
    first = first_batch_size(stored)
    assert first is not None
    damaged = bytearray(stored[:first])
    damaged[data.draw(st.integers(8, first - 1))] ^= change
    try:
        # A greater length reads as a message that was truncated.
        assert list(decode(damaged)) == []
    except CorruptRecordError:
        pass


@given(
    message_sets(),
    st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), min_size=1, max_size=5),
    st.booleans(),
)
def test_damage_raises_only_our_errors(stored: bytes, changes: list[tuple[int, int]], check_crc: bool) -> None:
    damaged = bytearray(stored)
    for position, byte in changes:
        damaged[position % len(damaged)] = byte
    try:
        for batch in decode(damaged, check_crc=check_crc, max_decompressed=1 << 20):
            list(batch)
            assert len(batch) >= 1
    except KafkaError:
        pass


@given(st.binary(max_size=200), st.integers(0, 7), magics, st.booleans())
def test_any_content_raises_only_our_errors(content: bytes, attributes: int, magic: int, nested: bool) -> None:
    """The checksums are right. The damage is in the message's value, or in what a compressed one holds."""
    data = wrapped(content, magic=magic) if nested else message(content, magic=magic, attributes=attributes)
    try:
        read(data, max_decompressed=1 << 20)
    except KafkaError:
        pass


@given(st.binary(max_size=60), magics)
def test_any_bytes_after_the_header_raise_only_our_errors(content: bytes, magic: int) -> None:
    data = struct.pack(">qiIB", 9, len(content) + 5, 0, magic) + content
    try:
        read(data, check_crc=False)
    except KafkaError:
        pass


def test_it_has_the_api_of_a_batch() -> None:
    data = wrapped(message(b"a", offset=0), message(b"b", offset=4), offset=104)
    (batch,) = decode(data)
    assert isinstance(batch, LegacyBatch)
    assert isinstance(batch, RecordBatch)
    assert (batch.base_offset, batch.last_offset, batch.next_offset, batch.last_offset_delta) == (100, 104, 105, 4)
    assert (batch.count, len(batch), batch.size_in_bytes) == (2, 2, len(data))
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (-1, -1, -1, -1)
    assert batch.partition_leader_epoch == -1
    assert [batch.is_control, batch.is_transactional, batch.has_delete_horizon] == [False] * 3
    assert batch.delete_horizon is None
    assert "offset=104" in repr(batch)
    with pytest.raises(AttributeError, match="nothing"):
        getattr(batch, "nothing")  # noqa: B009


def test_offsets_and_header_are_known_without_opening_the_set() -> None:
    (batch,) = decode(message(b"no gzip at all", offset=9, attributes=1))
    assert (batch.last_offset, batch.next_offset, batch.max_timestamp) == (9, 10, 1000)
    for ask in (lambda: batch.count, lambda: batch.base_offset, lambda: list(batch)):
        with pytest.raises(CorruptRecordError, match="offset 9"):
            ask()


def test_relative_offsets_end_at_that_of_the_wrapper() -> None:
    """This holds even with gaps, and after compaction has removed the first message."""
    data = wrapped(message(b"a", offset=2), message(b"b", offset=5), offset=1005)
    assert [record.offset for record in read(data)] == [1002, 1005]


def test_a_wrapper_at_offset_zero_numbers_from_zero() -> None:
    """Old versions of librdkafka sent them like this."""
    assert [r.offset for r in read(wrapped(message(b"a", offset=0), message(b"b", offset=1)))] == [0, 1]


def test_absolute_offsets_are_taken_as_they_are() -> None:
    inside = (message(b"a", offset=70, magic=0), message(b"b", offset=73, magic=0))
    (batch,) = decode(wrapped(*inside, offset=73, magic=0))
    assert [(r.offset, r.timestamp) for r in batch] == [(70, -1), (73, -1)]
    assert batch.timestamp_type is TimestampType.NO_TIMESTAMP


parts = st.sampled_from([None, b"", b"a", b"bb", b"12345678", b"123456789"])
runs = st.lists(st.tuples(magics, parts, parts, st.integers(1, 6)), min_size=1, max_size=8)


@given(runs, st.booleans())
def test_runs_of_messages_of_one_size_are_read_as_they_are(
    given_runs: list[tuple[int, bytes | None, bytes | None, int]], check_crc: bool
) -> None:
    """A message that is as long but differs in its magic, or in what is null or empty, ends a run."""
    rows = [(magic, key, value) for magic, key, value, times in given_runs for _ in range(times)]
    inside = [
        message(value, offset=index, magic=magic, key=key, timestamp=index)
        for index, (magic, key, value) in enumerate(rows)
    ]
    found = read(wrapped(*inside, offset=100 + len(rows) - 1), check_crc=check_crc)
    assert found == [
        BatchRecord(100 + index, index if magic else -1, key, value) for index, (magic, key, value) in enumerate(rows)
    ]


@pytest.mark.parametrize("place", range(6))
def test_damage_within_a_run_is_found_at_its_place(place: int) -> None:
    inside = [message(b"abc", offset=index) for index in range(6)]
    size = len(inside[0])
    inside[place] = message(b"abc", offset=place, crc=1)
    with pytest.raises(CorruptRecordError, match=f"offset 5: the message inside at byte {place * size}: checksum"):
        read(wrapped(*inside, offset=5))
    inside[place] = struct.pack(">qi", place, 5) + bytes(size - 12)
    with pytest.raises(CorruptRecordError, match=f"offset 5: the message inside at byte {place * size} has length 5"):
        read(wrapped(*inside, offset=5))
    with pytest.raises(CorruptRecordError, match=r"offset 5: the (set|message) inside"):
        read(wrapped(b"".join(inside[:place]), message(b"abc", offset=place)[: -1 - place], offset=5))


def test_log_append_time_comes_from_the_wrapper() -> None:
    data = wrapped(message(b"a", timestamp=5), message(b"b", offset=1, timestamp=6), attributes=8)
    (batch,) = decode(data)
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp for record in batch] == [1000, 1000]
    (batch,) = decode(message(b"a", attributes=8, timestamp=77))
    assert [record.timestamp for record in batch] == [77]


def test_create_time_comes_from_each_message() -> None:
    data = wrapped(message(b"a", timestamp=5), message(b"b", offset=1, timestamp=6))
    assert [record.timestamp for record in read(data)] == [5, 6]


def test_formats_may_follow_each_other() -> None:
    """The log of a topic that has lived through upgrades looks like this."""
    parts = [encode(simple_records(3), magic=magic, compression="gzip", base_offset=3 * magic) for magic in (0, 1, 2)]
    batches = list(decode(b"".join(parts)))
    assert [batch.magic for batch in batches] == [0, 1, 2]
    assert [record.offset for batch in batches for record in batch] == list(range(9))


def test_sets_of_magic_0_may_be_nested() -> None:
    data = message(b"a", offset=3, magic=0)
    for _ in range(3):
        data = wrapped(data, message(b"b", offset=4, magic=0), offset=4, magic=0)
    assert [record.value for record in read(data)] == [b"a", b"b", b"b", b"b"]


def test_endless_nesting_is_refused() -> None:
    data = message(b"a", magic=0)
    for _ in range(20):
        data = wrapped(data, magic=0)
    with pytest.raises(CorruptRecordError, match="nested"):
        read(data)


def test_sets_of_magic_1_may_not_be_nested() -> None:
    with pytest.raises(CorruptRecordError, match=r"offset 8.*another inside"):
        read(wrapped(wrapped(message(b"a"), offset=8), offset=8))


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_decompression_limit_holds_at_every_depth(depth: int) -> None:
    data = message(b"x" * 100_000, magic=0)
    for _ in range(depth):
        data = wrapped(data, magic=0)
    with pytest.raises(CorruptRecordError, match=r"offset 0.*more than the limit"):
        read(data, max_decompressed=90_000)
    assert read(data, max_decompressed=102_000)[0].value == b"x" * 100_000


def test_the_decompression_limit_is_for_all_nested_sets_together() -> None:
    one = wrapped(message(b"x" * 50_000, magic=0), magic=0)
    with pytest.raises(CorruptRecordError, match=r"exceed the limit .*max_decompressed_bytes"):
        read(wrapped(*[one] * 4, magic=0), max_decompressed=150_000)
    assert len(read(wrapped(*[one] * 4, magic=0), max_decompressed=210_000)) == 4


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (message(None, offset=6, attributes=1), "no value"),
        (wrapped(offset=6), "no message"),
        (wrapped(message(b"a")[:-1], offset=6), "length"),
        (wrapped(message(b"a"), b"\0" * 5, offset=6), "ends within"),
        (wrapped(message(b"a", offset=7), offset=6), "relative offset 7"),
        (wrapped(message(b"a", crc=1), offset=6), "byte 0: checksum"),
        (wrapped(message(b"a", magic=2), offset=6), "byte 0 has magic 2"),
        (wrapped(message(b"a", offset=2**63 - 1), message(b"b", offset=-(2**63)), offset=6), "64 bits"),
        (message(b"a", offset=6, attributes=4), "zstd"),
        (message(b"", offset=6, magic=0, attributes=3), "header"),
    ],
)
def test_damage_names_itself_and_the_offset(data: bytes, why: str) -> None:
    with pytest.raises(CorruptRecordError, match=f"message at offset 6: .*({why})"):
        read(data)


def test_undefined_codecs_are_unknown() -> None:
    with pytest.raises(UnsupportedCompressionError, match=r"message at offset 6: .*codec 5"):
        read(message(b"a", offset=6, attributes=5))


def test_checksums_are_compared_by_default() -> None:
    data = message(b"a", crc=7) + wrapped(message(b"b", crc=8), offset=0)
    with pytest.raises(CorruptRecordError, match="0x00000007"):
        read(data)
    assert [record.value for record in read(data, check_crc=False)] == [b"a", b"b"]
    plain, wrapper = decode(data, check_crc=False)
    with pytest.raises(CorruptRecordError, match="0x00000007"):
        plain.validate()
    # The wrapper's own checksum is right, and reading finds the wrong one of the message inside.
    wrapper.validate()
    with pytest.raises(CorruptRecordError, match="0x00000008"):
        list(wrapper)


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_truncated_first_batch_reports_its_size(magic: int) -> None:
    data = encode(simple_records(1), magic=magic, compression="gzip")
    for cut in range(12, len(data)):
        assert list(decode(data[:cut])) == []
        assert first_batch_size(data[:cut]) == len(data)
    assert first_batch_size(data + b"more") == len(data)
    assert first_batch_size(data[:11]) is None


def test_a_first_batch_of_an_impossible_size_is_damage() -> None:
    with pytest.raises(CorruptRecordError, match="length 3"):
        first_batch_size(struct.pack(">qi", 5, 3))


@pytest.mark.parametrize(("magic", "length"), [(0, 13), (1, 21)])
def test_lengths_smaller_than_a_header_raise(magic: int, length: int) -> None:
    data = struct.pack(">qiIBB", 5, length, 0, magic, 0) + bytes(40)
    with pytest.raises(CorruptRecordError, match=f"offset 5: length {length}"):
        list(decode(data))
    with pytest.raises(CorruptRecordError, match=r"offset 5|at least"):
        LegacyBatch(data[: 12 + length])


def test_a_view_must_be_exactly_one_message() -> None:
    data = message(b"a")
    for wrong in (data[:20], data[:-1], data + b"\0", encode(simple_records(1))):
        with pytest.raises(CorruptRecordError):
            LegacyBatch(wrong)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_the_builder_stops_at_its_limit(magic: int, codec: Compression) -> None:
    builder = LegacyBuilder(magic, compression=codec, max_bytes=400)
    assert builder.append(1, None, b"v" * 1000) == 0
    assert builder.append(1, None, b"v") is None
    builder = LegacyBuilder(magic, compression=codec, max_bytes=400)
    while builder.append(1, None, b"v" * 50) is not None:
        assert builder.size <= 400
    assert builder.count == len(read(builder.close())) > 2
    assert builder.append(1, None, b"v") is None
    with pytest.raises(InvalidRecordError, match="closed"):
        builder.close()


def test_values_that_the_format_lacks_are_refused() -> None:
    for magic in (0, 1):
        with pytest.raises(UnsupportedCompressionError, match="zstd"):
            encode(simple_records(1), magic=magic, compression="zstd")
        with pytest.raises(InvalidRecordError, match="headers"):
            encode([BatchRecord(0, 1, None, None, (("h", None),))], magic=magic)
        with pytest.raises(InvalidRecordError, match="timestamp -2"):
            encode([BatchRecord(0, -2, None, None)], magic=magic)
        with pytest.raises(InvalidRecordError, match="no records"):
            encode([], magic=magic)
        with pytest.raises(ValueError, match="producer"):
            encode(simple_records(1), magic=magic, producer_id=1)
        with pytest.raises(ValueError, match="transactions"):
            encode(simple_records(1), magic=magic, is_transactional=True)
    with pytest.raises(ValueError, match="not 2"):
        LegacyBuilder(2)


def test_a_record_of_the_wrong_type_leaves_the_buffer_unchanged() -> None:
    builder = LegacyBuilder(1)
    with pytest.raises(TypeError):
        builder.append(1, b"key", "value")  # type: ignore[arg-type]
    assert (builder.count, builder.size) == (0, 0)


def test_the_broker_may_set_the_time() -> None:
    builder = LegacyBuilder(1, compression=Compression.GZIP, log_append_time=BASE_TIMESTAMP)
    builder.append(5, None, b"a")
    (batch,) = decode(builder.close())
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp for record in batch] == [BASE_TIMESTAMP]


def test_bytes_like_keys_and_values() -> None:
    builder = LegacyBuilder(0)
    builder.append(1, bytearray(b"key"), memoryview(b"value"))  # type: ignore[arg-type]
    assert [(record.key, record.value) for record in read(builder.close())] == [(b"key", b"value")]


@given(rows, magics, codecs)
def test_aiokafka_reads_what_we_write(
    given_rows: list[tuple[int, bytes | None, bytes | None]], magic: int, codec: Compression
) -> None:
    memory_records = pytest.importorskip("aiokafka.record.memory_records")
    if magic == 0 and codec is Compression.LZ4:
        return  # It does not know the frames of that time.
    records = as_read(magic, 40, given_rows)
    theirs = memory_records.MemoryRecords(encode(records, magic=magic, compression=codec, base_offset=40))
    found = []
    while theirs.has_next():
        batch = theirs.next_batch()
        assert batch.validate_crc()
        found += [BatchRecord(r.offset, -1 if r.timestamp is None else r.timestamp, r.key, r.value) for r in batch]
    assert found == records


@given(rows, magics, codecs)
def test_we_read_what_aiokafka_writes(
    given_rows: list[tuple[int, bytes | None, bytes | None]], magic: int, codec: Compression
) -> None:
    legacy_records = pytest.importorskip("aiokafka.record.legacy_records")
    if magic == 0 and codec is Compression.LZ4:
        return
    builder = legacy_records.LegacyRecordBatchBuilder(magic=magic, compression_type=int(codec), batch_size=1 << 30)
    for index, (timestamp, key, value) in enumerate(given_rows):
        builder.append(index, timestamp=timestamp, key=key, value=value)
    # It leaves the wrapper at offset 0, so that the broker numbers it.
    assert read(bytes(builder.build())) == as_read(magic, 0, given_rows)
