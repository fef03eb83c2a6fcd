"""What :meth:`Consumer.batches` hands out: the records of one partition from one fetch, still as they came."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from aiokproto.consumer.chunk import read_batch
from aiokproto.records import RecordBatch
from aiokproto.types import Record, TopicPartition


class FetchedBatch:
    """Consecutive records of one partition, decoded when they are asked for, anew each time.

    Checksums were compared when the batch was handed out. What is not for users (transaction markers, aborted
    transactions) is left out, so offsets may have gaps.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        base_offset: No record has a lower offset.
        next_offset: Where the following batch goes on; every record has a lower offset.
        record_batches: The batches as stored, headers read; the records of large compressed ones are decompressed, too,
            unless that was not wanted. The first may begin before ``base_offset``. They are views of all that the
            fetch has brought, which lasts as long as they do.
    """

    __slots__ = ("base_offset", "next_offset", "partition", "record_batches", "topic")

    def __init__(
        self, partition: TopicPartition, base_offset: int, next_offset: int, record_batches: Sequence[RecordBatch]
    ) -> None:
        self.topic, self.partition = partition
        self.base_offset = base_offset
        self.next_offset = next_offset
        self.record_batches = record_batches

    def __iter__(self) -> Iterator[Record]:
        """The records.

        Raises:
            CorruptRecordError: They are damaged in spite of a fitting checksum, or the checksum was not to be compared.
            UnsupportedCompressionError: The codec is unknown or its library is missing.
        """
        partition = TopicPartition(self.topic, self.partition)
        opened = (read_batch(batch, partition, self.base_offset) for batch in self.record_batches)
        return chain.from_iterable(opened)

    def to_arrow(self, *, headers: bool = False, columns: Sequence[str] | None = None) -> Any:
        """The records as a ``pyarrow.RecordBatch``, without a Python object per record.

        The schema is that of Spark's Kafka source: key, value, topic, partition, offset, timestamp, timestampType.
        Needs the ``arrow`` extra.

        Args:
            headers: Whether to have a headers column too.
            columns: The only columns to have, by name, in this order; None for all. No work is done for others.

        Raises:
            CorruptRecordError, UnsupportedCompressionError: As for iterating.
            ImportError: pyarrow or numpy is missing.
            ValueError: There is no column of such a name.
        """
        from aiokproto.records.columns import to_columns

        found = to_columns(self.record_batches).between(self.base_offset, self.next_offset)
        return found.to_arrow(self.topic, self.partition, headers=headers, columns=columns)

    @property
    def size_in_bytes(self) -> int:
        """Bytes as stored and sent, compressed where they are."""
        return sum(batch.size_in_bytes for batch in self.record_batches)

    def __repr__(self) -> str:
        return (
            f"Batch(topic={self.topic!r}, partition={self.partition}, base_offset={self.base_offset}, "
            f"next_offset={self.next_offset})"
        )
