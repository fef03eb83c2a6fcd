"""The class that Spark calls for each batch of a stream that is written.

Spark makes one on the driver for every batch, and pickles it. A batch that is run again after a failure is written
again, as a whole.

Before 4.1 Spark hands rows to streams as Python objects, which cost several times as much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import datasource
from pyspark.sql.datasource import WriterCommitMessage

from aiokproto.errors import ConfigurationError
from aiokproto.spark.entry_points import without_traceback
from aiokproto.spark.sink.batch_writer import WrittenRows, logger, summary, write_in_task
from aiokproto.spark.sink.options import WriteOptions
from aiokproto.spark.sink.rows import from_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as StreamWriter

__all__ = ["HAS_ARROW", "KafkaStreamWriter", "StreamWriter"]

HAS_ARROW = hasattr(datasource, "DataSourceStreamArrowWriter")
if not TYPE_CHECKING:
    StreamWriter = datasource.DataSourceStreamArrowWriter if HAS_ARROW else datasource.DataSourceStreamWriter


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
        """Write the rows of a task; returns once each is acknowledged."""
        if HAS_ARROW:
            return write_in_task(self._options, iterator)
        rows = cast("Iterator[tuple[Any, ...]]", iterator)
        return write_in_task(self._options, from_rows(rows, self._columns))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Log what was written: it is in the topics already."""
        logger.info("batch %d: wrote %s", batchId, summary(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Log what was written by the tasks that did not fail: it stays in the topics."""
        logger.warning("batch %d failed; its finished tasks have written %s", batchId, summary(messages))
