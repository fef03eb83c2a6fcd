"""A fetched batch has the same records, and the same damage, however it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice, zip_longest
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokproto.consumer import batch as fetched
from aiokproto.consumer.batch import FetchedBatch
from aiokproto.errors import CorruptRecordError, KafkaError
from aiokproto.fetched.decompressed import decompress_ahead
from aiokproto.records import BatchRecord, Compression, RecordBatch, compress, decode, encode, slices
from aiokproto.records import batch as small
from aiokproto.records.batch import HEADER, TIMESTAMP_TYPE
from aiokproto.records.record import read_records
from aiokproto.types import Record, TopicPartition
from tests.records.bombs import TINY
from tests.records.bombs import batch as stored
from tests.records.strategies import record_lists

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

AT = TopicPartition("t", 0)
Row = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


@st.composite
def logs(draw: st.DrawFn) -> list[RecordBatch]:
    """Up to three batches, with gaps between them; some are damaged, but for their checksums."""
    found: list[bytes] = []
    base = 0
    for _ in range(draw(st.integers(1, 3))):
        _, records = draw(record_lists(max_size=12))
        count, codec = len(records), draw(st.sampled_from(list(Compression)))
        # The delta is relative to the first record's time, which is 0.
        timed = [BatchRecord(0, time, it.key, it.value, it.headers) for time, it in enumerate(records)]
        body = bytearray(encode(timed)[HEADER.size :])
        damage = draw(st.sampled_from(["", "", "", "", "a record", "the count", "a compressed byte", "the length"]))
        place, byte = draw(st.integers(0, 1 << 20)), draw(st.integers(0, 255))
        if damage == "a record":
            body[place % len(body)] = byte
        packed = bytearray(compress(codec, body))
        if damage == "a compressed byte":
            packed[place % len(packed)] = byte
        if damage == "the length":
            del packed[1 + place % len(packed) :]
        counted = count + (damage == "the count") * (byte % 2 * 2 - 1) or 2
        kind = draw(st.sampled_from([0, TIMESTAMP_TYPE]))
        found.append(stored(bytes(packed), counted, codec, base=base, last=count, attributes=kind))
        base += count + 1
    return list(decode(b"".join(found)))


def fetch(batches: list[RecordBatch], start: int = 0) -> FetchedBatch:
    return FetchedBatch(AT, start, batches[-1].next_offset, batches)


def row(record: Record | BatchRecord) -> Row:
    return record.offset, record.timestamp, record.key, record.value, tuple(record.headers)


def read(source: Callable[[], Iterable[Row]]) -> tuple[list[Row], type[KafkaError] | None]:
    """Return the records before the first error, and its type."""
    found: list[Row] = []
    try:
        for one in source():
            found.append(one)
    except KafkaError as error:
        return found, type(error)
    return found, None


def at_once(batches: list[RecordBatch]) -> Iterator[Row]:
    """Records as one list for each batch, decompressed as a whole."""
    for one in batches:
        yield from map(row, read_records(one.body(), one.count, *one.records_header[:3], BatchRecord))


def in_arrow(tables: Iterable[Any]) -> Iterator[Row]:
    for table in tables:
        times = table.column("timestamp").cast("int64").to_pylist()
        for one, micros in zip(table.to_pylist(), times, strict=True):
            headers = tuple((it["key"], it["value"]) for it in one["headers"] or ())
            yield one["offset"], micros // 1000, one["key"], one["value"], headers


def interleaved(batch: FetchedBatch) -> Iterator[Row]:
    """Two iterators, each a record at a time."""
    for first, second in zip_longest(batch, batch):
        assert row(first) == row(second)
        yield row(first)


@settings(max_examples=40)
@given(
    logs(),
    st.integers(0, 20),
    st.sampled_from([(2 << 20, 128 * 1024), (200, 0), (200, 100), (50, 1000)]),
    st.integers(1, 5),
)
def test_a_fetched_batch_is_the_same_however_it_is_read(
    log: list[RecordBatch], start: int, sizes: tuple[int, int], most: int
) -> None:
    whole, wrong = read(lambda: at_once(log))
    expected = [one for one in whole if one[0] >= start]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(slices, "SLICE_BYTES", sizes[0])
        patch.setattr(slices, "SLICE_RECORDS", most if sizes[0] < 1000 else 32 * 1024)
        patch.setattr(fetched, "ARROW_BYTES", sizes[0])
        patch.setattr(small, "SMALL_BYTES", sizes[1])
        ways = [
            read(lambda: map(row, fetch(log, start))),
            read(lambda: map(row, fetch(decompress_ahead(log), start))),
            read(lambda: interleaved(fetch(log, start))),
        ]
        # Arrow can't have offsets before or behind the batch, or times beyond its range.
        in_range = all(0 <= one[0] < log[-1].next_offset and abs(one[1]) < 1 << 53 for one in whole)
        # Headers of records that are left out aren't read, so their damage isn't found.
        if in_range and (wrong is None or not start):
            ways.append(read(lambda: in_arrow(fetch(log, start).to_arrow_batches(headers=True))))
        if in_range and wrong is None:
            ways.append(read(lambda: in_arrow([fetch(log, start).to_arrow(headers=True)])))
        half = iter(fetch(log, start))
        read(lambda: map(row, islice(half, 3)))
        ways.append(read(lambda: map(row, fetch(log, start))))
        assert read(lambda: (row(record) for one in log for record in one))[1] is wrong
    for found, error in ways:
        assert error is wrong
        # If the batch is read in slices, some of its records come before the damage.
        assert (found if error is None else found[: len(expected)]) == expected
    assert ways[0] == ways[1] == ways[2] == ways[-1]


def test_iteration_ends_with_the_error_of_a_damaged_batch() -> None:
    """Going on with the batch behind it would hide that records are missing."""
    data = stored(TINY * 2, 2) + stored(TINY * 2, 3, base=1) + stored(TINY, base=2)
    records = iter(fetch(list(decode(data))))
    assert [next(records).offset for _ in range(2)] == [0, 0]
    with pytest.raises(CorruptRecordError, match="offset 1"):
        next(records)
    assert list(records) == []
