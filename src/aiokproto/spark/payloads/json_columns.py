"""JSON rows to columns, for rows that Arrow's reader rejects. Python parses them, and converts column by column.

The values of a column usually have one form, and are converted as a whole. If a value has another form, the column is
converted value by value (:mod:`.json_values`), with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aiokproto.spark.payloads.json_forms import times
from aiokproto.spark.payloads.json_values import Converter, Malformed, Number, converter, parse

if TYPE_CHECKING:
    import pyarrow as pa

Column = Callable[[Sequence[Any]], "tuple[pa.Array, Collection[int]]"]
"""Converts parsed values to a type, and returns the indexes of values that don't have it."""

Whole = Callable[[Sequence[Any]], "pa.Array"]
"""Converts values of one form. Raises an error if a value has another form."""

_NOTHING: Mapping[str, Any] = {}
_SECOND = 1_000_000


def columns_reader(kind: pa.DataType) -> Callable[[Sequence[bytes]], tuple[pa.Array, Collection[int]]]:
    """Return a function that reads JSON of a struct, and returns the structs and the indexes of malformed rows."""
    convert = _struct(kind)

    def read(rows: Sequence[bytes]) -> tuple[pa.Array, Collection[int]]:
        values: list[Any] = []
        malformed = set()
        for number, data in enumerate(rows):
            try:
                value = parse(data)
            except (ValueError, RecursionError):
                value = ()
            if type(value) is not dict and value is not None:
                malformed.add(number)
                value = _NOTHING
            values.append(value)
        found, wrong = convert(values)
        return found, malformed.union(wrong)

    return read


def _column(kind: pa.DataType) -> Column:
    import pyarrow as pa

    types = pa.types
    if types.is_struct(kind):
        return _struct(kind)
    one_by_one = _one_by_one(converter(kind), kind)
    if types.is_integer(kind):
        return _whole_or(_numbers(int, kind), one_by_one)
    if types.is_floating(kind):
        return _whole_or(_numbers(float, kind), one_by_one)
    if types.is_timestamp(kind):
        return _whole_or(_timestamps(kind), one_by_one)
    if kind == pa.date32():
        return _whole_or(lambda values: _array_of(values, str, pa.string()).cast(kind), one_by_one)
    if kind == pa.string():
        return _whole_or(lambda values: _array_of(values, str, kind), one_by_one)
    if kind == pa.bool_():
        return _whole_or(lambda values: _array_of(values, bool, kind), one_by_one)
    return one_by_one


def _struct(kind: pa.DataType) -> Column:
    import pyarrow as pa

    columns = [(field.name, _column(field.type)) for field in kind]

    def convert(values: Sequence[Any]) -> tuple[pa.Array, Collection[int]]:
        structs = [value if isinstance(value, dict) else _NOTHING for value in values]
        missing = [number for number, value in enumerate(values) if structs[number] is not value]
        wrong = {number for number in missing if values[number] is not None}
        arrays = []
        for name, column in columns:
            found, malformed = column([struct.get(name) for struct in structs])
            arrays.append(found)
            wrong.update(malformed)
        mask = pa.array([not isinstance(value, dict) for value in values]) if missing else None
        return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=mask), wrong

    return convert


def _whole_or(whole: Whole, one_by_one: Column) -> Column:
    import pyarrow as pa

    def convert(values: Sequence[Any]) -> tuple[pa.Array, Collection[int]]:
        try:
            return whole(values), ()
        # pyarrow's errors are ValueErrors, and so is the error for text that UTF-8 can't encode.
        except (ValueError, TypeError, OverflowError, pa.ArrowException):
            return one_by_one(values)

    return convert


def _one_by_one(convert: Converter, kind: pa.DataType) -> Column:
    import pyarrow as pa

    def column(values: Sequence[Any]) -> tuple[pa.Array, Collection[int]]:
        found = []
        malformed = []
        for number, value in enumerate(values):
            try:
                found.append(convert(value))
            except Malformed as error:
                found.append(error.partial)
                malformed.append(number)
        return pa.array(found, kind), malformed

    return column


def _array_of(values: Sequence[Any], python: type, kind: pa.DataType) -> pa.Array:
    """Return values unchanged if all have one type."""
    import pyarrow as pa

    if not set(map(type, values)) <= {python, type(None)}:
        raise TypeError
    return pa.array(values, kind)


def _numbers(python: type[int] | type[float], kind: pa.DataType) -> Whole:
    import pyarrow as pa

    def whole(values: Sequence[Any]) -> pa.Array:
        if not set(map(type, values)) <= {Number, type(None)}:
            raise TypeError
        return pa.array([None if value is None else python(value) for value in values], kind)

    return whole


def _timestamps(kind: pa.DataType) -> Whole:
    """Convert times that are written as text or, if the type has a zone, as numbers of seconds since 1970."""
    import pyarrow as pa
    from pyarrow import compute

    def whole(values: Sequence[Any]) -> pa.Array:
        found = set(map(type, values)) - {type(None)}
        if found <= {str}:
            return times(pa.array(values, pa.string()), kind)
        if not found <= {str, Number} or not kind.tz:
            raise TypeError
        micros = pa.array(
            [int(value) * _SECOND if type(value) is Number else None for value in values], pa.int64()
        ).cast(kind)
        if str not in found:
            return micros
        texts = pa.array([value if type(value) is str else None for value in values], pa.string())
        return compute.call_function("coalesce", [micros, times(texts, kind)])

    return whole
