"""Control records, above all the markers that end transactions."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.codec.payloads.control_records import (
    EndTxnMarker,
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderChangeMessageVoter,
    SnapshotFooterRecord,
    VotersRecord,
)
from aiokproto.errors import CorruptRecordError, EncodeError, InvalidRecordError, KafkaError
from aiokproto.records import (
    BatchBuilder,
    BatchRecord,
    Compression,
    ControlRecord,
    ControlType,
    EndTransaction,
    control_records,
    decode,
    encode,
    encode_control,
    parse_end_transaction,
)
from aiokproto.records.compression import chunks
from aiokproto.records.control import batch_control_type, control_type, encode_end_transaction, parse


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


def test_other_types_are_not_markers() -> None:
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


def test_only_the_first_record_tells_the_type_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte of gzip can be gigabytes of records."""
    builder = BatchBuilder(is_control=True, compression=Compression.GZIP)
    builder.append(1, struct.pack(">hh", 0, 0), None)
    for _ in range(3000):
        builder.append(1, None, bytes(1024))
    (batch,) = decode(builder.close())
    unpacked: list[int] = []

    def counted(codec: Compression, data: Any, *limits: int) -> Iterator[Any]:
        for chunk in chunks(codec, data, *limits):
            unpacked.append(len(chunk))
            yield chunk

    monkeypatch.setattr("aiokproto.records.batch.chunks", counted)
    assert batch_control_type(batch) is ControlType.ABORT
    assert sum(unpacked) <= 1 << 20


@pytest.mark.parametrize("key", [None, b"\xff\xff\x00\x01"])
def test_damage_in_a_control_batch_is_named(key: bytes | None) -> None:
    builder = BatchBuilder(is_control=True)
    builder.append(1, key, None)
    (batch,) = decode(builder.close(base_offset=9))
    with pytest.raises(CorruptRecordError, match=r"^control batch at offset 9: .*control record"):
        batch_control_type(batch)


def control(kind: int, value: bytes | None) -> BatchRecord:
    return BatchRecord(0, 0, struct.pack(">hh", 0, kind), value)


def test_records_are_parsed_by_type() -> None:
    assert parse(control(1, struct.pack(">hi", 0, 9))) == ControlRecord(
        ControlType.COMMIT, 0, EndTxnMarker(coordinator_epoch=9)
    )
    change = LeaderChangeMessage(version=1, leader_id=3, voters=[], granting_voters=[])
    assert parse(control(2, change.encode(1))) == ControlRecord(ControlType.LEADER_CHANGE, 1, change)


def test_future_versions_and_types_are_parsed_as_far_as_known() -> None:
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


FOOTER = ControlRecord(ControlType.SNAPSHOT_FOOTER, 0, SnapshotFooterRecord(version=0))
COMMIT = ControlRecord(ControlType.COMMIT, 0, EndTxnMarker(coordinator_epoch=9))
ELECTED = LeaderChangeMessage(
    version=1,
    leader_id=3,
    voters=[LeaderChangeMessageVoter(voter_id=3, voter_directory_id=bytes(range(16)))],
    granting_voters=[],
)


def test_a_batch_of_control_records_round_trip() -> None:
    records = [ControlRecord(ControlType.LEADER_CHANGE, 1, ELECTED), FOOTER]
    (batch,) = decode(encode_control(*records, timestamp=1000, base_offset=50, leader_epoch=7))
    assert batch.is_control
    assert not batch.is_transactional
    assert (batch.base_offset, batch.last_offset, batch.partition_leader_epoch) == (50, 51, 7)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1)
    assert [record.timestamp for record in batch] == [1000, 1000]
    assert control_records(batch) == records


def test_a_marker_is_one_of_the_control_records() -> None:
    same = encode_end_transaction(
        committed=True, producer_id=5, producer_epoch=3, coordinator_epoch=9, timestamp=1000, base_offset=50
    )
    assert encode_control(COMMIT, timestamp=1000, base_offset=50, producer_id=5, producer_epoch=3) == same


@pytest.mark.parametrize(
    ("records", "producer", "why"),
    [
        ([], (-1, -1), "no records"),
        ([COMMIT, FOOTER], (5, 0), "alone"),
        ([FOOTER, COMMIT], (5, 0), "alone"),
        ([COMMIT], (-1, 0), "-1/0"),
        ([COMMIT], (5, -1), "5/-1"),
        ([FOOTER], (5, 0), "no producer"),
        ([FOOTER], (5, -1), "no producer"),
        ([FOOTER._replace(type=ControlType.COMMIT)], (5, 0), "type COMMIT cannot hold Snapshot"),
        ([FOOTER._replace(type=ControlType.KRAFT_VERSION)], (-1, -1), "type KRAFT_VERSION cannot hold Snapshot"),
        ([FOOTER._replace(value=None)], (-1, -1), "type SNAPSHOT_FOOTER cannot hold None"),
        ([ControlRecord(ControlType.UNKNOWN, 0, None)], (-1, -1), "type UNKNOWN cannot hold None"),
        ([FOOTER._replace(version=1)], (-1, -1), "versions 0, not 1"),
        ([ControlRecord(ControlType.LEADER_CHANGE, 0, ELECTED)], (-1, -1), "another version than its control record"),
    ],
)
def test_invalid_control_records_are_refused(records: list[ControlRecord], producer: tuple[int, int], why: str) -> None:
    with pytest.raises(InvalidRecordError, match=why):
        encode_control(*records, timestamp=1, producer_id=producer[0], producer_epoch=producer[1])


def test_a_control_record_that_does_not_fit_its_message_is_refused() -> None:
    wrong = KRaftVersionRecord(version=0, kraft_version=1 << 20)
    with pytest.raises(EncodeError, match=r"kraftVersion|kraft_version"):
        encode_control(ControlRecord(ControlType.KRAFT_VERSION, 0, wrong), timestamp=1)


def test_damage_in_a_control_batch_names_its_offset_and_record() -> None:
    builder = BatchBuilder(is_control=True)
    builder.append(1, struct.pack(">hh", 0, 4), SnapshotFooterRecord(version=0).encode(0))
    builder.append(1, struct.pack(">hh", 0, 6), VotersRecord(version=0, voters=[]).encode(0)[:-1])
    (batch,) = decode(builder.close(base_offset=70))
    with pytest.raises(CorruptRecordError, match=r"batch at offset 70: record 1 of 2: .*KRAFT_VOTERS"):
        control_records(batch)


@pytest.mark.parametrize("magic", [0, 2])
def test_records_of_users_are_not_control_records(magic: int) -> None:
    (batch,) = decode(encode([BatchRecord(0, 1, b"\0\0\0\0", b"\0\0")], magic=magic, base_offset=8))
    with pytest.raises(InvalidRecordError, match="offset 8 is not a control batch"):
        control_records(batch)
