"""Which stored batches can be produced again unchanged; for every other one, the error says what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from aiokproto.codec.payloads.control_records import EndTxnMarker
from aiokproto.consumer.batch import FetchedBatch
from aiokproto.errors import CorruptRecordError, InvalidRecordError, UnsupportedCompressionError
from aiokproto.producer.encoded_batches import record_batches
from aiokproto.records import BatchRecord, RecordBatch, decode, encode, encode_control
from aiokproto.records.control import ControlRecord, ControlType
from aiokproto.records.patch import restamp, update_crc
from aiokproto.types import TopicPartition

AT = TopicPartition("t", 0)


def stored(count: int = 3, base: int = 5, **options: Any) -> bytes:
    return encode([BatchRecord(0, 1000, None, b"v")] * count, base_offset=base, **options)


def fetched(base_offset: int, *data: bytes) -> FetchedBatch:
    batches = list(decode(b"".join(data)))
    return FetchedBatch(AT, base_offset, batches[-1].next_offset, batches)


def appended() -> bytes:
    batch = bytearray(stored())
    restamp(batch, 0, 2000)
    return bytes(batch)


def compacted() -> bytes:
    batch = bytearray(stored())
    batch[57:61] = (2).to_bytes(4, "big")
    update_crc(batch)
    return bytes(batch)


def unknown_codec() -> bytes:
    batch = bytearray(stored())
    batch[22] |= 5
    update_crc(batch)
    return bytes(batch)


def control() -> bytes:
    marker = ControlRecord(ControlType.COMMIT, 0, EndTxnMarker(coordinator_epoch=1))
    return bytes(encode_control(marker, timestamp=1000, base_offset=5, producer_id=1, producer_epoch=0))


@pytest.mark.parametrize("form", [bytes, bytearray, memoryview, RecordBatch])
@pytest.mark.parametrize("codec", ["none", "gzip", "zstd"])
def test_one_batch(form: Callable[[bytes], Any], codec: str) -> None:
    data = stored(compression=codec)
    (batch,) = record_batches(form(data))
    assert batch.raw == data


def test_all_batches_of_a_consumer_batch() -> None:
    batches = record_batches(fetched(5, stored(base=5), stored(base=8)))
    assert [batch.base_offset for batch in batches] == [5, 8]


def test_offsets_may_be_missing_before_the_first_batch() -> None:
    assert len(record_batches(fetched(3, stored(base=5)))) == 1


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (fetched(6, stored(base=5)), "offset 5 .* starts before offset 6, the first to be sent; .*send_many"),
        (compacted(), "offset 5 .*: compaction has left 2 of its 3 records; send .*send_many"),
        (fetched(5, stored(), compacted()), "compaction has left 2 of its 3 records"),
        (appended(), "offset 5 .*: its timestamps are a broker's .LogAppendTime.; send .*send_many"),
        (
            encode([BatchRecord(0, 1, None, b"v")], magic=1),
            "message set .*: its format is magic 1, and only 2 can be sent; send",
        ),
        (encode([BatchRecord(0, -1, None, b"")] * 2, magic=0), "message set .*: its format is magic 0"),
        (encode([BatchRecord(0, 1, None, b"")] * 2, magic=1, compression="gzip"), "its format is magic 1"),
        (control(), "offset 5 cannot be sent: only brokers write control batches"),
        (stored() + stored(), "ends after 85 of 170 bytes; pass one"),
        ("text", "expected .*, got str"),
        (None, "expected .*, got NoneType"),
        ([b"value"], "expected .*, got list"),
    ],
)
def test_batches_that_cannot_be_sent_unchanged_are_refused(given: Any, why: str) -> None:
    with pytest.raises(InvalidRecordError, match=why):
        record_batches(given)


@pytest.mark.parametrize("data", [b"", b"short", stored()[:-1], memoryview(b"")])
def test_bytes_that_are_not_a_batch_are_refused(data: bytes) -> None:
    with pytest.raises(CorruptRecordError, match=f"{len(data)} bytes are not one whole record batch"):
        record_batches(data)


def test_damaged_bytes_are_refused() -> None:
    data = bytearray(stored())
    data[-1] ^= 1
    with pytest.raises(CorruptRecordError, match="checksum"):
        record_batches(data)


def test_an_unknown_compression_type_is_refused() -> None:
    with pytest.raises(UnsupportedCompressionError, match="codec 5"):
        record_batches(unknown_codec())
