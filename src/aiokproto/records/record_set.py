"""Record sets: sequences of batches of any magic."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from aiokproto.errors import CorruptRecordError
from aiokproto.records import legacy
from aiokproto.records.batch import HEADER, LOG_OVERHEAD, MAGIC_AT, RecordBatch
from aiokproto.records.compression import MAX_DECOMPRESSED, Bytes
from aiokproto.records.legacy import LegacyBatch
from aiokproto.records.record import MAX_RECORD

_START = struct.Struct(">qi")
_SMALLEST = (*legacy.SMALLEST, HEADER.size - LOG_OVERHEAD)


def decode(
    data: Bytes, *, check_crc: bool = True, max_decompressed: int = MAX_DECOMPRESSED, max_record: int = MAX_RECORD
) -> Iterator[RecordBatch]:
    """Yield the batches of a record set, such as a Fetch response's ``records`` or a log segment.

    Formats may be mixed. A message of magic 0 or 1 is a batch as well: a :class:`~aiokproto.records.legacy.LegacyBatch`
    with one record, or with the records of a compressed set.

    A broker may truncate the last batch to stay within a size limit; a truncated batch is ignored. If it is the only
    batch, no batch is yielded, and :func:`first_batch_size` returns the number of bytes to fetch.

    Args:
        data: The record set. The batches are views of it.
        check_crc: Whether to verify each batch's checksum. :meth:`RecordBatch.validate` can do that later, in a thread.
        max_decompressed: Maximum decompressed size, in bytes, of one batch's records.
        max_record: Maximum size, in bytes, of a record: see :attr:`RecordBatch.max_record`.

    Raises:
        CorruptRecordError: A batch is damaged. The batches before it have been yielded.
    """
    view = memoryview(data)
    end = len(view)
    pos = 0
    while end - pos >= LOG_OVERHEAD:
        base_offset, length = _START.unpack_from(view, pos)
        if length < _SMALLEST[0]:
            raise CorruptRecordError(f"record batch at offset {base_offset}: length {length} is too small")
        # There's no magic byte, because the broker has truncated the set, as below.
        if end - pos <= MAGIC_AT:
            return
        magic = view[pos + MAGIC_AT]
        if magic > 2:
            raise CorruptRecordError(f"record batch at offset {base_offset}: magic {magic} is unknown")
        if length < _SMALLEST[magic]:
            raise CorruptRecordError(f"record batch at offset {base_offset}: length {length} is too small")
        stop = pos + LOG_OVERHEAD + length
        # The batch is truncated because it didn't fit in the limit. That isn't an error: the next Fetch starts with it.
        if stop > end:
            return
        raw = view[pos:stop]
        batch = (
            RecordBatch(raw, max_decompressed=max_decompressed, max_record=max_record)
            if magic == 2
            else LegacyBatch(raw, max_decompressed=max_decompressed, max_record=max_record, check_crc=check_crc)
        )
        # The source is the whole set, since columns.py reads batches with the same source without copying them.
        batch.source = view
        batch.position = pos
        if check_crc:
            batch.validate()
        yield batch
        pos = stop


def first_batch_size(data: Bytes) -> int | None:
    """Return the full size, in bytes, of the first batch of a record set, or None if its length field is incomplete.

    If the size is larger than the record set, repeat the Fetch with at least that limit: brokers before 0.10.1 (KIP-74)
    truncate even the first batch.

    Raises:
        CorruptRecordError: The size in the batch is invalid.
    """
    if len(data) < LOG_OVERHEAD:
        return None
    base_offset, length = _START.unpack_from(data)
    if length < _SMALLEST[0]:
        raise CorruptRecordError(f"record batch at offset {base_offset}: length {length} is too small")
    size: int = LOG_OVERHEAD + length
    return size
