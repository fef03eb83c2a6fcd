"""Both readers of records find the same records in the same bytes, or the same damage."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aiokproto.accelerator import forms
from aiokproto.errors import CorruptRecordError, DecodeError
from aiokproto.records import BatchRecord, decode, encode
from aiokproto.records.batch import HEADER
from aiokproto.types import TimestampType
from tests.accelerator.forms import each_form, not_compiled
from tests.records.strategies import BASE_TIMESTAMP, INT64_MAX, batches, record_lists, simple_records

RECORD = "aiokproto.records.record"
READERS = forms(RECORD, "read_records")
MAKERS = forms(RECORD, "RecordMaker")
each_reader = pytest.mark.parametrize("read", each_form(RECORD, "read_records"))
each_maker = pytest.mark.parametrize("maker", each_form(RECORD, "RecordMaker"))
differential = pytest.mark.skipif("compiled" not in READERS, reason=not_compiled.kwargs["reason"])

near_the_ends = st.sampled_from([0, -1, INT64_MAX, -INT64_MAX - 1, INT64_MAX - 8192, 1 - INT64_MAX, INT64_MAX - 2**31])
changes = st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), max_size=4)


def section(data: bytes | bytearray) -> bytes:
    return bytes(data[HEADER.size :])


def outcome(form: str, *given_args: Any) -> Any:
    """What reading gives, or the error, in a form in which it can be compared with the other's."""
    make = MAKERS[form]("flights", 7, TimestampType.LOG_APPEND_TIME, 5)
    try:
        return [
            (*(getattr(one, name) for name in ("topic", "partition", "timestamp_type", "leader_epoch")), *row(one))
            for one in READERS[form](*given_args, make)
        ]
    except CorruptRecordError as error:
        return type(error), str(error)


def row(record: Any) -> tuple[Any, ...]:
    return record.offset, record.timestamp, record.key, record.value, record.headers


@each_reader
@given(rows=record_lists())
def test_what_was_written_is_read(read: Any, rows: tuple[int, list[BatchRecord]]) -> None:
    base_offset, records = rows
    (batch,) = decode(encode(records, base_offset=base_offset))
    body = bytes(batch.body())
    assert read(body, batch.count, base_offset, batch.base_timestamp, None, BatchRecord) == records
    appended = read(body, batch.count, base_offset, batch.base_timestamp, 12, BatchRecord)
    assert [record.timestamp for record in appended] == [12] * len(records)


@each_reader
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: memoryview(b"**" + data)[2:]])
def test_any_kind_of_bytes_is_read(read: Any, kind: Any) -> None:
    body = section(encode(simple_records(40)))
    found = read(kind(body), 40, 0, BASE_TIMESTAMP, None, BatchRecord)
    assert found == simple_records(40)
    assert {type(record.value) for record in found} == {bytes}


@each_reader
@each_maker
def test_records_of_a_partition(read: Any, maker: Any) -> None:
    make = maker("flights", 7, TimestampType.LOG_APPEND_TIME, 5)
    body = section(encode([BatchRecord(0, 1, b"key", b"value", (("name", None),))]))
    (record,) = read(body, 1, 70, 1, None, make)
    assert (record.topic, record.partition, record.timestamp_type) == ("flights", 7, TimestampType.LOG_APPEND_TIME)
    assert (record.leader_epoch, *row(record)) == (5, 70, 1, b"key", b"value", (("name", None),))
    assert row(make(70, 1, b"key", b"value", (("name", None),))) == row(record)


@each_reader
@each_maker
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("topic", "others"),
        ("partition", 8),
        ("timestamp_type", TimestampType.CREATE_TIME),
        ("leader_epoch", 6),
        ("_ownership", object()),
    ],
)
def test_a_change_of_one_record_changes_no_other(read: Any, maker: Any, name: str, value: object) -> None:
    """The compiled form stores once what all records of a batch have in common."""
    names = ("topic", "partition", "timestamp_type", "leader_epoch", "_ownership")
    make = maker("flights", 7, TimestampType.LOG_APPEND_TIME, 5)
    changed, other = read(section(encode(simple_records(2))), 2, 0, BASE_TIMESTAMP, None, make)
    before = {each: getattr(other, each) for each in names}
    setattr(changed, name, value)
    assert {each: getattr(changed, each) for each in names} == {**before, name: value}
    assert {each: getattr(other, each) for each in names} == before
    assert getattr(make(0, 0, None, None, ()), name) == before[name]


