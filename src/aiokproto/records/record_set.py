"""Record sets: batches of any magic, one after the other."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from aiokproto.errors import CorruptRecordError
from aiokproto.records import legacy
from aiokproto.records.batch import HEADER, LOG_OVERHEAD, MAGIC_AT, RecordBatch
from aiokproto.records.compression import MAX_DECOMPRESSED, Bytes
from aiokproto.records.legacy import LegacyBatch

_START = struct.Struct(">qi")
_SMALLEST = (*legacy.SMALLEST, HEADER.size - LOG_OVERHEAD)


def decode(data: Bytes, *, check_crc: bool = True, max_decompressed: int = MAX_DECOMPRESSED) -> Iterator[RecordBatch]:
    """The batches of a record set, such as a Fetch response's ``records`` or a log segment.

    All formats from Kafka 0.8 on are read, mixed as they may be: a message of magic 0 or 1 is a batch too, a
    :class:`~aiokproto.records.legacy.LegacyBatch` of one record or of the compressed set in it.

    A broker may cut the last batch short to keep to a size: what is cut is left out without an error. If it is the
    only one there is no batch at all, and :func:`first_batch_size` says how many bytes would have been enough.

    Args:
        data: The record set. The batches are views of it.
        check_crc: Compare each batch's checksum. If not, :meth:`RecordBatch.validate` can be called later, in a thread.
        max_decompressed: Bytes that the records of a single batch may decompress to.

    Raises:
        CorruptRecordError: A batch is damaged. Those before it have been handed out by then.
    """
    view = memoryview(data)
    end = len(view)
    pos = 0
    while end - pos >= LOG_OVERHEAD:
        base_offset, length = _START.unpack_from(view, pos)
        if length < _SMALLEST[0]:
            raise CorruptRecordError(f"record batch at offset {base_offset}: length {length} is too small")
        if end - pos <= MAGIC_AT:
            return
        magic = view[pos + MAGIC_AT]
        if magic > 2:
            raise CorruptRecordError(f"record batch at offset {base_offset}: magic {magic} is unknown")
        if length < _SMALLEST[magic]:
            raise CorruptRecordError(f"record batch at offset {base_offset}: length {length} is too small")
        stop = pos + LOG_OVERHEAD + length
        if stop > end:
            return
        raw = view[pos:stop]
        batch = (
            RecordBatch(raw, max_decompressed=max_decompressed)
            if magic == 2
            else LegacyBatch(raw, max_decompressed=max_decompressed, check_crc=check_crc)
        )
        batch.source = view
        batch.position = pos
        if check_crc:
            batch.validate()
        yield batch
        pos = stop


def first_batch_size(data: Bytes) -> int | None:
    """How many bytes the first batch of a record set takes when it is whole; None if not even that can be seen.

    Where it is more than there are, the fetch that brought the data has to be repeated with a limit of at least so
    many: brokers before 0.10.1 (KIP-74) cut even the first batch.

    Raises:
        CorruptRecordError: The size given is one that no batch has.
    """
    if len(data) < LOG_OVERHEAD:
        return None
    base_offset, length = _START.unpack_from(data)
    if length < _SMALLEST[0]:
        raise CorruptRecordError(f"record batch at offset {base_offset}: length {length} is too small")
    size: int = LOG_OVERHEAD + length
    return size
