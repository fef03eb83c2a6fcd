"""The codecs: round trips, what other clients write, damage, bombs, missing libraries."""

from __future__ import annotations

import gzip
import os
import struct
import subprocess
import sys
import tracemalloc
from importlib import import_module
from typing import Any

import lz4.frame
import pytest
import snappy
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.errors import CorruptRecordError, UnsupportedCompressionError
from aiokproto.records import Compression, compress, decompress

PACKING = [codec for codec in Compression if codec]
MIB = 1 << 20


def zstd_packer() -> Any:
    """Return a compressor that doesn't know the size of its input."""
    if sys.version_info >= (3, 14):
        return import_module("compression.zstd").ZstdCompressor()
    return import_module("zstandard").ZstdCompressor().compressobj()


@given(st.sampled_from(list(Compression)), st.binary(max_size=300), st.integers(1, 500))
def test_round_trip(codec: Compression, piece: bytes, times: int) -> None:
    data = piece * times
    assert bytes(decompress(codec, compress(codec, data), len(data))) == data


@pytest.mark.parametrize("codec", PACKING)
@pytest.mark.parametrize("level", [1, 9])
def test_levels_are_taken(codec: Compression, level: int) -> None:
    data = b"some data " * 100
    assert bytes(decompress(codec, compress(codec, memoryview(data), level))) == data


@pytest.mark.parametrize("codec", PACKING)
def test_large_incompressible_data(codec: Compression) -> None:
    data = os.urandom(3 * MIB + 17)
    assert bytes(decompress(codec, bytearray(compress(codec, data)))) == data


@pytest.mark.parametrize("codec", PACKING)
def test_a_decompression_bomb_is_refused_before_it_is_decompressed(codec: Compression) -> None:
    """256 MiB of zeros in a few bytes must cost little more than the limit."""
    size = 256 * MIB if codec is not Compression.SNAPPY else 16 * MIB
    bomb = bytes(compress(codec, bytes(size)))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptRecordError, match=f"{codec.name.lower()}.*limit of {2 * MIB} bytes"):
            decompress(codec, bomb, 2 * MIB)
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", PACKING)
def test_the_limit_itself_is_allowed(codec: Compression) -> None:
    data = bytes(100_000)
    packed = compress(codec, data)
    assert len(decompress(codec, packed, 100_000)) == 100_000
    with pytest.raises(CorruptRecordError, match="limit"):
        decompress(codec, packed, 99_999)


@pytest.mark.parametrize("codec", PACKING)
def test_damage_raises_only_our_error(codec: Compression) -> None:
    packed = bytes(compress(codec, os.urandom(50) * 40))
    for length in range(len(packed) - 1):
        try:
            assert len(decompress(codec, packed[:length], MIB)) < 2000
        except CorruptRecordError:
            pass
    for position in range(len(packed)):
        damaged = bytearray(packed)
        damaged[position] ^= 0xFF
        try:
            decompress(codec, damaged, MIB)
        except CorruptRecordError:
            pass


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_a_frame_cut_short_raises(codec: Compression) -> None:
    packed = bytes(compress(codec, os.urandom(2000)))
    with pytest.raises(CorruptRecordError):
        decompress(codec, packed[:-5])


def test_gzip_of_several_members() -> None:
    assert decompress(Compression.GZIP, gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"


def test_snappy_is_written_in_the_frame_of_the_java_client() -> None:
    data = os.urandom(40_000)
    packed = bytes(compress(Compression.SNAPPY, data))
    assert packed[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    (length,) = struct.unpack_from(">i", packed, 16)
    assert snappy.uncompress(packed[20 : 20 + length]) == data[: 32 * 1024]


def test_snappy_without_frame_is_read() -> None:
    """C clients write it like this."""
    data = b"bare block " * 1000
    assert decompress(Compression.SNAPPY, snappy.compress(data)) == data


def test_a_snappy_block_with_a_wrong_size_is_refused() -> None:
    with pytest.raises(CorruptRecordError, match="declare a decompressed size of"):
        decompress(Compression.SNAPPY, b"\xff\xff\xff\xff\x03" + bytes(20))


def test_lz4_frame_is_one_the_java_client_can_read() -> None:
    """Java's reader accepts independent blocks only."""
    info = lz4.frame.get_frame_info(bytes(compress(Compression.LZ4, bytes(200_000))))
    assert info["block_linked"] is False
    assert info["block_size_id"] == lz4.frame.BLOCKSIZE_MAX64KB


def test_zstd_without_declared_size_is_read() -> None:
    """Java's streaming writer leaves it like this."""
    packer = zstd_packer()
    assert decompress(Compression.ZSTD, packer.compress(b"streamed") + packer.flush()) == b"streamed"


def test_zstd_frames_are_read_one_after_the_other() -> None:
    frames = b"".join(compress(Compression.ZSTD, bytes([number]) * 2 * MIB) for number in range(3))
    expected = b"".join(bytes([number]) * 2 * MIB for number in range(3))
    assert decompress(Compression.ZSTD, frames) == expected
    with pytest.raises(CorruptRecordError, match="limit"):
        decompress(Compression.ZSTD, frames, 6 * MIB - 1)


def test_zstd_is_the_standard_librarys_where_that_has_it() -> None:
    """The package would turn the global lock of free-threaded Python on again."""
    code = (
        "import sys; from aiokproto.records import Compression, compress, decompress;"
        "decompress(Compression.ZSTD, compress(Compression.ZSTD, b'x')); print('zstandard' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(sys.version_info < (3, 14))


def test_parse_takes_the_names_of_the_option() -> None:
    assert [Compression.parse(name) for name in ("none", "gzip", "snappy", "lz4", "zstd")] == list(Compression)


def test_parse_names_what_is_valid() -> None:
    with pytest.raises(UnsupportedCompressionError, match=r"'brotli'.*none, gzip, snappy, lz4, zstd"):
        Compression.parse("brotli")


@pytest.mark.parametrize("number", [5, 6, 7])
def test_unknown_codec_number_raises(number: int) -> None:
    with pytest.raises(UnsupportedCompressionError, match=str(number)):
        Compression.of(number | 0x10)


@pytest.mark.parametrize(
    ("codec", "module", "package"),
    [
        (Compression.SNAPPY, "snappy", "python-snappy"),
        (Compression.LZ4, "lz4.frame", "lz4"),
        (Compression.ZSTD, "zstandard", "zstandard"),
    ],
)
def test_a_missing_library_is_named(
    codec: Compression, module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    for attempt in (compress, decompress):
        with pytest.raises(UnsupportedCompressionError, match=f"'{package}'"):
            attempt(codec, b"data")
