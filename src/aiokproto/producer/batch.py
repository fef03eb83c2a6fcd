"""A record batch from its first record to its outcome."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from aiokproto.errors import InvalidRecordError, KafkaError, UnsupportedVersionError
from aiokproto.net.features import HEADERS, ZSTD
from aiokproto.producer.outcome import DeliveryContext, Outcome
from aiokproto.records import BatchBuilder, BatchRecord, Compression, RecordBatch, decode, encode
from aiokproto.records.patch import clear_producer, set_producer
from aiokproto.records.varint import INT32_MAX
from aiokproto.texts import counted
from aiokproto.types import TopicPartition


class ProducerBatch(BatchBuilder):
    """A record batch of one partition (Java's ``ProducerBatch``).

    It inherits from the builder instead of containing one, which saves an object per batch and a call per record.

    Attributes:
        topic_partition: The partition it goes to.
        number: Its position among the partition's batches.
        created: When it was opened (s, the accumulator's clock). Linger and delivery timeout count from then.
        reserved: Bytes of ``buffer_memory`` that it occupies.
        data: The encoded batch; None before it's sealed and after it's done.
        magic: The format of ``data``: 2, or the format that the leader's broker supports (:meth:`convert`).
        attempts: How many times it was sent.
        last_error: Why the last attempt failed.
        producer: Producer id and epoch, valid while ``sequence`` is not -1.
        sequence: Sequence number of its first record; -1 before it's first sent, and without idempotence.
        outcome: The result of its records.
        timestamps: The timestamps of its records (ms) while ``data`` is in magic 0, which can't store them; otherwise
            None. They're needed because a retry may go to a leader with a later release.
        transactional: Whether its records are part of a transaction.
    """

    __slots__ = (
        "attempts",
        "created",
        "data",
        "last_error",
        "magic",
        "number",
        "outcome",
        "producer",
        "reserved",
        "sequence",
        "timestamps",
        "topic_partition",
        "transactional",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        number: int,
        created: float,
        context: DeliveryContext,
        *,
        max_bytes: int,
        compression: Compression = Compression.NONE,
        level: int | None = None,
        transactional: bool = False,
    ) -> None:
        # Set the flag from the start: a batch is encoded once, and the checksum covers the flag.
        super().__init__(compression=compression, level=level, max_bytes=max_bytes, is_transactional=transactional)
        self.transactional = transactional
        self.topic_partition = topic_partition
        self.number = number
        self.created = created
        self.outcome = Outcome(topic_partition, context)
        self.reserved = 0
        self.data: bytearray | None = None
        self.magic = 2
        self.timestamps: list[int] | None = None
        self.attempts = 0
        self.last_error: KafkaError | None = None
        self.producer = (-1, -1)
        self.sequence = -1

    def __str__(self) -> str:
        return f"{counted(self.count, 'record')} for {self.topic_partition}"

    def grow(self, max_bytes: int) -> None:
        """Accept records up to ``max_bytes``."""
        self.max_bytes = max_bytes

    @property
    def wire_size(self) -> int:
        """Its size in a request (bytes). Before it's sealed, its size without compression."""
        return self.size if self.data is None else len(self.data)

    def seal(self) -> bytearray:
        """Return the encoded batch with its current producer id and sequence number. Slow if the batch
        ``compresses``."""
        producer_id, epoch = self.producer
        # It's sealed once: a retry sends the same bytes, apart from header fields that stamp() may have changed.
        if self.data is None:
            self.data = self.close(producer_id=producer_id, producer_epoch=epoch, base_sequence=self.sequence)
        return self.data

    def convert(self, magic: int) -> bytearray:
        """Encode it in another format, whether or not it's been encoded before. This is slow.

        Records are written in magic 2 whatever the broker's version is: the leader of the partition is known for
        certain only when the batch is sent, and a retry can go to a broker of another release. Java converts in the
        same way.

        Raises:
            UnsupportedVersionError: A record has headers, or the batch is compressed with zstd, which magic 0 and 1
                don't support.
        """
        if self.data is None:
            self.data = self.close(compressed=False)
        records = self.records()
        if magic == 2:
            (producer_id, epoch), sequence = self.producer, self.sequence
            data = encode(
                records,
                compression=self._compression,
                level=self._level,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                is_transactional=self.transactional,
            )
            self.timestamps = None
        else:
            for feature, used in (
                (HEADERS, any(record.headers for record in records)),
                (ZSTD, self._compression is Compression.ZSTD),
            ):
                if used:
                    # Produce v2 was the last with magic 1, and v1 the last with magic 0.
                    raise UnsupportedVersionError(f"{self}: {feature.refused('the leader', magic + 1)}")
            self.timestamps = None if magic else [record.timestamp for record in records]
            data = encode(records, magic=magic, compression=self._compression, level=self._level)
        self.data, self.magic = bytearray(data), magic
        return self.data

    def records(self) -> list[BatchRecord]:
        """Return the records of a batch that has been encoded, in any format."""
        assert self.data is not None, "it was encoded, and is not done"
        records = [record for batch in decode(self.data, check_crc=False) for record in batch]
        if self.timestamps is None:
            return records
        return [
            BatchRecord(record.offset, timestamp, record.key, record.value, record.headers)
            for record, timestamp in zip(records, self.timestamps, strict=True)
        ]

    @property
    def compresses(self) -> bool:
        """Whether :meth:`seal` will compress it."""
        return self.data is None and self._compression is not Compression.NONE

    def stamp(self, producer_id: int, epoch: int, sequence: int) -> None:
        """Set producer id, epoch and sequence number. In a sealed batch only the header and the checksum change."""
        self.producer = (producer_id, epoch)
        self.sequence = sequence
        if self.data is not None and self.magic == 2:
            set_producer(self.data, 0, producer_id, epoch, sequence)

    # -- outcome

    def complete(self, base_offset: int, append_time: int = -1) -> None:
        """Complete it: it's in the log at ``base_offset`` (-1 if unknown). ``append_time`` is for LogAppendTime
        (ms)."""
        # This frees megabytes that aren't needed any more. Deliveries may keep the outcome for a long time.
        self.data = None
        self.outcome.complete(self.count, base_offset, append_time)

    def fail(self, error: KafkaError, record_errors: dict[int, KafkaError] | None = None) -> None:
        """Fail it. ``record_errors`` maps the indexes of individual records to their errors (KIP-467)."""
        self.data = None
        self.outcome.fail(self.count, error, record_errors)

    def part(self, records: Iterable[BatchRecord], start: int, context: DeliveryContext) -> ProducerBatch:
        """Return a new batch with some of its records, beginning with the one at index ``start``.

        The part keeps the number, age, attempts and sequence numbers, because the parts replace the batch.
        """
        part = ProducerBatch(
            self.topic_partition,
            self.number,
            self.created,
            context,
            # The part has no limit: these records were already accepted as one batch.
            max_bytes=INT32_MAX,
            compression=self._compression,
            level=self._level,
            transactional=self.transactional,
        )
        for record in records:
            part.append(record.timestamp, record.key, record.value, record.headers)
        part.attempts = self.attempts
        if self.sequence >= 0:
            # The records keep their numbers: the broker rejected the batch, so none of them are in its log.
            part.stamp(*self.producer, (self.sequence + start) & 0x7FFFFFFF)
        return part

    def split_into(self, parts: Sequence[ProducerBatch]) -> None:
        """Replace this batch with ``parts``. Its outcome follows from theirs."""
        self.data = None
        self.outcome.split_into([(part.outcome, part.count) for part in parts])

    @property
    def done(self) -> bool:
        """Whether its outcome is known."""
        return self.outcome.done


class EncodedBatch(ProducerBatch):
    """A batch that was encoded elsewhere and is sent unchanged, without decoding its records. It accepts no more
    records.

    Attributes:
        count: The number of its records; it shadows the builder's count, which is 0.
    """

    __slots__ = ("count",)

    def __init__(
        self,
        topic_partition: TopicPartition,
        number: int,
        created: float,
        context: DeliveryContext,
        stored: RecordBatch,
        *,
        transactional: bool = False,
    ) -> None:
        """Copy the bytes of ``stored``, which is often a view of a whole Fetch response."""
        super().__init__(
            topic_partition,
            number,
            created,
            context,
            max_bytes=0,
            compression=stored.compression,
            transactional=transactional,
        )
        self.count = stored.count
        self.data = bytearray(stored.raw)
        clear_producer(self.data, 0, transactional=transactional)


def invalid_records(batch: ProducerBatch, messages: dict[int, str | None], why: KafkaError) -> dict[int, KafkaError]:
    """Return an error for each record of a batch after the broker rejected the records in ``messages`` (KIP-467)."""
    # The other records share one error object: a batch can have a hundred thousand records.
    others = InvalidRecordError(
        f"{batch.topic_partition}: not written, because the broker rejected other records of its batch: {why}"
    )
    errors: dict[int, KafkaError] = dict.fromkeys(range(batch.count), others)
    for index, message in messages.items():
        errors[index] = InvalidRecordError(f"{batch.topic_partition}: the broker rejected the record: {message or why}")
    return errors
