"""Checks which encoded record batches can be produced without decoding them (``send_batch``, ``post_batch``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from aiokproto.errors import CorruptRecordError, InvalidRecordError
from aiokproto.records import RecordBatch, decode
from aiokproto.records.compression import Bytes
from aiokproto.types import TimestampType


class SupportsRecordBatches(Protocol):
    """The items of :meth:`~aiokproto.consumer.Consumer.batches`."""

    @property
    def base_offset(self) -> int: ...
    @property
    def record_batches(self) -> Sequence[RecordBatch]: ...


def record_batches(given: SupportsRecordBatches | RecordBatch | Bytes) -> Sequence[RecordBatch]:
    """Return the record batches in ``given``, after checking that each can be sent unchanged.

    Args:
        given: An item of ``Consumer.batches()``, a record batch, or the bytes of one.

    Raises:
        InvalidRecordError: A batch cannot be sent unchanged, or ``given`` has another type.
        CorruptRecordError: The bytes are not exactly one batch, or do not match its checksum.
        UnsupportedCompressionError: The codec of a batch is unknown.
    """
    if isinstance(given, RecordBatch):
        found: Sequence[RecordBatch] = [given]
    elif isinstance(given, bytes | bytearray | memoryview):
        found = [_only_batch(given)]
    elif hasattr(given, "record_batches"):
        found = given.record_batches
        # If a consumer has sought into the middle of a batch, it got the whole batch. If that batch were sent
        # unchanged, it would bring back the records before that offset.
        if found and found[0].magic == 2 and found[0].base_offset < given.base_offset:
            _refuse(found[0], f"it starts before offset {given.base_offset}, the first to be sent")
    else:
        raise InvalidRecordError(f"expected a record batch or its bytes, got {type(given).__name__}")
    for batch in found:
        _check(batch)
    return found


def _only_batch(data: Bytes) -> RecordBatch:
    # Verify the checksum here. A broker would respond with CORRUPT_MESSAGE, which is retriable, and the batch would be
    # retried until the deadline.
    first = next(decode(data), None)
    if first is None:
        raise CorruptRecordError(f"{len(data)} bytes are not one whole record batch")
    if first.magic == 2 and first.size_in_bytes != len(data):
        raise InvalidRecordError(
            f"the record batch ends after {first.size_in_bytes} of {len(data)} bytes; pass one batch at a time"
        )
    return first


def _check(batch: RecordBatch) -> None:
    if batch.magic != 2:
        _refuse(batch, f"its format is magic {batch.magic}, and only 2 can be sent")
    # A marker ends a transaction in the cluster that it was read from.
    if batch.is_control:
        raise InvalidRecordError(f"{_name(batch)} cannot be sent: only brokers write control batches")
    # Brokers reject a producer's batch with gaps: the offsets in a batch must be consecutive.
    if batch.count != batch.last_offset_delta + 1:
        _refuse(batch, f"compaction has left {batch.count} of its {batch.last_offset_delta + 1} records")
    # A producer's batch must have CreateTime. Clearing the flag would bring back the producer's old timestamps.
    if batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
        _refuse(batch, "its timestamps are a broker's (LogAppendTime)")
    # Raise here for an unknown codec, where the caller sees which batch it is.
    _ = batch.compression


def _refuse(batch: RecordBatch, why: str) -> None:
    raise InvalidRecordError(f"{_name(batch)} cannot be sent unchanged: {why}; send its records with send_many()")


def _name(batch: RecordBatch) -> str:
    # The base offset of a message set (magic 0 or 1) is known only after it's been decompressed.
    return f"record batch at offset {batch.base_offset}" if batch.magic == 2 else "message set"
