"""Up- and down-conversion between message sets of magic 0 and 1 and batches of magic 2, for old clients. Pure.

Kafka converted in both directions from 0.11 to 3.9. New records are always stored as magic 2. A log from before 0.11
holds older messages, which are served unchanged: every client can read the formats before its own.
"""

from __future__ import annotations

from itertools import pairwise

from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, CorruptRecordError, UnsupportedCompressionError
from aiokproto.records import BatchBuilder, BatchRecord, Compression, LegacyBuilder, RecordBatch, decode
from aiokproto.records.record import Make
from aiokproto.types import TimestampType

Buffer = bytes | bytearray | memoryview

NEW_PRODUCE, NEW_FETCH = 3, 4
"""The first versions of Produce and Fetch whose record sets are magic 2."""


def upgrade(data: Buffer) -> bytearray:
    """Convert a message set to one batch of magic 2, compressed with the codec of its first compressed message.

    Raises:
        BrokerError: CORRUPT_MESSAGE, UNSUPPORTED_COMPRESSION_TYPE; INVALID_RECORD: it contains magic 2.
    """
    try:
        messages = list(decode(data))
        # Brokers truncate the last message of a Fetch response; a producer never does.
        if sum(message.size_in_bytes for message in messages) != len(data):
            raise BrokerError(ErrorCode.CORRUPT_MESSAGE, detail="the last message is incomplete")
        if any(message.magic > 1 for message in messages):
            raise BrokerError(ErrorCode.INVALID_RECORD, detail="messages of magic 2 among older ones")
        codecs = [message.compression for message in messages if message.compression]
        # One batch: a partition of a Produce request is stored in one piece, and its offsets are consecutive.
        builder = BatchBuilder(compression=codecs[0] if codecs else Compression.NONE)
        for message in messages:
            for record in message:
                builder.append(record.timestamp, record.key, record.value)
    except CorruptRecordError as error:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, detail=str(error)) from None
    except UnsupportedCompressionError as error:
        raise BrokerError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, detail=str(error)) from None
    if not builder.count:
        raise BrokerError(ErrorCode.INVALID_RECORD, detail="no records")
    return builder.close()


def downgrade(data: Buffer, version: int, offset: int) -> bytes:
    """Convert stored batches to message sets. Record headers are lost, and control batches are left out.

    Args:
        data: The batches. Those in a format that the client can read are not converted.
        version: The version of Fetch: clients of v0 and v1 read only magic 0, of v2 and v3 also magic 1.
        offset: The fetch offset. Records before it are left out of converted batches.

    Raises:
        BrokerError: UNSUPPORTED_COMPRESSION_TYPE: the old formats have no zstd; CORRUPT_MESSAGE.
    """
    magic = 0 if version < 2 else 1
    try:
        batches = [batch for batch in decode(data) if not batch.is_control]
        return b"".join(_downgraded(batch, magic, offset) for batch in batches)
    except UnsupportedCompressionError as error:
        raise BrokerError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, detail=str(error)) from None
    except CorruptRecordError as error:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, detail=str(error)) from None


def _downgraded(batch: RecordBatch, magic: int, offset: int) -> bytes:
    # Also older formats than the client's own: every client can read those.
    if batch.magic <= magic:
        return bytes(batch.raw)
    appended = batch.max_timestamp if batch.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    make: Make[BatchRecord] = BatchRecord
    records = [record for record in batch.records(make) if record.offset >= offset]
    # Messages in a compressed set have consecutive offsets. Gaps that compaction left begin a new set.
    gaps = [at for at, (left, right) in enumerate(pairwise(records), 1) if right.offset != left.offset + 1]
    sets = bytearray()
    for begin, end in pairwise([0, *gaps, len(records)]):
        builder = LegacyBuilder(magic, compression=batch.compression, log_append_time=appended)
        for record in records[begin:end]:
            builder.append(record.timestamp, record.key, record.value)
        if builder.count:
            sets += builder.close(base_offset=records[begin].offset)
    return bytes(sets)
