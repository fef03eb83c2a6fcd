"""What has been fetched of one partition and not been delivered yet, and so the position. Pure.

The fetcher adds chunks at the end, by :meth:`RecordBuffer.put` alone. All else is the reader's: it opens the first
chunk's records, one batch at a time, last one first, so that delivering one is a ``pop()``.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from aiokproto.consumer.chunk import Chunk
from aiokproto.records import RecordBatch
from aiokproto.types import Record


class RecordBuffer:
    """The buffer of one partition.

    Invariant: ``position ≤ offsets of the opened records … ≤ offsets of the chunks … ≤ the offset to fetch next``.

    Attributes:
        records: Records that are opened, last one first.
        batch: The batch they are from.
        end: The position once those are delivered; -1 before the first is known.
        chunks: What is fetched and not opened.
        opening: What a thread is opening, or has opened, and its result; None if nothing is too large for the loop.
        leader_epoch: Epoch of the last batch opened, for commits; -1 if not known.
    """

    __slots__ = ("batch", "chunks", "end", "leader_epoch", "opening", "records")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.batch: RecordBatch | None = None
        self.end = -1
        self.chunks: deque[Chunk] = deque()
        self.opening: tuple[object, Any] | None = None
        self.leader_epoch = -1

    def __bool__(self) -> bool:
        """Whether there is anything to deliver, if only damage."""
        return bool(self.records or self.chunks)

    @property
    def position(self) -> int:
        """The next offset to be delivered."""
        return self.records[-1].offset if self.records else self.end

    @property
    def size(self) -> int:
        """Bytes not opened."""
        return sum(chunk.size for chunk in self.chunks)

    @property
    def damaged(self) -> bool:
        """Whether nothing can follow what is buffered: it ends with what cannot be read."""
        return bool(self.chunks) and self.chunks[-1].damage is not None

    def restart(self, offset: int, leader_epoch: int) -> None:
        """Drop everything; the position is ``offset``."""
        self.records = []
        self.batch = None
        self.opening = None
        while self.chunks:
            self.chunks.popleft().drop()
        self.end = offset
        self.leader_epoch = leader_epoch

    def put(self, chunk: Chunk) -> None:
        """Add what was fetched behind the rest. A chunk without records for the user only moves the position on."""
        if not chunk.exhausted:
            self.chunks.append(chunk)
        elif self.chunks:
            self.chunks[-1].end = chunk.end
        else:
            self.end = chunk.end

    def park(self) -> None:
        """Keep no more memory alive than the records take: nobody knows for how long they stay."""
        for chunk in self.chunks:
            chunk.park()

    def unpark(self) -> None:
        """End :meth:`park`."""
        for chunk in self.chunks:
            chunk.unpark()

    def opened(self, records: list[Record], batch: RecordBatch) -> None:
        """The first chunk's first batch is opened; its records are given last one first."""
        chunk = self.chunks[0]
        self.opening = None
        self.records = records
        self.batch = batch
        self.leader_epoch = batch.partition_leader_epoch
        self.end = chunk.take()
        if chunk.exhausted:
            self.chunks.popleft()

    def delivered(self) -> None:
        """The opened records are delivered: their batch is a view of all that the fetch brought, and may go."""
        if not self.records:
            self.batch = None

    def take(self) -> list[RecordBatch]:
        """Take the batches of the first chunk that were not delivered. The position is after them then."""
        batches = [self.batch] if self.records and self.batch else []
        self.opening = None
        self.records = []
        if self.chunks:
            chunk = self.chunks[0]
            batches += chunk.take_all()
            self.end = chunk.end
            self.leader_epoch = batches[-1].partition_leader_epoch if batches else self.leader_epoch
            if chunk.exhausted:
                self.chunks.popleft()
        return batches
