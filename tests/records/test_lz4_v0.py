"""The LZ4 frames of magic 0: wrong header checksums, written and read."""

from __future__ import annotations

import pytest

from aiokproto.errors import CorruptRecordError
from aiokproto.records import BatchRecord, Compression, compress, decode, decompress, encode
from aiokproto.records.lz4_v0 import from_v0, to_v0, xxh32_short

HEADER_CHECKSUM_AT = 6


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF)],
)
def test_known_hashes(data: bytes, expected: int) -> None:
    assert xxh32_short(data) == expected


def test_hashes_of_whole_words_are_those_in_frames() -> None:
    """The library's own frames prove the hash of a header with a content size, which is ten bytes long."""
    lz4 = pytest.importorskip("lz4.frame")
    for size in (1, 300, 70_000):
        frame = lz4.compress(b"x" * size, store_size=True)
        assert from_v0(frame) == frame


def test_more_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="16"):
        xxh32_short(bytes(16))


def test_only_the_checksum_differs_from_the_format() -> None:
    frame = bytes(compress(Compression.LZ4, b"abc" * 100))
    old = to_v0(frame)
    assert [at for at in range(len(frame)) if frame[at] != old[at]] == [HEADER_CHECKSUM_AT]
    assert from_v0(old) == frame
    with pytest.raises(CorruptRecordError, match="lz4"):
        decompress(Compression.LZ4, old)


def test_only_magic_0_has_the_old_hashes() -> None:
    records = [BatchRecord(0, 1, None, b"abc" * 100)]
    frames = []
    for magic in (0, 1):
        (batch,) = decode(encode(records, magic=magic, compression="lz4"))
        frames.append(bytes(batch.raw[batch.raw.tobytes().index(b"\x04\x22\x4d\x18") :]))
    header = slice(HEADER_CHECKSUM_AT + 1)
    assert frames[0][header] == to_v0(frames[1])[header] != frames[1][header]


def test_frames_with_right_checksums_are_read_in_magic_0_too() -> None:
    """Some writers of that time wrote right checksums."""
    data = encode([BatchRecord(0, 1, None, b"abc" * 100)], magic=0, compression="lz4")
    at = data.index(b"\x04\x22\x4d\x18")
    right = data[:at] + from_v0(data[at:])
    assert [record.value for batch in decode(right, check_crc=False) for record in batch] == [b"abc" * 100]


@pytest.mark.parametrize(
    "frame", [b"", b"\x04\x22\x4d\x18", b"\x04\x22\x4d\x18\x60\x40", b"\x04\x22\x4d\x18\x68" + bytes(9)]
)
def test_frames_without_a_whole_header_are_damage(frame: bytes) -> None:
    with pytest.raises(CorruptRecordError, match="header"):
        from_v0(frame)
