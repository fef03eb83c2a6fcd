"""Produces the rows of a task.

The task's thread reads batches from Spark, while the event loop of its process appends the previous batch to the
producer's buffer and sends it. Rows are appended strictly in order, one batch at a time, so the rows of a partition
keep their order.

Memory is bounded: it holds the batch being read, the one being appended, ``kafka.buffer.memory`` bytes of
unacknowledged records in the producer, and 16 bytes for each of at most :data:`MAX_UNACKNOWLEDGED` rows. If the brokers
are slow, appending waits for memory, reading waits for appending, and Spark waits for reading.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiokproto.errors import InvalidRecordError, KafkaError
from aiokproto.producer import BulkDelivery, Producer
from aiokproto.producer.record_sender import RecordSender
from aiokproto.spark.payloads.encoding import PayloadEncoder
from aiokproto.spark.sink.options import WriteOptions
from aiokproto.spark.sink.rows import TopicRows, by_topic
from aiokproto.spark.worker import Worker
from aiokproto.texts import counted

if TYPE_CHECKING:
    import pyarrow as pa

MAX_UNACKNOWLEDGED = 1_000_000
"""Maximum number of rows whose outcome is unknown when more rows are appended. A slow partition holds back the outcomes
of all rows that were appended after its own."""


class WriteError(KafkaError):
    """A row couldn't be written, so its task fails."""


def write_rows(worker: Worker, options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> tuple[int, int]:
    """Write the rows of a task, and wait until each is acknowledged.

    If it raises, rows that weren't sent yet are dropped. Some of the others may be in the log.

    Returns:
        The number of rows, and the bytes of their keys and values.

    Raises:
        WriteError: A row wasn't written. The message has its number in the task, its topic, and the reason.
        KafkaError: No broker can be reached, or the brokers reject this client.
    """
    producer = worker.producer(options.producer)
    writing = Writing(producer, producer, options)
    try:
        writing.write_all(worker, batches)
    # Discard the producer even if Spark interrupts the task: nothing waits for its rows any more.
    except BaseException:
        worker.discard(producer)
        raise
    return writing.rows, writing.size


@dataclass(frozen=True)
class _Pending:
    """Rows of a topic in the producer's buffer; ``numbers`` are their numbers in the task."""

    topic: str
    numbers: Sequence[int]
    delivery: BulkDelivery


class Writing:
    """Writes the rows of a task. Its coroutines run on the producer's event loop.

    Attributes:
        rows: The number of rows that were passed to the producer.
        size: The bytes of their keys and values.
    """

    def __init__(self, producer: Producer, sender: RecordSender[bytes, bytes], options: WriteOptions) -> None:
        """``sender`` takes the rows. It's the producer or its transaction."""
        self._producer = producer
        self._sender = sender
        self._topic = options.topic
        self._encoder = PayloadEncoder(options.payloads) if options.payloads else None
        self._pending: deque[_Pending] = deque()
        self._unacknowledged = 0
        self.rows = 0
        self.size = 0

    def write_all(self, worker: Worker, batches: Iterator[pa.RecordBatch]) -> None:
        """Write the rows from the task's thread, and wait until each is acknowledged.

        Raises:
            WriteError: A row wasn't written.
        """
        appending: Future[None] | None = None
        read = 0
        try:
            for batch in batches:
                encoded = batch if self._encoder is None else self._encoder.encode(batch, read)
                read += len(batch)
                if appending is not None:
                    appending.result()
                appending = worker.start(self.append(encoded))
            if appending is not None:
                appending.result()
            worker.start(self.finish()).result()
        except BaseException as error:
            if appending is not None:
                appending.cancel()
            if isinstance(error, InvalidRecordError):
                raise WriteError(str(error)) from None
            raise

    async def append(self, batch: pa.RecordBatch) -> None:
        """Buffer rows once there is memory for them."""
        try:
            parts = list(by_topic(batch, self._topic, self.rows))
        except InvalidRecordError as error:
            raise WriteError(str(error)) from None
        self.rows += len(batch)
        for part in parts:
            await self._append(part)
        while self._pending and (self._unacknowledged > MAX_UNACKNOWLEDGED or self._pending[0].delivery.done()):
            await self._check_oldest()

    async def finish(self) -> None:
        """Wait until all rows are acknowledged."""
        # No more rows will come, so send the batches that aren't full.
        await self._producer.flush()
        while self._pending:
            await self._check_oldest()

    async def _append(self, part: TopicRows) -> None:
        try:
            part.check_partitions(await self._producer.partitions_for(part.topic))
            delivery = await self._sender.post_many(part.topic, part.table)
        except KafkaError as error:
            raise WriteError(f"topic {part.topic}, rows from {part.numbers[0]} on: {error}") from None
        self.size += part.size
        self._unacknowledged += len(part.numbers)
        self._pending.append(_Pending(part.topic, part.numbers, delivery))

    async def _check_oldest(self) -> None:
        pending = self._pending.popleft()
        errors = (await pending.delivery).errors
        for row, error in errors.items():
            others = f" ({counted(len(errors) - 1, 'more row')} failed with it)" if len(errors) > 1 else ""
            raise WriteError(f"row {pending.numbers[row]}, topic {pending.topic}: {error}{others}")
        self._unacknowledged -= len(pending.numbers)
