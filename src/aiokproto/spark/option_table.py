"""Options of the data source: what an option is, the parsers of values, and the table of all options. Pure.

Spark passes options as text, and their names in lower case, so names are case-insensitive here. A parser returns the
parsed value, or raises a ``ValueError`` whose message says what is accepted.
"""

from __future__ import annotations

import difflib
import json
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from aiokproto.errors import ConfigurationError

Parser = Callable[[str], object]

INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1

_MAX_SHOWN = 100
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_TIME_UNITS = {"us": 1e-6, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


class Option(NamedTuple):
    """An option that has an effect.

    Attributes:
        parse: Parses the value that the user has set.
        meaning: What the option does, for the documentation: reStructuredText, without the default.
        default: The value that applies when the option isn't set, as the user would write it. None if there is no such
            value, or if it depends on something else; ``meaning`` says on what.
    """

    parse: Parser
    meaning: str
    default: str | None = None


class OptionTable:
    """All options of reading, or of writing: each name is in exactly one of the attributes.

    Attributes:
        honoured: Options that have an effect.
        without_effect: Options that are accepted and change nothing, with the reasons.
        refused: Options that are refused, with the reasons. A name that ends in a dot stands for all names with this
            prefix.
    """

    def __init__(
        self,
        honoured: Mapping[str, Option],
        without_effect: Mapping[str, str],
        refused: Mapping[str, str],
        internal: Mapping[str, Parser] | None = None,
    ) -> None:
        """``internal`` has the parsers of options that have an effect, but aren't listed in messages and docs."""
        self.honoured = honoured
        self.without_effect = without_effect
        self.refused = refused
        self._parsers = {**{name: option.parse for name, option in honoured.items()}, **(internal or {})}
        self._spelling = {name.lower(): name for name in (*self._parsers, *without_effect)}
        # The client has too many options to list them all.
        own = (name for name in honoured if not name.startswith("kafka."))
        self._listed = (*own, "kafka.bootstrap.servers", "kafka.…")
        self._known = (*honoured, *without_effect, *(name for name in refused if name[-1] != "."))

    def parse(self, options: Mapping[str, str]) -> dict[str, Any]:
        """Return the options that have an effect, by their official names, with their parsed values.

        Raises:
            ConfigurationError: An option is unknown or refused, or has an invalid value.
        """
        values: dict[str, Any] = {}
        for given, text in options.items():
            lower = given.lower()
            if reason := refusal(lower, self.refused):
                raise ConfigurationError(f"{given} cannot be set: {reason}")
            name = self._spelling.get(lower)
            if name is None:
                raise ConfigurationError(
                    f"unknown option {shorten(given)}{nearest(lower, self._known, shown=self._listed)}"
                )
            if name in self._parsers:
                values[name] = _parse(name, text, self._parsers[name])
        return values

    def value(self, given: Mapping[str, Any], name: str) -> Any:
        """Return an option's value, or its default if it isn't set; None if it has no default.

        Args:
            given: What :meth:`parse` returned.
            name: The option's official name.
        """
        if name in given:
            return given[name]
        option = self.honoured[name]
        return None if option.default is None else option.parse(option.default)


def refusal(name: str, refused: Mapping[str, str]) -> str | None:
    """Return the reason why an option (its name in lower case) is refused; None if it isn't."""
    for entry, reason in refused.items():
        if name == entry or (entry[-1] == "." and name.startswith(entry)):
            return reason
    return None


def nearest(name: str, valid: Iterable[str], shown: Iterable[str] = ()) -> str:
    """Return a hint for an error message: the valid name closest to ``name``.

    If none is close, the hint lists the names in ``shown``, or all valid names.
    """
    spelling = {valid_name.lower(): valid_name for valid_name in valid}
    found = difflib.get_close_matches(name[:200], spelling, 1)
    if found:
        return f"; did you mean {spelling[found[0]]!r}?"
    return f"; valid are {', '.join(sorted(shown or spelling.values()))}"


def _parse(name: str, text: str, parse: Parser) -> object:
    try:
        return parse(text)
    except ConfigurationError:
        raise
    except ValueError as error:
        raise ConfigurationError(f"{name}={shorten(text)}: {error}") from None


def shorten(value: object) -> str:
    """Format a value for a message, cut to a maximum length: options may be megabytes long."""
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}… ({len(text)} characters)"


def boolean(text: str) -> bool:
    """Parse ``true`` or ``false``, in any case."""
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.strip().lower() == "true"


def integer(least: int, most: int = INT64_MAX, of: str = "") -> Callable[[str], int]:
    """Return a parser for integers within bounds, both inclusive; ``of`` is the unit, for messages."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]+", text.strip()):
            raise ValueError(f"must be an integer{of and ', in '}{of}")
        # Cut the text: Python refuses to parse thousands of digits, and its error names an internal limit.
        number = int(text.strip()[:30])
        if number < least:
            raise ValueError(f"must be at least {least}")
        if number > most:
            raise ValueError(f"must be at most {most}")
        return number

    return parse


def duration(text: str) -> float:
    """Parse a time such as ``15m`` or ``30s``, in Spark's units, to seconds; a number alone is in milliseconds."""
    found = re.fullmatch(r"([0-9]{1,12})([a-z]*)", text.strip().lower())
    if found is None or (found[2] or "ms") not in _TIME_UNITS:
        raise ValueError("must be a time such as 15m, 30s or 1500ms")
    return int(found[1]) * _TIME_UNITS[found[2] or "ms"]


def one_of(*words: str) -> Callable[[str], str]:
    """Return a parser for one of these words, in any case."""

    def parse(text: str) -> str:
        if text.strip().lower() not in words:
            raise ValueError(f"must be {' or '.join(words)}")
        return text.strip().lower()

    return parse


def topics(text: str) -> tuple[str, ...]:
    """Parse topic names separated by commas; at least one is required."""
    found = names(text)
    for name in found:
        check_topic(name)
    return found


def check_topic(name: str) -> None:
    """Raise ValueError unless Kafka accepts the name. A broker may report an invalid name as an unknown topic, or not
    report it."""
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise ValueError(
            f"{shorten(name)} is not a topic name: use 1 to 249 characters of a-z A-Z 0-9 . _ -, and not . or .."
        )


def topic_name(text: str) -> str:
    """Parse the name of a topic."""
    check_topic(text.strip())
    return text.strip()


def names(text: str) -> tuple[str, ...]:
    """Parse names separated by commas, at least one. As in the official connector, empty names are ignored."""
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    if not found:
        raise ValueError("must be names, separated by commas")
    return found


def pattern(text: str) -> str:
    """Parse a regular expression. As in the official connector, surrounding whitespace is removed."""
    try:
        with warnings.catch_warnings():
            # Refuse syntax whose meaning Python may change. In Java it already has the new meaning: [a-z&&[^b]] is an
            # intersection, so the pattern of a Java job would select different topics here.
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
