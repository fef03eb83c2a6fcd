"""Columns are the same by either way, and no Python object is made for a record by the compiled one."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aiokproto.accelerator import forms
from aiokproto.errors import DecodeError
from aiokproto.records import decode, encode
from aiokproto.records.scan import Fields, Span, spans_of
from tests.accelerator.forms import each_form, not_compiled
from tests.records.strategies import BASE_TIMESTAMP, INT64_MAX, batches, simple_records

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")

from aiokproto.records.columns import _gather, to_columns  # noqa: E402

SCANS = forms("aiokproto.records.scan", "scan")
ARRAYS = forms("aiokproto.records.columns", "binary_array")
each_scan = pytest.mark.parametrize("scan", each_form("aiokproto.records.scan", "scan"))
each_array = pytest.mark.parametrize("binary_array", each_form("aiokproto.records.columns", "binary_array"))
differential = pytest.mark.skipif("compiled" not in SCANS, reason=not_compiled.kwargs["reason"])

numbers = st.sampled_from([0, 1, -1, INT64_MAX, -INT64_MAX - 1, BASE_TIMESTAMP])
changes = st.lists(st.tuples(st.integers(0, 2**20), st.integers(0, 255)), max_size=4)


def outcome(form: str, data: Any, spans: Any) -> Any:
    try:
        found = SCANS[form](data, spans)
    except (DecodeError, IndexError) as error:
        return type(error), str(error)
    assert isinstance(found, Fields)
    return [(column.dtype.name, column.tolist()) for column in found]


@differential
@given(st.lists(batches(), max_size=3), changes, st.none() | numbers)
def test_the_same_in_whole_and_damaged_batches(
    stored: list[bytes], damage: list[tuple[int, int]], append_time: int | None
) -> None:
    data, spans = _gather(list(decode(b"".join(stored))))
    if append_time is not None:
        spans[:, -2:] = 1, append_time
    assert outcome("compiled", data, spans) == outcome("pure", data, spans)
    damaged = bytearray(data)
    for position, byte in damage:
        if damaged:
            damaged[position % len(damaged)] = byte
    assert outcome("compiled", damaged, spans) == outcome("pure", damaged, spans)


@differential
@given(st.binary(max_size=60), st.integers(0, 5), numbers, numbers)
@example(b"\x0c\x00\x04\x00\x01\x01\x00", 1, 0, INT64_MAX)
@example(b"\x0c\x00\x00\x02\x01\x01\x00", 1, INT64_MAX, 0)
@example(b"\x0e\x00\x00\x00\x01\x01\x80\x00", 1, 0, 0)
@example(b"\x0c\x00\x00\x00\x01\x01\x02", 1, 0, 0)
def test_the_same_in_any_bytes(data: bytes, count: int, base_offset: int, base_timestamp: int) -> None:
    spans = spans_of([Span(0, len(data), count, base_offset, base_timestamp, 0, 0)])
    assert outcome("compiled", data, spans) == outcome("pure", data, spans)


@each_scan
def test_columns_of_no_batches(scan: Any) -> None:
    assert [len(column) for column in scan(b"", spans_of([]))] == [0] * len(Fields._fields)


@each_scan
def test_a_count_that_the_bytes_cannot_hold(scan: Any) -> None:
    """It is noticed before there is memory for so many."""
    with pytest.raises(DecodeError):
        scan(b"\x0c\x00\x00\x00\x01\x01\x00", spans_of([Span(0, 7, 2**31 - 1, 0, 0, 0, 0)]))


@each_array
@given(items=st.lists(st.none() | st.binary(max_size=12), max_size=20))
def test_items_lie_one_after_the_other(binary_array: Any, items: list[bytes | None]) -> None:
    """Whatever lies between them, and in the arrays between their places."""
    data = b"".join(b"*" + (item or b"") for item in items)
    end = np.cumsum([1 + len(item or b"") for item in items], dtype=np.int64)
    start = end - np.array([len(item or b"") for item in items], np.int64)
    valid = np.array([item is not None for item in items], np.bool_)
    for step in (1, 2):
        spread = [np.repeat(column, step)[::step] for column in (start, end, valid)]
        found = binary_array(data, *spread)
        found.validate(full=True)
        assert found.to_pylist() == items
        assert found.type == pa.binary() or not valid.any()


@each_array
@pytest.mark.parametrize(("start", "end"), [(0, 4), (-1, 2), (3, 2), (2**40, 2**40 + 1), (INT64_MAX, INT64_MAX)])
def test_a_place_outside_of_the_data_is_not_looked_at(binary_array: Any, start: int, end: int) -> None:
    places = np.array([0, start]), np.array([3, end])
    assert binary_array(b"abc", *places, np.array([True, False])).to_pylist() == [b"abc", None]
    with pytest.raises(IndexError, match=f"^item 1 spans {start} to {end} of 3 bytes$"):
        binary_array(b"abc", *places, np.array([True, True]))


def blocks(count: int) -> int:
    """Python's blocks of memory that are in use more, with the columns of so many records at hand."""
    batch = next(decode(encode(simple_records(count))))
    # Garbage of other tests that goes meanwhile would be counted.
    gc.collect()
    before = sys.getallocatedblocks()
    table = to_columns([batch]).to_arrow("flights", 0)
    found = sys.getallocatedblocks() - before
    assert table.num_rows == count
    return found


def test_no_python_object_is_kept_for_a_record() -> None:
    blocks(100)  # what is imported and cached on the way is not counted
    assert abs(blocks(20_000) - blocks(20)) < 100


@differential
def test_no_python_object_is_made_for_a_record() -> None:
    """Not even for a moment: the peak of what Python allocates while scanning does not grow with the records."""
    import tracemalloc

    def peak(count: int) -> int:
        data, spans = _gather([next(decode(encode(simple_records(count))))])
        tracemalloc.start()
        try:
            found = SCANS["compiled"](data, spans)
            # numpy tells what it allocates: eight numbers and two truth values for a record.
            return tracemalloc.get_traced_memory()[1] - count * (8 * 8 + 2) if found else 0
        finally:
            tracemalloc.stop()

    peak(100)
    assert abs(peak(20_000) - peak(20)) < 5_000
