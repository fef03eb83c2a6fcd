"""The compression codecs of record batches. Each library is imported when its codec is first used.

Since Python 3.14 zstd is part of the standard library. The package `zstandard` relies on the global interpreter lock:
in free-threaded Python, importing it turns the lock on again for the whole process.
"""

from __future__ import annotations

import importlib
import struct
import sys
import zlib
from collections.abc import Callable, Generator, Iterator
from enum import IntEnum
from functools import partial
from typing import Any

from aiokproto.errors import CorruptRecordError, UnsupportedCompressionError

MAX_DECOMPRESSED = 1 << 30
"""Default limit, in bytes, for the decompressed records of one batch: 1 GiB."""

MAX_FRAMES = 256
"""Maximum number of gzip members or zstd frames in a batch. Writers create one; each costs as much as some
kilobytes."""

Bytes = bytes | bytearray | memoryview


class TooLargeError(CorruptRecordError):
    """Data decompresses to more than a limit. Apart from that, it may be intact."""


_CHUNK = 1 << 20
_NO_LIMIT = 1 << 63
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
# The magic is followed by the version and the lowest compatible version. Every writer sets both to 1, and readers
# ignore them.
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
_LENGTH = struct.Struct(">i")
_SMALLEST_GZIP = 17
_LZ4_HAS_SIZE = 8


# Comparing numbers takes a tenth of the time of creating a `Compression` for each batch.
_GZIP, _SNAPPY, _LZ4, _ZSTD = range(1, 5)


