"""What the internal topics have in common: how a key maps to a partition, and how a coordinator loads one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from aiokproto.broker.metadata.topics import Partition
from aiokproto.records import decode

T = TypeVar("T")

_READ_BYTES = 1 << 20


class InternalRecord(NamedTuple):
    """A record of an internal topic. ``producer_id`` is -1 unless the record belongs to an open transaction."""

    key: bytes
    value: bytes | None
    producer_id: int = -1


def internal_topic_records(partition: Partition) -> Iterator[InternalRecord]:
    """Yield the records in offset order, without those of aborted transactions."""
    return (record for _, record in internal_topic_records_with_offsets(partition))


def internal_topic_records_with_offsets(partition: Partition) -> Iterator[tuple[int, InternalRecord]]:
    """Yield offsets and records; see :func:`internal_topic_records`."""
    log = partition.log
    offset = log.start_offset
    while offset < log.end_offset:
        for batch in decode(log.read(offset, _READ_BYTES), check_crc=False):
            offset = batch.next_offset
            if batch.is_control:
                continue
            open_by = -1
            if batch.is_transactional:
                begun = log.producers.transaction_start(batch.producer_id)
                if begun is not None and batch.base_offset >= begun:
                    open_by = batch.producer_id
                aborted = log.aborted_transactions(batch.base_offset, batch.next_offset)
                if any(each.producer_id == batch.producer_id for each in aborted):
                    continue
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
