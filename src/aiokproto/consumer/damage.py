"""Damaged batches: which offsets they have, and the record that stands for them. Pure.

The checksum covers the batch from the attributes on. With a wrong checksum the header's last offset may be wrong, too,
and trusting it could skip good records. So, in this order: the batch behind it says where it begins; a header with a
right checksum is right, and so is one whose count agrees with its last offset, as one fault does not change both; a
batch that is the last one in a response is fetched again, to get the one behind it; and with as many records as there
are offsets to the high watermark, it ends there. If none of these holds, only the application can know where to
continue.
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
    """Return the error of the damage that the buffer begins with; None if the offset behind it cannot be known.

    ``error`` is what was found.
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
    # Of a batch that reaches to the end of the log.
    if end is None and base < high_watermark <= base + _count(raw):
        end = high_watermark
    # Behind the high watermark there is nothing: whatever said so is damaged, too.
    if end is None or not position < end <= INT64_MAX or 0 <= high_watermark < end:
        return None
    # The base offset is not covered by the checksum: what is missing begins where reading has come to.
    base = base if position <= base < end else position
    text = f"{partition} at offset {base}: {error}; seek to {end} to continue behind it"
    located = CorruptBatchError(text, *partition, base, end, bytes(raw))
    located.__cause__ = error
    return located


def stand_in(error: CorruptBatchError, ownership: Ownership) -> UndecodableRecord:
    """Return the record that stands for a damaged batch."""
    record: Record = Record(error.topic, error.partition, error.base_offset, -1, None, error.raw)
    record._ownership = ownership
    return UndecodableRecord(record, error)


def undamaged(batches: list[RecordBatch]) -> list[RecordBatch]:
    """Return the batches before the first one with a wrong checksum.

    Raises:
        CorruptRecordError: It is the first of all.
    """
    for place, batch in enumerate(batches):
        try:
            batch.validate()
        except CorruptRecordError:
            if not place:
                raise
            return batches[:place]
    return batches


def _behind(chunk: Chunk, buffer: RecordBuffer) -> int | None:
    """Return the offset behind the first batch of a chunk; None if nothing can be trusted that says it."""
    batch = chunk.batches[0]
    behind = chunk.batches[1] if len(chunk.batches) > 1 else None
    if behind is None and len(buffer.chunks) > 1 and buffer.chunks[1].batches:
        behind = buffer.chunks[1].batches[0]
    # The first offset of a compressed set of magic 1 is known only once that is decompressed.
    if behind is not None and behind.magic == 2:
        return behind.base_offset
    # What follows is damaged as well.
    rest = (buffer.chunks[1] if len(buffer.chunks) > 1 else chunk).rest
    if behind is None and rest is not None and len(rest) >= LOG_OVERHEAD:
        found: int = _START.unpack_from(rest)[0]
        # Of a message set the header has the last offset, and that alone without decompressing it.
        if found > (batch.base_offset if batch.magic == 2 else batch.last_offset):
            return found
    # Batches that nobody sees follow: control batches, aborted ones.
    if behind is None and chunk.end != batch.next_offset:
        return chunk.end
    # In magic 0 and 1 the checksum covers no offset, and the header has the last one.
    return batch.next_offset if batch.magic < 2 or _is_intact(batch) else _consistent(batch.raw)


def _is_intact(batch: RecordBatch) -> bool:
    """Return whether the header is right, as it is of a batch that exceeds a limit, or was written wrong."""
    try:
        batch.validate()
    except CorruptRecordError:
        return False
    return True


def _cut(rest: memoryview | None) -> tuple[memoryview, int | None] | None:
    """Return the damaged batch that a record set begins with, and the offset behind it; None if its size is wrong."""
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
    """Return the offset behind a batch by its header, if that has as many records as offsets.

    At the places of magic 2, which a damaged magic byte leaves as they are.
    """
    count = _count(raw)
    base: int = _START.unpack_from(raw)[0]
    return base + count if count > 0 and _INT32.unpack_from(raw, _DELTA_AT)[0] == count - 1 else None


def _count(raw: memoryview) -> int:
    """Return the number of records that the header has; 0 if it has none."""
    found: int = _INT32.unpack_from(raw, _COUNT_AT)[0] if len(raw) >= HEADER.size else 0
    return found
