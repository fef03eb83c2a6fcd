"""The records of one partition in one Fetch answer: kept as bytes, opened batch by batch. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from operator import attrgetter

from aiokproto.codec.messages.fetch import AbortedTransaction
from aiokproto.errors import CorruptRecordError, KafkaError
from aiokproto.records import RecordBatch, decode, first_batch_size
from aiokproto.records.batch import LOG_OVERHEAD
from aiokproto.records.isolation import visible
from aiokproto.records.record import RecordMaker
from aiokproto.types import Record, TopicPartition


class Chunk:
    """What a Fetch brought for a partition, without what is not for users: control batches, aborted transactions.

    Brokers answer with whole batches, so the first may begin before the offset that was asked for; what lies before
    :attr:`position` is never handed out.

    Attributes:
        partition: Which.
        position: Where the next records are to start.
        end: The offset after the last one.
        size: Bytes not opened.
        batches: Batches not opened yet.
        damage: What follows the last good batch, if it cannot be read.
        wanted_size: Where even the first batch was cut, the bytes that a fetch has to bring for more of it to be seen:
            all of it, once its size is; else 0.
    """

    __slots__ = ("batches", "damage", "end", "partition", "position", "size", "wanted_size")

    def __init__(
        self, partition: TopicPartition, position: int, data: memoryview, aborted: Sequence[AbortedTransaction]
    ) -> None:
        """Walk the headers in ``data``.

        Args:
            partition: Where it is from.
            position: The offset that was asked for.
            data: The record set.
            aborted: Transactions to leave out, with ``read_committed``.
        """
        self.partition = partition
        self.position = position
        self.damage: KafkaError | None = None
        self.wanted_size = 0
        self.end = position
        found: list[RecordBatch] = []
        self.batches: deque[RecordBatch] = deque()
        passed = 0
        try:
            for batch in decode(data, check_crc=False):
                if batch.next_offset > position:
                    found.append(batch)
                else:
                    passed += batch.size_in_bytes
            if data and not found:
                # Without its first field and its length, a batch does not tell its size.
                self.wanted_size = passed + (first_batch_size(data[passed:]) or LOG_OVERHEAD)
                raise CorruptRecordError("not one whole record batch was sent")
        except CorruptRecordError as error:
            self.damage = error
        self.end = found[-1].next_offset if found else position
        try:
            self.batches.extend(visible(found, aborted))
        except CorruptRecordError as error:
            self.damage = error
        self.size = sum(batch.size_in_bytes for batch in self.batches)

    @property
    def exhausted(self) -> bool:
        """Whether there is nothing left to open."""
        return not self.batches and self.damage is None

    def take(self) -> int:
        """Take the first batch out, which was opened. Returns the offset to go on from after it."""
        batch = self.batches.popleft()
        self.size -= batch.size_in_bytes
        return batch.next_offset if self.batches or self.damage else self.end


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
