"""Texts of times to times, many at once, with the meaning of Spark's ``from_json``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiokproto.spark.payloads.json_forms import with_zone, within_microseconds

if TYPE_CHECKING:
    import pyarrow as pa


def times(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the times of texts.

    Raises:
        pa.ArrowInvalid: A text is no time, or of a form that Arrow does not know.
    """
    import pyarrow as pa

    try:
        return _as_written(texts, kind)
    except pa.ArrowInvalid:
        short = within_microseconds(texts)
        return _as_written(with_zone(short) if kind.tz else short, kind)


def _as_written(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the times of texts, all with a zone if the type has one, and all without one otherwise."""
    import pyarrow as pa
    from pyarrow import compute

    found = texts.cast(kind)
    if not kind.tz or all_true(compute.call_function("ends_with", [texts], compute.MatchSubstringOptions("Z"))):
        return found
    # Arrow reads offsets of more than 18 hours, and Spark does not.
    if not all_true(compute.call_function("invert", [_matches(texts, r"[+-](1[89]|2\d)(:?\d\d)?$")])):
        raise pa.ArrowInvalid("an offset is too large")
    return found


def all_true(flags: pa.Array) -> bool:
    """Return whether all flags are true, of those that are not null."""
    from pyarrow import compute

    return bool(compute.call_function("all", [flags], compute.ScalarAggregateOptions(min_count=0)).as_py())


def _matches(texts: pa.Array, pattern: str) -> pa.Array:
    from pyarrow import compute

    return compute.call_function("match_substring_regex", [texts], compute.MatchSubstringOptions(pattern))
