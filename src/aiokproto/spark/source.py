"""The data source: what Spark calls.

The only modules that import pyspark when they are imported are this one and those beside it that derive from its
classes. Sources, readers and partitions are pickled: they hold values only.
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
    """Let errors that are for users leave a method without a traceback.

    Spark shows an error as text, all its frames before the message. Others are bugs, and keep them.
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

    Options have the names they have in Spark's own connector: see :mod:`aiokproto.spark.options`.
    """

    @classmethod
    def name(cls) -> str:
        """What ``format()`` takes. ``kafka`` is not to be had: Spark keeps it for its own connector."""
        return "aiokproto"

    @brief
    def schema(self) -> StructType:
        """The columns that the options ask for.

        Spark does not say here whether it wants a batch or a stream, so options may be missing.

        Raises:
            ConfigurationError: An option is unknown or refused, or has a value that cannot be used.
        """
        return StructType([StructField(name, TYPES[name]) for name in chosen_columns(parse_options(self.options))])

    @brief
    def reader(self, schema: StructType) -> KafkaReader:
        """A reader of these columns: those of :meth:`schema`, or fewer where the user gave a schema.

        Raises:
            ConfigurationError: The options, or the schema, cannot be used.
        """
        options = parse_read_options(self.options)
        for field in schema.fields:
            if field.name not in options.columns or field.dataType != TYPES[field.name]:
                valid = ", ".join(f"{name} {TYPES[name].simpleString()}" for name in options.columns)
                raise ConfigurationError(f"schema: {field.name} {field.dataType.simpleString()} is none of {valid}")
        return KafkaReader(replace(options, columns=tuple(schema.names)))

    def streamReader(self, schema: StructType) -> UnsupportedStreamReader:
        """Streams cannot be read yet: the reader says so."""
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
        """The ranges to read, one for each task; or a single None when there is nothing to read."""
        options = self._options
        ranges = split(plan_now(options).ranges, options.min_partitions, options.max_records_per_partition)
        # Given none at all, Spark makes one up, and what it makes differs between releases.
        return [InputPartition(astuple(one)) for one in ranges] or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of a range."""
        if partition.value is None:
            return
        try:
            yield from read_range(worker(), OffsetRange(*partition.value), self._options)
        except KafkaError as error:
            raise error.with_traceback(None) from None


class UnsupportedStreamReader(DataSourceStreamReader):
    """Says that streams cannot be read. Spark does not show what fails before there is a reader."""

    def initialOffset(self) -> NoReturn:
        """Asked for when a stream begins."""
        raise NotImplementedError("aiokproto: streaming reads are not supported yet")

    def latestOffset(self, start: Any = None, limit: Any = None) -> NoReturn:
        """Asked for when a stream goes on."""
        self.initialOffset()

    def read(self, partition: InputPartition) -> NoReturn:
        """Never asked for."""
        self.initialOffset()
