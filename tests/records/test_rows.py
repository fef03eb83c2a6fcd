"""What a table holds is what the records hold that are written from it."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.errors import InvalidRecordError
from aiokproto.records import BatchBuilder, BatchRecord, decode, estimate_size
from aiokproto.records.writer import encode_headers
from aiokproto.types import Header
from tests.accelerator.forms import each_form
from tests.records.strategies import headers, payloads

np = pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")

from aiokproto.records.columns import BytesColumn, to_columns  # noqa: E402
from aiokproto.records.rows import NO_PARTITION, Rows, from_arrow  # noqa: E402

each_form_of_append = pytest.mark.parametrize("append_rows", each_form("aiokproto.records.rows", "append_rows"))
each_form_of_encode = pytest.mark.parametrize("encode_lists", each_form("aiokproto.records.rows", "encode_lists"))

NOW = 1_700_000_000_000
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

given_rows = st.lists(st.tuples(payloads, payloads, st.integers(-1, 2**62) | st.none(), headers), max_size=20)
# Hypothesis writes any character; Arrow's strings have no lone surrogates.
given_rows = given_rows.filter(
    lambda rows: all(not "\ud800" <= char <= "\udfff" for row in rows for key, _ in row[3] for char in key)
)


def table_of(rows: list[Any], binary: Any = None) -> Any:
    binary = binary or pa.binary()
    keys, values, times, found = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [], [])
    lists = [[{"key": key, "value": value} for key, value in one] or None for one in found]
    return pa.table(
        {
            "key": pa.array(keys, binary),
            "value": pa.array(values, binary),
            "timestamp": pa.array(times, pa.int64()),
            "headers": pa.array(lists, HEADERS),
        }
    )


def records_of(rows: list[Any]) -> list[BatchRecord]:
    return [BatchRecord(i, NOW if row[2] is None else row[2], row[0], row[1], row[3]) for i, row in enumerate(rows)]


def written(append_rows: Any, table: Any) -> list[BatchRecord]:
    builder = BatchBuilder()
    for rows in from_arrow(table, NOW):
        assert append_rows(builder, rows, rows.places()) == len(rows)
    return list(next(decode(builder.close()))) if builder.count else []


def only(table: Any) -> Rows:
    (rows,) = from_arrow(table, NOW)
    return rows


@each_form_of_append
@given(rows=given_rows, cut=st.integers(0, 20), large=st.booleans())
def test_records_are_those_of_the_table(append_rows: Any, rows: list[Any], cut: int, large: bool) -> None:
    """Also where it is in pieces, each of them a part of something larger."""
    table = table_of(rows, pa.large_binary() if large else pa.binary())
    assert written(append_rows, table) == records_of(rows)
    pieces = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    assert written(append_rows, pieces) == records_of(rows)
    assert written(append_rows, table.slice(cut)) == [
        BatchRecord(i, *row) for i, row in enumerate(r[1:] for r in map(fields, records_of(rows)[cut:]))
    ]


def fields(record: BatchRecord) -> tuple[Any, ...]:
    return record.offset, record.timestamp, record.key, record.value, record.headers


@each_form_of_append
@pytest.mark.parametrize("kind", ["string", "large_string", "binary", "large_binary"])
def test_columns_of_text_and_of_bytes(append_rows: Any, kind: str) -> None:
    column = pa.array(["Grüße", None, ""]).cast(getattr(pa, kind)())
    found = written(append_rows, pa.table({"value": column}))
    assert [fields(record)[1:] for record in found] == [
        (NOW, None, value, ()) for value in ("Grüße".encode(), None, b"")
    ]


@each_form_of_append
def test_a_column_of_nulls(append_rows: Any) -> None:
    found = written(append_rows, pa.table({"value": pa.nulls(2), "key": pa.nulls(2), "timestamp": pa.nulls(2)}))
    assert [fields(record)[1:] for record in found] == [(NOW, None, None, ())] * 2


@each_form_of_append
@pytest.mark.parametrize(("unit", "factor"), [("s", 0.001), ("ms", 1), ("us", 1000), ("ns", 1_000_000)])
def test_timestamps_of_any_unit(append_rows: Any, unit: str, factor: float) -> None:
    """What is finer than a millisecond is dropped."""
    finer = 999 if factor > 1 else 0
    column = pa.array([int(NOW * factor) + finer, None], pa.timestamp(unit, "UTC"))
    found = written(append_rows, pa.table({"value": ["a", "b"], "timestamp": column}))
    assert [record.timestamp for record in found] == [NOW, NOW]


@each_form_of_append
def test_rows_that_were_read_can_be_written(append_rows: Any) -> None:
    builder = BatchBuilder()
    builder.append(NOW, b"key", b"value", [("name", b"content")])
    builder.append(NOW + 1, None, None)
    data = builder.close()
    table = to_columns(decode(data)).to_arrow("t", 0, columns=["key", "value", "timestamp", "headers"])
    assert written(append_rows, table) == list(next(decode(data)))


@each_form_of_append
def test_as_many_are_written_as_fit(append_rows: Any) -> None:
    rows = only(pa.table({"value": [b"v" * 100] * 10}))
    builder = BatchBuilder(max_bytes=61 + 3 * 109)
    places = rows.places()
    assert append_rows(builder, rows, places) == 3
    assert append_rows(builder, rows, places[3:]) == 0
    assert append_rows(builder, rows, places[:0]) == 0
    builder.close()
    assert append_rows(builder, rows, places) == 0


@each_form_of_append
def test_chosen_rows_are_written_in_the_order_they_are_named_in(append_rows: Any) -> None:
    rows = only(pa.table({"value": [b"%d" % number for number in range(10)]}))
    builder = BatchBuilder()
    assert append_rows(builder, rows, np.array([7, 1, 1, 3])) == 4
    assert append_rows(builder, rows, rows.places()[::4]) == 3
    assert [record.value for record in next(decode(builder.close()))] == [b"7", b"1", b"1", b"3", b"0", b"4", b"8"]


@each_form_of_append
@pytest.mark.parametrize("place", [-1, 2, 2**62])
def test_a_row_out_of_range(append_rows: Any, place: int) -> None:
    rows = only(pa.table({"value": ["a", "b"]}))
    builder = BatchBuilder()
    with pytest.raises(IndexError, match=f"row {place} of 2 does not exist"):
        append_rows(builder, rows, np.array([0, place]))
    assert builder.count == 1


@each_form_of_append
@pytest.mark.parametrize("place", [(2, 4), (-1, 1), (2, 1), (2**40, 2**40)])
def test_null_content(append_rows: Any, place: tuple[int, int]) -> None:
    start, end = (np.array([edge]) for edge in place)
    sound = BytesColumn(b"abc", np.array([0]), np.array([1]), np.array([True]))
    builder = BatchBuilder()
    for name in ("key", "value", "headers"):
        columns: dict[str, Any] = {"key": sound, "value": sound, "headers": None}
        columns[name] = BytesColumn(b"abc", start, end, np.array([True]))
        rows = Rows(timestamp=np.array([NOW]), partition=None, **columns)
        with pytest.raises(IndexError, match=f"the {name} of row 0 exceeds its column's data"):
            append_rows(builder, rows, rows.places())
    assert builder.count == 0


def test_partitions() -> None:
    for kind in (pa.int8(), pa.int32(), pa.uint64()):
        rows = only(pa.table({"value": ["a", "b"], "partition": pa.array([3, None], kind)}))
        assert rows.partition is not None
        assert rows.partition.tolist() == [3, NO_PARTITION]
    assert only(pa.table({"value": ["a"]})).partition is None


@given(given_rows)
def test_sizes_are_those_of_the_estimate_or_less(rows: list[Any]) -> None:
    for piece in from_arrow(table_of(rows), NOW):
        for size, row in zip(piece.sizes().tolist(), rows, strict=True):
            assert size <= estimate_size(row[0], row[1], row[3]) + 5
            builder = BatchBuilder()
            builder.append(NOW, None, None)
            before = builder.size
            builder.append(0 if row[2] is None else row[2], row[0], row[1], row[3])
            assert builder.size - before <= size


def test_a_record_batch_is_taken_too() -> None:
    assert [len(rows) for rows in from_arrow(pa.record_batch({"value": ["a", "b"]}), NOW)] == [2]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"key": ["a"]}, "a table needs a value column"),
        ({"value": ["a"], "vaule": ["b"]}, "unknown columns vaule: a table may have key, value, headers"),
        ({"value": [1]}, "column value is int64: cast it to binary or string"),
        ({"value": pa.array(["a"]).dictionary_encode()}, "column value is dictionary"),
        ({"value": ["a"], "key": [1.5]}, "column key is double"),
        ({"value": ["a"], "timestamp": ["x"]}, "column timestamp is string: cast it to an integer"),
        ({"value": ["a"] * 2, "timestamp": [1, -2]}, "the timestamp of row 1 is -2"),
        ({"value": ["a"], "timestamp": pa.array([2**63], pa.uint64())}, "column timestamp: .*not in range"),
        ({"value": ["a"], "timestamp": pa.array([2**60], pa.timestamp("s"))}, "column timestamp: .*out of bounds"),
        ({"value": ["a"], "timestamp": [datetime.date(2026, 1, 1)]}, "column timestamp is date32"),
        ({"value": ["a"] * 3, "partition": [0, None, -1]}, "the partition of row 2 is -1"),
        ({"value": ["a"], "partition": [0.5]}, "column partition is double"),
        ({"value": ["a"], "headers": ["x"]}, "column headers is string: cast it to list<"),
        ({"value": ["a"] * 2, "headers": pa.array([[], [{"key": None}]], HEADERS)}, "a header of row 1 has no key"),
    ],
)
def test_invalid_rows_are_refused(columns: Any, message: str) -> None:
    with pytest.raises(InvalidRecordError, match=message):
        from_arrow(pa.table(columns), NOW)


def test_rows_are_counted_through_the_whole_table() -> None:
    table = pa.concat_tables([pa.table({"value": ["a"] * 3, "timestamp": [1, 2, 3]})] * 2)
    bad = pa.concat_tables([table, pa.table({"value": ["a"], "timestamp": [-9]})])
    with pytest.raises(InvalidRecordError, match="the timestamp of row 6 is -9"):
        from_arrow(bad, NOW)


@each_form_of_encode
@given(lists=st.lists(headers, max_size=8))
def test_headers_are_encoded_as_in_records(encode_lists: Any, lists: list[tuple[Header, ...]]) -> None:
    lists = [tuple((key.encode("utf-8", "replace").decode(), value) for key, value in one) for one in lists]
    pairs = [pair for one in lists for pair in one]
    end = np.cumsum([len(one) for one in lists], dtype=np.int64)
    start = end - np.array([len(one) for one in lists], np.int64)
    found = encode_lists(start, end, column([key.encode() for key, _ in pairs]), column([value for _, value in pairs]))
    assert [found[row] for row in range(len(found))] == [encode_headers(one) for one in lists]


@each_form_of_encode
@pytest.mark.parametrize("place", [(0, 2), (-1, 1), (1, 0), (2**62, 2**62)])
def test_null_headers(encode_lists: Any, place: tuple[int, int]) -> None:
    start, end = (np.array([0, edge]) for edge in place)
    end[0] = 0
    with pytest.raises(IndexError, match=f"row 1 has headers {place[0]} to {place[1]} of 1"):
        encode_lists(start, end, column([b"key"]), column([b"value"]))


def column(items: list[bytes | None]) -> BytesColumn:
    edges = np.cumsum([0, *(len(item or b"") for item in items)], dtype=np.int64)
    valid = np.array([item is not None for item in items], np.bool_)
    return BytesColumn(b"".join(item or b"" for item in items), edges[:-1], edges[1:], valid)


def test_header_keys_that_are_not_utf8_are_refused() -> None:
    text = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff")])
    pairs = pa.StructArray.from_arrays([text, pa.array([b"value"])], ["key", "value"])
    lists = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), pairs)
    with pytest.raises(InvalidRecordError, match=r"column headers: .*UTF8"):
        from_arrow(pa.table({"value": ["a"], "headers": lists}), NOW)
