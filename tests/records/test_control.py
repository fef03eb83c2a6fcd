"""Control records, above all the markers that end transactions."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.codec.payloads.control_records import EndTxnMarker, LeaderChangeMessage, SnapshotFooterRecord
from aiokproto.errors import CorruptRecordError, KafkaError
from aiokproto.records import BatchBuilder, BatchRecord, ControlType, EndTransaction, decode, parse_end_transaction
from aiokproto.records.control import ControlRecord, batch_control_type, control_type, encode_end_transaction, parse


@pytest.mark.parametrize("committed", [True, False])
def test_marker_round_trip(committed: bool) -> None:
    data = encode_end_transaction(
        committed=committed, producer_id=5, producer_epoch=3, coordinator_epoch=9, timestamp=1000, base_offset=50
    )
    (batch,) = decode(data)
    assert batch.is_control
    assert batch.is_transactional
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (5, 3, -1)
    (record,) = batch
    assert (record.offset, record.timestamp) == (50, 1000)
    assert record.key == struct.pack(">hh", 0, committed)
    assert record.value == struct.pack(">hi", 0, 9)
    assert parse_end_transaction(record.key, record.value) == EndTransaction(committed, 9)
    assert batch_control_type(batch) is (ControlType.COMMIT if committed else ControlType.ABORT)


def test_other_types_are_no_marker() -> None:
    assert parse_end_transaction(struct.pack(">hh", 0, 2), b"anything") is None


def test_types_of_later_versions_can_be_passed_over() -> None:
    assert control_type(struct.pack(">hh", 1, 99)) is ControlType.UNKNOWN
    assert control_type(struct.pack(">hh", 0, 6)) is ControlType.KRAFT_VOTERS


def test_later_versions_may_add_fields() -> None:
    key, value = struct.pack(">hh", 1, 1) + b"more", struct.pack(">hi", 1, 4) + b"more"
    assert parse_end_transaction(key, value) == EndTransaction(True, 4)


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x01"])
def test_a_damaged_key_raises(key: bytes | None) -> None:
    with pytest.raises(CorruptRecordError, match="control record"):
        control_type(key)


@pytest.mark.parametrize("value", [None, b"\x00\x00\x00"])
def test_a_damaged_value_raises(value: bytes | None) -> None:
    with pytest.raises(CorruptRecordError, match="marker"):
        parse_end_transaction(struct.pack(">hh", 0, 0), value)


def test_a_control_batch_without_records_raises() -> None:
    builder = BatchBuilder(is_control=True)
    builder.append(1, None, None)
    data = builder.close()[:61]
    struct.pack_into(">i", data, 8, 61 - 12)
    struct.pack_into(">i", data, 57, 0)
    (batch,) = decode(data, check_crc=False)
    with pytest.raises(CorruptRecordError, match="no record"):
        batch_control_type(batch)


def control(kind: int, value: bytes | None) -> BatchRecord:
    return BatchRecord(0, 0, struct.pack(">hh", 0, kind), value)


def test_records_are_parsed_by_type() -> None:
    assert parse(control(1, struct.pack(">hi", 0, 9))) == ControlRecord(
        ControlType.COMMIT, 0, EndTxnMarker(coordinator_epoch=9)
    )
    change = LeaderChangeMessage(version=1, leader_id=3, voters=[], granting_voters=[])
    assert parse(control(2, change.encode(1))) == ControlRecord(ControlType.LEADER_CHANGE, 1, change)


def test_versions_and_types_to_come_are_parsed_as_far_as_known() -> None:
    footer = SnapshotFooterRecord(version=7)
    assert parse(control(4, footer.encode(0) + b"more")) == ControlRecord(ControlType.SNAPSHOT_FOOTER, 7, footer)
    assert parse(control(99, b"\0\x02more")) == ControlRecord(ControlType.UNKNOWN, 2, None)


@pytest.mark.parametrize("value", [None, b"\0", b"\xff\xff\0\0\0\0", b"\0\0", b"\0\0\0\0\0"])
@pytest.mark.parametrize("kind", [0, 2, 6])
def test_damaged_values_raise(kind: int, value: bytes | None) -> None:
    with pytest.raises(CorruptRecordError, match=f"control record of type {ControlType(kind).name}"):
        parse(control(kind, value))


@given(st.integers(-1, 8), st.none() | st.binary(max_size=40))
def test_any_value_raises_only_our_errors(kind: int, value: bytes | None) -> None:
    try:
        parse(control(kind, value))
    except KafkaError:
        pass
