"""Control records: what brokers write into a log for themselves and for clients.

The key is an int16 version and an int16 type; what the value holds depends on the type. Clients read the two markers
that end a transaction, the others belong to KRaft's own log.
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
from aiokproto.errors import CorruptRecordError, DecodeError
from aiokproto.records.batch import RecordBatch
from aiokproto.records.builder import BatchBuilder, RecordLike

_KEY = struct.Struct(">hh")
_VERSION = struct.Struct(">h")
_END_TRANSACTION = struct.Struct(">hi")


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


def parse(record: RecordLike) -> ControlRecord:
    """Read a record of a control batch. What later versions add to the end of a value is passed over.

    Raises:
        CorruptRecordError: The record is damaged.
    """
    kind = control_type(record.key)
    value = record.value or b""
    if len(value) < _VERSION.size:
        raise CorruptRecordError(f"a control record of type {kind.name} has no version in its value {record.value!r}")
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
    builder = BatchBuilder(
        producer_id=producer_id, producer_epoch=producer_epoch, is_transactional=True, is_control=True
    )
    kind = ControlType.COMMIT if committed else ControlType.ABORT
    builder.append(timestamp, _KEY.pack(0, kind), _END_TRANSACTION.pack(0, coordinator_epoch))
    return builder.close(base_offset=base_offset)
