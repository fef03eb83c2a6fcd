"""What options may say: text in, a value out, or a ``ValueError`` that says what the option accepts. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

Reader = Callable[[str], object]

INT32_MAX = (1 << 31) - 1


def boolean(text: str) -> bool:
    """``true`` or ``false``, in any case."""
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.strip().lower() == "true"


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """A whole number within bounds, both included."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise ValueError("must be a whole number") from None
        if number < least or (most is not None and number > most):
            raise ValueError(f"must be at least {least}" + (f" and at most {most}" if most is not None else ""))
        return number

    return read


def one_of(*words: str) -> Callable[[str], str]:
    """One of these words, in any case."""

    def read(text: str) -> str:
        if text.strip().lower() not in words:
            raise ValueError(f"must be {' or '.join(words)}")
        return text.strip().lower()

    return read


def names(text: str) -> tuple[str, ...]:
    """Names with commas between them, at least one. As in the official connector an empty one is none."""
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    if not found:
        raise ValueError("must be names, separated by commas")
    return found


def pattern(text: str) -> str:
    """A regular expression."""
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from None
    return text


def security_protocol(text: str) -> str:
    """``PLAINTEXT`` or ``SSL``, in any case."""
    if text.strip().upper().startswith("SASL"):
        raise ValueError("SASL is not supported yet; it takes PLAINTEXT or SSL")
    return one_of("plaintext", "ssl")(text).upper()


def topic_ids(text: str) -> Mapping[str, str]:
    """Topics and their ids, as JSON."""
    return {str(topic): str(topic_id) for topic, topic_id in json.loads(text).items()}
