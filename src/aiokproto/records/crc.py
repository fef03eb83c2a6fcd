"""CRC-32C (Castagnoli), the checksum of record batches."""

from __future__ import annotations

from collections.abc import Callable

_compute: Callable[[bytes | bytearray | memoryview], int] | None = None


def crc32c(data: bytes | bytearray | memoryview) -> int:
    """The CRC-32C of ``data``. Long data is computed with the GIL released."""
    global _compute
    if _compute is None:
        from crc32c import crc32c as compute

        _compute = compute
    return _compute(data)
