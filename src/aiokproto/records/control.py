"""Control records: what brokers write into a log for themselves and for clients.

The key is an int16 version and an int16 type; what the value holds depends on the type. Clients read the two markers
that end a transaction, the others belong to KRaft's own log.

:func:`encode_control` writes a batch of them, :func:`control_records` reads one.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from aiokproto.codec.payloads.control_records import (
    EndTxnMarker,
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from aiokproto.errors import CorruptRecordError, DecodeError, InvalidRecordError
from aiokproto.records.batch import RecordBatch
from aiokproto.records.builder import BatchBuilder, RecordLike
from aiokproto.records.patch import set_leader_epoch

_KEY = struct.Struct(">hh")
_VERSION = struct.Struct(">h")
_END_TRANSACTION = struct.Struct(">hi")
_KEY_VERSION = 0


class ControlType(IntEnum):
    """What a control record says."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndTransaction(NamedTuple):
    """The marker that ends a producer's transaction in a partition.

    Attributes:
        committed: Whether it was committed; else it was aborted.
        coordinator_epoch: Epoch of the transaction coordinator that wrote it.
    """

    committed: bool
    coordinator_epoch: int


ControlValue = (
    EndTxnMarker | LeaderChangeMessage | SnapshotHeaderRecord | SnapshotFooterRecord | KRaftVersionRecord | VotersRecord
)
"""What the value of a control record may hold."""

_VALUES: dict[ControlType, type[ControlValue]] = {
    ControlType.ABORT: EndTxnMarker,
    ControlType.COMMIT: EndTxnMarker,
    ControlType.LEADER_CHANGE: LeaderChangeMessage,
    ControlType.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlType.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlType.KRAFT_VERSION: KRaftVersionRecord,
    ControlType.KRAFT_VOTERS: VotersRecord,
}


class ControlRecord(NamedTuple):
    """What a control record says.

    Attributes:
        type: Its type.
        version: The version its value was written in.
        value: The content; None where the type is ``UNKNOWN``.
    """

    type: ControlType
    version: int
    value: ControlValue | None


def control_records(batch: RecordBatch) -> list[ControlRecord]:
    """What a control batch says: a marker, or one or more records of KRaft.

    Raises:
        CorruptRecordError: The batch, or a record in it, is damaged.
        InvalidRecordError: It is no control batch.
        UnsupportedCompressionError: The codec is unknown or its library is missing.
    """
    if not batch.is_control:
        raise InvalidRecordError(f"record batch at offset {batch.base_offset} is no control batch")
    return batch.records(lambda _offset, _timestamp, key, value, _headers: _parse(key, value))


def parse(record: RecordLike) -> ControlRecord:
    """Read a record of a control batch. What later versions add to the end of a value is passed over.

    Raises:
        CorruptRecordError: The record is damaged.
    """
    return _parse(record.key, record.value)


def _parse(key: bytes | None, stored: bytes | None) -> ControlRecord:
    kind = control_type(key)
    value = stored or b""
    if len(value) < _VERSION.size:
        raise CorruptRecordError(f"a control record of type {kind.name} has no version in its value {stored!r}")
    (version,) = _VERSION.unpack_from(value)
    if version < 0:
        raise CorruptRecordError(f"a control record of type {kind.name} has version {version}")
    if kind is ControlType.UNKNOWN:
        return ControlRecord(kind, version, None)
    message = _VALUES[kind]
    # The version is a field of KRaft's records, but comes before the one of a transaction marker.
    start = _VERSION.size if message is EndTxnMarker else 0
    try:
        content, _ = message.decode_from(bytes(value), start, min(version, message.versions.highest))
    except DecodeError as error:
        raise CorruptRecordError(f"a control record of type {kind.name}: {error}") from None
    return ControlRecord(kind, version, content)


def control_type(key: bytes | None) -> ControlType:
    """The type in a control record's key; types of later versions of Kafka are ``UNKNOWN`` and can be passed over.

    Raises:
        CorruptRecordError: The key is none of a control record.
    """
    if key is None or len(key) < _KEY.size:
        raise CorruptRecordError(f"a control record has a key of {_KEY.size} bytes, not {key!r}")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptRecordError(f"control record key has version {version}")
    return ControlType(number) if 0 <= number <= ControlType.KRAFT_VOTERS else ControlType.UNKNOWN


