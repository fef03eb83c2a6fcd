"""A batch on its way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aiokproto.errors import InvalidRecordError, KafkaError
from aiokproto.producer.outcome import DeliveryContext, Outcome
from aiokproto.records import BatchBuilder, BatchRecord, Compression, RecordBatch
from aiokproto.records.patch import clear_producer, set_producer
from aiokproto.records.varint import INT32_MAX
from aiokproto.types import TopicPartition


class ProducerBatch(BatchBuilder):
    """A record batch from its first record to its outcome.

    It *is* the builder its records are written to: one object and one call fewer for every record.

    Attributes:
        where: The partition it goes to.
        number: Its place among the partition's batches.
        created: When it was opened (s, the accumulator's clock); linger and delivery timeout count from here.
        reserved: Bytes of the budget that it holds.
        data: The finished batch; None until it is sealed.
        attempts: How often it was sent.
        last_error: Why the last attempt failed.
        producer: Producer id and epoch it was stamped with, while ``sequence`` is not -1.
        sequence: The idempotent producer's sequence of its first record; -1 before its first sending.
        outcome: What becomes of its records.
    """

    __slots__ = (
        "attempts",
        "created",
        "data",
        "last_error",
        "number",
        "outcome",
        "producer",
        "reserved",
        "sequence",
        "where",
    )

    def __init__(
        self,
        where: TopicPartition,
        number: int,
        created: float,
        context: DeliveryContext,
        *,
        max_bytes: int,
        compression: Compression = Compression.NONE,
        level: int | None = None,
    ) -> None:
        super().__init__(compression=compression, level=level, max_bytes=max_bytes)
        self.where = where
        self.number = number
        self.created = created
        self.outcome = Outcome(where, context)
        self.reserved = 0
        self.data: bytearray | None = None
        self.attempts = 0
        self.last_error: KafkaError | None = None
        self.producer = (-1, -1)
        self.sequence = -1

    def __str__(self) -> str:
        return f"{self.count} records for {self.where}"

    def grow(self, max_bytes: int) -> None:
        """Let it take records up to ``max_bytes``."""
        self.max_bytes = max_bytes

    @property
    def wire_size(self) -> int:
        """Bytes it takes in a request; before it is sealed, without what compression saves."""
        return self.size if self.data is None else len(self.data)

    def seal(self) -> bytearray:
        """The finished batch, with producer and sequence as they are now. May take long if it ``compresses``."""
        producer_id, epoch = self.producer
        if self.data is None:
            self.data = self.close(producer_id=producer_id, producer_epoch=epoch, base_sequence=self.sequence)
        return self.data

    @property
    def compresses(self) -> bool:
        """Whether sealing it means compressing it."""
        return self.data is None and self._compression is not Compression.NONE

    def stamp(self, producer_id: int, epoch: int, sequence: int) -> None:
        """Say who sends it. A batch that was sealed before keeps its records and gets a new header."""
        self.producer = (producer_id, epoch)
        self.sequence = sequence
        if self.data is not None:
            set_producer(self.data, 0, producer_id, epoch, sequence)

    # -- outcome

    def complete(self, base_offset: int, append_time: int = -1) -> None:
        """It is in the log, at ``base_offset`` if that is not -1; with the broker's timestamp, if it has set one."""
        self.data = None
        self.outcome.complete(self.count, base_offset, append_time)

    def fail(self, error: KafkaError, record_errors: dict[int, KafkaError] | None = None) -> None:
        """It is not, or nobody knows. ``record_errors`` say so of single records, by place in the batch (KIP-467)."""
        self.data = None
        self.outcome.fail(self.count, error, record_errors)

    def part(self, records: Iterable[BatchRecord], start: int, context: DeliveryContext) -> ProducerBatch:
        """Some of its records as a batch in its place, from the one at ``start`` on."""
        part = ProducerBatch(
            self.where,
            self.number,
            self.created,
            context,
            max_bytes=INT32_MAX,
            compression=self._compression,
            level=self._level,
        )
        for record in records:
            part.append(record.timestamp, record.key, record.value, record.headers)
        part.attempts = self.attempts
        if self.sequence >= 0:
            part.stamp(*self.producer, (self.sequence + start) & 0x7FFFFFFF)
        return part

    def split_into(self, parts: Sequence[ProducerBatch]) -> None:
        """From now on ``parts`` together stand for this batch: its outcome is theirs."""
        self.data = None
        self.outcome.split_into([(part.outcome, part.count) for part in parts])

    @property
    def done(self) -> bool:
        """Whether its outcome is known."""
        return self.outcome.done


class EncodedBatch(ProducerBatch):
    """A batch that was written before and is sent again as it is. It takes no records; those it has are not opened.

    Attributes:
        count: How many records it has. The writer, which wrote none of them, knows of none.
    """

    __slots__ = ("count",)

    def __init__(
        self, where: TopicPartition, number: int, created: float, context: DeliveryContext, stored: RecordBatch
    ) -> None:
        """Copy the bytes of ``stored``: it is a view of what may be much more."""
        super().__init__(where, number, created, context, max_bytes=0, compression=stored.compression)
        self.count = stored.count
        self.data = bytearray(stored.raw)
        clear_producer(self.data, 0)


def invalid_records(batch: ProducerBatch, messages: dict[int, str | None], why: KafkaError) -> dict[int, KafkaError]:
    """An error for each record of a batch in which the broker refused the records that ``messages`` names (KIP-467)."""
    others = InvalidRecordError(f"{batch.where}: not written, as other records of its batch were refused: {why}")
    errors: dict[int, KafkaError] = dict.fromkeys(range(batch.count), others)
    for index, message in messages.items():
        errors[index] = InvalidRecordError(f"{batch.where}: the broker refused the record: {message or why}")
    return errors
