"""A batch on its way: the records, what happened to them, and who wants to know."""

from __future__ import annotations

import logging
from collections.abc import Callable

from aiokproto.errors import InvalidRecordError, KafkaError
from aiokproto.records import BatchBuilder, Compression
from aiokproto.records.patch import set_producer
from aiokproto.types import RecordMetadata, TopicPartition

log = logging.getLogger("aiokproto.producer")


class Losses:
    """Counts the records whose failure nobody asked about."""

    def __init__(self) -> None:
        self.records = 0


class Batch(BatchBuilder):
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
        done: Whether its outcome is known.
        error: What it failed with, once done.
        base_offset: Offset of its first record, once done; -1 when not known.
        append_time: The broker's timestamp for all its records (ms), or -1.
        observed: Whether anybody has asked for the outcome.
    """

    __slots__ = (
        "_parent",
        "_parts",
        "_record_errors",
        "_waiting",
        "append_time",
        "attempts",
        "base_offset",
        "created",
        "data",
        "done",
        "error",
        "last_error",
        "losses",
        "number",
        "observed",
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
        losses: Losses,
        *,
        max_bytes: int,
        compression: Compression = Compression.NONE,
        level: int | None = None,
    ) -> None:
        super().__init__(compression=compression, level=level, max_bytes=max_bytes)
        self.where = where
        self.number = number
        self.created = created
        self.losses = losses
        self.reserved = 0
        self.data: bytearray | None = None
        self.attempts = 0
        self.last_error: KafkaError | None = None
        self.producer = (-1, -1)
        self.sequence = -1
        self.done = False
        self.error: KafkaError | None = None
        self.base_offset = -1
        self.append_time = -1
        self.observed = False
        self._waiting: list[Callable[[], object]] = []
        self._record_errors: dict[int, KafkaError] = {}
        self._parts: list[Batch] | None = None
        self._parent: Batch | None = None

    def __str__(self) -> str:
        return f"{self.count} records for {self.where}"

    def grow(self, max_bytes: int) -> None:
        """Let it take records up to ``max_bytes``."""
        self._max_bytes = max_bytes

    @property
    def max_bytes(self) -> int:
        """The size, before compression, up to which it takes records."""
        return self._max_bytes or 0

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

    def finish(
        self,
        *,
        base_offset: int = -1,
        append_time: int = -1,
        error: KafkaError | None = None,
        record_errors: dict[int, KafkaError] | None = None,
    ) -> None:
        """Set the outcome and tell who waits for it. Without an error the batch is in the log.

        Args:
            base_offset: Where it is.
            append_time: The broker's timestamp, if the topic has LogAppendTime.
            error: Why it failed.
            record_errors: More precisely for single records, by place in the batch (KIP-467).
        """
        self.base_offset = base_offset
        self.append_time = append_time
        self.error = error
        self._record_errors = record_errors or {}
        self._close_outcome()

    def divide(self, parts: list[Batch]) -> None:
        """From now on ``parts`` together stand for this batch: its outcome is theirs."""
        self._parts = parts
        for part in parts:
            part._parent = self

    def _close_outcome(self) -> None:
        self.done = True
        self.data = None
        waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()
        parent, self._parent = self._parent, None
        if parent is not None:
            # Whoever holds a record of a part asks the parent.
            self.observed = True
            parent.error = parent.error or self.error
            if all(part.done for part in parent._parts or ()):
                parent._close_outcome()

    def when_done(self, wake: Callable[[], object]) -> None:
        """Call ``wake`` once the outcome is known."""
        self._waiting.append(wake)

    def forget(self, wake: Callable[[], object]) -> None:
        """Undo :meth:`when_done`."""
        if wake in self._waiting:
            self._waiting.remove(wake)

    def outcome(self, index: int, timestamp: int) -> RecordMetadata | KafkaError:
        """What became of the record at ``index``, which was given ``timestamp``. The batch must be done."""
        self.observed = True
        if self._parts is not None:
            for part in self._parts:
                if index < part.count:
                    return part.outcome(index, timestamp)
                index -= part.count
        if self.error is not None:
            return self._record_errors.get(index, self.error)
        return RecordMetadata(
            self.where.topic,
            self.where.partition,
            self.base_offset + index if self.base_offset >= 0 else -1,
            timestamp if self.append_time < 0 else self.append_time,
        )

    def __del__(self) -> None:
        # Nobody can ask any more. An error that passes silently here is data that is lost silently.
        if getattr(self, "error", None) is not None and not self.observed:
            self.losses.records += self.count
            log.error("%s were not delivered, and nobody asked: %s", self, self.error)


def invalid_records(batch: Batch, messages: dict[int, str | None], why: KafkaError) -> dict[int, KafkaError]:
    """An error for each record of a batch in which the broker refused the records that ``messages`` names (KIP-467)."""
    others = InvalidRecordError(f"{batch.where}: not written, as other records of its batch were refused: {why}")
    errors: dict[int, KafkaError] = dict.fromkeys(range(batch.count), others)
    for index, message in messages.items():
        errors[index] = InvalidRecordError(f"{batch.where}: the broker refused the record: {message or why}")
    return errors
