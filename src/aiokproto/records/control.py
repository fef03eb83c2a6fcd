"""Control records: transaction markers (KIP-98), and KRaft's records about its quorum and snapshots (KIP-595).

The key is an int16 version and an int16 type, and the type determines the value's format. Clients use only the two
markers that end a transaction; the other types appear only in ``__cluster_metadata``.

:func:`encode_control` writes a control batch, :func:`control_records` reads one.
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
from aiokproto.errors import CodecError, CorruptRecordError, DecodeError, InvalidRecordError
from aiokproto.records.batch import RecordBatch
from aiokproto.records.builder import BatchBuilder, RecordLike
from aiokproto.records.cutting import cut
from aiokproto.records.patch import set_leader_epoch
from aiokproto.records.record import read_slice
from aiokproto.records.scan import whole_records

_KEY = struct.Struct(">hh")
_VERSION = struct.Struct(">h")
_END_TRANSACTION = struct.Struct(">hi")
_KEY_VERSION = 0


class ControlType(IntEnum):
    """Type of a control record."""

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
        committed: True if the transaction was committed, False if it was aborted.
        coordinator_epoch: Epoch of the transaction coordinator that wrote the marker.
    """

    committed: bool
    coordinator_epoch: int


ControlValue = (
    EndTxnMarker | LeaderChangeMessage | SnapshotHeaderRecord | SnapshotFooterRecord | KRaftVersionRecord | VotersRecord
)
"""The value of a control record."""

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
    """A decoded control record.

    Attributes:
        type: The record's type.
        version: The version of its value.
        value: The decoded value; None if the type is ``UNKNOWN``.
    """

    type: ControlType
    version: int
    value: ControlValue | None


def control_records(batch: RecordBatch) -> list[ControlRecord]:
    """Decode a control batch: one transaction marker, or one or more KRaft records.

    Raises:
        CorruptRecordError: The batch, or a record in it, is damaged.
        InvalidRecordError: The batch is not a control batch.
        UnsupportedCompressionError: The codec is unknown or its library is missing.
    """
    if not batch.is_control:
        raise InvalidRecordError(f"record batch at offset {batch.base_offset} is not a control batch")
    return batch.records(lambda _offset, _timestamp, key, value, _headers: _parse(key, value))


def parse(record: RecordLike) -> ControlRecord:
    """Decode a record of a control batch. Ignores fields that later versions append to the value.

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
    # The version is the message's first field in KRaft's records. It precedes the message in a transaction marker.
    start = _VERSION.size if message is EndTxnMarker else 0
    try:
        # decode_from ignores additional fields, which a later version may append.
        content, _ = message.decode_from(bytes(value), start, min(version, message.versions.highest))
    except DecodeError as error:
        raise CorruptRecordError(f"a control record of type {kind.name}: {error}") from None
    return ControlRecord(kind, version, content)


def control_type(key: bytes | None) -> ControlType:
    """Return the type in a control record's key. Types from later Kafka versions are ``UNKNOWN``, and can be skipped.

    Raises:
        CorruptRecordError: The key is not a control record's.
    """
    if key is None or len(key) < _KEY.size:
        raise CorruptRecordError(f"a control record has a key of {_KEY.size} bytes, not {key!r}")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise CorruptRecordError(f"control record key has version {version}")
    # Skip unknown types instead of raising an error: a newer broker may write them.
    return ControlType(number) if 0 <= number <= ControlType.KRAFT_VOTERS else ControlType.UNKNOWN


def parse_end_transaction(key: bytes | None, value: bytes | None) -> EndTransaction | None:
    """Decode a transaction marker. Returns None if the record has another type.

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
    # Later versions may only append fields.
    _version, epoch = _END_TRANSACTION.unpack_from(value)
    return EndTransaction(kind is ControlType.COMMIT, epoch)


def batch_control_type(batch: RecordBatch) -> ControlType:
    """Return the type of a control batch, which is the type of its first record.

    Only the first record is read, since a control batch can be compressed and contain any number of records.

    Raises:
        CorruptRecordError: The batch has no records, or the first one is damaged.
        UnsupportedCompressionError: The codec is unknown or its library is missing.
    """
    unpacked = batch.unpacked() if batch.count else iter(())
    try:
        for data, _ in cut(unpacked, 1, 1, whole_records, batch.max_record):
            ((key,), _) = read_slice(
                data, batch.records_header, 0, 1, lambda _offset, _timestamp, key, *_: key, 1, batch.max_record
            )
            return control_type(key)
    except CodecError as error:
        raise CorruptRecordError(f"control batch at offset {batch.base_offset}: {error}") from error.__cause__
    raise CorruptRecordError(f"control batch at offset {batch.base_offset} has no records")


def encode_control(
    *records: ControlRecord,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
) -> bytearray:
    """Encode a control batch.

    Args:
        records: One transaction marker, or any number of KRaft records, as at the start of a snapshot.
        timestamp: Timestamp of every record, in milliseconds since the epoch; -1 if unset.
        base_offset: Offset of the first record.
        leader_epoch: Epoch of the leader that writes the batch; -1 if unset.
        producer_id: The producer whose transaction the marker ends; -1 for KRaft records.
        producer_epoch: The producer's epoch.

    Raises:
        EncodeError: A value does not fit its message.
        InvalidRecordError: There are no records; a record's type, version and value do not match; a marker is not
            alone, or has no producer; a KRaft record has a producer; or the timestamp is invalid.
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
        raise InvalidRecordError(f"{value!r} has another version than its control record, {version}")
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
    """Encode the control batch that ends a producer's transaction in one partition.

    Args:
        committed: True to commit the transaction, False to abort it.
        producer_id: The producer whose transaction ends.
        producer_epoch: The producer's epoch.
        coordinator_epoch: Epoch of the transaction coordinator that writes the marker.
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
