"""Chunks: the records of one partition in one Fetch response, as encoded batches. Pure.

A response is cut into chunks of about a megabyte, without decompressing them. A chunk can be decoded in one time slice
of the event loop. Batches are decoded one at a time, when the application requests records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from aiokproto.codec.messages.fetch import AbortedTransaction
from aiokproto.errors import CorruptRecordError, KafkaError
from aiokproto.records import RecordBatch, decode, first_batch_size
from aiokproto.records.batch import CODEC, HEADER, LOG_OVERHEAD
from aiokproto.records.compression import MAX_DECOMPRESSED, declared_size
from aiokproto.records.isolation import visible
from aiokproto.records.record import MAX_RECORD, RecordMaker
from aiokproto.records.slices import QUICK_BYTES, Slices
from aiokproto.types import Ownership, RawControlRecord, Record, TopicPartition

T = TypeVar("T")

MAX_WORK = 1024 * 1024
"""A chunk ends after this many bytes of decompressed records. Decoding them takes one or two milliseconds."""

MAX_BATCHES = 256
"""A chunk ends after this many batches. Parsing their headers takes a millisecond."""

_COMPRESSION_RATIO = 4


class DecodeLimits(NamedTuple):
    """Size limits for batches and records.

    Attributes:
        batch: Maximum decompressed size of a batch, in bytes.
        record: Maximum size of a record, in bytes; see :attr:`RecordBatch.max_record`.
    """

    batch: int = MAX_DECOMPRESSED
    record: int = MAX_RECORD


DEFAULT_LIMITS = DecodeLimits()


class BufferedBytes:
    """The buffered bytes of one broker, for the limit ``fetch_buffer_bytes``.

    Attributes:
        waiting: Bytes that can be delivered.
        parked: Bytes that cannot be delivered at the moment, because their partition is paused, held or has failed.
    """

    __slots__ = ("parked", "waiting")

    def __init__(self) -> None:
        self.waiting = 0
        self.parked = 0

    @property
    def size(self) -> int:
        """All buffered bytes."""
        return self.waiting + self.parked


class Chunk:
    """Batches of one partition from one fetch, without aborted transactions, and usually without control batches.

    Attributes:
        partition: The partition.
        position: The first offset to deliver. Brokers send whole batches, so the first batch may start before it.
        end: The offset after the chunk.
        epochs: Each leader epoch in the chunk, with its first offset.
        size: The number of bytes that aren't open yet.
        batches: The batches that aren't open yet.
        damage: The error describing the damage after the last good batch; None if there is no damage.
        rest: The bytes starting at the damaged batch; None if there is no damage.
        wanted_size: If the broker cut even the first batch, the number of bytes to request to get all of it (or enough
            to read its size, if that is not known yet); else 0.
        parked: Whether it cannot be delivered at the moment.
    """

    __slots__ = (
        "_buffered",
        "batches",
        "damage",
        "end",
        "epochs",
        "parked",
        "partition",
        "position",
        "rest",
        "size",
        "wanted_size",
    )

    def __init__(self, partition: TopicPartition, position: int) -> None:
        self.partition = partition
        self.position = position
        # It's None until count_in(): a chunk is not buffered while the response is being cut.
        self._buffered: BufferedBytes | None = None
        self.parked = False
        self.end = position
        self.epochs: list[tuple[int, int]] = []
        self.size = 0
        self.batches: deque[RecordBatch] = deque()
        self.damage: KafkaError | None = None
        self.rest: memoryview | None = None
        self.wanted_size = 0

    @property
    def exhausted(self) -> bool:
        """Whether nothing is left to open."""
        return not self.batches and self.damage is None

    def add(self, batch: RecordBatch) -> None:
        """Append a batch."""
        self.batches.append(batch)
        self.size += batch.size_in_bytes

    def count_in(self, buffered: BufferedBytes) -> None:
        """Include the unopened bytes of this chunk in a broker's buffered bytes."""
        size, self.size, self._buffered = self.size, 0, buffered
        self._resize(size)

    def take(self) -> int:
        """Remove the first batch, which was opened. Return the offset to continue from."""
        batch = self.batches.popleft()
        self._resize(-batch.size_in_bytes)
        # The end can be past the last batch: it may be followed by control batches and aborted batches, which aren't
        # delivered.
        return batch.next_offset if self.batches or self.damage else self.end

    def take_all(self) -> list[RecordBatch]:
        """Remove and return all batches."""
        batches = list(self.batches)
        self.batches.clear()
        self._resize(-self.size)
        return batches

    def drop(self) -> None:
        """Discard the chunk. It no longer counts as buffered."""
        self.take_all()
        self.rest = None

    def park(self, *, reading: bool = False) -> None:
        """Count the chunk as not deliverable, and copy its batches if they keep a much larger response alive.

        While the first batch is being read, nothing is copied: reading would have to start over.

        Batches are views of the whole response, which may consist mostly of other partitions' records, and a partition
        may stay paused for a long time.
        """
        if self.parked:
            return
        size = self.size
        # Subtract it from one count before adding it to the other.
        self._resize(-size)
        self.parked = True
        self._resize(size)
        # Copy only if the response is at least twice as large: otherwise copying wouldn't save much.
        if self.batches and not reading and 2 * size < memoryview(self.batches[0].raw.obj).nbytes:
            own = b"".join(batch.raw for batch in self.batches)
            limits = {"max_decompressed": self.batches[0].max_decompressed, "max_record": self.batches[0].max_record}
            self.batches = deque(decode(memoryview(own), check_crc=False, **limits))

    def unpark(self) -> None:
        """End :meth:`park`."""
        size = self.size
        self._resize(-size)
        self.parked = False
        self._resize(size)

    def _resize(self, by: int) -> None:
        self.size += by
        if self._buffered is None:
            return
        if self.parked:
            self._buffered.parked += by
        else:
            self._buffered.waiting += by


