"""Up- and down-conversion between message sets of magic 0 and 1 and batches of magic 2, for old clients. Pure.

Kafka converted in both directions from 0.11 to 3.9. New records are always stored as magic 2. A log from before 0.11
holds older messages, which are served unchanged: every client can read the formats before its own.
"""

from __future__ import annotations

from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, CorruptRecordError, UnsupportedCompressionError
from aiokproto.records import BatchBuilder, Compression, LegacyBuilder, RecordBatch, decode
from aiokproto.records.compression import MAX_DECOMPRESSED
from aiokproto.types import TimestampType

Buffer = bytes | bytearray | memoryview

NEW_PRODUCE, NEW_FETCH = 3, 4
"""The first versions of Produce and Fetch whose record sets are magic 2."""


def upgrade(data: Buffer, most: int = MAX_DECOMPRESSED) -> bytearray:
    """Convert a message set to one batch of magic 2, compressed with the codec of its first compressed message.

    Args:
        data: The message set.
        most: Most bytes that a compressed message, or all messages together, may become.

    Raises:
        BrokerError: CORRUPT_MESSAGE, UNSUPPORTED_COMPRESSION_TYPE; INVALID_RECORD: it contains magic 2.
    """
    try:
        messages = list(decode(data, max_decompressed=most, max_record=most))
        # Brokers truncate the last message of a Fetch response; a producer never does.
        if sum(message.size_in_bytes for message in messages) != len(data):
            raise BrokerError(ErrorCode.CORRUPT_MESSAGE, detail="the last message is incomplete")
        if any(message.magic > 1 for message in messages):
            raise BrokerError(ErrorCode.INVALID_RECORD, detail="messages of magic 2 among older ones")
        codecs = [message.compression for message in messages if message.compression]
        # One batch: a partition of a Produce request is stored in one piece, and its offsets are consecutive.
        builder = BatchBuilder(compression=codecs[0] if codecs else Compression.NONE)
        room = most
        for message in messages:
            for record in message:
                builder.append(record.timestamp, record.key, record.value)
                room -= len(record.key or b"") + len(record.value or b"")
                if room < 0:
                    raise BrokerError(ErrorCode.MESSAGE_TOO_LARGE, detail=f"the messages hold more than {most} bytes")
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
    sets = bytearray()
    builder: LegacyBuilder | None = None
    first = following = -1
    for record in batch:
        if record.offset < offset:
            continue
        # Messages in a compressed set have consecutive offsets. Gaps that compaction left begin a new set.
        if builder is not None and record.offset != following:
            sets += builder.close(base_offset=first)
            builder = None
        if builder is None:
            builder, first = (
                LegacyBuilder(magic, compression=batch.compression, log_append_time=appended),
                record.offset,
            )
        builder.append(record.timestamp, record.key, record.value)
        following = record.offset + 1
    if builder is not None:
        sets += builder.close(base_offset=first)
    return bytes(sets)
