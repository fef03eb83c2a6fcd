"""Topics, partitions and offsets as users pass them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from aiokproto.errors import ConfigurationError
from aiokproto.texts import is_unicode, shortened
from aiokproto.types import OffsetAndMetadata, TopicPartition

Partition = TypeVar("Partition", bound=tuple[str, int])
"""A type variable: a Mapping's keys are invariant, so otherwise type checkers would reject a dict with TopicPartition
keys."""

Offsets = Mapping[Partition, int | OffsetAndMetadata]
"""Partition → the offset to continue from."""

_LARGEST = 2**63 - 1
_LAST_PARTITION = 2**31 - 1
_LONGEST_TOPIC = 249


def to_topic(value: object) -> str:
    """Return the topic name that the user has passed. Brokers check whether its characters are valid.

    Raises:
        ConfigurationError: It cannot be sent. Trying would end a group member.
    """
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_TOPIC or not is_unicode(value):
        text = shortened(repr(value), _LONGEST_TOPIC)
        raise ConfigurationError(f"{text} is not a topic name; a name is a str of 1 to {_LONGEST_TOPIC} characters")
    return str(value)


def to_partition(value: object) -> TopicPartition:
    """Return the partition that the user has passed: a :class:`TopicPartition` or a pair.

    Raises:
        ConfigurationError: It is neither.
    """
    if isinstance(value, tuple) and len(value) == 2:
        topic, number = value
        if isinstance(topic, str) and isinstance(number, int) and 0 <= number <= _LAST_PARTITION:
            return TopicPartition(to_topic(topic), number)
        if isinstance(topic, str) and isinstance(number, int):
            raise ConfigurationError(f"{value!r} is not a partition; its number must be 0 to {_LAST_PARTITION}")
    several = isinstance(value, tuple) and value and isinstance(value[0], tuple)
    if several or isinstance(value, (list, set, frozenset)):
        raise ConfigurationError(
            f"{value!r} is not a partition; pass partitions as separate arguments, not in one list"
        )
    raise ConfigurationError(f"{value!r} is not a partition; pass TopicPartition(topic, partition)")


def to_position(value: int | OffsetAndMetadata) -> OffsetAndMetadata:
    """Return the position that the user has passed: an offset, with or without metadata.

    Raises:
        ConfigurationError: The offset is out of range.
    """
    position = value if isinstance(value, OffsetAndMetadata) else OffsetAndMetadata(value)
    to_int64("offset", position.offset, "the log's ends are seek_to_beginning() and seek_to_end()")
    return position


def to_offsets(call: str, offsets: object) -> Mapping[Any, Any]:
    """Return the mapping of partitions to offsets or times that the user has passed to ``call``.

    Raises:
        ConfigurationError: It is not a mapping.
    """
    if not isinstance(offsets, Mapping):
        raise ConfigurationError(
            f"{call}() takes a dict of partitions, as in {{TopicPartition(topic, 0): 5}}, not {offsets!r}"
        )
    return offsets


def to_int64(name: str, value: object, remedy: str) -> int:
    """Return an int of 0 to 2**63 - 1.

    Raises:
        ConfigurationError: It isn't one; the message includes the value and the remedy.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _LARGEST:
        raise ConfigurationError(f"{name}={value!r}: must be an int of 0 to 2**63 - 1; {remedy}")
    return value