class Compression(IntEnum):
    """A codec, by its number in the batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def parse(cls, name: str | Compression) -> Compression:
        """Return the codec for a ``compression_type``: none, gzip, snappy, lz4 or zstd. A codec is returned unchanged.

        Raises:
            UnsupportedCompressionError: There is no such codec.
        """
        if isinstance(name, Compression):
            return name
        try:
            return cls[name.upper()]
        except (AttributeError, KeyError):
            valid = ", ".join(codec.name.lower() for codec in cls)
            raise UnsupportedCompressionError(f"unknown compression {name!r}; valid are {valid}") from None

    @classmethod
    def of(cls, attributes: int) -> Compression:
        """Return the codec in a batch's attributes.

        Raises:
            UnsupportedCompressionError: The codec's number is unknown.
        """
        try:
            return _BY_ID[attributes & 7]
        except IndexError:
            raise UnsupportedCompressionError(f"unknown compression codec {attributes & 7} in record batch") from None


_BY_ID = tuple(Compression)


def compress(codec: Compression, data: Bytes, level: int | None = None) -> Bytes:
    """Compress ``data`` in the framing that the Java client reads.

    Args:
        codec: The codec.
        data: The bytes to compress.
        level: gzip 1 to 9, lz4 1 to 16, zstd -131072 to 22; None for the library's default. snappy has no levels.

    Raises:
        UnsupportedCompressionError: The codec's library is not installed.
    """
    if codec is Compression.GZIP:
        # 31 wraps the deflate stream in a gzip header and trailer, as java.util.zip expects.
        packer = zlib.compressobj(-1 if level is None else level, wbits=31)
        return packer.compress(data) + packer.flush()
    if codec is Compression.SNAPPY:
        return _compress_snappy(data)
    if codec is Compression.LZ4:
        # Kafka's Java reader rejects linked blocks and, in old versions, blocks larger than 64 KiB.
        lz4 = _library("lz4.frame", "lz4", codec)
        options = {"block_size": lz4.BLOCKSIZE_MAX64KB, "block_linked": False, "store_size": False}
        return bytes(lz4.compress(data, compression_level=level or 0, **options))
    if codec is Compression.ZSTD:
        # 3 is the library's default, and Kafka's (KIP-390).
        level = 3 if level is None else level
        standard = _standard_zstd()
        if standard is not None:
            return bytes(standard.compress(data, level))
        return bytes(_library("zstandard", "zstandard", codec).ZstdCompressor(level).compress(data))
    return data


def decompress(codec: Compression, data: Bytes, max_size: int = MAX_DECOMPRESSED) -> Bytes:
    """Decompress ``data`` in steps, so no more than about ``max_size`` bytes are allocated.

    Raises:
        CorruptRecordError: The data is damaged or cut short, or decompresses to more than ``max_size`` bytes.
        UnsupportedCompressionError: The codec's library is not installed.
    """
    if codec is Compression.NONE:
        return data
    return b"".join(_UNPACK[codec](data, max_size, max_size))


def chunks(codec: Compression, data: Bytes, max_block: int = _NO_LIMIT, max_size: int = _NO_LIMIT) -> Iterator[Bytes]:
    """Decompress ``data`` one chunk at a time, so no more than one chunk is held in memory.

    A chunk is at most 1 MiB. With snappy it's a block, which can't be decompressed in parts. Without compression it's
    the data itself.

    Raises:
        CorruptRecordError: The data is damaged or cut short, a snappy block exceeds ``max_block`` bytes, or all chunks
            together would exceed ``max_size`` bytes.
        UnsupportedCompressionError: The codec's library is not installed.
    """
    if codec is Compression.NONE:
        return iter((data,))
    return _UNPACK[codec](data, max_size, max_block)


def declared_size(codec: int, data: Bytes) -> int:
    """Return the decompressed size that ``data`` declares, without decompressing it, or 0 if it declares none.

    This is only a hint: it can be wrong, and gzip stores only the size of its last member, modulo 2**32.
    """
    if codec == _ZSTD and len(data) > 4:
        # RFC 8878, 3.1.1.1: the magic and the descriptor are followed by the size of the window (unless that is the
        # size of the content) and a dictionary.
        descriptor = data[4]
        single = descriptor >> 5 & 1
        size = (single, 2, 4, 8)[descriptor >> 6]
        start = 6 - single + (0, 1, 2, 4)[descriptor & 3]
        return int.from_bytes(data[start : start + size], "little") + (256 if size == 2 else 0)
    if codec == _LZ4 and len(data) > 5 and data[4] & _LZ4_HAS_SIZE:
        return int.from_bytes(data[6:14], "little")
    if codec == _GZIP:
        return int.from_bytes(data[-4:], "little") if len(data) > _SMALLEST_GZIP else 0
    if codec == _SNAPPY:
        return 0 if bytes(data[:8]) == _XERIAL_MAGIC else _snappy_size(data)
    return 0


class Budget:
    """A limit on decompressed bytes that nested message sets share.

    Attributes:
        left: Bytes that may still be decompressed.
    """

    __slots__ = ("left",)

    def __init__(self, max_size: int) -> None:
        self.left = max_size

    def decompress(self, codec: Compression, data: Bytes) -> bytes:
        """Decompress within the bytes that are left, and subtract the size of the result."""
        unpacked = bytes(decompress(codec, data, self.left))
        self.left -= len(unpacked)
        return unpacked

    def take(self, size: int) -> None:
        """Subtract bytes that were decompressed in pieces.

        Raises:
            CorruptRecordError: More bytes were decompressed than are left.
        """
        self.left -= size
        if self.left < 0:
            raise TooLargeError(f"sets inside of sets exceed the limit of decompressed bytes by {-self.left}")


def _library(module: str, package: str, codec: Compression) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UnsupportedCompressionError(
            f"{codec.name.lower()} compression needs the package {package!r}, which is not installed"
        ) from error


def _standard_zstd() -> Any:
    """Return the standard library's zstd, or None before Python 3.14 or if CPython was built without it."""
    # `compression` would be a package of the application before 3.14.
    if sys.version_info < (3, 14):
        return None
    try:
        return importlib.import_module("compression.zstd")
    except ImportError:
        return None


def _corrupt(codec: Compression, why: object) -> CorruptRecordError:
    return CorruptRecordError(f"{codec.name.lower()} data cannot be decompressed: {why}")


def _too_large(codec: Compression, max_size: int, declared: int = 0) -> CorruptRecordError:
    declares = f" ({declared} bytes by its header)" if declared > max_size else ""
    return TooLargeError(f"{codec.name.lower()} data decompresses to more than the limit of {max_size} bytes{declares}")


