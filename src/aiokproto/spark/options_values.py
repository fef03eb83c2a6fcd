"""Parsers of option values: each returns the value of a text, or raises ``ValueError`` with what is accepted. Pure."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Mapping

Reader = Callable[[str], object]

INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1

_SHOWN = 100
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def shorten(value: object) -> str:
    """Format a value for a message, cut to a maximum length: options may have megabytes."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


def boolean(text: str) -> bool:
    """Parse ``true`` or ``false``, in any case."""
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.strip().lower() == "true"


def integer(least: int, most: int = INT64_MAX, of: str = "") -> Callable[[str], int]:
    """Return a parser of integers within bounds, both inclusive; ``of`` is the unit, for messages."""

    def read(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]+", text.strip()):
            raise ValueError(f"must be an integer{of and ', in '}{of}")
        # Python does not parse thousands of digits, and its own error names an internal limit.
        number = int(text.strip()[:30])
        if number < least:
            raise ValueError(f"must be at least {least}")
        if number > most:
            raise ValueError(f"must be at most {most}")
        return number

    return read


_UNITS = {"us": 1e-6, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def duration(text: str) -> float:
    """Parse a time such as ``15m`` or ``30s``, in Spark's units, to seconds; a number alone is in milliseconds."""
    found = re.fullmatch(r"([0-9]{1,12})([a-z]*)", text.strip().lower())
    if found is None or (found[2] or "ms") not in _UNITS:
        raise ValueError("must be a time such as 15m, 30s or 1500ms")
    return int(found[1]) * _UNITS[found[2] or "ms"]


def one_of(*words: str) -> Callable[[str], str]:
    """Return a parser of one of these words, in any case."""

    def read(text: str) -> str:
        if text.strip().lower() not in words:
            raise ValueError(f"must be {' or '.join(words)}")
        return text.strip().lower()

    return read


def topics(text: str) -> tuple[str, ...]:
    """Parse topic names separated by commas; at least one is required."""
    found = names(text)
    for name in found:
        check_topic(name)
    return found


def check_topic(name: str) -> None:
    """Raise ValueError unless Kafka accepts the name. A broker reports an invalid one as unknown, or not at all."""
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise ValueError(
            f"{shorten(name)} is not a topic name: use 1 to 249 characters of a-z A-Z 0-9 . _ -, and not . or .."
        )


def topic_name(text: str) -> str:
    """Parse the name of a topic."""
    check_topic(text.strip())
    return text.strip()


def names(text: str) -> tuple[str, ...]:
    """Parse names separated by commas, at least one. As in the official connector, empty ones are ignored."""
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    if not found:
        raise ValueError("must be names, separated by commas")
    return found


def pattern(text: str) -> str:
    """Parse a regular expression. As in the official connector, surrounding whitespace is removed."""
    try:
        with warnings.catch_warnings():
            # Python warns of syntax that may change its meaning, and has that meaning in Java already: [a-z&&[^b]] is
            # an intersection. Such a pattern of a Java job would select other topics here.
            warnings.simplefilter("error", FutureWarning)
            re.compile(text.strip())
    except (re.error, RecursionError, FutureWarning) as error:
        raise ValueError(f"is not a regular expression of Python: {error}") from None
    return text.strip()


def topic_ids(text: str) -> Mapping[str, str]:
    """Parse a JSON object of topics and their ids."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("must be a JSON object")
    return {str(topic): str(topic_id) for topic, topic_id in found.items()}
