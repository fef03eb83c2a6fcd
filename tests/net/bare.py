"""Frames without header, for scripted brokers."""

from __future__ import annotations

import asyncio
import struct


async def bare(reader: asyncio.StreamReader) -> bytes:
    """Read a frame."""
    return await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])


def framed(data: bytes) -> bytes:
    """Return a frame."""
    return struct.pack(">i", len(data)) + data
