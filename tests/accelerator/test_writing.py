"""Both writers write the same bytes for the same records, and refuse the same ones."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from aiokproto.accelerator import forms
from aiokproto.errors import InvalidRecordError
from aiokproto.records import BatchBuilder, BatchRecord, RecordBatch
from aiokproto.records.batch import HEADER
from aiokproto.types import Header
from tests.accelerator.forms import each_form, not_compiled
from tests.records.strategies import INT64_MAX, headers, payloads, timestamps

WRITER = "aiokproto.records.writer"
WRITERS = forms(WRITER, "RecordWriter")
HEADERS = forms(WRITER, "encode_headers")
each_writer = pytest.mark.parametrize("form", each_form(WRITER, "RecordWriter"))
each_encoder = pytest.mark.parametrize("encode_headers", each_form(WRITER, "encode_headers"))
each_plain = pytest.mark.parametrize("plain", each_form(WRITER, "plain"))
differential = pytest.mark.skipif("compiled" not in WRITERS, reason=not_compiled.kwargs["reason"])

Row = tuple[Any, Any, Any, Any]

wrong = st.sampled_from(["text", 3, 1.5, [b"x"]])
any_timestamp = timestamps | st.sampled_from([-2, -1, 0, INT64_MAX, INT64_MAX + 1, -INT64_MAX - 2, 2**70])
any_content = payloads | payloads.map(lambda data: data and bytearray(data)) | wrong
any_headers = headers | st.lists(st.tuples(st.text(max_size=3) | wrong, any_content), max_size=2)
rows = st.lists(st.tuples(any_timestamp, any_content, any_content, any_headers), max_size=12)


def written(form: str, given_rows: list[Row], max_bytes: int | None, base_timestamp: int | None) -> list[Any]:
    """All that can be seen of a writer, step by step."""
    seen: list[Any] = []
    try:
        writer = WRITERS[form](max_bytes, base_timestamp)
    except InvalidRecordError as error:
        return [str(error)]
    for row in given_rows:
        try:
            seen.append(writer.append(*row))
        except (InvalidRecordError, TypeError, UnicodeEncodeError) as error:
            seen.append((type(error), str(error)))
        seen.append((writer.count, writer.size, writer.base_timestamp, writer.max_timestamp, writer.max_bytes))
    try:
        # The room for the header has no content yet.
        seen.append(writer.take()[HEADER.size :])
    except InvalidRecordError as error:
        seen.append(str(error))
    seen.append((writer.count, writer.size, writer.append(1, None, None) if writer.count else None))
    return seen


@differential
@given(
    rows,
    st.none() | st.integers(0, 2000),
    st.none() | st.sampled_from([-2, -1, 0, 1_700_000_000_000, INT64_MAX, INT64_MAX + 1]),
)
@example([(INT64_MAX, None, None, ())], None, -1)
@example([(-1, None, None, ()), (INT64_MAX, None, None, ())], None, None)
@example([(-1, None, None, ()), (-2, None, None, ())], None, None)
@example([(INT64_MAX, None, None, ()), (INT64_MAX + 1, None, None, ())], None, None)
@example([(1, None, b"v" * 100, ())] * 3, HEADER.size + 2 * 107, None)
@example([(1, None, None, [("\ud800", b"")])], None, None)
def test_the_same_is_written(given_rows: list[Row], max_bytes: int | None, base_timestamp: int | None) -> None:
    given_args = (given_rows, max_bytes, base_timestamp)
    assert written("compiled", *given_args) == written("pure", *given_args)


@differential
@pytest.mark.parametrize("count", [64, 8192])
def test_the_same_where_places_take_another_byte(count: int) -> None:
    given_rows: list[Row] = [(1000 + place, None, b"%d" % place, ()) for place in range(count + 1)]
    assert written("compiled", given_rows, None, None) == written("pure", given_rows, None, None)


@each_writer
def test_values_of_any_kind_of_bytes(form: Any) -> None:
    """Also of those whose items are no bytes, or do not follow one another."""
    numbers = array("i", [1, 2, 3])
    kinds: list[Any] = [bytearray(b"abc"), memoryview(b"abcdef")[::2], memoryview(numbers), numbers]
    writer = form()
    for kind in kinds:
        writer.append(1, kind, kind, [("name", kind)])
    expected = [b"abc", b"ace", numbers.tobytes(), numbers.tobytes()]
    found = read(writer)
    assert [record.value for record in found] == [record.key for record in found] == expected
    assert [dict(record.headers)["name"] for record in found] == expected


@each_writer
@pytest.mark.parametrize("headers", [[(b"name", b"")], [("name", "text")], [("name",)], [3], 3])
def test_headers_of_a_wrong_type_are_refused_and_nothing_is_written(form: Any, headers: Any) -> None:
    writer = form()
    writer.append(1, None, b"first")
    before = writer.size
    with pytest.raises((TypeError, ValueError)):
        writer.append(1, None, b"second", headers)
    assert (writer.size, writer.count) == (before, 1)


@each_writer
def test_room_that_is_given_later(form: Any) -> None:
    writer = form(max_bytes=HEADER.size)
    assert writer.append(1, None, b"first") == 0
    assert writer.append(1, None, b"second") is None
    writer.max_bytes = 1000
    assert writer.append(1, None, b"second") == 1
    assert [record.value for record in read(writer)] == [b"first", b"second"]


@each_writer
def test_what_was_taken_is_the_takers(form: Any) -> None:
    writer = form()
    writer.append(1, None, b"value")
    data = writer.take()
    assert type(data) is bytearray
    data += b"more"
    assert (writer.size, writer.max_bytes) == (0, 0)
    assert writer.append(1, None, b"value") is None
    with pytest.raises(InvalidRecordError, match="the batch was closed before"):
        writer.take()
    with pytest.raises(InvalidRecordError, match="the batch has no records"):
        form().take()


@each_writer
def test_no_more_memory_than_the_batch_may_take(form: Any) -> None:
    writer = form(max_bytes=5000)
    while writer.append(1, None, b"v" * 100) is not None:
        pass
    # A bytearray that grows by itself takes an eighth more than it needs.
    assert writer.take().__sizeof__() < 5000 * 9 // 8 + 100


@each_writer
def test_a_batch_of_many_sizes(form: Any) -> None:
    """Whatever doubles on the way, what was written stays."""
    values = [bytes([size % 251]) * size for size in (0, 1, 3000, 100, 70_000, 5, 200_000)]
    writer = form()
    for value in values:
        writer.append(1, None, value)
    assert [record.value for record in read(writer)] == values


@each_encoder
@given(pairs=headers)
def test_headers(encode_headers: Any, pairs: tuple[Header, ...]) -> None:
    assert encode_headers(pairs) == encode_headers(list(pairs)) == HEADERS["pure"](pairs)


@each_plain
@pytest.mark.parametrize("content", ["text", 3, None])
def test_values_that_are_not_bytes(plain: Any, content: Any) -> None:
    with pytest.raises(TypeError, match=f"^expected bytes or None, got {type(content).__name__}$"):
        plain(content)


def read(writer: Any) -> list[BatchRecord]:
    """What was written, by way of a builder's header."""
    builder = BatchBuilder()
    builder.append(writer.base_timestamp, None, None)
    header = builder.close()[: HEADER.size]
    fields = list(HEADER.unpack(header))
    fields[-1] = writer.count
    records = writer.take()[HEADER.size :]
    fields[1] = HEADER.size - 12 + len(records)
    return list(RecordBatch(HEADER.pack(*fields) + records))
