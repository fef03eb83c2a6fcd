"""Dead-letter topics of share groups, for records that aren't delivered any more (KIP-1191, Kafka 4.4).

A record is written to the topic when a member rejects it, or when it was delivered as often as the limit allows. Gaps
and records of aborted transactions aren't written. A record is first persisted as ARCHIVING, then written, then
persisted as ARCHIVED; after a crash in between, it's written again. As in Kafka, it's archived even if it can't be
written to the topic. If so, the log says why.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from aiokproto.broker.log.stored import is_quick, open_stored
from aiokproto.broker.metadata import features
from aiokproto.broker.metadata.cluster_state import ClusterState
from aiokproto.broker.metadata.topics import NO_LEADER, Partition, Topic
from aiokproto.broker.opening import OpeningThread
from aiokproto.errors import BrokerError, CorruptRecordError, UnsupportedCompressionError
from aiokproto.records import BatchRecord, encode
from aiokproto.records.slices import Slices
from aiokproto.security.shown import shown
from aiokproto.types import Header

log = logging.getLogger("aiokproto.broker")

_FEATURE, _LEVEL = "share.version", 2
_MAX_READ = 128 * 1024
"""How many bytes of the source log to read at a time. A larger batch is read as a whole."""

REJECTED = "Offset rejected by client."
TOO_OFTEN = "Offset delivery count exceeded the threshold."


class DeadLetter(NamedTuple):
    """Consecutive records that the group gives up.

    Attributes:
        first: The first offset.
        last: The last offset, inclusive.
        delivery_count: How often they were delivered.
        reason: Why the group gives them up, for the header.
    """

    first: int
    last: int
    delivery_count: int
    reason: str


class DeadLetterQueue:
    """Writes records that groups give up to the groups' dead-letter topics."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state

    def enabled(self, group: str) -> bool:
        """Return whether a group has a dead-letter topic."""
        level = features.levels(self._state.metadata)[_FEATURE]
        return level >= _LEVEL and bool(self._state.group_options(group).value("errors.deadletterqueue.topic.name"))

    def copies(self, group: str) -> bool:
        """Return whether dead letters include the key and value of their record."""
        return bool(self._state.group_options(group).value("errors.deadletterqueue.copy.record.enable"))

    def write(self, group: str, source: Partition, letters: Sequence[DeadLetter]) -> None:
        """Write records that a group gives up, without their keys and values. Failures are logged."""
        try:
            for letter in letters:
                self._put(group, source, list(_filled(group, source, letter, letter.first, letter.last + 1)))
        except (_Unusable, BrokerError) as error:
            _log_failure(group, source, error)

    async def write_copies(
        self, group: str, source: Partition, letters: Sequence[DeadLetter], thread: OpeningThread
    ) -> None:
        """Write records that a group gives up, with their keys and values. Failures are logged.

        Batches that aren't quick to read are opened in the thread, and written a slice at a time. If this is cancelled,
        the rest isn't written.
        """
        try:
            for letter in letters:
                next_offset = letter.first
                async for records in _stored(source, letter, thread):
                    written: list[_Written] = []
                    for offset, key, value in records:
                        written += _filled(group, source, letter, next_offset, offset)
                        written.append((key, value, _headers(group, source, offset, letter)))
                        next_offset = offset + 1
                    self._put(group, source, written)
                # Offsets that are no longer in the log are written too, because they were delivered to the group.
                self._put(group, source, list(_filled(group, source, letter, next_offset, letter.last + 1)))
        except (_Unusable, BrokerError, OSError) as error:
            _log_failure(group, source, error)

    def _put(self, group: str, source: Partition, records: Sequence[_Written]) -> None:
        # The topic is looked up each time: it may have been deleted, or lost its leader, while a batch was opened.
        topic = self._topic(group)
        # As in Kafka, records of one partition stay together.
        partition = topic.partitions[source.index % len(topic.partitions)]
        if partition.leader == NO_LEADER:
            raise _Unusable(f"partition {partition.index} of {topic.name!r} has no leader")
        if records:
            self._append(partition, records, topic.options.number("max.message.bytes"))

    def _topic(self, group: str) -> Topic:
        name = str(self._state.group_options(group).value("errors.deadletterqueue.topic.name"))
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


def _log_failure(group: str, source: Partition, error: Exception) -> None:
    partition = f"{source.topic}-{source.index}"
    log.error("share group %s: dead letters of %s were not written: %s", shown(group), partition, error)


def _filled(group: str, source: Partition, letter: DeadLetter, start: int, end: int) -> Iterator[_Written]:
    """Yield records without key and value for the offsets ``range(start, end)``."""
    for offset in range(start, end):
        yield None, None, _headers(group, source, offset, letter)


async def _stored(
    source: Partition, letter: DeadLetter, thread: OpeningThread
) -> AsyncIterator[list[tuple[int, bytes | None, bytes | None]]]:
    """Yield the offsets, keys and values that are in the log, a slice of a batch at a time. Records that can't be read
    are skipped."""
    offset = letter.first
    try:
        # Retention may remove the next records while this is suspended.
        while (offset := max(offset, source.log.start_offset)) <= letter.last:
            if not (data := source.log.read(offset, _MAX_READ)):
                return
            for batch in open_stored(data, check_crc=True):
                if batch.base_offset > letter.last:
                    return
                slices = batch.slices(_offset_key_and_value)
                while not batch.is_control and not slices.ended:
                    read = partial(_slice_of, slices, max(offset, letter.first), letter.last)
                    if records := read() if is_quick(batch) else await thread.run(read):
                        yield records
                offset = max(offset, batch.next_offset)
    except (CorruptRecordError, UnsupportedCompressionError) as error:
        log.warning("dead letters of %s-%d have no value: %s", source.topic, source.index, error)


def _slice_of(
    slices: Slices[tuple[int, bytes | None, bytes | None]], first: int, last: int
) -> list[tuple[int, bytes | None, bytes | None]]:
    return [record for record in slices.read() if first <= record[0] <= last]


def _offset_key_and_value(
    offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: object
) -> tuple[int, bytes | None, bytes | None]:
    return offset, key, value


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
