"""Damaged batches: the offsets that they cover, and the records that represent them. Pure.

The checksum covers the batch starting at the attributes. If it's wrong, the header's last offset may be wrong, too, and
trusting it could skip good records. So the end of the batch is determined from these sources, in order. The damaged
batch ends at the base offset of the next batch. A header with a correct checksum is correct. A header whose count
agrees with its last offset is correct, too, because a single fault doesn't change both. If the damaged batch is the
last one in a response, it's fetched again, to get the next batch. A batch with as many records as there are offsets up
to the high watermark ends there. If none of these work, only the application can know where to continue.
"""

from __future__ import annotations

import struct
from typing import Literal

from aiokproto.consumer.buffer import RecordBuffer
from aiokproto.errors import CorruptBatchError, CorruptRecordError
from aiokproto.fetched.chunk import Chunk
from aiokproto.records import RecordBatch
from aiokproto.records.batch import HEADER, LOG_OVERHEAD
from aiokproto.records.varint import INT64_MAX
from aiokproto.types import Ownership, Record, TopicPartition, UndecodableRecord

_START = struct.Struct(">qi")
_DELTA_AT = 23
_COUNT_AT = HEADER.size - 4
_INT32 = struct.Struct(">i")


def locate(
    partition: TopicPartition, buffer: RecordBuffer, high_watermark: int, error: CorruptRecordError
) -> CorruptBatchError | Literal["refetch"] | None:
    """Return the error of the damaged batch at the front of the buffer; None if the offset after it cannot be known.

    ``error`` is the error that was found.
    """
    chunk, position = buffer.chunks[0], buffer.end
    if chunk.batches:
        raw, end = chunk.batches[0].raw, _behind(chunk, buffer)
    elif (found := _cut(chunk.rest)) is not None:
        raw, end = found
    else:
        return None
    base: int = _START.unpack_from(raw)[0]
    if end is None and chunk.position != position:
        return "refetch"
    # The batch extends to the end of the log.
    if end is None and base < high_watermark <= base + _count(raw):
        end = high_watermark
    # An offset past the high watermark is damaged, too.
    if end is None or not position < end <= INT64_MAX or 0 <= high_watermark < end:
        return None
    # The checksum doesn't cover the base offset, so it may be wrong. The missing records start at the position.
    base = base if position <= base < end else position
    text = f"{partition} at offset {base}: {error}; seek to {end} to continue behind it"
    located = CorruptBatchError(text, *partition, base, end, bytes(raw))
    located.__cause__ = error
    return located


def stand_in(error: CorruptBatchError, ownership: Ownership) -> UndecodableRecord:
    """Return the record that represents a damaged batch."""
    record: Record = Record(error.topic, error.partition, error.base_offset, -1, None, error.raw)
    record._ownership = ownership
    return UndecodableRecord(record, error)


def undamaged(batches: list[RecordBatch]) -> list[RecordBatch]:
    """Return the batches before the first one with a wrong checksum.

    Raises:
        CorruptRecordError: The first batch has a wrong checksum.
    """
    for index, batch in enumerate(batches):
        try:
            batch.validate()
        except CorruptRecordError:
            if not index:
                raise
            return batches[:index]
    return batches


def _behind(chunk: Chunk, buffer: RecordBuffer) -> int | None:
    """Return the offset after the first batch of a chunk; None if no source for it can be trusted."""
    batch = chunk.batches[0]
    behind = chunk.batches[1] if len(chunk.batches) > 1 else None
    if behind is None and len(buffer.chunks) > 1 and buffer.chunks[1].batches:
        behind = buffer.chunks[1].batches[0]
    # The first offset of a compressed set of magic 1 is known only after decompression.
    if behind is not None and behind.magic == 2:
        return behind.base_offset
    # The next batch is damaged as well.
    rest = (buffer.chunks[1] if len(buffer.chunks) > 1 else chunk).rest
    if behind is None and rest is not None and len(rest) >= LOG_OVERHEAD:
        found: int = _START.unpack_from(rest)[0]
        # The header of a message set contains only its last offset; the others require decompression.
        if found > (batch.base_offset if batch.magic == 2 else batch.last_offset):
            return found
    # The next batches are control batches or aborted ones, which aren't delivered.
    if behind is None and chunk.end != batch.next_offset:
        return chunk.end
    # The checksum of magic 0 and 1 doesn't cover offsets, and the header contains the last offset.
    return batch.next_offset if batch.magic < 2 or _is_intact(batch) else _consistent(batch.raw)


def _is_intact(batch: RecordBatch) -> bool:
    """Return whether the header is correct. It is if the batch's only fault is that it exceeds a limit or was written
    wrong."""
    try:
        batch.validate()
    except CorruptRecordError:
        return False
    return True


def _cut(rest: memoryview | None) -> tuple[memoryview, int | None] | None:
    """Return the damaged batch at the start of a record set, and the offset after it; None if its size is wrong."""
    if rest is None or len(rest) < LOG_OVERHEAD:
        return None
    base, length = _START.unpack_from(rest)
    stop = LOG_OVERHEAD + length
    if not HEADER.size <= stop <= len(rest):
        return None
    if len(rest) - stop >= LOG_OVERHEAD:
        behind: int = _START.unpack_from(rest, stop)[0]
        if behind > base:
            return rest[:stop], behind
    return rest[:stop], _consistent(rest[:stop])


def _consistent(raw: memoryview) -> int | None:
    """Return the offset after a batch according to its header, if the header's counts of records and offsets agree.

    It reads the fields at their positions in magic 2, because a damaged magic byte doesn't move them.
    """
    count = _count(raw)
    base: int = _START.unpack_from(raw)[0]
    return base + count if count > 0 and _INT32.unpack_from(raw, _DELTA_AT)[0] == count - 1 else None


def _count(raw: memoryview) -> int:
    """Return the number of records according to the header; 0 if the batch is too short to contain a header."""
    found: int = _INT32.unpack_from(raw, _COUNT_AT)[0] if len(raw) >= HEADER.size else 0
    return found
