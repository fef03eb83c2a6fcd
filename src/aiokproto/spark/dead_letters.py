"""Malformed records of a task, written to a topic of their own.

A letter is acknowledged before Spark gets the rows around it. A task that fails after that writes it again when Spark
repeats it: at least once.

A letter may be as large as a record that is read: what the topic takes, the broker decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from aiokproto.errors import KafkaError, said_of
from aiokproto.spark.options import ReadOptions
from aiokproto.spark.payloads.columns import PayloadError
from aiokproto.spark.worker import Worker
from aiokproto.types import Record, TopicPartition

if TYPE_CHECKING:
    from aiokproto.consumer.dead_letters import DeadLetterTopic
    from aiokproto.records.columns import Columns


BUFFER_MEMORY = 32 << 20
"""Least memory for letters that are not acknowledged: the producer's default."""

_HEADERS = 64 << 10
"""Most bytes that a letter has more than its record."""


class DeadLetters:
    """Writes the malformed records of a task. Nothing is connected before there is one."""

    def __init__(self, worker: Worker, options: ReadOptions, topic: str) -> None:
        """``options`` have the connection; the letters go to ``topic``."""
        self._worker = worker
        largest = options.fetch.max_record + _HEADERS
        self._options = {
            **options.connection,
            "max_request_size": largest,
            "buffer_memory": max(largest, BUFFER_MEMORY),
        }
        self._topic = topic

    def write(self, records: Columns, malformed: Mapping[int, str], partition: TopicPartition) -> None:
        """Write records, and wait until all are acknowledged.

        Args:
            records: Records of a partition.
            malformed: The numbers of those to write, each with what is wrong with it.
            partition: Their partition.

        Raises:
            KafkaError: A letter could not be written; some of the others may be.
        """
        # Here, since most tasks have none.
        from aiokproto.consumer.dead_letters import DeadLetterTopic

        producer = self._worker.producer(self._options)
        letters = DeadLetterTopic(self._topic, producer)
        try:
            self._worker.start(_write(letters, records, malformed, partition)).result()
        # Also when Spark interrupts the task. The producer has letters that nobody waits for any more.
        except BaseException:
            self._worker.discard(producer)
            raise


async def _write(
    letters: DeadLetterTopic, records: Columns, malformed: Mapping[int, str], partition: TopicPartition
) -> None:
    headers = records.headers()
    deliveries = []
    for row, problem in sorted(malformed.items()):
        record = Record(
            *partition,
            int(records.offset[row]),
            int(records.timestamp[row]),
            records.key[row],
            records.value[row],
            headers[row],
        )
        deliveries.append((record, await letters.post(record, PayloadError(problem))))
    for record, delivery in deliveries:
        try:
            await delivery
        except KafkaError as error:
            raise said_of(error, letters.unwritten(record)) from error
