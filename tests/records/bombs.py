"""Small batches that become large: the form of each is valid, and some are valid altogether."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator

import lz4.frame
import snappy
import zstandard

from aiokproto.records import Compression
from aiokproto.records.batch import CONTROL, CRC_FROM, HEADER, LOG_OVERHEAD
from aiokproto.records.crc import crc32c
from aiokproto.records.varint import encode

MIB = 1 << 20
TINY = bytes([12, 0, 0, 0, 1, 1, 0])
"""Return a record of seven bytes: without key and value, and with the offset of the batch."""


def packed(codec: Compression, data: bytes) -> bytes:
    """Compress fast, in a single block or frame."""
    if codec is Compression.GZIP:
        return gzip.compress(data, 1)
    if codec is Compression.SNAPPY:
        return bytes(snappy.compress(data))
    if codec is Compression.LZ4:
        return bytes(lz4.frame.compress(data))
    if codec is Compression.ZSTD:
        return zstandard.ZstdCompressor(1).compress(data)
    return data


def batch(body: bytes, count: int = 1, codec: int = 0, *, base: int = 0, last: int = 0, attributes: int = 0) -> bytes:
    """Return a batch of magic 2 with this section of records, and a right checksum."""
    data = bytearray(HEADER.size) + body
    fields = (codec | attributes, last, 0, 0, -1, -1, -1, count)
    HEADER.pack_into(data, 0, base, len(data) - LOG_OVERHEAD, 0, 2, 0, *fields)
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[CRC_FROM:]))
    return bytes(data)


def record(value: int | None = None, headers: int = 0, header: int = 0) -> bytes:
    """Return a record with a value of so many zeros, with so many empty headers, or with a header of so many zeros."""
    content = encode(-1) if value is None else encode(value) + bytes(value)
    if header:
        tail = encode(1) + encode(0) + encode(header) + bytes(header)
    else:
        tail = encode(headers) + b"\0\1" * headers
    body = b"\0\0\0" + encode(-1) + content + tail
    return encode(len(body)) + body


def message(value: bytes, *, magic: int, codec: int = 0, offset: int = 0) -> bytes:
    """Return a message of an old format."""
    head = struct.pack(">BB", magic, codec) + (struct.pack(">q", 0) if magic else b"")
    body = head + struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def nested(depth: int, magic: int, inner: bytes) -> bytes:
    """Return sets inside sets."""
    for _ in range(depth):
        inner = message(gzip.compress(inner, 6), magic=magic, codec=1)
    return inner


def bombs() -> Iterator[tuple[str, bytes]]:
    """Yield a name and a batch that starts and ends at offset 0, or ends a little later if it has many records."""
    for codec in (Compression.GZIP, Compression.LZ4, Compression.ZSTD):
        name = codec.name.lower()
        yield f"many records, {name}", batch(packed(codec, TINY * 1_000_000), 1_000_000, codec)
        yield f"many headers, {name}", batch(packed(codec, record(headers=5_000_000)), 1, codec)
        yield f"a huge value, {name}", batch(packed(codec, record(40 * MIB)), 1, codec)
        yield f"a huge header, {name}", batch(packed(codec, record(header=40 * MIB)), 1, codec)
    yield "headers in many records", batch(packed(Compression.ZSTD, record(headers=6_000) * 300), 300, 4)
    yield "a snappy block", batch(packed(Compression.SNAPPY, record(24 * MIB)), 1, 2)
    yield "headers in a snappy block", batch(packed(Compression.SNAPPY, record(headers=2_000_000)), 1, 2)
    yield "headers, not compressed", batch(record(headers=1_000_000))
    yield "many records, not compressed", batch(TINY * 300_000, 300_000)
    yield "many empty members", batch(gzip.compress(b"") * 50_000 + gzip.compress(TINY), 1, 1)
    empty = zstandard.ZstdCompressor(1).compress(b"")
    yield "many empty frames", batch(empty * 50_000 + packed(Compression.ZSTD, TINY), 1, 4)
    yield "a count that is too large", batch(packed(Compression.ZSTD, TINY), 2**31 - 1, 4)
    yield "a count that is too small", batch(packed(Compression.ZSTD, TINY * 1_000_000), 1, 4)
    yield "varints that never end", batch(packed(Compression.ZSTD, b"\xff" * 20 * MIB), 1, 4)
    yield "a length of 2 GiB", batch(packed(Compression.ZSTD, b"\xfe\xff\xff\xff\x0f" + bytes(40 * MIB)), 1, 4)
    yield "a control batch", batch(packed(Compression.ZSTD, TINY * 1_000_000), 1_000_000, 4, attributes=CONTROL)
    yield "zeros behind the record", batch(packed(Compression.ZSTD, TINY + bytes(40 * MIB)), 1, 4)
    # These are just below the limit of the readers.
    yield "a value of almost 16 MiB", batch(packed(Compression.ZSTD, record(16 * MIB - 64)), 1, 4)
    yield "a snappy block of almost 16 MiB", batch(packed(Compression.SNAPPY, record(16 * MIB - 64)), 1, 2)
    yield "many records in a snappy block", batch(packed(Compression.SNAPPY, TINY * 1_500_000), 1_500_000, 2)
    window = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters.from_level(1, window_log=27)
    ).compressobj()
    yield "a window of 128 MiB", batch(window.compress(TINY * 3_000_000) + window.flush(), 3_000_000, 4)
    one = message(bytes(0), magic=1)
    yield "a set of many messages", message(gzip.compress(one * 300_000, 1), magic=1, codec=1)
    yield "a message of magic 1 that is huge", nested(1, 1, message(bytes(40 * MIB), magic=1))
    many = message(gzip.compress(message(bytes(0), magic=0) * 30_000), magic=0, codec=1)
    yield "many sets of magic 0 in a set", message(gzip.compress(many * 10, 1), magic=0, codec=1)
    yield "sets of magic 0 in sets", nested(3, 0, message(bytes(40 * MIB), magic=0))
    yield "too many sets of magic 0 in sets", nested(12, 0, message(bytes(10 * MIB), magic=0))
