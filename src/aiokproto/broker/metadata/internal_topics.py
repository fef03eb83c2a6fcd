"""The topics in which coordinators keep their state: their settings, how keys map to partitions, and how to read a
partition.

The numbers of partitions, replicas and configs are the same as Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.log.stored import is_quick, open_stored
from aiokproto.broker.metadata.topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC, Partition
from aiokproto.broker.opening import OpeningThread
from aiokproto.records import RecordBatch

T = TypeVar("T")

Take = Callable[[int, "InternalRecord"], None]
"""Receives a record's offset, and the record."""

_READ_BYTES = 128 << 10
"""How many bytes of a log are read at once. Parsing the headers of that many batches takes the event loop a few
milliseconds."""

_QUICK_BYTES = 128 << 10
"""How many bytes of a log are opened in the event loop: the small log of a test isn't worth a thread."""


class TopicSettings(NamedTuple):
    """The settings that a topic is created with."""

    partitions: int
    replicas: int
    configs: dict[str, str]


def internal_topic_settings(name: str, options: BrokerOptions, nodes: int) -> TopicSettings:
    """Return the settings of an internal topic in a cluster of ``nodes`` brokers.

    Kafka refuses to create an internal topic with more replicas than brokers. Here, the number of replicas is capped at
    the number of brokers: with Kafka's default of three, groups and transactions would fail on a single broker.
    """
    number = options.number
    if name == OFFSETS_TOPIC:
        replicas = min(number("offsets.topic.replication.factor"), nodes)
        configs = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}
        return TopicSettings(number("offsets.topic.num.partitions"), replicas, configs)
    if name == TRANSACTIONS_TOPIC:
        replicas = min(number("transaction.state.log.replication.factor"), nodes)
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(min(number("transaction.state.log.min.isr"), replicas)),
            "segment.bytes": "104857600",
        }
        return TopicSettings(number("transaction.state.log.num.partitions"), replicas, configs)
    assert name == SHARE_STATE_TOPIC, name
    replicas = min(number("share.coordinator.state.topic.replication.factor"), nodes)
    configs = {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": str(number("share.coordinator.state.topic.min.isr")),
        "retention.ms": "-1",
        "segment.bytes": "104857600",
    }
    return TopicSettings(number("share.coordinator.state.topic.num.partitions"), replicas, configs)


class InternalRecord(NamedTuple):
    """A record of an internal topic. ``producer_id`` is -1 unless the record belongs to an open transaction."""

    key: bytes
    value: bytes | None
    producer_id: int = -1


def internal_topic_records(partition: Partition) -> Iterator[tuple[int, InternalRecord]]:
    """Yield offsets and records in offset order, without the records of aborted transactions."""
    for batches in _batches(partition):
        for batch, open_by in batches:
            yield from _records(batch, open_by)


async def read_internal_topic(partition: Partition, take: Take, thread: OpeningThread) -> None:
    """Call ``take`` with each offset and record. Unless the log is small, this runs in the thread that opens batches.

    Nothing may append to the log in the meantime. If cancelled, reading stops after the current batches.

    Raises:
        CorruptRecordError, UnsupportedCompressionError: A batch can't be read.
    """

    def read(batches: list[tuple[RecordBatch, int]]) -> None:
        for batch, open_by in batches:
            for offset, record in _records(batch, open_by):
                take(offset, record)

    quick = _QUICK_BYTES
    for batches in _batches(partition):
        quick -= sum(batch.size_in_bytes for batch, _ in batches)
        if quick >= 0 and all(is_quick(batch) for batch, _ in batches):
            read(batches)
        else:
            await thread.run(partial(read, batches))


def _batches(partition: Partition) -> Iterator[list[tuple[RecordBatch, int]]]:
    """Yield the data batches that aren't part of aborted transactions. Each comes with the id of the producer whose
    open transaction contains it, or -1."""
    log = partition.log
    offset = log.start_offset
    while offset < log.end_offset:
        found: list[tuple[RecordBatch, int]] = []
        for batch in open_stored(log.read(offset, _READ_BYTES)):
            offset = batch.next_offset
            if batch.is_control:
                continue
            open_by = -1
            if batch.is_transactional:
                started_at = log.producers.transaction_start(batch.producer_id)
                if started_at is not None and batch.base_offset >= started_at:
                    open_by = batch.producer_id
                aborted = log.aborted_transactions(batch.base_offset, batch.next_offset)
                if any(transaction.producer_id == batch.producer_id for transaction in aborted):
                    continue
            found.append((batch, open_by))
        yield found


def _records(batch: RecordBatch, open_by: int) -> Iterator[tuple[int, InternalRecord]]:
    for record in batch:
        if record.key is not None:
            yield record.offset, InternalRecord(record.key, record.value, open_by)


def partition_for(key: str, partitions: Sequence[T]) -> T:
    """Return the partition of a group or transactional id: ``abs(hash) % partitions``, as in Kafka."""
    # Kafka's Utils.abs returns 0 for Integer.MIN_VALUE, which has no positive counterpart.
    value = java_hash(key)
    positive = value if value < 1 << 31 else (1 << 32) - value
    return partitions[positive % (1 << 31) % len(partitions)]


def java_hash(text: str) -> int:
    """Java's ``String.hashCode``: over UTF-16 code units, in 32 bits."""
    value = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(data), 2):
        value = (31 * value + (data[at] << 8 | data[at + 1])) & 0xFFFFFFFF
    return value
