"""Messages of the old formats, built by hand: no builder writes them, because they are damaged or nested."""

from __future__ import annotations

import struct
import zlib

from aiokproto.records.compression import Compression, compress


def message(
    value: bytes | None,
    *,
    offset: int = 0,
    magic: int = 1,
    key: bytes | None = None,
    attributes: int = 0,
    timestamp: int = 1000,
    crc: int | None = None,
) -> bytes:
    """Return a message of magic 0 or 1; its checksum is right unless one is given."""
    body = struct.pack(">BB", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    for part in (key, value):
        body += struct.pack(">i", -1) if part is None else struct.pack(">i", len(part)) + part
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body) if crc is None else crc) + body


def wrapped(
    *inside: bytes, offset: int = 0, magic: int = 1, codec: int = Compression.GZIP, attributes: int = 0
) -> bytes:
    """A compressed message set."""
    packed = bytes(compress(Compression(codec), b"".join(inside)))
    return message(packed, offset=offset, magic=magic, attributes=attributes | codec)


def v07(payload: bytes, *, magic: int = 1, attributes: int = 0, crc: int | None = None) -> bytes:
    """A message of Kafka 0.7."""
    checksum = zlib.crc32(payload) if crc is None else crc
    body = (bytes([1, attributes]) if magic else b"\0") + struct.pack(">I", checksum) + payload
    return struct.pack(">i", len(body)) + body


def v07_set(*inside: bytes, codec: int = Compression.GZIP) -> bytes:
    """A compressed message of Kafka 0.7."""
    return v07(bytes(compress(Compression(codec), b"".join(inside))), attributes=codec)
