"""Batches that a thread decompresses before delivery. Iterating them doesn't block the event loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from aiokproto.errors import CorruptRecordError, UnsupportedCompressionError
from aiokproto.records import RecordBatch
from aiokproto.records.batch import HEADER
from aiokproto.records.compression import Bytes, decompress

MAX_DECOMPRESSED = 16 * 1024 * 1024
"""Maximum decompressed bytes for one chunk's batches. Any further batches are decompressed when they're iterated."""


class DecompressedBatch(RecordBatch):
    """A batch of magic 2 with a decompressed records section."""

    __slots__ = ("_body",)

    def __init__(self, batch: RecordBatch, body: Bytes) -> None:
        super().__init__(batch.raw, max_decompressed=batch.max_decompressed, max_record=batch.max_record)
        self.source = batch.source
        self.position = batch.position
        self._body = body

    def unpacked(self) -> Iterator[Bytes]:
        """Return the decompressed records section, in one chunk."""
        return iter((self._body,))


def is_decompressible(batch: RecordBatch) -> bool:
    """Return whether the batch can be decompressed ahead. Batches of magic 0 and 1 cannot: they nest message sets.

    A batch without records, such as after compaction, cannot either.
    """
    packed = batch.magic == 2 and batch.attributes & 7 != 0
    return packed and batch.count > 0 and not isinstance(batch, DecompressedBatch)


def decompress_ahead(batches: Iterable[RecordBatch], most: int = MAX_DECOMPRESSED) -> list[RecordBatch]:
    """Decompress batches until they take ``most`` bytes; return them in order.

    A batch that cannot be decompressed stays as it is, and iterating it raises the error.
    """
    found: list[RecordBatch] = []
    for batch in batches:
        if is_decompressible(batch):
            with suppress(CorruptRecordError, UnsupportedCompressionError):
                body = decompress(batch.compression, batch.raw[HEADER.size :], min(most, batch.max_decompressed))
                # The limit is on all batches together: a producer can choose any compression ratio.
                most -= len(body)
                batch = DecompressedBatch(batch, body)
        found.append(batch)
    return found
