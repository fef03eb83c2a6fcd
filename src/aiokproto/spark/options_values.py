"""What options may say: text in, a value out, or a ``ValueError`` that says what the option accepts. Pure."""

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
    """A value for a message: a user may have given megabytes."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"


def boolean(text: str) -> bool:
    """``true`` or ``false``, in any case."""
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.strip().lower() == "true"


def whole(least: int, most: int = INT64_MAX, of: str = "") -> Callable[[str], int]:
    """A whole number within bounds, both included; ``of`` is the unit, for messages."""

    def read(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]+", text.strip()):
            raise ValueError(f"must be a whole number{of and ' of '}{of}")
        # Python refuses to read thousands of digits.
        number = int(text.strip()[:30])
        if number < least:
            raise ValueError(f"must be at least {least}")
        if number > most:
            raise ValueError(f"must be at most {most}")
        return number

    return read


def one_of(*words: str) -> Callable[[str], str]:
    """One of these words, in any case."""

    def read(text: str) -> str:
        if text.strip().lower() not in words:
            raise ValueError(f"must be {' or '.join(words)}")
        return text.strip().lower()

    return read


def topics(text: str) -> tuple[str, ...]:
    """Topics with commas between them, at least one."""
    found = names(text)
    for name in found:
        check_topic(name)
    return found


def check_topic(name: str) -> None:
    """Refuse what no topic can be called: a broker would only say that it does not exist, or nothing at all."""
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise ValueError(f"{shorten(name)} is no topic name: 1 to 249 of a-z A-Z 0-9 . _ -, and not . or ..")


def names(text: str) -> tuple[str, ...]:
    """Names with commas between them, at least one. As in the official connector an empty one is none."""
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    if not found:
        raise ValueError("must be names, separated by commas")
    return found


def pattern(text: str) -> str:
    """A regular expression, without blanks around it, as the official connector takes it."""
    try:
        with warnings.catch_warnings():
            # What Python will read otherwise some day, Java reads otherwise today: [a-z&&[^b]] is an intersection.
            warnings.simplefilter("error", FutureWarning)
            re.compile(text.strip())
    except (re.error, RecursionError, FutureWarning) as error:
        raise ValueError(f"no regular expression of Python's: {error}") from None
    return text.strip()


def security_protocol(text: str) -> str:
    """``PLAINTEXT`` or ``SSL``, in any case."""
    if text.strip().upper().startswith("SASL"):
        raise ValueError("SASL is not supported yet; it takes PLAINTEXT or SSL")
    return one_of("plaintext", "ssl")(text).upper()


def topic_ids(text: str) -> Mapping[str, str]:
    """Topics and their ids, as JSON."""
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("must be a JSON object")
    return {str(topic): str(topic_id) for topic, topic_id in found.items()}
