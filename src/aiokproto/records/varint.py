"""Variable-length integers: seven bits per byte, low bits first. Signed ones are zig-zag encoded (0, -1, 1 → 0, 1, 2).

Record batches use the signed forms: a *varint* is an int32 in up to 5 bytes, a *varlong* an int64 in up to 10.
"""

from __future__ import annotations

from aiokproto.errors import DecodeError

INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1

SHORT = 8192
"""Numbers from ``-64`` to ``SHORT - 1`` are in :data:`VARINTS`."""

VARINTS: list[bytes] = [
    *(bytes((2 * n,)) for n in range(64)),
    *(bytes((2 * low | 128, high)) for high in range(1, 128) for low in range(64)),
    *(bytes((-2 * n - 1,)) for n in range(-64, 0)),
]
"""Encoded signed varints, indexed by the number itself: ``VARINTS[-1]`` really is the encoding of -1."""


def encode_unsigned(value: int) -> bytes:
    """Encode a non-negative ``value`` as an unsigned varint."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode(value: int) -> bytes:
    """Encode ``value`` as a signed varint or varlong. The two differ only in their range."""
    if -64 <= value < SHORT:
        return VARINTS[value]
    return encode_unsigned(value << 1 if value >= 0 else ~(value << 1))


def size(value: int) -> int:
    """Return the length of :func:`encode`'s result for ``value``, in bytes."""
    bits = (value if value >= 0 else ~value).bit_length() + 1
    return (bits + 6) // 7


def read_unsigned(data: bytes | bytearray | memoryview, pos: int, bits: int = 32) -> tuple[int, int]:
    """Read an unsigned varint of at most ``bits`` bits at ``pos``. Return it and the position after it.

    Raises:
        DecodeError: The bytes end within the number, or it has more than ``bits`` bits.
    """
    value = shift = 0
    try:
        while True:
            byte = data[pos]
            pos += 1
            value |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
            # Without a limit, a peer could send continuation bytes forever.
            if shift >= bits:
                raise DecodeError(f"varint at position {pos - shift // 7} has more than {bits} bits")
    except IndexError:
        raise DecodeError(f"bytes end at position {pos}, within a varint") from None
    # The last byte may have more bits than the number has left.
    if value >> bits:
        raise DecodeError(f"varint that ends at position {pos} has more than {bits} bits")
    return value, pos


def read_varint(data: bytes | bytearray | memoryview, pos: int) -> tuple[int, int]:
    """Read a signed 32-bit varint; see :func:`read_unsigned`."""
    raw, pos = read_unsigned(data, pos, 32)
    return raw >> 1 ^ -(raw & 1), pos


def read_varlong(data: bytes | bytearray | memoryview, pos: int) -> tuple[int, int]:
    """Read a signed 64-bit varlong; see :func:`read_unsigned`."""
    raw, pos = read_unsigned(data, pos, 64)
    return raw >> 1 ^ -(raw & 1), pos
