"""The compression codecs of record batches. Each library is imported when its codec is first used."""

from __future__ import annotations

import importlib
import struct
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Any

from aiokproto.errors import CorruptRecordError, UnsupportedCompressionError

MAX_DECOMPRESSED = 1 << 30
"""Default limit, in bytes, of what one batch may decompress to: 1 GiB."""

Bytes = bytes | bytearray | memoryview

_CHUNK = 1 << 20
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
# Version and lowest compatible version follow the magic. Both are 1 in every writer; readers ignore them.
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
_LENGTH = struct.Struct(">i")


class Compression(IntEnum):
    """A codec, by its number in the batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def parse(cls, name: str) -> Compression:
        """The codec that ``compression_type`` calls ``name``: none, gzip, snappy, lz4 or zstd.

        Raises:
            UnsupportedCompressionError: There is no such codec.
        """
        try:
            return cls[name.upper()]
        except KeyError:
            valid = ", ".join(codec.name.lower() for codec in cls)
            raise UnsupportedCompressionError(f"unknown compression {name!r}; valid are {valid}") from None

    @classmethod
    def of(cls, attributes: int) -> Compression:
        """The codec in a batch's attributes.

        Raises:
            UnsupportedCompressionError: The number means nothing to this version.
        """
        try:
            return _BY_ID[attributes & 7]
        except IndexError:
            raise UnsupportedCompressionError(f"unknown compression codec {attributes & 7} in record batch") from None


_BY_ID = tuple(Compression)


def compress(codec: Compression, data: Bytes, level: int | None = None) -> Bytes:
    """Compress ``data``; what is produced is what the Java client reads.

    Args:
        codec: The codec.
        data: What to compress.
        level: gzip 1 to 9, lz4 1 to 16, zstd -131072 to 22; None: the library's default. snappy has no levels.

    Raises:
        UnsupportedCompressionError: The codec's library is not installed.
    """
    if codec is Compression.GZIP:
        packer = zlib.compressobj(-1 if level is None else level, wbits=31)
        return packer.compress(data) + packer.flush()
    if codec is Compression.SNAPPY:
        return _compress_snappy(data)
    if codec is Compression.LZ4:
        # Kafka's Java reader takes neither linked blocks nor, in old versions, blocks over 64 KiB.
        lz4 = _library("lz4.frame", "lz4", codec)
        options = {"block_size": lz4.BLOCKSIZE_MAX64KB, "block_linked": False, "store_size": False}
        return bytes(lz4.compress(data, compression_level=level or 0, **options))
    if codec is Compression.ZSTD:
        zstandard = _library("zstandard", "zstandard", codec)
        return bytes(zstandard.ZstdCompressor(level=3 if level is None else level).compress(data))
    return data


def decompress(codec: Compression, data: Bytes, max_size: int = MAX_DECOMPRESSED) -> Bytes:
    """Decompress ``data``, step by step, so that no more than about ``max_size`` bytes are ever allocated.

    Raises:
        CorruptRecordError: The data is damaged or cut short, or decompresses to more than ``max_size`` bytes.
        UnsupportedCompressionError: The codec's library is not installed.
    """
    if codec is Compression.NONE:
        return data
    return _DECOMPRESS[codec](data, max_size)


class Budget:
    """A limit that sets nested in one another share.

    Attributes:
        left: Bytes that may still be decompressed.
    """

    __slots__ = ("left",)

    def __init__(self, max_size: int) -> None:
        self.left = max_size

    def decompress(self, codec: Compression, data: Bytes) -> bytes:
        """As the function of that name, within what is left, from which the result is then taken off."""
        unpacked = bytes(decompress(codec, data, self.left))
        self.left -= len(unpacked)
        return unpacked


def _library(module: str, package: str, codec: Compression) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UnsupportedCompressionError(
            f"{codec.name.lower()} compression needs the package {package!r}, which is not installed"
        ) from error


def _corrupt(codec: Compression, why: object) -> CorruptRecordError:
    return CorruptRecordError(f"{codec.name.lower()} data cannot be decompressed: {why}")


def _too_large(codec: Compression, max_size: int) -> CorruptRecordError:
    return CorruptRecordError(f"{codec.name.lower()} data decompresses to more than the limit of {max_size} bytes")


def _decompress_gzip(data: Bytes, max_size: int) -> bytes:
    chunks: list[bytes] = []
    room = max_size
    rest: Bytes = data
    # A gzip file may be several members in a row, and Java's reader takes them.
    while rest:
        unpacker = zlib.decompressobj(wbits=31)
        ended = False
        while not ended:
            try:
                chunk = unpacker.decompress(rest, min(_CHUNK, room + 1))
            except zlib.error as error:
                raise _corrupt(Compression.GZIP, error) from None
            rest = unpacker.unconsumed_tail
            ended = unpacker.eof
            if len(chunk) > room:
                raise _too_large(Compression.GZIP, max_size)
            if not (chunk or rest or ended):
                raise _corrupt(Compression.GZIP, "it ends too early")
            chunks.append(chunk)
            room -= len(chunk)
        rest = unpacker.unused_data
    return b"".join(chunks)


def _decompress_lz4(data: Bytes, max_size: int) -> bytes:
    lz4 = _library("lz4.frame", "lz4", Compression.LZ4)
    unpacker = lz4.LZ4FrameDecompressor()
    chunks: list[bytes] = []
    room = max_size
    rest: Bytes = data
    while not unpacker.eof:
        try:
            chunk = unpacker.decompress(rest, max_length=min(_CHUNK, room + 1))
        except (RuntimeError, ValueError) as error:
            raise _corrupt(Compression.LZ4, error) from None
        rest = b""
        if len(chunk) > room:
            raise _too_large(Compression.LZ4, max_size)
        if not chunk and not unpacker.eof:
            raise _corrupt(Compression.LZ4, "it ends too early")
        chunks.append(chunk)
        room -= len(chunk)
    return b"".join(chunks)


def _decompress_zstd(data: Bytes, max_size: int) -> bytes:
    zstandard = _library("zstandard", "zstandard", Compression.ZSTD)
    chunks: list[bytes] = []
    room = max_size
    try:
        declared = zstandard.frame_content_size(data)
        reader = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
        while chunk := reader.read(min(_CHUNK, room + 1)):
            room -= len(chunk)
            if room < 0:
                raise _too_large(Compression.ZSTD, max_size)
            chunks.append(chunk)
    except zstandard.ZstdError as error:
        raise _corrupt(Compression.ZSTD, error) from None
    # The reader takes the end of its input for the end of the frame; a frame without a declared size is caught
    # by the record count of the batch.
    if max_size - room < declared:
        raise _corrupt(Compression.ZSTD, "it ends too early")
    return b"".join(chunks)


def _compress_snappy(data: Bytes) -> bytes:
    snappy = _library("snappy", "python-snappy", Compression.SNAPPY)
    out = bytearray(_XERIAL_HEADER)
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = snappy.compress(view[start : start + _XERIAL_BLOCK])
        out += _LENGTH.pack(len(block))
        out += block
    return bytes(out)


def _decompress_snappy(data: Bytes, max_size: int) -> bytes:
    """Java writes blocks in a frame of its own (of the xerial library); C clients write one bare block."""
    if bytes(data[:8]) != _XERIAL_MAGIC:
        return _snappy_block(data, max_size, max_size)
    blocks: list[bytes] = []
    room = max_size
    view = memoryview(data)
    pos = len(_XERIAL_HEADER)
    while pos < len(view):
        if pos + 4 > len(view):
            raise _corrupt(Compression.SNAPPY, "it ends too early")
        (length,) = _LENGTH.unpack_from(view, pos)
        pos += 4
        if not 0 <= length <= len(view) - pos:
            raise _corrupt(Compression.SNAPPY, f"a block of {length} bytes where {len(view) - pos} are left")
        block = _snappy_block(view[pos : pos + length], room, max_size)
        blocks.append(block)
        room -= len(block)
        pos += length
    return b"".join(blocks)


def _snappy_block(block: Bytes, room: int, max_size: int) -> bytes:
    snappy = _library("snappy", "python-snappy", Compression.SNAPPY)
    # A block starts with its decompressed length. The library allocates that much before it looks further, so a lie
    # has to be found here: three bytes of snappy never become more than 64.
    declared = 0
    for index, byte in enumerate(block[:5]):
        declared |= (byte & 127) << 7 * index
        if byte < 128:
            break
    if declared > room:
        raise _too_large(Compression.SNAPPY, max_size)
    if declared > 22 * len(block):
        raise _corrupt(Compression.SNAPPY, f"{len(block)} bytes say they hold {declared}")
    try:
        unpacked: bytes = snappy.uncompress(block)
    except snappy.UncompressError as error:
        raise _corrupt(Compression.SNAPPY, error.__cause__ or error) from None
    return unpacked


_DECOMPRESS: dict[Compression, Callable[[Bytes, int], bytes]] = {
    Compression.GZIP: _decompress_gzip,
    Compression.SNAPPY: _decompress_snappy,
    Compression.LZ4: _decompress_lz4,
    Compression.ZSTD: _decompress_zstd,
}
