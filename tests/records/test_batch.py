"""Reading batches: round trips, known bytes, truncation, damage."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aiokproto.errors import CorruptRecordError, KafkaError, UnsupportedCompressionError
from aiokproto.records import BatchRecord, Compression, RecordBatch, decode, encode
from aiokproto.records.batch import HEADER
from aiokproto.records.patch import restamp, update_crc
from aiokproto.types import Record, TimestampType
from tests.records.strategies import BASE_TIMESTAMP, batches, codecs, record_lists, simple_records

UNCHECKED = {*range(8), *range(12, 16)}
"""Base offset and leader epoch, which the checksum does not cover."""


@given(record_lists(), codecs)
def test_round_trip(rows: tuple[int, list[BatchRecord]], codec: Compression) -> None:
    base_offset, records = rows
    data = encode(records, compression=codec, base_offset=base_offset)
    (batch,) = decode(data)
    assert list(batch) == records
    assert batch.compression is codec
    assert (batch.base_offset, batch.last_offset) == (base_offset, records[-1].offset)
    assert batch.next_offset == records[-1].offset + 1
    assert batch.max_timestamp == max(record.timestamp for record in records)
    assert len(batch) == len(records)
    assert batch.size_in_bytes == len(data)
    assert bytes(batch.raw) == data


def test_known_bytes() -> None:
    """One batch taken apart by hand, field by field."""
    records = [
        BatchRecord(7, 1000, b"k", b"value", (("h", b"\x01"), ("h", None))),
        BatchRecord(8, 999, None, None),
    ]
    first = "26" + "00" + "00" + "00" + "02" + "6b" + "0a" + b"value".hex() + "04" + "0268" + "0201" + "0268" + "01"
    second = "0c" + "00" + "01" + "02" + "01" + "01" + "00"
    assert len(bytes.fromhex(first)) == 1 + 0x26 // 2
    after_crc = struct.pack(">hiqqqhii", 0, 1, 1000, 1000, -1, -1, -1, 2) + bytes.fromhex(first + second)
    data = encode(records, base_offset=7)
    assert data[21:] == after_crc
    assert data[:17] == struct.pack(">qiib", 7, len(data) - 12, -1, 2)
    assert data[17:21].hex() == "797a96d4"
    (batch,) = decode(data)
    assert list(batch) == records


@given(st.lists(batches(), max_size=4), st.data())
def test_a_record_set_cut_anywhere_gives_its_whole_batches(stored: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(stored)
    cut = data.draw(st.integers(0, len(whole)))
    found = list(decode(whole[:cut]))
    expected = 0
    while expected < len(stored) and sum(map(len, stored[: expected + 1])) <= cut:
        expected += 1
    assert [bytes(batch.raw) for batch in found] == stored[:expected]


def test_every_prefix_of_a_batch_ends_cleanly() -> None:
    data = encode(simple_records(3))
    for length in range(len(data)):
        assert list(decode(data[:length])) == []


@given(st.lists(batches(), min_size=1, max_size=2), st.integers(1, 255), st.data())
def test_one_changed_byte_is_found_by_the_checksum(stored: list[bytes], change: int, data: st.DataObject) -> None:
    whole = bytearray(b"".join(stored))
    position = data.draw(st.integers(0, len(stored[0]) - 1).filter(lambda position: position not in UNCHECKED))
    whole[position] ^= change
    try:
        # A greater length reads as a batch that was truncated.
        assert list(decode(whole)) == []
    except CorruptRecordError:
        pass


@given(batches(), st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), min_size=1, max_size=5))
def test_damage_without_checksum_raises_only_our_errors(stored: bytes, changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(stored)
    for position, byte in changes:
        damaged[position % len(damaged)] = byte
    try:
        for batch in decode(damaged, check_crc=False, max_decompressed=1 << 20):
            list(batch)
    except KafkaError:
        pass


@given(st.binary(max_size=200), st.integers(0, 40), st.integers(0, 0x7F))
@example(b"\xff" * 60, 3, 0)
def test_any_records_section_raises_only_our_errors(section: bytes, count: int, attributes: int) -> None:
    batch = RecordBatch(raw_batch(section, count, attributes=attributes), max_decompressed=1 << 20)
    try:
        list(batch)
    except KafkaError:
        pass


def test_errors_name_the_offset() -> None:
    damaged = bytearray(encode(simple_records(3), base_offset=4242))
    damaged[-1] ^= 1
    with pytest.raises(CorruptRecordError, match="offset 4242: checksum"):
        list(decode(damaged))


def test_batches_before_a_damaged_one_are_returned() -> None:
    good = encode(simple_records(3))
    found = decode(good + good[:-1] + b"\x07")
    assert list(next(found)) == simple_records(3)
    with pytest.raises(CorruptRecordError):
        next(found)


def test_unknown_magic_raises() -> None:
    data = bytearray(encode(simple_records(1), base_offset=5))
    data[16] = 9
    with pytest.raises(CorruptRecordError, match="offset 5: magic 9"):
        list(decode(data))


def test_length_smaller_than_a_header_raises() -> None:
    data = bytearray(encode(simple_records(1)))
    struct.pack_into(">i", data, 8, 40)
    with pytest.raises(CorruptRecordError, match="length 40"):
        list(decode(data))


def test_unknown_codec_raises_when_the_records_are_read() -> None:
    data = bytearray(encode(simple_records(1), base_offset=8))
    data[22] |= 6
    update_crc(data)
    (batch,) = decode(data)
    with pytest.raises(UnsupportedCompressionError, match=r"record batch at offset 8: .*codec 6"):
        list(batch)


def test_log_append_time_is_the_time_of_every_record() -> None:
    data = bytearray(encode(simple_records(20)))
    restamp(data, 0, 12345)
    (batch,) = decode(data)
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp for record in batch} == {12345}


def test_flags() -> None:
    data = raw_batch(b"", 0, attributes=0x78)
    batch = RecordBatch(data)
    assert batch.is_transactional
    assert batch.is_control
    assert batch.has_delete_horizon
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    plain = RecordBatch(raw_batch(b"", 0))
    assert [plain.is_transactional, plain.is_control, plain.has_delete_horizon] == [False] * 3
    assert plain.timestamp_type is TimestampType.CREATE_TIME


def test_a_batch_that_compaction_emptied() -> None:
    """The batch keeps offsets and codec, but has nothing to decompress."""
    batch = RecordBatch(raw_batch(b"", 0, attributes=1, last_offset_delta=9))
    assert list(batch) == []
    assert batch.next_offset == 10
    assert batch


def test_sequences_wrap_around() -> None:
    data = encode(simple_records(3), producer_id=5, producer_epoch=1, base_sequence=2**31 - 2)
    (batch,) = decode(data)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (5, 1, 2**31 - 2)
    assert batch.last_sequence == 0
    assert RecordBatch(raw_batch(b"", 0)).last_sequence == -1


def test_records_can_be_built_as_something_else() -> None:
    def build(
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[tuple[str, bytes | None], ...],
    ) -> Record:
        return Record("topic", 3, offset, timestamp, key, value, headers)

    (batch,) = decode(encode(simple_records(2)))
    assert [(record.topic, record.offset) for record in batch.records(build)] == [("topic", 0), ("topic", 1)]


def test_the_decompression_limit_names_itself_and_the_offset() -> None:
    data = encode(simple_records(100), compression="zstd", base_offset=77)
    (batch,) = decode(data, max_decompressed=1000)
    with pytest.raises(CorruptRecordError, match=r"offset 77.*1000 bytes"):
        list(batch)


def test_a_header_key_that_is_not_utf8_gets_replacement_characters() -> None:
    record = b"\x00\x00\x00\x01\x01\x02\x02\xff\x01"
    batch = RecordBatch(raw_batch(bytes([2 * len(record)]) + record, 1))
    assert [read.headers for read in batch] == [(("\N{REPLACEMENT CHARACTER}", None),)]


@pytest.mark.parametrize("field", ["timestamp", "offset"])
def test_values_beyond_64_bits_are_damage(field: str) -> None:
    timestamp, offset = (b"\x04", b"\x00") if field == "timestamp" else (b"\x00", b"\x04")
    record = b"\x00" + timestamp + offset + b"\x01\x01\x00"
    data = raw_batch(bytes([2 * len(record)]) + record, 1, base_offset=2**63 - 2, base_timestamp=2**63 - 2)
    with pytest.raises(CorruptRecordError, match="64 bits"):
        list(RecordBatch(data))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda good: good[:-1], "bytes end within record 1"),
        (lambda good: good + b"\x00", "2 records end at byte"),
        (lambda good: good[:3], "bytes end within record 0"),
    ],
)
def test_a_section_of_the_wrong_size_raises(damage: Callable[[bytes], bytes], message: str) -> None:
    good = encode(simple_records(2))[HEADER.size :]
    with pytest.raises(CorruptRecordError, match=message):
        list(RecordBatch(raw_batch(damage(good), 2)))


@pytest.mark.parametrize(("count", "last_offset_delta"), [(-1, 0), (0, -1)])
def test_negative_counts_raise(count: int, last_offset_delta: int) -> None:
    with pytest.raises(CorruptRecordError, match="offset 0"):
        RecordBatch(raw_batch(b"", count, last_offset_delta=last_offset_delta))


def test_a_view_must_be_exactly_one_batch() -> None:
    data = encode(simple_records(1))
    with pytest.raises(CorruptRecordError, match="at least 61"):
        RecordBatch(data[:60])
    with pytest.raises(CorruptRecordError, match="by its length field it has"):
        RecordBatch(data + b"\x00")


def raw_batch(
    section: bytes,
    count: int,
    *,
    attributes: int = 0,
    last_offset_delta: int = 0,
    base_offset: int = 0,
    base_timestamp: int = BASE_TIMESTAMP,
) -> bytes:
    """Return a batch around any bytes, without a checksum."""
    fields = (attributes, last_offset_delta, base_timestamp, base_timestamp, -1, -1, -1, count)
    return HEADER.pack(base_offset, HEADER.size - 12 + len(section), -1, 2, 0, *fields) + section


@pytest.mark.parametrize("cut", [12, 16, 17, 61])
@pytest.mark.parametrize("length", [-1, 0, 3, 13])
def test_a_length_that_no_batch_has_is_damage_however_little_is_there(length: int, cut: int) -> None:
    """Such a batch wasn't truncated but is complete. A reader that took it for truncated would wait for the rest."""
    data = bytes(8) + length.to_bytes(4, "big", signed=True) + bytes(4) + b"\2" + bytes(44)
    with pytest.raises(CorruptRecordError, match=f"length {length} is too small"):
        list(decode(data[:cut]))
