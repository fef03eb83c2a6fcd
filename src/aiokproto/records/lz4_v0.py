"""The LZ4 frames of magic 0, whose headers contain a wrong checksum (KAFKA-3160).

Kafka's first writers computed the checksum over the whole header including its magic number, but the LZ4 frame format
computes it over the descriptor only. Readers of that time reject the correct value, so magic 0 is written with the
wrong one. Like Java, this client accepts both when reading. Since magic 1, frames are standard.
"""

from __future__ import annotations

from aiokproto.errors import CorruptRecordError

Bytes = bytes | bytearray | memoryview

_DESCRIPTOR_AT = 4
_CONTENT_SIZE = 0x08
_DICTIONARY = 0x01
_MASK = 0xFFFFFFFF
_PRIME1, _PRIME2, _PRIME3, _PRIME4, _PRIME5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1


def to_v0(frame: Bytes) -> bytearray:
    """Copy a standard frame, with the header checksum that magic 0 requires."""
    changed = bytearray(frame)
    end = _descriptor_end(changed)
    changed[end] = _header_checksum(changed[:end])
    return changed


def from_v0(frame: Bytes) -> bytearray:
    """Copy a frame of magic 0, with the standard header checksum.

    Raises:
        CorruptRecordError: The frame is too short to have a header.
    """
    changed = bytearray(frame)
    end = _descriptor_end(changed)
    changed[end] = _header_checksum(changed[_DESCRIPTOR_AT:end])
    return changed


def _descriptor_end(frame: bytearray) -> int:
    flags = frame[_DESCRIPTOR_AT] if len(frame) > _DESCRIPTOR_AT else 0
    end = _DESCRIPTOR_AT + 2 + (8 if flags & _CONTENT_SIZE else 0) + (4 if flags & _DICTIONARY else 0)
    if len(frame) <= end:
        raise CorruptRecordError("lz4 data cannot be decompressed: it ends within its header")
    return end


def _header_checksum(header: bytearray) -> int:
    return xxh32_short(header) >> 8 & 0xFF


def xxh32_short(data: Bytes) -> int:
    """Return the XXH32 (seed 0) of fewer than 16 bytes. A header without content size is never longer."""
    if len(data) >= 16:
        raise ValueError(f"{len(data)} bytes are not less than 16")
    hashed = _PRIME5 + len(data)
    whole = len(data) & ~3
    for pos in range(0, whole, 4):
        hashed = hashed + int.from_bytes(data[pos : pos + 4], "little") * _PRIME3 & _MASK
        hashed = _rotate(hashed, 17) * _PRIME4 & _MASK
    for byte in data[whole:]:
        hashed = hashed + byte * _PRIME5 & _MASK
        hashed = _rotate(hashed, 11) * _PRIME1 & _MASK
    hashed = (hashed ^ hashed >> 15) * _PRIME2 & _MASK
    hashed = (hashed ^ hashed >> 13) * _PRIME3 & _MASK
    return hashed ^ hashed >> 16


def _rotate(number: int, bits: int) -> int:
    return (number << bits | number >> 32 - bits) & _MASK
