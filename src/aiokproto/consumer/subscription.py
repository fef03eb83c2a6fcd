"""The subscription: topics, topics that match a pattern, or assigned partitions. Pure."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any

from aiokproto.errors import ConfigurationError
from aiokproto.group.arguments import to_int64, to_topic
from aiokproto.types import TopicPartition

Listener = Callable[[list[TopicPartition]], Awaitable[None] | None]
"""A function or coroutine function of partitions."""

_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Kafka's internal topics, which no pattern matches."""

_COMMON_SYNTAX = re.compile(
    r"""(?:
        [\w\-./:,;!@#%&=<>~"' ]                  # literals
      | [|^$().]                                   # alternatives, ends, groups, any character
      | \(\?:                                     # groups that are not captured
      | \\[dDwWsSbB]                             # classes of characters, and edges of words
      | \\[^\w\s]                              # escaped punctuation
      | \[\^?(?:[\w.,:;!@#%&=/ +*?$|(){}-]|\\[dDwWsS]|\\[^\w\s])+\]
      | (?<=[^|(^])(?:[*+?]|\{\d{1,2}(?:,\d{0,2})?\})\??(?![*+?{])   # repetitions
    )+""",
    re.VERBOSE | re.ASCII,
)
"""Patterns that mean the same in Python and in RE2, which Kafka's brokers use (KIP-848). This isn't all of them."""

_REGEX = frozenset("*+?()[]{}^$|\\")
"""Characters of regular expressions that cannot occur in topic names."""


@dataclass(frozen=True)
class SubscriptionState:
    """The subscription: topics, a pattern or partitions, and the rebalance callbacks.

    Attributes:
        topics: Topics subscribed by name.
        pattern: All topics, existing and future, whose whole name matches.
        partitions: Partitions that the application has assigned, instead of the group.
        on_assigned: Called with new partitions before any of them are read.
        on_revoked: Called with partitions that the member is giving up, while their offsets can still be committed.
        on_lost: Called with partitions that other members may already own; if None, ``on_revoked`` is called.
    """

    topics: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None
    partitions: frozenset[TopicPartition] | None = None
    on_assigned: Listener | None = None
    on_revoked: Listener | None = None
    on_lost: Listener | None = None

    @property
    def by_topic(self) -> bool:
        """Whether topics are subscribed. If so, the group or the metadata decides which partitions are read."""
        return bool(self.topics) or self.pattern is not None

    def matching(self, topics: Iterable[str]) -> frozenset[str]:
        """Return the topics whose names match the pattern."""
        assert self.pattern is not None
        return frozenset(name for name in topics if name not in _INTERNAL and self.pattern.fullmatch(name))

    def broker_pattern(self) -> str | None:
        """Return the pattern in RE2's syntax; None if it may mean something else in RE2.

        Brokers match internal topics, too, so a pattern that matches one is left to the client.
        """
        pattern = self.pattern
        assert pattern is not None
        flags = pattern.flags & ~(re.UNICODE | re.ASCII | re.IGNORECASE)
        if flags or not _COMMON_SYNTAX.fullmatch(pattern.pattern) or any(map(pattern.fullmatch, _INTERNAL)):
            return None
        return f"(?i){pattern.pattern}" if pattern.flags & re.IGNORECASE else pattern.pattern


def to_topics(topics: Iterable[object], call: str) -> frozenset[str]:
    """Return the topic names that the user has passed to ``call``.

    Raises:
        ConfigurationError: One of them isn't a topic name.
    """
    names = list(topics)
    for name in names:
        if isinstance(name, TopicPartition):
            raise ConfigurationError(f"{name!r} is not a topic name; pass partitions to assign()")
        if isinstance(name, Mapping):
            raise ConfigurationError(
                f"{type(name).__name__} is not a topic name; pass options as keyword arguments: "
                'Consumer("a", bootstrap_servers=...)'
            )
        if isinstance(name, str) and "," in name:
            name = name.split(",")
        if isinstance(name, (list, tuple, set, frozenset)):
            several = ", ".join(f'"{each}"' for each in name)
            raise ConfigurationError(f"{name!r} is not a topic name; pass several topics as {call}({several})")
        if isinstance(name, str) and not _REGEX.isdisjoint(name):
            raise ConfigurationError(f"{name!r} is not a topic name; pass a regular expression as subscribe(pattern=)")
    return frozenset(map(to_topic, names))


def to_timestamp(value: object) -> int:
    """Return the timestamp (ms since the epoch) that the user has passed.

    Raises:
        ConfigurationError: It's out of range, or not an integer.
    """
    remedy = "pass int(when.timestamp() * 1000)" if hasattr(value, "timestamp") else "time.time() has seconds"
    return to_int64("timestamp", value, f"it is in milliseconds since the epoch; {remedy}")


def to_pattern(value: str | re.Pattern[str]) -> re.Pattern[str]:
    """Return the pattern that the user has passed to ``subscribe``.

    Raises:
        ConfigurationError: It isn't a regular expression for text.
    """
    try:
        pattern = re.compile(value)
    except (re.error, TypeError) as error:
        raise ConfigurationError(f"pattern={value!r} is not a regular expression: {error}") from None
    if not isinstance(pattern.pattern, str):
        raise ConfigurationError(f"pattern={value!r}: must be a str or re.Pattern[str], as topic names are")
    return pattern


def check_listener(name: str, listener: Any) -> None:
    """Raise ConfigurationError unless ``listener`` is None or can be called with a list of partitions."""
    if listener is None:
        return
    if not callable(listener):
        raise ConfigurationError(f"{name}={listener!r}: must be a function of a list of partitions, or None")
    try:
        accepted = signature(listener)
    except ValueError:
        # Some callables written in C have no signature.
        return
    try:
        accepted.bind([])
    except TypeError as error:
        raise ConfigurationError(f"{name}={listener!r} cannot be called with a list of partitions: {error}") from None
