"""From JSON to typed columns: Arrow's reader for many rows at once, :mod:`.json_columns` for rows that it rejects.

Arrow's reader takes lines and returns rows, but doesn't say which line a row is from. The two correspond if each line
has exactly one document. If each line starts with ``{`` and ends with ``}``, no document can start in one line and end
in the next: no document contains ``}{``, and JSON has no line breaks in strings. So each line has at least one
document, and exactly one if there are as many rows as lines.

If the reader rejects a batch, the batch is first rewritten to forms that the reader accepts (:mod:`.json_forms`), and
then divided into blocks. Python parses the blocks that the reader rejects again. Bisecting a block down to the rejected
rows would cost more, because one call of the reader takes as long as Python needs for a few dozen rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from aiokproto.spark.payloads.json_columns import columns_reader
from aiokproto.spark.payloads.json_forms import all_true, rewriter, times

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK = 1024
"""Number of rows that Python parses if Arrow's reader rejects one of them."""


class Decoded(NamedTuple):
    """A column that was decoded.

    Attributes:
        column: The values. A malformed row has the parts that could be read.
        malformed: What is wrong with each malformed row, by its index.
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
            # Python parses the original text: the rewritten text has quotes around numbers, even in an object that
            # becomes the text of a STRING field.
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
    """Return an array with nulls where ``present`` is false, and the values at the other indexes."""
    import numpy as np
    import pyarrow as pa

    mask = present.to_numpy(zero_copy_only=False)
    indexes = np.cumsum(mask) - 1
    return values.take(pa.array(indexes, pa.int64(), mask=~mask))


def _transit(kind: pa.DataType) -> pa.DataType | None:
    """Return the type to pass to Arrow's reader: text for dates and times. None if the reader can't read the type."""
    import pyarrow as pa

    types = pa.types
    if types.is_map(kind) or types.is_decimal(kind) or kind == pa.binary():
        return None
    if types.is_struct(kind):
        inner = [(field.name, _transit(field.type)) for field in kind]
        return None if any(found is None for _, found in inner) else pa.struct(inner)
    if types.is_list(kind):
        element = _transit(kind.value_type)
        return None if element is None else pa.list_(pa.field("element", element))
    return pa.string() if types.is_temporal(kind) else kind


def _fast(values: pa.Array, transit: pa.DataType, kind: pa.DataType) -> pa.Array | None:
    """Read all rows with Arrow's reader; None if it rejects them."""
    import pyarrow as pa
    from pyarrow import compute, json

    ends = compute.call_function("ends_with", [values], compute.MatchSubstringOptions("}"))
    starts = compute.call_function("starts_with", [values], compute.MatchSubstringOptions("{"))
    if not (all_true(starts) and all_true(ends)):
        return None
    # A line break between tokens splits a value into two lines, so the numbers of rows and lines differ.
    lines = compute.call_function(
        "binary_join", [pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values), b"\n"]
    )
    data = lines.buffers()[2]
    options = json.ParseOptions(explicit_schema=pa.schema(list(transit)), unexpected_field_behavior="ignore")
    try:
        # Cast to check that the text is UTF-8. Arrow's reader of JSON doesn't check it.
        lines.cast(pa.string())
        # Read it as one block, so that no row is longer than a block.
        reading = json.ReadOptions(use_threads=False, block_size=max(data.size, 1))
        table = json.read_json(pa.BufferReader(data), read_options=reading, parse_options=options)
        if len(table) != len(values):
            return None
        columns = [table.column(field.name).combine_chunks() for field in transit]
        arrays = [_converted(_joined(column), field.type) for column, field in zip(columns, kind, strict=True)]
        return pa.StructArray.from_arrays(arrays, fields=list(kind))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError, KeyError):
        return None


def _joined(column: Any) -> pa.Array:
    """Return the array of a combined column."""
    import pyarrow as pa

    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column


def _converted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column of Arrow's reader, converted to its final type.

    Raises:
        pa.ArrowInvalid: A text isn't a date or time, or has a form that Arrow doesn't know.
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
