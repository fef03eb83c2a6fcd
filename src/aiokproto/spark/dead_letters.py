"""Writes the malformed records of a task to a separate topic.

A letter is acknowledged before Spark gets the rows around it. If the task fails after that, and Spark runs it again, it
writes the letter again: letters are written at least once.

The producer accepts letters as large as any record that is read. The broker decides how large they may be.
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
"""Minimum memory for letters that aren't acknowledged yet: the producer's default."""

_MAX_HEADER_BYTES = 64 << 10
"""Maximum bytes that the letter's own headers take."""


class DeadLetters:
    """Writes the malformed records of a task. It connects when the first one appears."""

    def __init__(self, worker: Worker, options: ReadOptions, topic: str) -> None:
        """``options`` define the connection; the letters go to ``topic``."""
        self._worker = worker
        largest = options.fetch.max_record + _MAX_HEADER_BYTES
        self._options = {
            **options.connection,
            "max_request_size": largest,
            "buffer_memory": max(largest, BUFFER_MEMORY),
        }
        self._topic = topic

    def write(self, records: Columns, malformed: Mapping[int, str], partition: TopicPartition) -> None:
        """Write malformed records, and wait until all are acknowledged.

        Args:
            records: Records of a partition.
            malformed: The index of each record to write, and what is wrong with it.
            partition: Their partition.

        Raises:
            KafkaError: A letter couldn't be written. Some of the others may be in the topic.
        """
        # Import it here: most tasks have no malformed records.
        from aiokproto.consumer.dead_letters import DeadLetterTopic

        producer = self._worker.producer(self._options)
        letters = DeadLetterTopic(self._topic, producer)
        try:
            self._worker.start(_write(letters, records, malformed, partition)).result()
        # Discard the producer even if Spark interrupts the task: nothing waits for its letters any more.
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
