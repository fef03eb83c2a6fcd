"""Runs of records alike are read as one by one: the same records, and the same damage found."""

from __future__ import annotations

import struct
import sys
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aiokproto.accelerator import forms
from aiokproto.errors import CorruptRecordError
from aiokproto.records import BatchRecord, RecordBatch, decode, encode, record, uniform, varint
from aiokproto.records.batch import HEADER
from aiokproto.records.uniform import read_uniform
from tests.records.strategies import BASE_TIMESTAMP, simple_records

Row = tuple[int, bytes | None, bytes | None]

# Sizes at which a varint gets wider, of the value's size or of the record's.
sizes = st.sampled_from([0, 1, 50, 55, 56, 57, 58, 63, 64, 65, 100, 8176, 8180, 8191, 8192])
values = st.none() | sizes.map(lambda size: b"\0v"[size % 2 : size % 2 + 1] * size)
keys = st.sampled_from([None, b"", b"UA", b"k" * 63, b"k" * 64])
deltas = st.sampled_from([-8193, -8192, -65, -64, -1, 0, 1, 63, 64, 8191, 8192])
runs = st.lists(st.tuples(st.integers(1, 60), st.tuples(deltas, keys, values)), min_size=1, max_size=6)


def read(batch: RecordBatch) -> list[BatchRecord]:
    """The records, as they are found where nothing is compiled."""
    with patch("aiokproto.records.batch.read_records", forms("aiokproto.records.record", "read_records")["pure"]):
        return list(batch)


def one_by_one(batch: RecordBatch) -> list[BatchRecord]:
    with patch.object(record, "_SHORT_RUN", sys.maxsize):
        return read(batch)


@given(runs)
@example([(300, (0, None, b"v" * 10))])
def test_runs_equal_one_by_one(given_runs: list[tuple[int, Row]]) -> None:
    rows = [row for count, row in given_runs for _ in range(count)]
    records = [BatchRecord(i, BASE_TIMESTAMP + delta, key, value) for i, (delta, key, value) in enumerate(rows)]
    (batch,) = decode(encode(records))
    assert read(batch) == one_by_one(batch) == records


@given(
    st.integers(17, 80),
    keys,
    sizes.filter(lambda size: size < 200),
    st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_damage_in_runs_is_found_as_one_by_one(
    count: int, key: bytes | None, size: int, changes: list[tuple[int, int]]
) -> None:
    data = bytearray(encode([BatchRecord(0, BASE_TIMESTAMP + i // 8, key, b"\0" * size) for i in range(count)]))
    for position, byte in changes:
        data[HEADER.size + position % (len(data) - HEADER.size)] = byte
    batch = RecordBatch(data)
    try:
        expected: object = one_by_one(batch)
    except CorruptRecordError as error:
        expected = str(error)
    try:
        found: object = read(batch)
    except CorruptRecordError as error:
        found = str(error)
    assert found == expected


def test_a_run_ends_where_a_number_gets_wider() -> None:
    """The offset's, with the 64th record; and it ends for good where the bytes do."""
    data = encode(simple_records(200))[HEADER.size :]
    records: list[BatchRecord] = []
    pos = read_uniform(data, 0, 1000, 0, BASE_TIMESTAMP, None, BatchRecord, records)
    assert records == simple_records(64)
    pos = read_uniform(data, pos, 1000, 0, BASE_TIMESTAMP, None, BatchRecord, records)
    assert records == simple_records(200)
    assert pos == len(data)
    assert read_uniform(data, pos, 1000, 0, BASE_TIMESTAMP, None, BatchRecord, records) == pos


def test_a_run_has_no_more_records_than_asked_for() -> None:
    data = encode(simple_records(50))[HEADER.size :]
    records: list[BatchRecord] = []
    read_uniform(data, 0, 7, 0, BASE_TIMESTAMP, None, BatchRecord, records)
    assert records == simple_records(7)


def test_log_append_time_is_that_of_all_in_a_run() -> None:
    data = bytearray(encode(simple_records(100)))
    struct.pack_into(">h", data, 21, 8)
    batch = RecordBatch(data)
    assert {one.timestamp for one in read(batch)} == {batch.max_timestamp}


@pytest.mark.parametrize("width", [1, 2])
def test_tables_have_what_the_encoder_writes(width: int) -> None:
    """No less, and no more: a number written longer than need be is not read in a run."""
    written = {
        int.from_bytes(encoded, "little"): number
        for number in range(-8200, 8200)
        if len(encoded := varint.encode(number)) == width
    }
    tables = [uniform._signed(width), uniform._lengths(width)]
    signed, lengths = ({at: number for at, number in enumerate(table) if number is not None} for table in tables)
    assert signed == written
    assert lengths == {at: number for at, number in written.items() if number >= 0}