@each_reader
def test_a_custom_make_function(read: Any) -> None:
    body = section(encode(simple_records(20)))
    made = read(body, 20, 5, BASE_TIMESTAMP, None, lambda *fields: fields)
    assert made == [row(record) for record in simple_records(20, base_offset=5)]


@each_reader
def test_an_error_of_make_names_the_record(read: Any) -> None:
    def make(offset: int, *_: Any) -> int:
        if offset == 2:
            raise DecodeError("not what it should be")
        return offset

    with pytest.raises(CorruptRecordError, match=r"^record 2 of 3: not what it should be$"):
        read(section(encode(simple_records(3))), 3, 0, BASE_TIMESTAMP, None, make)


@each_reader
@pytest.mark.parametrize("count", [1, 2**31 - 1, 2**62])
def test_a_count_that_the_bytes_cannot_hold(read: Any, count: int) -> None:
    with pytest.raises(CorruptRecordError, match=f"within record 0 of {count}"):
        read(b"", count, 0, 0, None, BatchRecord)


@each_reader
@pytest.mark.parametrize("count", [b"\xfe\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x0f", b"\x04", b"\x01"])
def test_a_count_of_headers_that_the_bytes_cannot_hold(read: Any, count: bytes) -> None:
    record = b"\x00\x00\x00\x01\x01" + count
    with pytest.raises(CorruptRecordError, match="header"):
        read(bytes([2 * len(record)]) + record, 1, 0, 0, None, BatchRecord)


@differential
@given(batches(), changes, st.integers(0, 400), st.none() | near_the_ends)
def test_the_same_in_damaged_and_shortened_batches(
    stored: bytes, damage: list[tuple[int, int]], cut: int, append_time: int | None
) -> None:
    (batch,) = decode(stored)
    body = bytearray(batch.body())
    for position, byte in damage:
        if body:
            body[position % len(body)] = byte
    for data in (bytes(body), bytes(body[: max(len(body) - cut, 0)])):
        given_args = (data, batch.count, batch.base_offset, batch.base_timestamp, append_time)
        assert outcome("compiled", *given_args) == outcome("pure", *given_args)


@differential
@given(st.binary(max_size=60), st.integers(0, 4), near_the_ends, near_the_ends, st.none() | near_the_ends)
@example(b"\x0c\x00\x04\x00\x01\x01\x00", 1, 0, INT64_MAX, None)
@example(b"\x0c\x00\x03\x00\x01\x01\x00", 1, 0, -INT64_MAX - 1, None)
@example(b"\x0c\x00\x00\x01\x01\x01\x00", 1, 0, 0, None)
@example(b"\x0c\x00\x80\x80\x01\x01\x00", 1, 0, 0, None)
@example(b"\x0e\x00\x00\x00\x01\x01\x80\x00", 1, 0, 0, None)
@example(b"\x12\x00\x00\x00\x01\x01\x02\x02\xff\x01", 1, 0, 0, None)
@example(b"\x1e\x00" + b"\xff" * 9 + b"\x01\x00\x01\x01\x00", 1, 0, 0, None)
def test_the_same_in_any_bytes(
    data: bytes, count: int, base_offset: int, base_timestamp: int, append_time: int | None
) -> None:
    given_args = (data, count, base_offset, base_timestamp, append_time)
    assert outcome("compiled", *given_args) == outcome("pure", *given_args)


@differential
def test_the_same_wherever_the_bytes_end() -> None:
    records = [BatchRecord(0, BASE_TIMESTAMP + 9000 * i, b"key", b"value", (("name", b"content"),)) for i in range(3)]
    body = section(encode(records))
    for end in range(len(body) + 1):
        # A buffer of its own, so that there is nothing behind its end.
        given_args = (bytes(body[:end]), 3, 0, BASE_TIMESTAMP, None)
        assert outcome("compiled", *given_args) == outcome("pure", *given_args)
