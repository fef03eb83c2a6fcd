"""Record batches that somebody has stored: which of them can be produced again as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from aiokproto.errors import CorruptRecordError, InvalidRecordError
from aiokproto.records import RecordBatch, decode
from aiokproto.records.compression import Bytes
from aiokproto.types import TimestampType


class SupportsRecordBatches(Protocol):
    """What :meth:`~aiokproto.consumer.Consumer.batches` hands out."""

    @property
    def base_offset(self) -> int: ...
    @property
    def record_batches(self) -> Sequence[RecordBatch]: ...


def record_batches(given: SupportsRecordBatches | RecordBatch | Bytes) -> Sequence[RecordBatch]:
    """The batches that ``given`` stands for, each of which can be sent as it is.

    Args:
        given: What a consumer has handed out; a batch; or the bytes of one.

    Raises:
        InvalidRecordError: A batch has to be written anew, or cannot be sent at all; or it is none of these.
        CorruptRecordError: The bytes are no batch, or not what its checksum says.
        UnsupportedCompressionError: Nobody knows the codec of a batch.
    """
    if isinstance(given, RecordBatch):
        found: Sequence[RecordBatch] = [given]
    elif isinstance(given, bytes | bytearray | memoryview):
        found = [_only_batch(given)]
    elif hasattr(given, "record_batches"):
        found = given.record_batches
        if found and found[0].magic == 2 and found[0].base_offset < given.base_offset:
            _refuse(found[0], f"it begins before the records to be sent, which begin at {given.base_offset}")
    else:
        raise InvalidRecordError(f"a record batch or its bytes are wanted, not {type(given).__name__}")
    for batch in found:
        _check(batch)
    return found


def _only_batch(data: Bytes) -> RecordBatch:
    # Compared here, as a broker's refusal would be taken for a fault of the way there, and tried again.
    first = next(decode(data), None)
    if first is None:
        raise CorruptRecordError(f"{len(data)} bytes are not one whole record batch")
    if first.magic == 2 and first.size_in_bytes != len(data):
        raise InvalidRecordError(f"the record batch takes {first.size_in_bytes} of {len(data)} bytes: one is wanted")
    return first


def _check(batch: RecordBatch) -> None:
    if batch.magic != 2:
        _refuse(batch, f"its format is magic {batch.magic}, and 2 is sent")
    if batch.is_control:
        raise InvalidRecordError(f"{_name(batch)} cannot be sent: control batches are written by brokers alone")
    if batch.count != batch.last_offset_delta + 1:
        _refuse(batch, f"compaction has left {batch.count} of its {batch.last_offset_delta + 1} records")
    if batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
        _refuse(batch, "its timestamps are a broker's (LogAppendTime)")
    # An unknown codec is told here, and not by a broker.
    _ = batch.compression


def _refuse(batch: RecordBatch, why: str) -> None:
    raise InvalidRecordError(f"{_name(batch)} cannot be sent as it is: {why}; send_many() sends its records")


def _name(batch: RecordBatch) -> str:
    # A message set of magic 0 or 1 would be opened to know its base offset.
    return f"record batch at offset {batch.base_offset}" if batch.magic == 2 else "message set"