def chunks(
    partition: TopicPartition,
    position: int,
    data: memoryview,
    aborted: Sequence[AbortedTransaction],
    *,
    control: bool = False,
    check_crc: bool = True,
    limits: DecodeLimits = DEFAULT_LIMITS,
) -> Iterator[Chunk]:
    """Cut a record set into chunks. It does so lazily, so neither cutting nor decoding a chunk takes long.

    Args:
        partition: The partition.
        position: The offset that was requested. Records before it are never delivered.
        data: The record set.
        aborted: Aborted transactions to leave out, with ``read_committed``.
        control: Whether to keep control batches.
        check_crc: Whether to verify the checksums of batches that are left out; damaged batches are kept. The other
            batches are verified when they're opened, in a thread if they're large.
        limits: Size limits for batches and records.

    Returns:
        At least one chunk if there is data. Damage is in the last chunk.
    """
    chunk = Chunk(partition, position)
    passed = found = work = 0
    # The position of the batch that is being read.
    at = 0
    epoch: int | None = None

    def wanted() -> Iterator[RecordBatch]:
        nonlocal passed, found, at, epoch
        for batch in decode(data, check_crc=False, max_decompressed=limits.batch, max_record=limits.record):
            at = batch.position
            # Compare the batch's end and not its base: the requested offset can be in the middle of a batch.
            if batch.next_offset > position:
                found += 1
                if batch.partition_leader_epoch != epoch:
                    epoch = batch.partition_leader_epoch
                    # Use the chunk's end and not the base offset, which is only available after decompression for a
                    # compressed set of magic 1.
                    chunk.epochs.append((epoch, chunk.end))
                # Move the end past invisible batches, too: otherwise the same markers would be fetched forever.
                chunk.end = batch.next_offset
                yield batch
            else:
                passed += batch.size_in_bytes
            at = batch.position + batch.size_in_bytes

    try:
        # Pass all batches after the position, because an abort marker ends a transaction whose batches were skipped.
        for batch in visible(wanted(), aborted, control=control, check_crc=check_crc):
            chunk.add(batch)
            work += expected_size(batch)
            if work >= MAX_WORK or len(chunk.batches) == MAX_BATCHES:
                yield chunk
                chunk, work = Chunk(partition, chunk.end), 0
        # A broker before 0.10.1 has cut the first batch: there are bytes, but not a whole batch (KIP-74).
        if data and not found:
            # The size of a batch is in its second field. If that's missing, request enough to read it.
            chunk.wanted_size = passed + (first_batch_size(data[passed:]) or LOG_OVERHEAD)
            raise CorruptRecordError("not one whole record batch was sent")
    except CorruptRecordError as error:
        # Store the error instead of raising it: the good batches before it are delivered first.
        chunk.damage = error
        # If there's a wanted size, the batch was only cut, and is not known to be damaged.
        chunk.rest = None if chunk.wanted_size else data[at:]
    yield chunk


def record_count(batches: Iterable[RecordBatch], position: int) -> int:
    """Return the number of records in batches, according to their headers.

    The messages in a compressed set of magic 0 or 1 cannot be counted without decompressing it, which takes seconds for
    a megabyte. So its offsets are counted instead, starting at ``position`` or at the end of the previous batch. The
    count is the same unless compaction has removed messages.
    """
    count = 0
    for batch in batches:
        is_set = batch.magic < 2 and batch.attributes & CODEC
        count += max(batch.next_offset - position, 0) if is_set else batch.count
        position = batch.next_offset
    return count


