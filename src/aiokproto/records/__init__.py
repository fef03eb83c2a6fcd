"""Record batches: what partitions store, Produce carries and Fetch returns. Pure: no sockets, no asyncio.

::

    for batch in records.decode(data):
        for record in batch:
            print(record.offset, record.key, record.value)

    data = records.encode([records.BatchRecord(0, now_ms, b"key", b"value")], compression="zstd")

:func:`decode` and :class:`RecordBatch` read, :class:`BatchBuilder` and :func:`encode` write;
:mod:`~aiokproto.records.control` knows transaction markers, :mod:`~aiokproto.records.patch` changes stored batches in
place, and :mod:`~aiokproto.records.columns` turns batches into columns and Arrow (needs the ``arrow`` extra).
"""

from __future__ import annotations

from aiokproto.records.batch import RecordBatch, decode
from aiokproto.records.builder import BatchBuilder, RecordLike, encode, estimate_size
from aiokproto.records.compression import MAX_DECOMPRESSED, Compression, compress, decompress
from aiokproto.records.control import ControlType, EndTransaction, parse_end_transaction
from aiokproto.records.record import BatchRecord

__all__ = [
    "MAX_DECOMPRESSED",
    "BatchBuilder",
    "BatchRecord",
    "Compression",
    "ControlType",
    "EndTransaction",
    "RecordBatch",
    "RecordLike",
    "compress",
    "decode",
    "decompress",
    "encode",
    "estimate_size",
    "parse_end_transaction",
]
