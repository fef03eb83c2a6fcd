"""Checks of individual options, for every class that takes options.

Each raises a :class:`~aiokproto.errors.ConfigurationError` that names the option, its value, and the accepted values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

from aiokproto.application.hints import OPTIONS, OWNERS
from aiokproto.errors import ConfigurationError
from aiokproto.texts import is_unicode

T = TypeVar("T")


def unknown_options(unknown: Sequence[str], valid: Iterable[str]) -> ConfigurationError:
    """Return the error for unknown options.

    For each it suggests what to use instead, if another client has that option, or the closest name.

    The error names all of them: a configuration for another client usually has several.
    """
    names = sorted(valid)
    advice = {name: _advice(name, names) for name in unknown}
    text = "; ".join(f"{name!r}{advised}" for name, advised in advice.items())
    everything = "" if all(advice.values()) else f"; valid options: {', '.join(names)}"
    return ConfigurationError(f"unknown option{'s:' if len(advice) > 1 else ''} {text}{everything}")


def _advice(name: str, names: list[str]) -> str:
    key = name.lower().replace(".", "_").replace("-", "_")
    if key in OPTIONS:
        return f": {OPTIONS[key]}"
    if key in OWNERS and key not in names:
        return f": {OWNERS[key]} has it"
    close = get_close_matches(key, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def number(name: str, value: object, minimum: float = 0, maximum: float | None = None) -> float:
    """Check a number against bounds (both inclusive). A ``bool`` is rejected."""
    # Written so that NaN fails, too.
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and value >= minimum
        and (maximum is None or value <= maximum)
    ):
        return value
    # 15 digits show 2147483647 in full, and 0.1 as 0.1.
    most = "" if maximum is None else f" and at most {maximum:.15g}"
    raise ConfigurationError(f"{name}={value!r}: expected a number of at least {minimum:.15g}{most}")


def at_most(name: str, value: int, limit: str, most: int) -> int:
    """Check a number against another argument, which the error names."""
    if value > most:
        raise ConfigurationError(f"{name}={value}: expected at most {limit}={most}")
    return value


def integer(name: str, value: object, minimum: int = 0, maximum: int | None = None) -> int:
    """Check a whole number against bounds (both inclusive)."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigurationError(f"{name}={value!r}: expected a whole number of at least {minimum}")
    return int(number(name, value, minimum, maximum))


def positive(name: str, value: object) -> int:
    """Check a whole number above 0."""
    return integer(name, value, 1)


def seconds(name: str, value: object, minimum: float = 0) -> float:
    """Convert a duration from milliseconds to seconds."""
    return number(name, value, minimum) / 1000


def duration(name: str, value: object) -> float:
    """Convert a duration above 0 from milliseconds to seconds."""
    if number(name, value) == 0:
        raise ConfigurationError(f"{name}={value!r}: expected a number of milliseconds above 0")
    return seconds(name, value)


def one_of(name: str, value: T, choices: Collection[T]) -> T:
    """Return the choice that equals the value. Strings are compared case-insensitively."""
    for choice in choices:
        if value == choice or (isinstance(value, str) and isinstance(choice, str) and value.lower() == choice.lower()):
            return choice
    raise ConfigurationError(f"{name}={value!r}: expected {' or '.join(repr(choice) for choice in choices)}")


def text(name: str, value: object) -> str:
    """Check a string that is not empty and fits a Kafka STRING (int16 length)."""
    if not isinstance(value, str) or not value or not is_unicode(value) or len(value.encode()) > 0x7FFF:
        raise ConfigurationError(f"{name}={value!r}: expected text of 1 to 32767 bytes")
    return value


def boolean(name: str, value: object) -> bool:
    """Check a bool. Nothing else is accepted: ``"false"`` would count as true."""
    if not isinstance(value, bool):
        raise ConfigurationError(f"{name}={value!r}: expected True or False")
    return value


def function(name: str, value: Any) -> Any:
    """Check a callable, or None."""
    if value is not None and not callable(value):
        raise ConfigurationError(f"{name}={value!r}: expected a function, or None")
    return value
