"""The changes that brokers and producers make to a batch that is already written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.errors import CorruptRecordError
from aiokproto.records import BatchBuilder, BatchRecord, Compression, RecordBatch, decode, encode
from aiokproto.records.batch import HEADER
from aiokproto.records.patch import clear_producer, restamp, set_base_offset, set_leader_epoch, set_producer
from aiokproto.types import TimestampType
from tests.records.strategies import BASE_TIMESTAMP, codecs, record_lists, simple_records

BEFORE = encode(simple_records(2))


@pytest.fixture
def stored() -> tuple[bytearray, int]:
    """Return a buffer with a batch in its middle, and the batch's position."""
    batch = encode(simple_records(5), compression="lz4", is_transactional=True)
    return bytearray(BEFORE + batch + BEFORE), len(BEFORE)


def test_base_offset_and_leader_epoch_leave_the_rest_alone(stored: tuple[bytearray, int]) -> None:
    buffer, pos = stored
    crc = bytes(buffer[pos + 16 :])
    set_base_offset(buffer, pos, 2**40)
    set_leader_epoch(buffer, pos, 17)
    assert bytes(buffer[pos + 16 :]) == crc
    first, batch, last = decode(buffer)
    assert (batch.base_offset, batch.partition_leader_epoch) == (2**40, 17)
    assert [record.offset for record in batch] == [2**40 + index for index in range(5)]
    assert bytes(first.raw) == bytes(last.raw) == BEFORE


def test_restamp_sets_the_time_of_all_records_and_back(stored: tuple[bytearray, int]) -> None:
    buffer, pos = stored
    restamp(buffer, pos, 99)
    _, batch, _ = decode(buffer)
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp for record in batch] == [99] * 5
    assert batch.is_transactional
    assert batch.compression.name == "LZ4"
    restamp(buffer, pos, BASE_TIMESTAMP, TimestampType.CREATE_TIME)
    _, batch, _ = decode(buffer)
    assert list(batch) == simple_records(5)


def test_set_producer_renews_the_checksum(stored: tuple[bytearray, int]) -> None:
    buffer, pos = stored
    set_producer(memoryview(buffer), pos, 2**40, 7, 12)
    first, batch, last = decode(buffer)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (2**40, 7, 12)
    assert list(batch) == simple_records(5)
    assert bytes(first.raw) == bytes(last.raw) == BEFORE


@given(written=record_lists(), codec=codecs, transactional=st.booleans(), horizon=st.none() | st.integers(0, 2**62))
def test_a_batch_whose_origin_is_forgotten_has_its_records_and_nothing_else(
    written: tuple[int, list[BatchRecord]], codec: Compression, transactional: bool, horizon: int | None
) -> None:
    base_offset, records = written
    builder = BatchBuilder(
        compression=codec,
        producer_id=2**40,
        producer_epoch=7,
        base_sequence=2**31 - 1,
        is_transactional=transactional,
        delete_horizon=horizon,
    )
    for record in records:
        builder.append(record.timestamp, record.key, record.value, record.headers)
    stored = builder.close(base_offset=base_offset)
    set_leader_epoch(stored, 0, 12)
    buffer = bytearray(BEFORE + stored + BEFORE)
    clear_producer(buffer, len(BEFORE))
    before, batch, after = decode(buffer)
    assert list(batch) == [
        BatchRecord(index, record.timestamp, record.key, record.value, record.headers)
        for index, record in enumerate(records)
    ]
    assert batch.raw[HEADER.size :] == stored[HEADER.size :]
    assert (batch.attributes, batch.compression) == (codec.value, codec)
    assert (batch.base_offset, batch.partition_leader_epoch) == (0, -1)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1)
    original = RecordBatch(stored)
    kept = ("count", "last_offset_delta", "base_timestamp", "max_timestamp", "length")
    assert [getattr(batch, name) for name in kept] == [getattr(original, name) for name in kept]
    assert bytes(before.raw) == bytes(after.raw) == BEFORE


def test_a_new_header_does_not_hide_damage(stored: tuple[bytearray, int]) -> None:
    buffer, pos = stored
    buffer[pos + 70] ^= 1
    clear_producer(buffer, pos)
    set_producer(buffer, pos, 5, 7, 12)
    restamp(buffer, pos, 99)
    with pytest.raises(CorruptRecordError, match="checksum"):
        list(decode(buffer))
    buffer[pos + 70] ^= 1
    assert len(list(decode(buffer))) == 3
