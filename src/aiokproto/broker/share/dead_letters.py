"""Dead-letter topics of share groups: records that nobody gets any more are written there (KIP-1191, Kafka 4.4).

A record comes here when it is rejected, or was delivered as often as the limit allows; not gaps, nor records of aborted
transactions. It is persisted as ARCHIVING first, then written, then persisted as ARCHIVED: after a crash between the
two, it is written again. As in Kafka it is archived also if the topic cannot be written; the log says why.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from aiokproto.broker.config.options import GroupOptions
from aiokproto.broker.metadata import features
from aiokproto.broker.metadata.cluster_state import ClusterState
from aiokproto.broker.metadata.topics import NO_LEADER, Partition, Topic
from aiokproto.errors import BrokerError, CorruptRecordError, UnsupportedCompressionError
from aiokproto.records import BatchRecord, decode, encode
from aiokproto.types import Header

log = logging.getLogger("aiokproto.broker")

_FEATURE, _LEVEL = "share.version", 2
_MOST_READ = 1024 * 1024
"""Bytes of the source log that are read at once."""

REJECTED = "Offset rejected by client."
TOO_OFTEN = "Offset delivery count exceeded the threshold."


class DeadLetter(NamedTuple):
    """Consecutive records that are given up.

    Attributes:
        first: The first offset.
        last: The last offset, inclusive.
        delivery_count: How often they were delivered.
        reason: Why, as the header says it.
    """

    first: int
    last: int
    delivery_count: int
    reason: str


class DeadLetterQueue:
    """Writes records that are given up to the dead-letter topics of their groups."""

    def __init__(self, state: ClusterState, options: Callable[[str], GroupOptions]) -> None:
        """``options`` returns the options of a group."""
        self._state = state
        self._options = options

    def enabled(self, group: str) -> bool:
        """Return whether a group has a dead-letter topic."""
        level = features.levels(self._state.metadata)[_FEATURE]
        return level >= _LEVEL and bool(self._options(group).value("errors.deadletterqueue.topic.name"))

    def write(self, group: str, source: Partition, letters: Sequence[DeadLetter]) -> None:
        """Write records that are given up; failures are logged."""
        try:
            topic = self._topic(group)
            # Kafka's choice: records of one partition stay together.
            partition = topic.partitions[source.index % len(topic.partitions)]
            if partition.leader == NO_LEADER:
                raise _Unusable(f"partition {partition.index} of {topic.name!r} has no leader")
            copied = bool(self._options(group).value("errors.deadletterqueue.copy.record.enable"))
            most = topic.options.number("max.message.bytes")
            for letter in letters:
                stored = dict(_stored(source, letter)) if copied else {}
                records = [
                    (*stored.get(offset, (None, None)), _headers(group, source, offset, letter))
                    for offset in range(letter.first, letter.last + 1)
                ]
                self._append(partition, records, most)
        except (_Unusable, BrokerError) as error:
            log.error(
                "share group %s: dead letters of %s-%d were not written: %s", group, source.topic, source.index, error
            )

    def _topic(self, group: str) -> Topic:
        name = str(self._options(group).value("errors.deadletterqueue.topic.name"))
        prefix = str(self._state.options.value("errors.deadletterqueue.topic.name.prefix"))
        if not name.startswith(prefix):
            raise _Unusable(f"{name!r} does not begin with {prefix!r} (errors.deadletterqueue.topic.name.prefix)")
        topic = self._state.topics.get(name)
        if topic is None:
            if not self._state.options.value("errors.deadletterqueue.auto.create.topics.enable"):
                raise _Unusable(f"{name!r} does not exist (errors.deadletterqueue.auto.create.topics.enable)")
            configs = {"errors.deadletterqueue.group.enable": "true", "message.timestamp.type": "CreateTime"}
            return self._state.create_topic(name, configs=configs)
        if not topic.options.value("errors.deadletterqueue.group.enable"):
            raise _Unusable(f"{name!r} is not enabled for it (errors.deadletterqueue.group.enable)")
        return topic

    def _append(self, partition: Partition, records: Sequence[_Written], most: int) -> None:
        now = self._state.clock.wall()
        data = encode([BatchRecord(0, now, key, value, headers) for key, value, headers in records])
        if len(data) <= most:
            partition.append(data, now)
        elif len(records) > 1:
            middle = len(records) // 2
            self._append(partition, records[:middle], most)
            self._append(partition, records[middle:], most)
        else:
            raise _Unusable(f"a record of {len(data)} bytes exceeds max.message.bytes={most} of {partition.topic!r}")


class _Unusable(Exception):
    """The dead-letter topic cannot be used."""


_Written = tuple[bytes | None, bytes | None, tuple[Header, ...]]
"""Key, value and headers."""


def _stored(source: Partition, letter: DeadLetter) -> Iterator[tuple[int, tuple[bytes | None, bytes | None]]]:
    """Yield the offsets, keys and values that the log has; what cannot be read is left out."""
    at = max(letter.first, source.log.start_offset)
    while at <= letter.last:
        data = source.log.read(at, _MOST_READ)
        if not data:
            return
        try:
            for batch in decode(data):
                for record in () if batch.is_control else batch:
                    if letter.first <= record.offset <= letter.last:
                        yield record.offset, (record.key, record.value)
                at = max(at, batch.next_offset)
        except (CorruptRecordError, UnsupportedCompressionError) as error:
            log.warning("dead letters of %s-%d have no value: %s", source.topic, source.index, error)
            return


def _headers(group: str, source: Partition, offset: int, letter: DeadLetter) -> tuple[Header, ...]:
    texts = {
        "topic": source.topic,
        "partition": str(source.index),
        "offset": str(offset),
        "group": group,
        "delivery.count": str(letter.delivery_count),
        "message": letter.reason,
    }
    return tuple((f"__dlq.errors.{name}", text.encode()) for name, text in texts.items())