def expected_size(batch: RecordBatch) -> int:
    """Estimate the decompressed size of a batch. The actual size is known only after decompression."""
    size, codec = batch.size_in_bytes, batch.attributes & CODEC
    if not codec:
        return size
    # The declared size can be wrong, so it may only increase the estimate.
    declared = declared_size(codec, batch.raw[HEADER.size :]) if batch.magic == 2 else 0
    return max(size * _COMPRESSION_RATIO, declared)


class OpenBatch(Generic[T]):
    """A batch that is decoded a slice at a time.

    Attributes:
        batch: The batch.
        position: The offset after the slices that were read.
        ended: Whether the last slice was read.
    """

    __slots__ = ("_slices", "batch", "ended", "position")

    def __init__(self, batch: RecordBatch, slices: Slices[T], position: int) -> None:
        self.batch = batch
        self.position = position
        self.ended = False
        self._slices = slices

    def is_quick(self) -> bool:
        """Return whether the event loop may read the next slice. If not, a thread should read it.

        Raises:
            CorruptRecordError, UnsupportedCompressionError: The same errors as reading.
        """
        return expected_size(self.batch) <= QUICK_BYTES and self._slices.is_quick()

    def read_all(self) -> list[T]:
        """Decode all records of the next slice, in order. It may be empty.

        Raises:
            CorruptRecordError: The checksum or the content is wrong, or a limit is exceeded.
            UnsupportedCompressionError: The codec is unknown or its library is missing.
        """
        records = self._slices.read()
        self.ended = self._slices.ended
        return records

    def passed(self, offset: int) -> None:
        """Move the position past a record, but not past the batch, even if the record's offset is wrong."""
        self.position = min(max(self.position, offset + 1), self.batch.next_offset)


class OpenRecords(OpenBatch[Record]):
    """The records of a batch, starting at a position."""

    __slots__ = ("_first",)

    def __init__(self, batch: RecordBatch, slices: Slices[Record], position: int) -> None:
        super().__init__(batch, slices, position)
        self._first = position

    def read(self) -> list[Record]:
        """Decode the next slice in order, without records before the first position. Raises the same errors as
        :meth:`read_all`."""
        records = self.read_all()
        if records and not self.ended:
            self.passed(records[-1].offset)
        return _delivered(self.batch, records, self._first)


def _delivered(batch: RecordBatch, records: list[Record], position: int) -> list[Record]:
    """Return the records of a batch, starting at ``position``, as they are delivered."""
    if batch.is_control:
        records[:] = map(RawControlRecord, records)
    # Compare each offset, like Java: in a damaged batch they needn't grow. Only the batch that the position is in pays.
    if records and records[0].offset < position:
        records[:] = [record for record in records if record.offset >= position]
    return records


def read_or_open(
    batch: RecordBatch, partition: TopicPartition, position: int, check_crcs: bool, ownership: Ownership | None = None
) -> list[Record] | OpenRecords:
    """Decode the records of a batch in order, starting at ``position``, if the batch is small. Otherwise, return an
    object that does.

    This is a shortcut for most batches; see :meth:`RecordBatch.read_or_slice`. The records refer to ``ownership``.
    Raises the same errors as :meth:`OpenBatch.read_all`.
    """
    topic, number = partition
    make = RecordMaker(topic, number, batch.timestamp_type, batch.partition_leader_epoch, ownership)
    found = batch.read_or_slice(make, check_crc=check_crcs)
    return _delivered(batch, found, position) if isinstance(found, list) else OpenRecords(batch, found, position)


def open_batch(
    batch: RecordBatch, partition: TopicPartition, position: int, check_crcs: bool, ownership: Ownership | None = None
) -> OpenRecords:
    """Return an object that decodes the records of a batch, starting at ``position``. The records refer to
    ``ownership``."""
    topic, number = partition
    make = RecordMaker(topic, number, batch.timestamp_type, batch.partition_leader_epoch, ownership)
    return OpenRecords(batch, batch.slices(make, check_crc=check_crcs), position)


def read_batches(
    batches: Iterable[RecordBatch], partition: TopicPartition, position: int, ownership: Ownership | None = None
) -> Iterator[list[Record]]:
    """Decode the records of batches in order, starting at ``position``. Yield a list for each slice. Checksums aren't
    verified.

    Raises:
        CorruptRecordError: A record is damaged, or exceeds a limit.
        UnsupportedCompressionError: The codec is unknown or its library is missing.
    """
    for batch in batches:
        found = read_or_open(batch, partition, position, False, ownership)
        if isinstance(found, list):
            yield found
        else:
            while not found.ended:
                yield found.read()
        # Release the batch before reading the next one: two must not be in memory at once.
        del found
