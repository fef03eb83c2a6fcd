"""The class that Spark calls for a batch read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import astuple
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from aiokproto.spark.entry_points import read_partition, without_traceback
from aiokproto.spark.offsets import split
from aiokproto.spark.options import ReadOptions
from aiokproto.spark.planning import plan_now
from aiokproto.spark.pushdown import Conditions, parse_filters

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter


class KafkaReader(DataSourceReader):
    """Plans a batch read on the driver, and reads a range of it in each task."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._conditions: Conditions | None = None

    @without_traceback
    def partitions(self) -> list[InputPartition]:
        """Return the ranges to read, one per task; or a single None if there is nothing to read."""
        options = self._options
        ranges = split(
            plan_now(options, conditions=self._conditions).ranges,
            options.min_partitions,
            options.max_records_per_partition,
        )
        # For an empty list Spark would create a partition itself, with a value that differs between releases.
        return [InputPartition(astuple(one)) for one in ranges] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range, as Arrow batches."""
        return read_partition(partition, self._options)


class PushdownReader(KafkaReader):
    """A reader that receives the filters of the query. It needs Spark 4.1 or later.

    It's a separate class: if ``spark.sql.python.filterPushdown.enabled`` is false, which is the default, Spark refuses
    any reader that has the method ``pushFilters``.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Plan to read only the records that the filters allow. Return all filters: Spark has to check them again."""
        self._conditions = parse_filters(filters)
        return filters
