"""Conversion between message sets of magic 0 and 1 and batches of magic 2, in both directions, for old clients. It's
pure.

Kafka 0.11 to 3.9 converted in both directions. New records are always stored as magic 2. A log from before 0.11
contains older messages, which are served unchanged: every client can read formats older than its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from aiokproto.broker.log.stored import open_stored
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, CorruptRecordError, UnsupportedCompressionError
from aiokproto.records import BatchBuilder, Compression, LegacyBuilder, RecordBatch, decode
from aiokproto.records.compression import MAX_DECOMPRESSED
from aiokproto.types import TimestampType

Buffer = bytes | bytearray | memoryview

NEW_PRODUCE, NEW_FETCH = 3, 4
"""The first versions of Produce and Fetch whose record sets are magic 2."""

_SET_BYTES = 1 << 20
"""How many decompressed bytes end a message set: kilobytes of batches can become gigabytes."""

_MAX_CONVERTED = 16 << 20
"""Maximum decompressed size, in bytes, of the message sets that a response contains for one partition."""


def upgrade(data: Buffer, most: int = MAX_DECOMPRESSED) -> bytearray:
    """Convert a message set to one batch of magic 2, compressed with the codec of its first compressed message.

    Args:
        data: The message set.
        most: Maximum decompressed size, in bytes, of a message and of all messages together.

    Raises:
        BrokerError: CORRUPT_MESSAGE, UNSUPPORTED_COMPRESSION_TYPE, MESSAGE_TOO_LARGE; INVALID_RECORD if it is empty or
            contains magic 2.
    """
    try:
        # A partition's records in a Produce request become one batch because they are stored together, with consecutive
        # offsets.
        builder = BatchBuilder(compression=_codec_of(data))
        room = most
        for message in decode(data, max_decompressed=most, max_record=most):
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


def _codec_of(data: Buffer) -> Compression:
    """Return the codec of the first compressed message. Checks the headers of all messages."""
    codec, size = Compression.NONE, 0
    # The messages aren't put into a list, because a request can contain millions.
    for message in decode(data, check_crc=False):
        if message.magic > 1:
            raise BrokerError(ErrorCode.INVALID_RECORD, detail="messages of magic 2 among older ones")
        codec = codec or message.compression
        size += message.size_in_bytes
    # Brokers truncate the last message of a Fetch response; a producer never does.
    if size != len(data):
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, detail="the last message is incomplete")
    return codec


def downgrade(data: Buffer, version: int, offset: int, most: int = _MAX_CONVERTED) -> bytes:
    """Convert stored batches to message sets. Record headers are lost, and control batches are dropped.

    Args:
        data: The batches. Batches in a format that the client can read are not converted.
        version: The version of Fetch. Clients that use v0 or v1 can read only magic 0; v2 and v3 also magic 1.
        offset: The fetch offset. Records before it are left out of converted batches.
        most: Decompressed size of message sets, in bytes, at which conversion ends. The client fetches the rest later.

    Raises:
        BrokerError: UNSUPPORTED_COMPRESSION_TYPE, since the old formats don't have zstd; CORRUPT_MESSAGE, also for a
            record larger than both 16 MiB and ``data``.
    """
    magic = 0 if version < 2 else 1
    found = bytearray()
    try:
        for batch in open_stored(data, check_crc=True):
            if batch.is_control:
                continue
            # Formats older than the client's own are served as they are: every client can read them.
            if batch.magic <= magic:
                found += batch.raw
                continue
            for builder, first in _message_sets(batch, magic, offset):
                most -= builder.size
                found += builder.close(base_offset=first)
                if most <= 0:
                    return bytes(found)
    except UnsupportedCompressionError as error:
        raise BrokerError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, detail=str(error)) from None
    except CorruptRecordError as error:
        raise BrokerError(ErrorCode.CORRUPT_MESSAGE, detail=str(error)) from None
    return bytes(found)


def _message_sets(batch: RecordBatch, magic: int, offset: int) -> Iterator[tuple[LegacyBuilder, int]]:
    """Yield message sets of limited size, each with its first offset."""
    appended = batch.max_timestamp if batch.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    builder: LegacyBuilder | None = None
    first = following = -1
    for record in batch:
        if record.offset < offset:
            continue
        # Messages in a compressed set have consecutive offsets. After a gap left by compaction, a new set starts.
        if builder is not None and (record.offset != following or builder.size >= _SET_BYTES):
            yield builder, first
            builder = None
        if builder is None:
            first = record.offset
            builder = LegacyBuilder(magic, compression=batch.compression, log_append_time=appended)
        builder.append(record.timestamp, record.key, record.value)
        following = record.offset + 1
    if builder is not None:
        yield builder, first
