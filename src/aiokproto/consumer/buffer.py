"""The buffer of one partition: its fetched, undelivered records, and with them the position. Pure.

The fetcher only appends chunks (:meth:`RecordBuffer.put`). The reader does everything else: it opens the first chunk,
one batch at a time, into a list with the last record first, so that delivering a record is a ``pop()``. It opens a
batch once the previous batch is delivered, or earlier if a ``poll()`` waits for more records than are open.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from aiokproto.fetched.chunk import Chunk, OpenRecords
from aiokproto.records import RecordBatch
from aiokproto.types import Record


class RecordBuffer:
    """The buffer of one partition.

    Invariant: ``position ≤ offsets of the opened records … ≤ offsets of the chunks … ≤ the offset to fetch next``.

    Attributes:
        records: Opened records, last one first.
        batches: The batches of these records, in order. Empty if the one opened record represents a damaged batch.
        end: The position once these records are delivered; -1 while the position is unknown.
        chunks: Fetched chunks that aren't open yet.
        opening: The work that opens the next records in a thread, and the future for its result.
        reading: The first batch of the first chunk, if only some of its records are open.
    """

    __slots__ = ("batches", "chunks", "end", "opening", "reading", "records")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.batches: list[RecordBatch] = []
        self.end = -1
        self.chunks: deque[Chunk] = deque()
        self.opening: tuple[object, Any] | None = None
        self.reading: OpenRecords | None = None

    def __bool__(self) -> bool:
        """Whether there is anything to deliver, even if it's a damaged batch."""
        return bool(self.records or self.chunks)

    @property
    def position(self) -> int:
        """The next offset to deliver."""
        return self.records[-1].offset if self.records else self.end

    @property
    def size(self) -> int:
        """The number of bytes that aren't open yet."""
        return sum(chunk.size for chunk in self.chunks)

    @property
    def damaged(self) -> bool:
        """Whether the buffer ends with a damaged batch, which makes fetching more pointless."""
        return bool(self.chunks) and self.chunks[-1].damage is not None

    def restart(self, offset: int) -> None:
        """Drop everything and set the position."""
        self.records = []
        self.batches = []
        self.drop()
        self.end = offset

    def drop(self) -> None:
        """Drop the chunks that aren't open: they will be fetched again."""
        # If a thread is opening a batch, it continues, but its result isn't used.
        self.opening = self.reading = None
        while self.chunks:
            # drop() subtracts the chunk's bytes from the broker's count.
            self.chunks.popleft().drop()

    def put(self, chunk: Chunk) -> None:
        """Append a chunk. A chunk without records for the application, such as control batches, only moves the
        position."""
        if not chunk.exhausted:
            self.chunks.append(chunk)
        elif self.chunks:
            # There are undelivered records before it, so the position moves only when they are delivered.
            self.chunks[-1].end = chunk.end
        else:
            self.end = chunk.end

    def park(self) -> None:
        """Copy the records out of the fetch responses: they may stay here for a long time."""
        for chunk in self.chunks:
            chunk.park(reading=self.reading is not None and chunk is self.chunks[0])

    def unpark(self) -> None:
        """End :meth:`park`."""
        for chunk in self.chunks:
            chunk.unpark()

    def opened(self, records: list[Record], reading: OpenRecords | None = None) -> None:
        """Store records of the first chunk's first batch, last record first, to be delivered after the open ones.
        They're the whole batch, or a slice read by ``reading``."""
        chunk = self.chunks[0]
        batch = chunk.batches[0]
        self.opening = None
        if not self.records:
            self.records = records
            self.batches = [batch]
        else:
            self.records = records + self.records
            if self.batches[-1] is not batch:
                self.batches.append(batch)
        if reading is not None and not reading.ended:
            self.reading = reading
            self.end = reading.position
            return
        self.reading = None
        self.end = chunk.take()
        if chunk.exhausted:
            self.chunks.popleft()

    @property
    def stands_in(self) -> bool:
        """Whether the opened record represents a damaged batch."""
        return bool(self.records) and not self.batches

    @property
    def partly_delivered(self) -> list[RecordBatch]:
        """The batches with undelivered open records that are completely open, and so are no longer in the chunk."""
        if not self.records:
            return []
        position, unfinished = self.position, self.reading and self.reading.batch
        return [batch for batch in self.batches if batch is not unfinished and batch.next_offset > position]

    def replaced(self, record: Record, end: int) -> None:
        """Store the record that represents the first chunk's first batch, or its damage. ``end`` is the offset after
        it."""
        self.records = [record]
        # batches() cannot deliver the damaged batch; see FetchedBatch.error.
        self.batches = []
        self.leave_out(end)

    def leave_out(self, end: int) -> None:
        """Remove the first chunk's first batch, or its damage. ``end`` is the offset after it."""
        chunk = self.chunks[0]
        self.opening = self.reading = None
        if chunk.batches:
            chunk.take()
        else:
            chunk.damage = chunk.rest = None
        self.end = end
        if chunk.exhausted:
            self.chunks.popleft()

    def delivered(self) -> None:
        """Release the batches whose records are delivered: each is a view of a whole fetch response."""
        if not self.records:
            self.batches = []

    def take(self, count: int) -> list[RecordBatch]:
        """Take the first undelivered batches, and move the position past them.

        ``count`` includes the batches whose records are open.
        """
        # If `async for` has delivered part of a batch, batches() delivers the whole batch. FetchedBatch leaves out the
        # records before its base offset.
        batches = self.partly_delivered
        self.opening = self.reading = None
        # Make a new list: the assignment may still use the old one as its open records.
        self.records = []
        if self.chunks and len(batches) < count:
            chunk = self.chunks[0]
            while len(batches) < count:
                batches.append(chunk.batches[0])
                self.end = chunk.take()
            if chunk.exhausted:
                self.chunks.popleft()
        return batches
