"""Forms of JSON that Arrow's reader rejects, rewritten to forms with the same meaning that it accepts.

White space around a value is removed: Arrow's reader expects a document in each line. Numbers and booleans for a STRING
field get quotes: Arrow's reader doesn't accept a number as text. The text of a number stays as it was
written, such as ``1.50``.

Adding quotes is safe: in a well-formed document ``{`` or ``,``, white space and a quote always start a name. If they
were in a string, the quote would end the string, and the rest of the match would make the document malformed, with or
without the new quotes.

Times lose digits beyond microseconds, as in Spark, and get a zone if they lack one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from aiokproto.spark.payloads.json_values import WHITE_SPACE

if TYPE_CHECKING:
    import pyarrow as pa

Rewrite = Callable[["pa.Array"], "pa.Array"]

_AROUND = f"^[{WHITE_SPACE}]+|[{WHITE_SPACE}]+$"
# RE2 has no lookahead to check that the number ends here, but if it doesn't, the document is malformed anyway.
_SCALAR = r"(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\b|true\b|false\b)"
_BEYOND_MICROSECONDS = r"(\.[0-9]{6})[0-9]+"
_DATE = r"^([0-9]{4}-[0-9]{2}-[0-9]{2})$"
_WITHOUT_ZONE = r"^([0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}(?::[0-9]{2}){0,2}(?:\.[0-9]+)?)$"


def rewriter(kind: pa.DataType) -> Rewrite:
    """Return a function that rewrites a column of JSON documents, which are structs of this type."""
    names = _text_names(kind)
    if not names:
        return _without_white_space
    either = "|".join(re.escape(json.dumps(name, ensure_ascii=False)) for name in sorted(names))
    field = rf"([{{,][{WHITE_SPACE}]*(?:{either})[{WHITE_SPACE}]*:[{WHITE_SPACE}]*)"
    quoted = partial(_replaced, pattern=field + _SCALAR, by=r'\1"\2"')
    return lambda values: quoted(_without_white_space(values))


def _without_white_space(values: pa.Array) -> pa.Array:
    return _replaced(values, pattern=_AROUND, by="")


def _text_names(kind: pa.DataType) -> set[str]:
    """Return the names of fields that are text in every struct, because the rewriting can't tell structs apart."""
    import pyarrow as pa

    found = list(_fields(kind))
    return {field.name for field in found} - {field.name for field in found if field.type != pa.string()}


def _fields(kind: pa.DataType) -> Iterator[pa.Field]:
    """Yield the fields of a struct, and of all structs in it."""
    import pyarrow as pa

    if pa.types.is_list(kind):
        yield from _fields(kind.value_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield field
            yield from _fields(field.type)


def _within_microseconds(texts: pa.Array) -> pa.Array:
    """Return times, as text, without digits beyond microseconds."""
    return _replaced(texts, pattern=_BEYOND_MICROSECONDS, by=r"\1")


def _with_zone(texts: pa.Array) -> pa.Array:
    """Return times, as text, with UTC added if they have no zone."""
    return _replaced(_replaced(texts, pattern=_DATE, by=r"\1T00:00:00Z"), pattern=_WITHOUT_ZONE, by=r"\1Z")


def times(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the times of texts.

    Raises:
        pa.ArrowInvalid: A text isn't a time, or has a form that Arrow doesn't know.
    """
    import pyarrow as pa

    try:
        return _as_written(texts, kind)
    except pa.ArrowInvalid:
        short = _within_microseconds(texts)
        return _as_written(_with_zone(short) if kind.tz else short, kind)


def _as_written(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Parse times. All of them must have a zone if the type has one, and none of them otherwise."""
    import pyarrow as pa
    from pyarrow import compute

    found = texts.cast(kind)
    if not kind.tz or all_true(compute.call_function("ends_with", [texts], compute.MatchSubstringOptions("Z"))):
        return found
    # Reject offsets of more than 18 hours, which Arrow accepts, but Spark doesn't.
    if not all_true(compute.call_function("invert", [_matches(texts, r"[+-](1[89]|2\d)(:?\d\d)?$")])):
        raise pa.ArrowInvalid("an offset is too large")
    return found


def all_true(flags: pa.Array) -> bool:
    """Return whether all flags are true; nulls are ignored."""
    from pyarrow import compute

    return bool(compute.call_function("all", [flags], compute.ScalarAggregateOptions(min_count=0)).as_py())


def _matches(texts: pa.Array, pattern: str) -> pa.Array:
    from pyarrow import compute

    return compute.call_function("match_substring_regex", [texts], compute.MatchSubstringOptions(pattern))


def _replaced(texts: pa.Array, *, pattern: str, by: str) -> pa.Array:
    from pyarrow import compute

    return compute.call_function(
        "replace_substring_regex", [texts], compute.ReplaceSubstringOptions(pattern, by, max_replacements=None)
    )
