"""The batches that :meth:`Consumer.batches` delivers: records of one partition from one fetch, not decoded yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from aiokproto.errors import CorruptBatchError, copied
from aiokproto.fetched.chunk import read_batches
from aiokproto.records import RecordBatch
from aiokproto.records.arrow_extra import require_arrow
from aiokproto.records.batch import CODEC, CONTROL
from aiokproto.types import Ownership, Record, TopicPartition, UndecodableRecord

ARROW_BYTES = 4 * 1024 * 1024
"""Maximum bytes of records in one batch of :meth:`FetchedBatch.to_arrow_batches`, unless a single record is larger."""

ARROW_RECORDS = 64 * 1024
"""Maximum number of records in such a batch: the columns of small records take more memory than their bytes."""


class FetchedBatch:
    """Consecutive records of one partition, decoded each time you iterate.

    Checksums were verified before delivery. Transaction markers, unless ``keep_control_records`` is on, and records of
    aborted transactions are left out, so offsets can have gaps.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        base_offset: The lowest offset in the batch.
        next_offset: The offset where the next batch continues.
        record_batches: The record batches as stored, with parsed headers; the records of large compressed ones are
            decompressed unless ``decompress=False``. The first record batch can start before ``base_offset``. The
            batches are views of the whole fetch response, and keep it alive.
    """

    __slots__ = ("_ownership", "base_offset", "next_offset", "partition", "record_batches", "topic")

    error: CorruptBatchError | None = None
    """Why the batch cannot be read; None if it can. See ``on_undecodable="return"``."""

    def __init__(
        self,
        partition: TopicPartition,
        base_offset: int,
        next_offset: int,
        record_batches: Sequence[RecordBatch],
        ownership: Ownership | None = None,
    ) -> None:
        self.topic, self.partition = partition
        self.base_offset = base_offset
        self.next_offset = next_offset
        self.record_batches = record_batches
        self._ownership = ownership

    def __iter__(self) -> Iterator[Record]:
        """Decode the records. Deserializers are not applied: see :meth:`Consumer.deserialize`.

        Raises:
            CorruptRecordError: A record is damaged even though the checksum is correct, or wasn't verified.
            UnsupportedCompressionError: The codec is unknown or its library is missing.
        """
        partition = TopicPartition(self.topic, self.partition)
        # Decode lazily: only a slice of one batch is in memory at a time.
        return chain.from_iterable(read_batches(self.record_batches, partition, self.base_offset, self._ownership))

    def to_arrow(self, *, headers: bool = False, columns: Sequence[str] | None = None) -> Any:
        """Return the records as a ``pyarrow.RecordBatch``, without a Python object per record.

        The schema is the same as in Spark's Kafka source: key, value, topic, partition, offset, timestamp,
        timestampType. Control records are left out. Needs the ``arrow`` extra.

        Args:
            headers: Whether to include a headers column.
            columns: The columns to include, in this order; None for all. Other columns aren't decoded.

        Raises:
            CorruptRecordError, UnsupportedCompressionError: The same as for iteration. CorruptRecordError is also
                raised for records that would take more than ``max_record_bytes`` as one object;
                :meth:`to_arrow_batches` returns several objects.
            ImportError: pyarrow or numpy is not installed.
            ValueError: A column name is unknown.
        """
        require_arrow()
        from aiokproto.records.columns import joined_arrow, to_columns

        # A batch that is already one piece isn't cut: that would cost more than it saves.
        if (batches := self._one_piece()) is not None:
            read = to_columns(batches).between(self.base_offset, self.next_offset)
            return read.to_arrow(self.topic, self.partition, headers=headers, columns=columns)
        limit = max((batch.max_record for batch in self.record_batches), default=0)
        found = self.to_arrow_batches(headers=headers, columns=columns)
        return joined_arrow(found, limit, headers=headers, columns=columns)

    def to_arrow_batches(self, *, headers: bool = False, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Yield the records as one or more ``pyarrow.RecordBatch`` of at most a few megabytes each, however large the
        batch is after decompression. Arguments and errors are the same as in :meth:`to_arrow`."""
        require_arrow()
        from aiokproto.records.pieces import in_pieces

        # The first batch can start before the requested position, so between() cuts it below.
        batches = [batch for batch in self.record_batches if not batch.is_control]
        for piece in in_pieces(batches, ARROW_BYTES, ARROW_RECORDS):
            found = piece.between(self.base_offset, self.next_offset)
            if len(found):
                yield found.to_arrow(self.topic, self.partition, headers=headers, columns=columns)
            # Both reference the bytes of their piece. Free these before the next piece is decompressed.
            del piece, found

    def _one_piece(self) -> list[RecordBatch] | None:
        """Return the batches to read if they're stored as one piece, as they usually are; else None."""
        found: list[RecordBatch] = []
        size = count = 0
        for batch in self.record_batches:
            if batch.magic < 2 or batch.attributes & CODEC:
                return None
            if not batch.attributes & CONTROL:
                found.append(batch)
                size += batch.length
                count += batch.count
        if not found or size > min(ARROW_BYTES, found[0].max_record) or count > ARROW_RECORDS:
            return None
        return found

    @property
    def size_in_bytes(self) -> int:
        """The size as stored and sent, in bytes, whether compressed or not."""
        return sum(batch.size_in_bytes for batch in self.record_batches)

    def __repr__(self) -> str:
        return (
            f"FetchedBatch(topic={self.topic!r}, partition={self.partition}, base_offset={self.base_offset}, "
            f"next_offset={self.next_offset})"
        )


class DamagedBatch(FetchedBatch):
    """A batch that cannot be read. ``error`` says why, and iterating it yields one record that represents it."""

    __slots__ = ("_record", "error")

    def __init__(
        self, partition: TopicPartition, base_offset: int, next_offset: int, record: UndecodableRecord
    ) -> None:
        super().__init__(partition, base_offset, next_offset, (), record._ownership)
        assert isinstance(record.error, CorruptBatchError)
        self._record = record
        self.error: CorruptBatchError | None = record.error

    def __iter__(self) -> Iterator[Record]:
        return iter([self._record])

    def to_arrow(self, *, headers: bool = False, columns: Sequence[str] | None = None) -> Any:
        """Raise the error."""
        assert self.error is not None
        raise copied(self.error)

    def to_arrow_batches(self, *, headers: bool = False, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """Raise the error."""
        assert self.error is not None
        raise copied(self.error)

    @property
    def size_in_bytes(self) -> int:
        return len(self._record.raw_value or b"")
