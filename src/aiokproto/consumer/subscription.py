"""What the user wants to read: topics, topics that match a pattern, or partitions by name. Pure."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from aiokproto.errors import ConfigurationError
from aiokproto.types import TopicPartition

Listener = Callable[[list[TopicPartition]], Awaitable[None] | None]
"""Called with partitions; may be a coroutine function."""

_INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics of Kafka's own, which no pattern matches."""


_REGEX = frozenset("*+?()[]{}^$|\\")
"""What a regular expression has, and no topic name may have."""


@dataclass(frozen=True)
class SubscriptionState:
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


def to_topics(topics: Iterable[object], call: str) -> frozenset[str]:
    """Return topic names as the user has passed them to ``call``.

    Raises:
        ConfigurationError: One of them is not a topic name.
    """
    names = list(topics)
    for name in names:
        if isinstance(name, (list, tuple, set, frozenset)):
            several = ", ".join(f'"{each}"' for each in name)
            raise ConfigurationError(f"{name!r} is not a topic name; pass several topics as {call}({several})")
        if isinstance(name, str) and not _REGEX.isdisjoint(name):
            raise ConfigurationError(f"{name!r} is not a topic name; pass a regular expression as subscribe(pattern=)")
        if not isinstance(name, str) or not name:
            raise ConfigurationError(f"{name!r} is not a topic name")
    return frozenset(str(name) for name in names)


def to_partition(value: object) -> TopicPartition:
    """Return a partition as the user has passed it: a :class:`TopicPartition` or a pair.

    Raises:
        ConfigurationError: It is neither.
    """
    if isinstance(value, tuple) and len(value) == 2:
        topic, number = value
        if isinstance(topic, str) and topic and isinstance(number, int) and number >= 0:
            return TopicPartition(topic, number)
    if isinstance(value, (list, set, frozenset)) or (
        isinstance(value, tuple) and isinstance(next(iter(value), 0), tuple)
    ):
        raise ConfigurationError(f"{value!r} is not a partition; pass several one by one: assign(*partitions)")
    raise ConfigurationError(f"{value!r} is not a partition; pass TopicPartition(topic, partition)")
