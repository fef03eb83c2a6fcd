"""Batches that were decompressed before they are handed out, so that who reads them need not."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from aiokproto.errors import CorruptRecordError, UnsupportedCompressionError
from aiokproto.records import RecordBatch
from aiokproto.records.batch import HEADER
from aiokproto.records.compression import Bytes, decompress

MOST_UNPACKED = 32 * 1024 * 1024
"""Bytes that the batches of one chunk may take when they are decompressed ahead; the rest is when it is read."""


class UnpackedBatch(RecordBatch):
    """A batch of magic 2, with its records section decompressed."""

    __slots__ = ("_body",)

    def __init__(self, batch: RecordBatch, body: Bytes) -> None:
        super().__init__(batch.raw, max_decompressed=batch.max_decompressed)
        self.source = batch.source
        self.position = batch.position
        self._body = body

    def body(self) -> Bytes:
        """The records section, which is kept."""
        return self._body


def is_packed(batch: RecordBatch) -> bool:
    """Whether it can be unpacked: compressed, and not of an old format, which nests what is compressed."""
    return batch.magic == 2 and batch.attributes & 7 != 0 and not isinstance(batch, UnpackedBatch)


def unpack(batches: Iterable[RecordBatch], most: int = MOST_UNPACKED) -> list[RecordBatch]:
    """The batches, the compressed ones unpacked as far as ``most`` bytes reach.

    One that cannot be unpacked stays as it is: who reads it is told why.
    """
    found: list[RecordBatch] = []
    for batch in batches:
        if is_packed(batch):
            with suppress(CorruptRecordError, UnsupportedCompressionError):
                body = decompress(batch.compression, batch.raw[HEADER.size :], min(most, batch.max_decompressed))
                most -= len(body)
                batch = UnpackedBatch(batch, body)
        found.append(batch)
    return found