def _slices(data: Bytes) -> Iterator[Bytes]:
    """Split the input. The libraries copy unused input for every chunk that they return, which would be quadratic."""
    view = memoryview(data)
    return (view[start : start + _CHUNK] for start in range(0, len(view), _CHUNK))


def _unpack_gzip(data: Bytes, max_size: int, _max_block: int) -> Iterator[Bytes]:
    room = max_size
    slices = _slices(data)
    rest = next(slices, b"")
    # A gzip stream may have several members, and Java's reader accepts that.
    members = 0
    while rest:
        members = _counted(Compression.GZIP, members)
        unpacker = zlib.decompressobj(wbits=31)
        while not unpacker.eof:
            try:
                # Request one byte more than is allowed, to distinguish "exactly at the limit" from "over it".
                chunk = unpacker.decompress(rest, min(_CHUNK, room + 1))
            except zlib.error as error:
                raise _corrupt(Compression.GZIP, error) from None
            rest = unpacker.unconsumed_tail
            # guard: what decompresses beyond the limit is rejected
            if len(chunk) > room:
                raise _too_large(Compression.GZIP, max_size, declared_size(Compression.GZIP, data))
            # The library may hold output back after the last input. Once it returns nothing, it has none left.
            if not (chunk or rest or unpacker.eof or (rest := next(slices, b""))):
                raise _corrupt(Compression.GZIP, "it ends early")
            yield chunk
            room -= len(chunk)
        rest = unpacker.unused_data or next(slices, b"")


def _counted(codec: Compression, before: int) -> int:
    if before == MAX_FRAMES:
        raise _corrupt(codec, f"it has more than {MAX_FRAMES} streams, one behind the other")
    return before + 1


def _unpack_lz4(data: Bytes, max_size: int, _max_block: int) -> Iterator[Bytes]:
    lz4 = _library("lz4.frame", "lz4", Compression.LZ4)
    slices, unpacker, errors = _slices(data), lz4.LZ4FrameDecompressor(), (RuntimeError, ValueError)
    yield from _unpack_frame(Compression.LZ4, unpacker, next(slices, b""), slices, errors, max_size, max_size)


def _unpack_zstd(data: Bytes, max_size: int, max_block: int) -> Iterator[Bytes]:
    standard = _standard_zstd()
    unpack = _unpack_by_package if standard is None else partial(_unpack_by_standard_library, standard)
    return unpack(data, max_size, max_block)


def _unpack_by_standard_library(standard: Any, data: Bytes, max_size: int, _max_block: int) -> Iterator[Bytes]:
    room = max_size
    slices = _slices(data)
    rest = next(slices, b"")
    if not rest:
        raise _corrupt(Compression.ZSTD, "it is empty")
    # The data may consist of several frames, one after another.
    frames = 0
    while rest:
        frames = _counted(Compression.ZSTD, frames)
        unpacker = standard.ZstdDecompressor()
        room = yield from _unpack_frame(Compression.ZSTD, unpacker, rest, slices, standard.ZstdError, room, max_size)
        rest = unpacker.unused_data or next(slices, b"")


def _unpack_frame(
    codec: Compression,
    unpacker: Any,
    rest: Bytes,
    slices: Iterator[Bytes],
    errors: type[Exception] | tuple[type[Exception], ...],
    room: int,
    max_size: int,
) -> Generator[Bytes, None, int]:
    """Unpack a frame with a decompressor that works like the standard library's. Return the room that is left.

    Args:
        codec: For errors.
        unpacker: The decompressor, which keeps what it hasn't used.
        rest: The first input.
        slices: The input after that.
        errors: The exceptions that the decompressor raises for damaged data.
        room: The maximum number of bytes to unpack.
        max_size: The maximum for all frames together, for the error.
    """
    while not unpacker.eof:
        try:
            chunk = unpacker.decompress(rest, min(_CHUNK, room + 1))
        except errors as error:
            raise _corrupt(codec, error) from None
        rest = b""
        if len(chunk) > room:
            raise _too_large(codec, max_size)
        if not (chunk or unpacker.eof or (rest := next(slices, b""))):
            raise _corrupt(codec, "it ends early")
        yield chunk
        room -= len(chunk)
    return room


