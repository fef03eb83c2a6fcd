"""DER (X.690), the encoding of certificates and private keys. Pure."""

from __future__ import annotations


def value_bounds(data: bytes, position: int) -> tuple[int, int]:
    """Return the start and end of the value of the element at a position (X.690, section 8.1).

    Raises:
        ValueError: The data ends before the element does.
    """
    start = position + 2
    size = data[start - 1] if start <= len(data) else len(data)
    if size > 0x7F:
        count = size & 0x7F
        size = int.from_bytes(data[start : start + count], "big")
        start += count
    if start + size > len(data):
        raise ValueError("an element of the certificate or key is damaged")
    return start, start + size
