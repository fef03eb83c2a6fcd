"""The records of one partition in one Fetch answer: kept as bytes, opened batch by batch. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from operator import attrgetter

from aiokproto.codec.messages.fetch import AbortedTransaction
from aiokproto.errors import CorruptRecordError, KafkaError
from aiokproto.records import RecordBatch, decode, first_batch_size
from aiokproto.records.batch import LOG_OVERHEAD
from aiokproto.records.isolation import visible
from aiokproto.records.record import RecordMaker
from aiokproto.types import Record, TopicPartition

MOST_WORK = 1024 * 1024
"""Bytes of records, decompressed, after which a chunk ends: a millisecond or two to read."""

MOST_BATCHES = 256
"""Batches after which a chunk ends: a millisecond to look at."""

_UNPACKED = 4


class Supply:
    """What one broker has sent and nobody has opened yet.

    Attributes:
        waiting: Bytes that can be delivered.
        parked: Bytes that cannot for now, as their partition is paused.
    """

    __slots__ = ("parked", "waiting")

    def __init__(self) -> None:
        self.waiting = 0
        self.parked = 0

    @property
    def size(self) -> int:
        """All bytes."""
        return self.waiting + self.parked


class Chunk:
    """Some of what a Fetch brought for a partition, without control batches and aborted transactions.

    Attributes:
        partition: Which.
        position: Where its records are to start: brokers answer with whole batches, so the first may begin before.
        end: The offset after the last one.
        size: Bytes not opened.
        batches: Batches not opened yet.
        damage: What follows the last good batch, if it cannot be read.
        wanted_size: Where even the first batch was cut, the bytes that a fetch has to bring for more of it to be seen:
            all of it, once its size is; else 0.
        parked: Whether it cannot be delivered for now.
    """

    __slots__ = ("_supply", "batches", "damage", "end", "parked", "partition", "position", "size", "wanted_size")

    def __init__(self, partition: TopicPartition, position: int) -> None:
        self.partition = partition
        self.position = position
        self._supply: Supply | None = None
        self.parked = False
        self.end = position
        self.size = 0
        self.batches: deque[RecordBatch] = deque()
        self.damage: KafkaError | None = None
        self.wanted_size = 0

    @property
    def exhausted(self) -> bool:
        """Whether there is nothing left to open."""
        return not self.batches and self.damage is None

    def add(self, batch: RecordBatch) -> None:
        """Add a batch at the end."""
        self.batches.append(batch)
        self.size += batch.size_in_bytes

    def count_in(self, supply: Supply) -> None:
        """From now on, what is not opened of it counts as a broker's supply."""
        size, self.size, self._supply = self.size, 0, supply
        self._resize(size)

    def take(self) -> int:
        """Take the first batch out, which was opened. Returns the offset to go on from after it."""
        batch = self.batches.popleft()
        self._resize(-batch.size_in_bytes)
        return batch.next_offset if self.batches or self.damage else self.end

    def take_all(self) -> list[RecordBatch]:
        """Take all batches out."""
        batches = list(self.batches)
        self.batches.clear()
        self._resize(-self.size)
        return batches

    def drop(self) -> None:
        """It is not wanted any more."""
        self.take_all()

    def park(self) -> None:
        """It cannot be delivered for now. Keep no more alive than its batches: they are views of a whole response, most
        of which may be other partitions' records."""
        if self.parked:
            return
        size = self.size
        self._resize(-size)
        self.parked = True
        self._resize(size)
        if self.batches and 2 * size < memoryview(self.batches[0].raw.obj).nbytes:
            own = b"".join(batch.raw for batch in self.batches)
            self.batches = deque(decode(memoryview(own), check_crc=False))

    def unpark(self) -> None:
        """End :meth:`park`."""
        size = self.size
        self._resize(-size)
        self.parked = False
        self._resize(size)

    def _resize(self, by: int) -> None:
        self.size += by
        if self._supply is None:
            return
        if self.parked:
            self._supply.parked += by
        else:
            self._supply.waiting += by


def chunks(
    partition: TopicPartition,
    position: int,
    data: memoryview,
    aborted: Sequence[AbortedTransaction],
) -> Iterator[Chunk]:
    """What is in a record set, a part at a time, so that none takes long: neither to make, nor to read all of it.

    Args:
        partition: Where it is from.
        position: The offset that was asked for. What lies before is never handed out.
        data: The record set.
        aborted: Transactions to leave out, with ``read_committed``.

    Returns:
        At least one chunk where there is data; damage is in the last one.
    """
    chunk = Chunk(partition, position)
    passed = found = work = 0

    def wanted() -> Iterator[RecordBatch]:
        nonlocal passed, found
        for batch in decode(data, check_crc=False):
            if batch.next_offset > position:
                found += 1
                chunk.end = batch.next_offset
                yield batch
            else:
                passed += batch.size_in_bytes

    try:
        for batch in visible(wanted(), aborted):
            chunk.add(batch)
            work += expected_size(batch)
            if work >= MOST_WORK or len(chunk.batches) == MOST_BATCHES:
                yield chunk
                chunk, work = Chunk(partition, chunk.end), 0
        if data and not found:
            # Without its first field and its length, a batch does not tell its size.
            chunk.wanted_size = passed + (first_batch_size(data[passed:]) or LOG_OVERHEAD)
            raise CorruptRecordError("not one whole record batch was sent")
    except CorruptRecordError as error:
        chunk.damage = error
    yield chunk


def expected_size(batch: RecordBatch) -> int:
    """About how many bytes of records there are to read. To know, a compressed batch would have to be decompressed."""
    return batch.size_in_bytes * (_UNPACKED if batch.attributes & 7 else 1)


def open_batch(batch: RecordBatch, partition: TopicPartition, position: int, check_crcs: bool) -> list[Record]:
    """The records of a batch from ``position`` on, last one first.

    Raises:
        CorruptRecordError: Checksum or content are wrong.
        UnsupportedCompressionError: Its codec cannot be used.
    """
    if check_crcs:
        batch.validate()
    records = read_batch(batch, partition, position)
    records.reverse()
    return records


def read_batch(batch: RecordBatch, partition: TopicPartition, position: int) -> list[Record]:
    """The records of a batch from ``position`` on, in order. Raises as :func:`open_batch`, but compares no checksum."""
    topic, number = partition
    records = batch.records(RecordMaker(topic, number, batch.timestamp_type, batch.partition_leader_epoch))
    if records and records[0].offset < position:
        del records[: bisect_left(records, position, key=attrgetter("offset"))]
    return records
