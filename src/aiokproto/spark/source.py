"""The data source: what Spark calls.

The only modules that import pyspark when they are imported are this one and those beside it that derive from its
classes. Sources, readers and partitions are pickled: they hold values only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from aiokproto.errors import ConfigurationError
from aiokproto.spark.offsets import OffsetRange, split
from aiokproto.spark.options import ReadOptions, parse_read_options
from aiokproto.spark.planning import plan_now
from aiokproto.spark.reading import read_range
from aiokproto.spark.worker import worker

if TYPE_CHECKING:
    import pyarrow as pa

HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])

TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(HEADER),
}
"""The columns as in Spark's own Kafka source, all of them nullable."""


class KafkaDataSource(DataSource):
    """Kafka topics as a table: ``spark.read.format("aiokproto")``.

    Options have the names they have in Spark's own connector: see :mod:`aiokproto.spark.options`.
    """

    @classmethod
    def name(cls) -> str:
        """What ``format()`` takes. ``kafka`` is not to be had: Spark keeps it for its own connector."""
        return "aiokproto"

    def schema(self) -> StructType:
        """The columns that the options ask for.

        Raises:
            ConfigurationError: The options cannot be used.
        """
        return StructType([StructField(name, TYPES[name]) for name in self._read_options().columns])

    def reader(self, schema: StructType) -> KafkaReader:
        """A reader of these columns: those of :meth:`schema`, or fewer where the user gave a schema.

        Raises:
            ConfigurationError: The options, or the schema, cannot be used.
        """
        options = self._read_options()
        for field in schema.fields:
            if field.name not in options.columns or field.dataType != TYPES[field.name]:
                valid = ", ".join(f"{name} {TYPES[name].simpleString()}" for name in options.columns)
                raise ConfigurationError(f"schema: {field.name} {field.dataType.simpleString()} is none of {valid}")
        return KafkaReader(replace(options, columns=tuple(schema.names)))

    def _read_options(self) -> ReadOptions:
        return parse_read_options(dict(self.options))


class KafkaReader(DataSourceReader):
    """Plans a batch read on the driver, and reads a range of it in each task."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """The ranges to read, one for each task."""
        options = self._options
        ranges = split(plan_now(options).ranges, options.min_partitions, options.max_records_per_partition)
        return [InputPartition(astuple(one)) for one in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a range."""
        # Where there is nothing to read, Spark starts a task all the same, with a partition of its own making.
        if partition.value is None:
            return iter(())
        return read_range(worker(), OffsetRange(*partition.value), self._options)
