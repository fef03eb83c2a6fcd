"""The data source: the classes that Spark calls.

Only this module, and those that subclass its classes, import pyspark at import time. Spark pickles sources, readers and
partitions: they hold values only, no connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import astuple, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
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

from aiokproto.errors import ConfigurationError, KafkaError
from aiokproto.spark.offsets import OffsetRange, split
from aiokproto.spark.options import ReadOptions, chosen_columns, parse_options, parse_read_options
from aiokproto.spark.planning import plan_now
from aiokproto.spark.reading import read_range
from aiokproto.spark.worker import worker

if TYPE_CHECKING:
    import pyarrow as pa

P = ParamSpec("P")
R = TypeVar("R")

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


def brief(method: Callable[P, R]) -> Callable[P, R]:
    """Remove the traceback from a KafkaError that a method raises.

    Spark shows an error as text, with all frames before the message, and the user of a KafkaError needs the message.
    Other errors are bugs, and keep their traceback.
    """

    @wraps(method)
    def call(*args: P.args, **options: P.kwargs) -> R:
        try:
            return method(*args, **options)
        except KafkaError as error:
            raise error.with_traceback(None) from None

    return call


class KafkaDataSource(DataSource):
    """Kafka topics as a table: ``spark.read.format("aiokproto")``.

    Options have the same names as in Spark's own connector: see :mod:`aiokproto.spark.options`.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format()``. Spark reserves ``kafka`` for its own connector."""
        return "aiokproto"

    @brief
    def schema(self) -> StructType:
        """Return the columns that the options define.

        Spark does not tell this method whether the read is a batch or a stream, so options may be missing.

        Raises:
            ConfigurationError: An option is unknown or refused, or has an invalid value.
        """
        return StructType([StructField(name, TYPES[name]) for name in chosen_columns(parse_options(self.options))])

    @brief
    def reader(self, schema: StructType) -> KafkaReader:
        """Return a reader of the columns of :meth:`schema`, or of some of them if the user passed a schema.

        Raises:
            ConfigurationError: The options or the schema are invalid.
        """
        options = parse_read_options(self.options)
        for field in schema.fields:
            if field.name not in options.columns or field.dataType != TYPES[field.name]:
                valid = ", ".join(f"{name} {TYPES[name].simpleString()}" for name in options.columns)
                raise ConfigurationError(
                    f"schema: {field.name} {field.dataType.simpleString()} is not a column; valid are {valid}"
                )
        return KafkaReader(replace(options, columns=tuple(schema.names)))

    def streamReader(self, schema: StructType) -> UnsupportedStreamReader:
        """Return a reader that raises NotImplementedError: streaming reads are not supported yet."""
        return UnsupportedStreamReader()

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Not supported yet."""
        raise NotImplementedError("aiokproto: writing is not supported yet")

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Not supported yet."""
        raise NotImplementedError("aiokproto: writing is not supported yet")


class KafkaReader(DataSourceReader):
    """Plans a batch read on the driver, and reads a range of it in each task."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    @brief
    def partitions(self) -> list[InputPartition]:
        """Return the ranges to read, one per task; or a single None if there is nothing to read."""
        options = self._options
        ranges = split(plan_now(options).ranges, options.min_partitions, options.max_records_per_partition)
        # For an empty list Spark creates a partition itself, whose value differs between releases.
        return [InputPartition(astuple(one)) for one in ranges] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range, as Arrow batches."""
        if partition.value is None:
            return
        try:
            yield from read_range(worker(), OffsetRange(*partition.value), self._options)
        except KafkaError as error:
            raise error.with_traceback(None) from None


class UnsupportedStreamReader(DataSourceStreamReader):
    """Raises the error that streams cannot be read. Spark hides an error that is raised before it has a reader."""

    def initialOffset(self) -> NoReturn:
        """Raise the error: Spark calls this when a stream begins."""
        raise NotImplementedError("aiokproto: streaming reads are not supported yet")

    def latestOffset(self, start: Any = None, limit: Any = None) -> NoReturn:
        """Raise the error: Spark calls this when a stream continues."""
        self.initialOffset()

    def read(self, partition: InputPartition) -> NoReturn:
        """Raise the error. Spark never calls this, because a stream fails before."""
        self.initialOffset()
