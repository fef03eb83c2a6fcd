"""What brokers and producers change in a batch that is already written."""

from __future__ import annotations

import pytest

from aiokproto.errors import CorruptRecordError
from aiokproto.records import decode, encode
from aiokproto.records.patch import restamp, set_base_offset, set_leader_epoch, set_producer
from aiokproto.types import TimestampType
from tests.records.strategies import BASE_TIMESTAMP, simple_records

BEFORE = encode(simple_records(2))


@pytest.fixture
def stored() -> tuple[bytearray, int]:
    """A batch in the middle of a buffer, and its position."""
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


def test_damage_is_not_blessed_by_a_new_header(stored: tuple[bytearray, int]) -> None:
    buffer, pos = stored
    buffer[pos + 70] ^= 1
    set_producer(buffer, pos, 5, 7, 12)
    restamp(buffer, pos, 99)
    with pytest.raises(CorruptRecordError, match="checksum"):
        list(decode(buffer))
    buffer[pos + 70] ^= 1
    assert len(list(decode(buffer))) == 3
