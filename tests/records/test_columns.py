"""Columns hold what iterating over the batches gives, and nothing outside of the bytes is read."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.errors import CorruptRecordError, KafkaError
from aiokproto.records import BatchBuilder, BatchRecord, Compression, RecordBatch, decode, encode
from aiokproto.records.batch import HEADER
from aiokproto.records.patch import restamp
from aiokproto.types import Header
from tests.records.strategies import BASE_TIMESTAMP, batches, codecs, record_lists, simple_records

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")

from aiokproto.records.columns import Columns, arrow_schema, to_columns  # noqa: E402

MICROS_MAX = (2**63 - 1) // 1000


def rows(columns: Columns) -> list[BatchRecord]:
    found = columns.headers()
    return [
        BatchRecord(int(columns.offset[i]), int(columns.timestamp[i]), columns.key[i], columns.value[i], found[i])
        for i in range(len(columns))
    ]


def objects(data: bytes | bytearray) -> list[BatchRecord]:
    return [record for batch in decode(data, check_crc=False, max_decompressed=1 << 20) for record in batch]


@given(st.lists(batches(), max_size=4))
def test_columns_equal_iteration(stored: list[bytes]) -> None:
    data = b"".join(stored)
    assert rows(to_columns(decode(data))) == objects(data)


@given(
    st.lists(st.tuples(st.integers(1, 400), st.integers(0, 200)), min_size=1, max_size=6),
    codecs,
)
def test_runs_of_one_size_equal_iteration(runs: list[tuple[int, int]], codec: Compression) -> None:
    """Long runs take the vectorised walk. It must stop in time where deltas grow by a byte, and where runs meet."""
    records = [record for count, size in runs for record in simple_records(count, size=size)]
    data = encode(records, compression=codec) + encode(records[:17])
    assert rows(to_columns(decode(data))) == objects(data)


@given(st.lists(batches(), min_size=1, max_size=3))
def test_batches_from_different_buffers(stored: list[bytes]) -> None:
    joined = b"".join(stored)
    apart = [next(decode(data)) for data in stored]
    assert rows(to_columns(apart)) == objects(joined)


def test_batches_in_any_order_and_some_left_out() -> None:
    one, two, three = decode(b"".join(encode(simple_records(40, base_offset=n), base_offset=n) for n in (0, 40, 80)))
    assert rows(to_columns([three, one])) == [*three, *one]
    assert rows(to_columns([two])) == list(two)


@given(batches(), st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), min_size=1, max_size=5))
def test_damage_raises_our_errors_or_reads_the_same(stored: bytes, changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(stored)
    for position, byte in changes:
        damaged[position % len(damaged)] = byte
    try:
        found = rows(to_columns(decode(damaged, check_crc=False, max_decompressed=1 << 20)))
    except KafkaError:
        with pytest.raises(KafkaError):
            objects(damaged)
    else:
        assert found == objects(damaged)


def test_trailing_bytes_are_damage() -> None:
    stored = bytearray(encode(simple_records(1)))
    stored[57:61] = bytes(4)
    with pytest.raises(CorruptRecordError, match="record batch at offset 0"):
        to_columns(decode(stored, check_crc=False))


@given(st.binary(max_size=120), st.integers(1, 12))
def test_any_section_raises_our_errors_or_reads_the_same(section: bytes, count: int) -> None:
    data = bytearray(encode(simple_records(1))[:61] + section)
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">i", data, 57, count)
    try:
        found = rows(to_columns([RecordBatch(data)]))
    except KafkaError:
        with pytest.raises(KafkaError):
            objects(data)
    else:
        assert found == objects(data)


def test_damage_names_the_batch() -> None:
    good = encode(simple_records(50))
    bad = bytearray(encode(simple_records(50), base_offset=1234))
    bad[61] ^= 0x40
    with pytest.raises(CorruptRecordError, match="offset 1234"):
        to_columns(decode(good + bytes(bad), check_crc=False))


def test_damaged_headers_are_found_when_they_are_read() -> None:
    data = bytearray(encode([BatchRecord(0, 1, None, b"v", (("name", b"content"),))], base_offset=66))
    data[data.index(b"name") - 1] = 0x7E
    columns = to_columns(decode(data, check_crc=False))
    assert columns.value[0] == b"v"
    with pytest.raises(CorruptRecordError, match="offset 66"):
        columns.headers()
    with pytest.raises(CorruptRecordError, match="offset 66"):
        columns.to_arrow("t", 0, headers=True)


def test_log_append_time() -> None:
    appended = bytearray(encode(simple_records(3)))
    restamp(appended, 0, 777)
    columns = to_columns(decode(bytes(appended) + encode(simple_records(2))))
    assert columns.timestamp.tolist() == [777, 777, 777, BASE_TIMESTAMP, BASE_TIMESTAMP]
    assert columns.timestamp_type.tolist() == [1, 1, 1, 0, 0]


def test_no_batches() -> None:
    columns = to_columns([])
    assert len(columns) == 0
    assert columns.to_arrow("t", 0, headers=True).num_rows == 0


def test_between_keeps_a_range_of_offsets() -> None:
    data = b"".join(encode(simple_records(10, base_offset=n), base_offset=n) for n in (0, 10))
    columns = to_columns(decode(data))
    assert columns.between(0, 20) is columns
    assert columns.between(7, 12).offset.tolist() == [7, 8, 9, 10, 11]
    assert rows(columns.between(7, 12)) == objects(data)[7:12]
    assert columns.between(7, 12).to_arrow("t", 0).num_rows == 5
    assert len(columns.between(30, 40)) == 0
    assert columns.between(30, 40).to_arrow("t", 0).num_rows == 0


def test_arrow_schema_is_that_of_sparks_source() -> None:
    """Spark requires equal types and names, and refuses large_binary and other names of list items."""
    schema = arrow_schema(headers=True)
    assert [(field.name, str(field.type)) for field in schema] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int32"),
        ("offset", "int64"),
        ("timestamp", "timestamp[us, tz=UTC]"),
        ("timestampType", "int32"),
        ("headers", "list<element: struct<key: string, value: binary>>"),
    ]
    assert all(field.nullable for field in schema)
    assert arrow_schema() == pa.schema(list(schema)[:-1])


@given(st.permutations([field.name for field in arrow_schema(headers=True)]), st.integers(0, 8))
def test_only_the_columns_that_are_named(names: list[str], count: int) -> None:
    wanted = names[:count]
    data = encode([BatchRecord(0, 1, b"k", None, (("name", b"content"),)), BatchRecord(1, 2, None, b"v")])
    columns = to_columns(decode(data))
    table = columns.to_arrow("flights", 3, columns=wanted)
    assert (table.schema.names, table.num_rows) == (wanted, 2)
    assert table == columns.to_arrow("flights", 3, headers=True).select(wanted)


def test_no_work_is_done_for_a_column_that_is_not_named() -> None:
    data = bytearray(encode([BatchRecord(0, 1, None, b"v", (("name", b"content"),))]))
    data[data.index(b"name") - 1] = 0x7E
    columns = to_columns(decode(data, check_crc=False))
    assert columns.to_arrow("t", 0, headers=True, columns=["value"]).to_pydict() == {"value": [b"v"]}
    with pytest.raises(CorruptRecordError):
        columns.to_arrow("t", 0, columns=["value", "headers"])


def test_unknown_columns() -> None:
    columns = to_columns(decode(encode(simple_records(1))))
    with pytest.raises(ValueError, match="no column vaule: the columns are key, value, topic"):
        columns.to_arrow("t", 0, columns=["key", "vaule"])
    with pytest.raises(ValueError, match="a column is named twice: key, key"):
        columns.to_arrow("t", 0, columns=["key", "key"])


@given(record_lists(), codecs)
def test_arrow_equals_iteration(given_rows: tuple[int, list[BatchRecord]], codec: Compression) -> None:
    base_offset, records = given_rows
    table = to_columns(decode(encode(records, base_offset=base_offset, compression=codec))).to_arrow(
        "flights", 3, headers=True
    )
    table.validate(full=True)
    assert table.schema == arrow_schema(headers=True)
    assert table["key"].to_pylist() == [record.key for record in records]
    assert table["value"].to_pylist() == [record.value for record in records]
    assert table["topic"].to_pylist() == ["flights"] * len(records)
    assert table["partition"].to_pylist() == [3] * len(records)
    assert table["offset"].to_pylist() == [record.offset for record in records]
    assert table["timestamp"].cast(pa.int64()).to_pylist() == [
        record.timestamp * 1000 if record.timestamp <= MICROS_MAX else None for record in records
    ]
    assert table["timestampType"].to_pylist() == [0] * len(records)
    assert table["headers"].to_pylist() == [
        [{"key": key, "value": value} for key, value in record.headers] or None for record in records
    ]


def test_columns_of_many_single_record_batches() -> None:
    data = b"".join(encode(simple_records(1, size=n % 50), base_offset=n) for n in range(200))
    assert rows(to_columns(decode(data))) == objects(data)


def test_a_count_that_differs_from_the_batchs_raises() -> None:
    for count in (99, 101):
        data = bytearray(encode(simple_records(100)))
        struct.pack_into(">i", data, 57, count)
        with pytest.raises(CorruptRecordError):
            to_columns(decode(data, check_crc=False))


def test_a_record_length_of_too_many_bits_is_damage() -> None:
    data = bytearray(encode(simple_records(1), base_offset=31))
    data[61:66] = b"\xff" * 5
    with pytest.raises(CorruptRecordError, match=r"offset 31.*32 bits"):
        to_columns(decode(data, check_crc=False))


@pytest.mark.parametrize("attributes", [0, 8], ids=["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize(
    ("base_offset", "base_timestamp", "valid"),
    [
        (0, -(2**63), True),
        (0, 2**63 - 1, True),
        (-(2**63), 0, True),
        (2**63 - 2, 0, True),
        (2**63 - 1, 0, False),
        (0, 2**63 - 2, False),
        (2**63 - 2, 0, False),
    ],
)
def test_numbers_at_the_bounds_of_64_bits(attributes: int, base_offset: int, base_timestamp: int, valid: bool) -> None:
    """Iterating finds the same. A sum that overflows is damage, even if LogAppendTime replaces it."""
    delta = 0 if valid else 4
    record = bytes([12, 0, delta if base_timestamp else 0, delta if base_offset else 0, 1, 1, 0])
    fields = (attributes, 0, base_timestamp, 5, -1, -1, -1, 1)
    data = HEADER.pack(base_offset, HEADER.size - 12 + len(record), -1, 2, 0, *fields) + record
    if valid:
        expected = [BatchRecord(base_offset, 5 if attributes else base_timestamp, None, None)]
        assert rows(to_columns([RecordBatch(data)])) == objects(data) == expected
        return
    for read in (lambda: to_columns([RecordBatch(data)]), lambda: objects(data)):
        with pytest.raises(CorruptRecordError, match="64 bits"):
            read()


def test_headers_of_some_records() -> None:
    builder = BatchBuilder()
    expected: list[tuple[Header, ...]] = [(), (("a", b"1"), ("a", None)), (), (("b", b""),)]
    for headers in expected:
        builder.append(1, None, b"v", headers)
    assert to_columns(decode(builder.close())).headers() == expected


@given(st.lists(st.tuples(st.sampled_from([0, 1, 2]), record_lists(max_size=8)), min_size=1, max_size=4), codecs)
def test_columns_of_all_formats_equal_iteration(
    parts: list[tuple[int, tuple[int, list[BatchRecord]]]], codec: Compression
) -> None:
    """Keys, values and headers stay in their positions even if they are read record by record."""
    data = b""
    for magic, (base_offset, records) in parts:
        if magic < 2:
            records = [BatchRecord(0, record.timestamp, record.key, record.value) for record in records]
        packing = Compression.NONE if magic < 2 and codec is Compression.ZSTD else codec
        data += encode(records, magic=magic, compression=packing, base_offset=base_offset)
    columns = to_columns(decode(data))
    assert rows(columns) == objects(data)
    kinds = [int(batch.timestamp_type) for batch in decode(data) for _ in batch]
    assert columns.timestamp_type.tolist() == kinds
    table = columns.to_arrow("t", 0, headers=True)
    table.validate(full=True)
    assert table["key"].to_pylist() == [record.key for record in objects(data)]
    assert table["value"].to_pylist() == [record.value for record in objects(data)]


@pytest.mark.parametrize("topic", ["", "t", "flights", "é" * 100])
@pytest.mark.parametrize("count", [0, 1, 300])
def test_topic_and_partition_are_repeated(topic: str, count: int) -> None:
    found = to_columns(decode(encode(simple_records(count)) if count else b"")).to_arrow(topic, 7)
    found.validate(full=True)
    assert found["topic"].to_pylist() == [topic] * count
    assert found["partition"].to_pylist() == [7] * count


@pytest.mark.extended
def test_more_than_arrow_can_hold_of_a_topic_is_refused() -> None:
    columns = to_columns(decode(encode(simple_records(3))))
    with pytest.raises(ValueError, match="2400000000 bytes, the limit is 2147483647"):
        columns.to_arrow("t" * 800_000_000, 0)
