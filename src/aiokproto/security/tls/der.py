"""The encoding of certificates and private keys, DER (X.690). Pure."""

from __future__ import annotations


def value_bounds(data: bytes, position: int) -> tuple[int, int]:
    """Return where the value of the element at a position begins and ends (X.690, section 8.1).

    Raises:
        ValueError: The data ends before the element does.
    """
    begin = position + 2
    size = data[begin - 1] if begin <= len(data) else len(data)
    if size > 0x7F:
        count = size & 0x7F
        size = int.from_bytes(data[begin : begin + count], "big")
        begin += count
    if begin + size > len(data):
        raise ValueError("an element of the certificate or key is damaged")
    return begin, begin + size
