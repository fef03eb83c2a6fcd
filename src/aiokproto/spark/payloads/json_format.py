"""JSON columns to typed ones: Arrow's reader for many rows at once, and :mod:`.json_columns` for what it does not take.

Arrow's reader takes lines, and returns rows, not which line each is from. Rows are those of the lines if each line has
one document. That is sure if each begins with ``{`` and ends with ``}``: no document can begin in one such line and end
in the next, because ``}{`` is in no document, and JSON has no line breaks within strings. So each line has one document
or more, and one exactly if there are as many rows as lines.

A batch that the reader rejects is first rewritten to forms that it takes (:mod:`.json_forms`), and then divided into
blocks: those that it rejects again are parsed by Python. Halves, down to the rows that it does not take, would cost
more: the reader itself takes as long as Python does for some tens of rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from aiokproto.spark.payloads.json_columns import columns_reader
from aiokproto.spark.payloads.json_forms import all_true, rewriter, times

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK = 1024
"""Rows that Python parses, if Arrow's reader does not take one of them."""


class Decoded(NamedTuple):
    """A column that was decoded.

    Attributes:
        column: The values; of malformed rows, what there is of them.
        malformed: The numbers of the malformed rows, each with what is wrong.
    """

    column: pa.Array
    malformed: dict[int, str]


def json_decoder(kind: pa.DataType) -> Callable[[pa.Array], Decoded]:
    """Return a function that decodes a column of bytes to structs of this type."""
    import pyarrow as pa

    read = columns_reader(kind)
    transit = _transit(kind)
    rewrite = rewriter(kind)

    def parsed(values: pa.Array, malformed: dict[int, str], first: int) -> pa.Array:
        found, wrong = read(values.to_pylist())
        malformed.update((first + number, "it is no JSON of the schema") for number in wrong)
        return found

    def decode(values: pa.Array, malformed: dict[int, str]) -> list[pa.Array]:
        if transit is None:
            return [parsed(values, malformed, 0)]
        if (found := _fast(values, transit, kind)) is not None:
            return [found]
        rewritten = rewrite(values)
        if (found := _fast(rewritten, transit, kind)) is not None:
            return [found]
        parts = []
        for first in range(0, len(values), BLOCK):
            found = _fast(rewritten[first : first + BLOCK], transit, kind)
            # As it was written: the text of an object for a STRING field has its numbers without quotes.
            parts.append(parsed(values[first : first + BLOCK], malformed, first) if found is None else found)
        return parts

    def column(values: pa.Array) -> Decoded:
        malformed: dict[int, str] = {}
        if not values.null_count:
            parts = decode(values, malformed) if len(values) else [pa.array([], kind)]
            return Decoded(parts[0] if len(parts) == 1 else pa.concat_arrays(parts), malformed)
        present = values.is_valid()
        rows = present.to_numpy(zero_copy_only=False).nonzero()[0]
        decoded = column(values.filter(present))
        return Decoded(
            _spread(decoded.column, present), {int(rows[number]): why for number, why in decoded.malformed.items()}
        )

    return column


def _spread(values: pa.Array, present: pa.Array) -> pa.Array:
    """Return an array with nulls where ``present`` is false, and the values in the other places."""
    import numpy as np
    import pyarrow as pa

    mask = present.to_numpy(zero_copy_only=False)
    places = np.cumsum(mask) - 1
    return values.take(pa.array(places, pa.int64(), mask=~mask))


def _transit(kind: pa.DataType) -> pa.DataType | None:
    """Return the type that Arrow's reader gets: text for dates and times. None if it cannot read this type."""
    import pyarrow as pa

    types = pa.types
    if types.is_map(kind) or types.is_decimal(kind) or kind == pa.binary():
        return None
    if types.is_struct(kind):
        inner = [(field.name, _transit(field.type)) for field in kind]
        return None if any(one is None for _, one in inner) else pa.struct(inner)
    if types.is_list(kind):
        element = _transit(kind.value_type)
        return None if element is None else pa.list_(pa.field("element", element))
    return pa.string() if types.is_temporal(kind) else kind


def _fast(values: pa.Array, transit: pa.DataType, kind: pa.DataType) -> pa.Array | None:
    """Read all rows with Arrow's reader; None if it does not take them."""
    import pyarrow as pa
    from pyarrow import compute, json

    ends = compute.call_function("ends_with", [values], compute.MatchSubstringOptions("}"))
    begins = compute.call_function("starts_with", [values], compute.MatchSubstringOptions("{"))
    if not (all_true(begins) and all_true(ends)):
        return None
    # A line break within a value is white space: it would part the value in two lines.
    lines = compute.call_function(
        "binary_join", [pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values), b"\n"]
    )
    data = lines.buffers()[2]
    options = json.ParseOptions(explicit_schema=pa.schema(list(transit)), unexpected_field_behavior="ignore")
    try:
        # Arrow's reader of JSON does not check that text is UTF-8, this cast does.
        lines.cast(pa.string())
        # In one piece, so that no row is longer than a block.
        reading = json.ReadOptions(use_threads=False, block_size=max(data.size, 1))
        table = json.read_json(pa.BufferReader(data), read_options=reading, parse_options=options)
        if len(table) != len(values):
            return None
        columns = [table.column(field.name).combine_chunks() for field in transit]
        arrays = [_converted(_joined(one), field.type) for one, field in zip(columns, kind, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=list(kind))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError, KeyError):
        return None


def _joined(column: Any) -> pa.Array:
    """Return the array of a column that was combined."""
    import pyarrow as pa

    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column


def _converted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column of Arrow's reader with the type that it shall have.

    Raises:
        pa.ArrowInvalid: A text is no date or time, or of a form that Arrow does not know.
    """
    import pyarrow as pa

    types = pa.types
    mask = column.is_null() if column.null_count else None
    if types.is_struct(kind):
        inner = [_converted(column.field(number), field.type) for number, field in enumerate(kind)]
        return pa.StructArray.from_arrays(
            inner, fields=list(kind), mask=column.is_null() if column.null_count else None
        )
    if types.is_list(kind):
        element = _converted(column.values, kind.value_type)
        mask = column.is_null() if column.null_count else None
        return pa.ListArray.from_arrays(column.offsets, element, type=kind, mask=mask)
    if types.is_timestamp(kind):
        return times(column, kind)
    return column.cast(kind) if types.is_temporal(kind) else column
