"""What the user wants to read: topics, topics that match a pattern, or partitions by name. Pure."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from aiokproto.config import integer
from aiokproto.errors import ConfigurationError
from aiokproto.types import OffsetAndMetadata, TopicPartition

Listener = Callable[[list[TopicPartition]], Awaitable[None] | None]
"""Called with partitions; may be a coroutine function."""

_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics of Kafka's own, which no pattern matches."""


_REGEX = frozenset("*+?()[]{}^$|\\")
"""What a regular expression has, and no topic name may have."""

_LAST_PARTITION = 2**31 - 1
_LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Subscription:
    """What the user wants; one of the three.

    Attributes:
        topics: These topics.
        pattern: All topics whose name matches as a whole, also those to come.
        partitions: These partitions, whatever a group says.
        on_assigned: Told what was added, before any of it is read.
        on_revoked: Told what is to go, while it can still be committed.
        on_lost: Told what has gone to others already; without it, ``on_revoked`` is.
    """

    topics: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None
    partitions: frozenset[TopicPartition] | None = None
    on_assigned: Listener | None = None
    on_revoked: Listener | None = None
    on_lost: Listener | None = None

    @property
    def by_topic(self) -> bool:
        """Whether someone else, a group or the topics' size, says which partitions to read."""
        return bool(self.topics) or self.pattern is not None

    def matching(self, topics: Iterable[str]) -> frozenset[str]:
        """Those among the existing topics that the pattern wants."""
        assert self.pattern is not None
        return frozenset(name for name in topics if name not in _INTERNAL and self.pattern.fullmatch(name))


def to_topics(topics: object) -> frozenset[str]:
    """Topic names from what a user gives: a name, or several.

    Raises:
        ConfigurationError: They are none.
    """
    names = [topics] if isinstance(topics, str) else list(topics) if isinstance(topics, Iterable) else [topics]
    for name in names:
        if isinstance(name, (list, tuple, set, frozenset)):
            several = ", ".join(f'"{each}"' for each in name)
            raise ConfigurationError(f"topics: {name!r} is no topic name; several are given as Consumer({several})")
        if isinstance(name, str) and not _REGEX.isdisjoint(name):
            raise ConfigurationError(
                f"topics: {name!r} is no topic name; for a regular expression: subscribe(pattern=)"
            )
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"topics: {name!r} is no topic name")
    return frozenset(str(name) for name in names)


def to_partition(value: object) -> TopicPartition:
    """A partition from what a user gives: a :class:`TopicPartition`, or a pair.

    Raises:
        ConfigurationError: It is none.
    """
    if isinstance(value, tuple) and len(value) == 2:
        topic, number = value
        if isinstance(topic, str) and topic and isinstance(number, int) and 0 <= number <= _LAST_PARTITION:
            return TopicPartition(topic, number)
    raise ConfigurationError(f"{value!r} is no partition: it takes TopicPartition(topic, partition)")


def to_position(value: int | OffsetAndMetadata) -> OffsetAndMetadata:
    """Where to go on from what a user gives: an offset, or one with metadata.

    Raises:
        ConfigurationError: No log can have it.
    """
    position = value if isinstance(value, OffsetAndMetadata) else OffsetAndMetadata(value)
    integer("offset", position.offset, 0, _LARGEST)
    return position


def to_timestamp(value: object) -> int:
    """A time in ms since the epoch from what a user gives.

    Raises:
        ConfigurationError: It is none.
    """
    return integer("timestamp", value, 0, _LARGEST)
