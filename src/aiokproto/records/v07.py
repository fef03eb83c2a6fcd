"""The log format of Kafka 0.7 and earlier, for reading old log segments.

A message consists of its length, a magic byte, an attributes byte (since magic 1), the CRC-32 of the payload, and the
payload. There are no keys and no timestamps. An offset is a byte position in the partition's log. A segment file is
named after the position of its first byte. The payload of a compressed message is a sequence of messages.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from aiokproto.errors import CodecError, CorruptRecordError
from aiokproto.records.compression import MAX_DECOMPRESSED, Budget, Bytes, Compression

_START = struct.Struct(">iB")
_CRC = struct.Struct(">I")
_HEADER_SIZE = (5, 6)
_CODEC = 0x03
_DEEPEST = 8


class MessageV07(NamedTuple):
    """A message of a 0.7 log.

    Attributes:
        offset: Position of the message. Messages that were compressed together have the position of the outermost
            message.
        next_offset: Position of the message after that, which a 0.7 consumer would fetch or commit next.
        payload: The content.
    """

    offset: int
    next_offset: int
    payload: bytes


def decode_v07(
    data: Bytes, base_offset: int = 0, *, check_crc: bool = True, max_decompressed: int = MAX_DECOMPRESSED
) -> Iterator[MessageV07]:
    """Yield the messages of a 0.7 log segment or Fetch response. An incomplete last message is ignored.

    Args:
        data: The messages.
        base_offset: Position of the first byte, which is in the segment's file name.
        check_crc: Whether to verify the messages' checksums.
        max_decompressed: Maximum decompressed size, in bytes, of a compressed message and all messages nested in it.

    Raises:
        CorruptRecordError: A message is damaged. The messages before it have been yielded.
        UnsupportedCompressionError: The codec is unknown or its library is missing.
    """
    view = memoryview(data)
    pos = 0
    while len(view) - pos >= _START.size:
        offset = base_offset + pos
        try:
            end = _end(view, pos)
            # The message is truncated, by the broker or at the end of the segment.
            if end > len(view):
                return
            codec, payload = _read(view, pos, end, check_crc)
            payloads = [payload]
            if codec:
                payloads = _open(codec, payload, Budget(max_decompressed), check_crc)
        except CodecError as error:
            raise CorruptRecordError(f"message at offset {offset}: {error}") from error.__cause__
        for payload in payloads:
            yield MessageV07(offset, base_offset + end, payload)
        pos = end


def _end(data: Bytes, pos: int) -> int:
    length, magic = _START.unpack_from(data, pos)
    if magic > 1:
        raise CorruptRecordError(f"magic is {magic}, which Kafka 0.7 does not have")
    if length < _HEADER_SIZE[magic]:
        raise CorruptRecordError(f"length {length} is too small")
    return int(pos + 4 + length)


def _read(data: Bytes, pos: int, end: int, check_crc: bool) -> tuple[Compression, bytes]:
    magic = data[pos + 4]
    start = pos + 4 + _HEADER_SIZE[magic]
    payload = bytes(data[start:end])
    if check_crc:
        (crc,) = _CRC.unpack_from(data, start - 4)
        if (actual := zlib.crc32(payload)) != crc:
            raise CorruptRecordError(f"checksum is {actual:#010x} but should be {crc:#010x}")
    return Compression.of(data[pos + 5] & _CODEC) if magic else Compression.NONE, payload


def _open(codec: Compression, packed: bytes, budget: Budget, check_crc: bool, depth: int = 1) -> list[bytes]:
    """Return the payloads of the messages inside a compressed message, at any depth."""
    if codec is Compression.LZ4:
        raise CorruptRecordError("its codec is 3, which Kafka 0.7 does not have")
    if depth > _DEEPEST:
        raise CorruptRecordError(f"compressed messages are nested more than {_DEEPEST} deep")
    data = budget.decompress(codec, packed)
    found: list[bytes] = []
    pos = 0
    while pos < len(data):
        try:
            end = _end(data, pos) if len(data) - pos >= _START.size else len(data) + 1
            if end > len(data):
                raise CorruptRecordError(f"the messages end within one, at byte {len(data)}")
            inner, payload = _read(data, pos, end, check_crc)
        except CodecError as error:
            raise CorruptRecordError(f"the message inside at byte {pos}: {error}") from None
        found += _open(inner, payload, budget, check_crc, depth + 1) if inner else [payload]
        pos = end
    return found