def parse_end_transaction(key: bytes | None, value: bytes | None) -> EndTransaction | None:
    """What the marker says; None if the record is of another type.

    Raises:
        CorruptRecordError: The record is damaged.
    """
    kind = control_type(key)
    if kind is not ControlType.ABORT and kind is not ControlType.COMMIT:
        return None
    if value is None or len(value) < _END_TRANSACTION.size:
        raise CorruptRecordError(
            f"an end-transaction marker has a value of {_END_TRANSACTION.size} bytes, not {value!r}"
        )
    # Later versions may only add to the end.
    _version, epoch = _END_TRANSACTION.unpack_from(value)
    return EndTransaction(kind is ControlType.COMMIT, epoch)


def batch_control_type(batch: RecordBatch) -> ControlType:
    """The type of a control batch, which is that of its first record.

    Raises:
        CorruptRecordError: The batch holds no record, or is damaged.
    """
    records = batch.records(lambda _offset, _timestamp, key, _value, _headers: key)
    if not records:
        raise CorruptRecordError(f"control batch at offset {batch.base_offset} has no record")
    return control_type(records[0])


def encode_control(
    *records: ControlRecord,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
) -> bytearray:
    """A control batch.

    Args:
        records: What it says: one marker, or any number of KRaft's records, as at the beginning of a snapshot.
        timestamp: Milliseconds since the epoch, of each of them; -1 for none.
        base_offset: Offset of the first.
        leader_epoch: Epoch of the leader that writes it; -1 for none.
        producer_id: Whose transaction a marker ends; KRaft's records have none (-1).
        producer_epoch: The producer's epoch.

    Raises:
        EncodeError: A value does not fit its message.
        InvalidRecordError: There is no record, or its type, version and value do not go together; a marker is not
            alone, or has no producer; another record has one; the timestamp is unusable.
    """
    ends = any(record.type in (ControlType.ABORT, ControlType.COMMIT) for record in records)
    if ends and len(records) > 1:
        raise InvalidRecordError("a marker that ends a transaction is alone in its batch")
    if ends and (producer_id < 0 or producer_epoch < 0):
        raise InvalidRecordError(f"a marker ends a producer's transaction, not one of {producer_id}/{producer_epoch}")
    if not ends and (producer_id, producer_epoch) != (-1, -1):
        raise InvalidRecordError(f"records of KRaft have no producer, but {producer_id}/{producer_epoch} is given")
    builder = BatchBuilder(
        producer_id=producer_id, producer_epoch=producer_epoch, is_transactional=ends, is_control=True
    )
    for record in records:
        builder.append(timestamp, _KEY.pack(_KEY_VERSION, record.type), _encode_value(record))
    batch = builder.close(base_offset=base_offset)
    set_leader_epoch(batch, 0, leader_epoch)
    return batch


def _encode_value(record: ControlRecord) -> bytes:
    kind, version, value = record
    message = _VALUES.get(kind)
    if message is None or not isinstance(value, message):
        raise InvalidRecordError(f"a control record of type {kind.name} cannot hold {value!r}")
    if version not in message.versions:
        raise InvalidRecordError(f"{message.__name__} has versions {message.versions}, not {version}")
    if isinstance(value, EndTxnMarker):
        return _VERSION.pack(version) + value.encode(version)
    if value.version != version:
        raise InvalidRecordError(f"{value!r} says another version than {version}, that of its control record")
    return value.encode(version)


def encode_end_transaction(
    *,
    committed: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
) -> bytearray:
    """A control batch that ends the transaction of a producer: what a broker appends to each partition of it.

    Args:
        committed: Whether the transaction is committed or aborted.
        producer_id: Whose transaction it is.
        producer_epoch: The producer's epoch.
        coordinator_epoch: Epoch of the coordinator that decided.
        timestamp: Milliseconds since the epoch.
        base_offset: Offset of the marker.
    """
    kind = ControlType.COMMIT if committed else ControlType.ABORT
    return encode_control(
        ControlRecord(kind, 0, EndTxnMarker(coordinator_epoch=coordinator_epoch)),
        timestamp=timestamp,
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
