"""Damaged batches: which offsets they have, and the record that stands for them. Pure.

The checksum covers the batch from the attributes on. With a wrong checksum the header's last offset may be wrong, too,
and trusting it could skip good records. So, in this order: the batch behind it says where it begins; a header whose
count agrees with its last offset is right, as one fault does not change both; and no batch reaches behind the high
watermark.
"""

from __future__ import annotations

import struct

from aiokproto.consumer.buffer import RecordBuffer
from aiokproto.consumer.chunk import Chunk
from aiokproto.errors import CorruptBatchError, CorruptRecordError
from aiokproto.records import RecordBatch
from aiokproto.records.batch import HEADER, LOG_OVERHEAD, MAGIC_AT
from aiokproto.types import Record, TopicPartition, UndecodableRecord

_START = struct.Struct(">qi")
_DELTA_AT = 23
_COUNT_AT = HEADER.size - 4
_INT32 = struct.Struct(">i")


def locate(
    partition: TopicPartition, buffer: RecordBuffer, high_watermark: int, error: CorruptRecordError
) -> CorruptBatchError | None:
    """Return the error of the damage that the buffer begins with, or None if not even its size is known.

    ``error`` is what was found.
    """
    chunk, position = buffer.chunks[0], buffer.end
    if chunk.batches:
        raw, end = chunk.batches[0].raw, _end(chunk, buffer, high_watermark)
    elif (found := _cut(chunk.rest)) is not None:
        raw, end = found
    else:
        return None
    end = max(end, position + 1)
    base = max(_START.unpack_from(raw)[0], position)
    # A base offset that was damaged: what is missing begins where reading has come to.
    base = base if base < end else position
    text = f"{partition} at offset {base}: {error}; seek to {end} to continue behind it"
    located = CorruptBatchError(text, *partition, base, end, bytes(raw))
    located.__cause__ = error
    return located


def stand_in(error: CorruptBatchError) -> UndecodableRecord:
    """Return the record that stands for a damaged batch."""
    record: Record = Record(error.topic, error.partition, error.base_offset, -1, None, error.raw)
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


def _end(chunk: Chunk, buffer: RecordBuffer, high_watermark: int) -> int:
    """Return the offset behind the first batch of a chunk."""
    batch = chunk.batches[0]
    behind = chunk.batches[1] if len(chunk.batches) > 1 else None
    if behind is None and len(buffer.chunks) > 1 and buffer.chunks[1].batches:
        behind = buffer.chunks[1].batches[0]
    # The first offset of a compressed set of magic 1 is known only once that is decompressed.
    if behind is not None and behind.magic == 2:
        return behind.base_offset
    claimed = batch.next_offset
    # Batches that nobody sees follow: control batches, aborted ones.
    if behind is None and chunk.end != claimed:
        return chunk.end
    return _bounded(batch, claimed, high_watermark)


def _bounded(batch: RecordBatch, claimed: int, high_watermark: int) -> int:
    # In magic 0 and 1 the checksum covers no offset, and the last one is in the header.
    consistent = batch.magic < 2 or batch.count == batch.last_offset_delta + 1
    return claimed if consistent or high_watermark < 0 else min(claimed, high_watermark)


def _cut(rest: memoryview | None) -> tuple[memoryview, int] | None:
    """Return the damaged batch that a record set begins with, and the offset behind it; None if its size is wrong."""
    if rest is None or len(rest) < LOG_OVERHEAD:
        return None
    base, length = _START.unpack_from(rest)
    stop = LOG_OVERHEAD + length
    if not MAGIC_AT < stop <= len(rest):
        return None
    if len(rest) - stop >= LOG_OVERHEAD:
        behind: int = _START.unpack_from(rest, stop)[0]
        if behind > base:
            return rest[:stop], behind
    end = base + 1
    if stop >= HEADER.size:
        delta, count = _INT32.unpack_from(rest, _DELTA_AT)[0], _INT32.unpack_from(rest, _COUNT_AT)[0]
        # The fields of magic 2, which a wrong magic byte leaves in place.
        if 0 <= delta == count - 1:
            end += delta
    return rest[:stop], end
