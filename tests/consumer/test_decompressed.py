"""Batches decompressed ahead say what the packed ones say; what cannot be unpacked is left for the reader to find."""

from __future__ import annotations

import pytest

from aiokproto.consumer.decompressed import DecompressedBatch, decompress_ahead
from aiokproto.errors import CorruptRecordError
from aiokproto.records import BatchRecord, RecordBatch, decode, encode
from aiokproto.records.columns import to_columns

VALUES = [bytes([number]) * 5000 for number in range(20)]


def stored(codec: str, magic: int = 2) -> RecordBatch:
    written = [BatchRecord(offset, 1, None, value) for offset, value in enumerate(VALUES)]
    [batch] = decode(encode(written, magic=magic, compression=codec), check_crc=False)
    return batch


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_an_unpacked_batch_is_the_batch(codec: str) -> None:
    batch = stored(codec)
    [unpacked] = decompress_ahead([batch])
    assert isinstance(unpacked, DecompressedBatch)
    assert list(unpacked) == list(batch)
    assert to_columns([unpacked]).offset.tolist() == to_columns([batch]).offset.tolist()
    unpacked.validate()
    for name in ("raw", "base_offset", "next_offset", "attributes", "size_in_bytes", "source", "position"):
        assert getattr(unpacked, name) == getattr(batch, name)
    assert unpacked.body() is unpacked.body(), "decompressed once"
    [again] = decompress_ahead([unpacked])
    assert again is unpacked


@pytest.mark.parametrize(("codec", "magic"), [("none", 2), ("gzip", 1)])
def test_what_needs_no_unpacking_is_left(codec: str, magic: int) -> None:
    batch = stored(codec, magic)
    [same] = decompress_ahead([batch])
    assert same is batch


def test_no_more_is_unpacked_than_there_is_room_for() -> None:
    """Where a batch does not fit, smaller ones after it may; it is read all the same, when it is asked for."""
    size = len(stored("gzip").body())
    batches = [stored("gzip") for _ in range(3)]
    found = decompress_ahead(batches, most=2 * size)
    assert [isinstance(one, DecompressedBatch) for one in found] == [True, True, False]
    assert [[record.value for record in one] for one in found] == [VALUES] * 3


def test_damage_is_left_for_the_reader() -> None:
    data = bytearray(stored("gzip").raw)
    data[100:120] = bytes(20)
    batch = RecordBatch(bytes(data))
    [same] = decompress_ahead([batch])
    assert same is batch
    with pytest.raises(CorruptRecordError, match="gzip data"):
        list(same)