def _unpack_by_package(data: Bytes, max_size: int, _max_block: int) -> Iterator[Bytes]:
    zstandard = _library("zstandard", "zstandard", Compression.ZSTD)
    room = max_size
    try:
        # This is -1 if the frame doesn't declare a size. A wrong size is detected below.
        declared = zstandard.frame_content_size(data)
        if declared > max_size:
            raise _too_large(Compression.ZSTD, max_size, declared)
        reader = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
        while chunk := reader.read(min(_CHUNK, room + 1)):
            room -= len(chunk)
            if room < 0:
                raise _too_large(Compression.ZSTD, max_size)
            yield chunk
    except zstandard.ZstdError as error:
        raise _corrupt(Compression.ZSTD, error) from None
    # The reader takes the end of its input for the end of the frame. If no size is declared, this doesn't detect a
    # truncated frame; the batch's record count does.
    if max_size - room < declared:
        raise _corrupt(Compression.ZSTD, "it ends early")


def _compress_snappy(data: Bytes) -> bytes:
    snappy = _library("snappy", "python-snappy", Compression.SNAPPY)
    out = bytearray(_XERIAL_HEADER)
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = snappy.compress(view[start : start + _XERIAL_BLOCK])
        out += _LENGTH.pack(len(block))
        out += block
    return bytes(out)


def _unpack_snappy(data: Bytes, max_size: int, max_block: int) -> Iterator[Bytes]:
    """Decompress the framing of the xerial library, which Java writes, or the bare block that C clients write."""
    if bytes(data[:8]) != _XERIAL_MAGIC:
        yield _snappy_block(data, max_size, max_size, max_block)
        return
    room = max_size
    view = memoryview(data)
    pos = len(_XERIAL_HEADER)
    while pos < len(view):
        if pos + 4 > len(view):
            raise _corrupt(Compression.SNAPPY, "it ends early")
        (length,) = _LENGTH.unpack_from(view, pos)
        pos += 4
        if not 0 <= length <= len(view) - pos:
            raise _corrupt(Compression.SNAPPY, f"a block of {length} bytes, but {len(view) - pos} are left")
        block = _snappy_block(view[pos : pos + length], room, max_size, max_block)
        yield block
        room -= len(block)
        pos += length


def _snappy_block(block: Bytes, room: int, max_size: int, max_block: int) -> bytes:
    snappy = _library("snappy", "python-snappy", Compression.SNAPPY)
    # A block starts with its decompressed length, which the library allocates before it reads further. So a wrong
    # length has to be detected here: three bytes of snappy never decompress to more than 64.
    declared = _snappy_size(block)
    # Check the limit before the library allocates the memory.
    if declared > room:
        raise _too_large(Compression.SNAPPY, max_size, declared)
    if declared > 22 * len(block):
        raise _corrupt(Compression.SNAPPY, f"{len(block)} bytes declare a decompressed size of {declared}")
    if declared > max_block:
        why = (
            f"a block of {declared} bytes, which cannot be read in pieces, is over the limit of {max_block} bytes "
            f"(max_record_bytes)"
        )
        raise _corrupt(Compression.SNAPPY, why)
    try:
        unpacked: bytes = snappy.uncompress(block)
    except snappy.UncompressError as error:
        raise _corrupt(Compression.SNAPPY, error.__cause__ or error) from None
    return unpacked


def _snappy_size(block: Bytes) -> int:
    declared = 0
    for index, byte in enumerate(block[:5]):
        declared |= (byte & 127) << 7 * index
        if byte < 128:
            break
    return declared


_UNPACK: dict[Compression, Callable[[Bytes, int, int], Iterator[Bytes]]] = {
    Compression.GZIP: _unpack_gzip,
    Compression.SNAPPY: _unpack_snappy,
    Compression.LZ4: _unpack_lz4,
    Compression.ZSTD: _unpack_zstd,
}
