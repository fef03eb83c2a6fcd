"""The class that Spark calls for a batch write, and what streams share with it.

Spark pickles writers: they hold values only, no connections.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from aiokproto.spark.entry_points import without_traceback
from aiokproto.spark.sink.options import WriteOptions
from aiokproto.spark.sink.tasks import WriteError, write_rows
from aiokproto.spark.worker import worker
from aiokproto.texts import counted

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger("aiokproto.spark")


@dataclass
class WrittenRows(WriterCommitMessage):
    """What a task has written.

    Attributes:
        rows: The number of rows, each of which is acknowledged.
        size: The bytes of their keys and values.
    """

    rows: int
    size: int


class KafkaWriter(DataSourceArrowWriter):
    """Writes the rows of a batch in tasks."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    @without_traceback
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRows:
        """Write the rows of a task; returns once each is acknowledged."""
        return write_in_task(self._options, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log what was written: it is in the topics already."""
        logger.info("wrote %s", summary(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log what was written by the tasks that did not fail: it stays in the topics."""
        logger.warning("the write failed; its finished tasks have written %s", summary(messages))


def write_in_task(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> WrittenRows:
    """Write the rows of a task; errors name it."""
    context = TaskContext.get()
    try:
        return WrittenRows(*write_rows(worker(), options, batches))
    except WriteError as error:
        number = "?" if context is None else context.partitionId()
        raise WriteError(f"task {number}: {error}") from None


def summary(messages: Sequence[WriterCommitMessage | None]) -> str:
    """Return how much some tasks have written, for a line in the log; None stands for a task that failed."""
    written = [one for one in messages if isinstance(one, WrittenRows)]
    rows, size = sum(one.rows for one in written), sum(one.size for one in written)
    return f"{counted(rows, 'row')} ({counted(size, 'byte')}) in {counted(len(written), 'task')}"
