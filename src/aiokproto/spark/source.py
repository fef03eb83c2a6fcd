"""The data source: it chooses the classes that Spark calls.

Only this module, and those that subclass PySpark's classes, import pyspark at import time.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.datasource import DataSource
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
from aiokproto.spark.batch_reader import KafkaReader, brief
from aiokproto.spark.options import ReadOptions, chosen_columns, parse_options, parse_read_options
from aiokproto.spark.sink.batch_writer import KafkaWriter
from aiokproto.spark.sink.exactly_once.writers import TransactionalStreamWriter, TransactionalWriter
from aiokproto.spark.sink.options import parse_write_options
from aiokproto.spark.sink.rows import check_schema
from aiokproto.spark.sink.stream_writer import KafkaStreamWriter
from aiokproto.spark.stream.options import parse_stream_options
from aiokproto.spark.stream.stream_reader import FailedStreamReader, KafkaStreamReader

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
    """Kafka topics as a table: ``spark.read.format("aiokproto")``, and as a sink: ``df.write.format("aiokproto")``.

    Options have the same names as in Spark's own connector: see :mod:`aiokproto.spark.options`, and
    :mod:`aiokproto.spark.sink.options` for writing.
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
        return KafkaReader(_with_columns(parse_read_options(self.options), schema))

    def streamReader(self, schema: StructType) -> KafkaStreamReader | FailedStreamReader:
        """Return a reader of a stream, with columns as for :meth:`reader`."""
        try:
            options = parse_stream_options(self.options)
            return KafkaStreamReader(replace(options, read=_with_columns(options.read, schema)))
        # Spark hides an error that is raised before it has a reader.
        except ConfigurationError as error:
            return FailedStreamReader(str(error))

    @brief
    def writer(self, schema: StructType, overwrite: bool) -> KafkaWriter | TransactionalWriter:
        """Return a writer of a batch.

        Raises:
            ConfigurationError: The options, the schema or the mode are invalid.
        """
        if overwrite:
            raise ConfigurationError('mode("overwrite"): records of a topic cannot be replaced; use mode("append")')
        options = parse_write_options(self.options)
        check_schema(_columns(schema), options.topic)
        if options.transactions is not None:
            return TransactionalWriter(options, options.transactions)
        return KafkaWriter(options)

    @brief
    def streamWriter(self, schema: StructType, overwrite: bool) -> KafkaStreamWriter | TransactionalStreamWriter:
        """Return a writer of the batches of a stream; in the mode "complete" each has all rows, and is appended.

        Raises:
            ConfigurationError: The options or the schema are invalid.
        """
        options = parse_write_options(self.options, stream=True)
        check_schema(_columns(schema), options.topic)
        if options.transactions is not None:
            return TransactionalStreamWriter(options, options.transactions, _columns(schema))
        return KafkaStreamWriter(options, _columns(schema))


def _columns(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]


def _with_columns(options: ReadOptions, schema: StructType) -> ReadOptions:
    for field in schema.fields:
        if field.name not in options.columns or field.dataType != TYPES[field.name]:
            valid = ", ".join(f"{name} {TYPES[name].simpleString()}" for name in options.columns)
            raise ConfigurationError(
                f"schema: {field.name} {field.dataType.simpleString()} is not a column; valid are {valid}"
            )
    return replace(options, columns=tuple(schema.names))
