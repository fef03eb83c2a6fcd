"""Batches that are decompressed before delivery, in a thread, so that iterating them does not block the event loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from aiokproto.errors import CorruptRecordError, UnsupportedCompressionError
from aiokproto.records import RecordBatch
from aiokproto.records.batch import HEADER
from aiokproto.records.compression import Bytes, decompress

MAX_DECOMPRESSED = 16 * 1024 * 1024
"""Most decompressed bytes of one chunk's batches; the rest is decompressed when it is iterated."""


class DecompressedBatch(RecordBatch):
    """A batch of magic 2, with its records section decompressed."""

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
    """Return whether the batch can be decompressed ahead: magic 0 and 1 cannot, as they nest message sets.

    Nor can one that compaction has emptied, or that says so: nothing in it is a record.
    """
    packed = batch.magic == 2 and batch.attributes & 7 != 0
    return packed and batch.count > 0 and not isinstance(batch, DecompressedBatch)


def decompress_ahead(batches: Iterable[RecordBatch], most: int = MAX_DECOMPRESSED) -> list[RecordBatch]:
    """Decompress batches until they take ``most`` bytes; return them in order.

    A batch that cannot be decompressed stays as it is: iterating it raises the error.
    """
    found: list[RecordBatch] = []
    for batch in batches:
        if is_decompressible(batch):
            with suppress(CorruptRecordError, UnsupportedCompressionError):
                body = decompress(batch.compression, batch.raw[HEADER.size :], min(most, batch.max_decompressed))
                # A limit for all together: the ratio of a compressed batch is the producer's choice.
                most -= len(body)
                batch = DecompressedBatch(batch, body)
        found.append(batch)
    return found
