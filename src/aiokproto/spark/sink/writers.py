"""The classes that Spark calls for at-least-once writes, of batches and of streams.

Spark pickles writers, so they hold only values, not connections. For a stream Spark creates a writer on the driver for
every batch, and pickles it. If a batch is run again after a failure, all of it is written again.

Spark before 4.1 passes a stream's rows as Python objects, which is several times slower.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pyspark import TaskContext
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from aiokproto.errors import ConfigurationError
from aiokproto.spark.entry_points import without_traceback
from aiokproto.spark.sink.options import WriteOptions
from aiokproto.spark.sink.rows import from_rows
from aiokproto.spark.sink.tasks import WriteError, write_rows
from aiokproto.spark.worker import worker
from aiokproto.texts import counted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as StreamWriter

__all__ = ["HAS_ARROW", "KafkaStreamWriter", "KafkaWriter", "StreamWriter", "WrittenRows", "summary", "write_in_task"]

logger = logging.getLogger("aiokproto.spark")

HAS_ARROW = hasattr(datasource, "DataSourceStreamArrowWriter")
if not TYPE_CHECKING:
    StreamWriter = datasource.DataSourceStreamArrowWriter if HAS_ARROW else datasource.DataSourceStreamWriter


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
        """Write the rows of a task, and return once each is acknowledged."""
        return write_in_task(self._options, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log how much was written. The rows are in the topics already."""
        logger.info("wrote %s", summary(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Log how much the tasks that didn't fail have written. Their rows stay in the topics."""
        logger.warning("the write failed; its finished tasks have written %s", summary(messages))


class KafkaStreamWriter(StreamWriter):
    """Writes the rows of a stream's batch in tasks."""

    def __init__(self, options: WriteOptions, columns: Sequence[tuple[str, str]]) -> None:
        """``columns`` are pairs of name and type, in Spark's notation."""
        if options.payloads and not HAS_ARROW:
            raise ConfigurationError(f"{options.payloads[0].option('format')} in a stream needs PySpark 4.1 or later")
        self._options = options
        self._columns = columns

    @without_traceback
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRows:
        """Write the rows of a task, and return once each is acknowledged."""
        if HAS_ARROW:
            return write_in_task(self._options, iterator)
        rows = cast("Iterator[tuple[Any, ...]]", iterator)
        return write_in_task(self._options, from_rows(rows, self._columns))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Log how much was written. The rows are in the topics already."""
        logger.info("batch %d: wrote %s", batchId, summary(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Log how much the tasks that didn't fail have written. Their rows stay in the topics."""
        logger.warning("batch %d failed; its finished tasks have written %s", batchId, summary(messages))


def write_in_task(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> WrittenRows:
    """Write the rows of a task. Its errors name the task."""
    context = TaskContext.get()
    try:
        return WrittenRows(*write_rows(worker(), options, batches))
    except WriteError as error:
        number = "?" if context is None else context.partitionId()
        raise WriteError(f"task {number}: {error}") from None


def summary(messages: Sequence[WriterCommitMessage | None]) -> str:
    """Return how much the tasks have written, for a line in the log; None stands for a task that failed."""
    written = [message for message in messages if isinstance(message, WrittenRows)]
    rows, size = sum(message.rows for message in written), sum(message.size for message in written)
    return f"{counted(rows, 'row')} ({counted(size, 'byte')}) in {counted(len(written), 'task')}"
