"""Record batches, as stored in partitions, sent in Produce and returned by Fetch. Pure: no sockets, no asyncio.

:func:`decode` reads magic 2 (Kafka 0.11 and later), 1 (0.10) and 0 (0.8 and 0.9); :func:`decode_v07` reads 0.7's logs.

::

    for batch in records.decode(data):
        for record in batch:
            print(record.offset, record.key, record.value)

    data = records.encode([records.BatchRecord(0, now_ms, b"key", b"value")], compression="zstd")

:func:`decode` and :class:`RecordBatch` read; :class:`BatchBuilder`, :class:`LegacyBuilder` and :func:`encode` write.
:mod:`~aiokproto.records.control` reads and writes control records, :mod:`~aiokproto.records.patch` changes headers of
encoded batches in place. :mod:`~aiokproto.records.columns` converts batches to columns and Arrow, and
:mod:`~aiokproto.records.rows` converts Arrow tables to records (both need the ``arrow`` extra).
"""

from __future__ import annotations

from aiokproto.records.batch import RecordBatch
from aiokproto.records.builder import BatchBuilder, RecordLike, encode, estimate_size
from aiokproto.records.compression import MAX_DECOMPRESSED, Compression, compress, decompress
from aiokproto.records.control import (
    ControlRecord,
    ControlType,
    EndTransaction,
    control_records,
    encode_control,
    parse_end_transaction,
)
from aiokproto.records.legacy import LegacyBatch
from aiokproto.records.legacy_builder import LegacyBuilder
from aiokproto.records.record import BatchRecord
from aiokproto.records.record_set import decode, first_batch_size
from aiokproto.records.v07 import MessageV07, decode_v07

__all__ = [
    "MAX_DECOMPRESSED",
    "BatchBuilder",
    "BatchRecord",
    "Compression",
    "ControlRecord",
    "ControlType",
    "EndTransaction",
    "LegacyBatch",
    "LegacyBuilder",
    "MessageV07",
    "RecordBatch",
    "RecordLike",
    "compress",
    "control_records",
    "decode",
    "decode_v07",
    "decompress",
    "encode",
    "encode_control",
    "estimate_size",
    "first_batch_size",
    "parse_end_transaction",
]
