"""The data source: it chooses the classes that Spark calls.

Only this module, and the modules that subclass PySpark's classes, import pyspark at import time. Spark starts a process
for each call of this class, so the methods import what streams and sinks need when they're called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

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
from aiokproto.spark.batch_reader import KafkaReader, PushdownReader
from aiokproto.spark.entry_points import without_traceback
from aiokproto.spark.options import ReadOptions, chosen_columns, parse_options, parse_read_options, payloads_of
from aiokproto.spark.payloads.columns import column_type, with_schemas
from aiokproto.spark.payloads.options import Payload
from aiokproto.spark.worker import worker

if TYPE_CHECKING:
    from aiokproto.spark.sink.exactly_once.writers import TransactionalStreamWriter, TransactionalWriter
    from aiokproto.spark.sink.options import WriteOptions
    from aiokproto.spark.sink.writers import KafkaStreamWriter, KafkaWriter
    from aiokproto.spark.stream.stream_reader import FailedStreamReader, KafkaStreamReader

HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])

SCHEMA = "aiokproto.schema"
"""Metadata of a typed column: its schema, as text."""

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

    pushdown = False
    """Whether readers take filters, unless the option ``filterPushdown`` says otherwise."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format()``. Spark reserves ``kafka`` for its own connector."""
        return "aiokproto"

    @without_traceback
    def schema(self) -> StructType:
        """Return the columns that the options define.

        Spark doesn't tell this method whether the read is a batch or a stream, so options may be missing.

        Raises:
            ConfigurationError: An option is unknown or refused, or has an invalid value.
            RegistryError: The schema registry doesn't have the schema of a column, or doesn't respond.
        """
        given = parse_options(self.options)
        payloads = with_schemas(worker, payloads_of(given))
        types = _types(payloads)
        # Keep the schema of each type for the tasks: its subject may get a later schema in the meantime.
        schemas = {payload.column: {SCHEMA: payload.schema} for payload in payloads}
        return StructType(
            [StructField(name, types[name], metadata=schemas.get(name)) for name in chosen_columns(given)]
        )

    @without_traceback
    def reader(self, schema: StructType) -> KafkaReader:
        """Return a reader of the columns of :meth:`schema`, or of some of them if the user passed a schema.

        Raises:
            ConfigurationError: The options or the schema are invalid.
        """
        pushdown = parse_options(self.options).get("filterPushdown", self.pushdown)
        options = _with_columns(parse_read_options(self.options), schema)
        return PushdownReader(options) if pushdown else KafkaReader(options)

    def streamReader(self, schema: StructType) -> KafkaStreamReader | FailedStreamReader:
        """Return a reader of a stream, with columns as for :meth:`reader`."""
        from aiokproto.spark.options import parse_stream_options
        from aiokproto.spark.stream.stream_reader import FailedStreamReader, KafkaStreamReader

        try:
            options = parse_stream_options(self.options)
            return KafkaStreamReader(replace(options, read=_with_columns(options.read, schema)))
        # Spark hides errors that are raised before it has a reader, so return a reader that raises them.
        except ConfigurationError as error:
            return FailedStreamReader(str(error))

    @without_traceback
    def writer(self, schema: StructType, overwrite: bool) -> KafkaWriter | TransactionalWriter:
        """Return a writer of a batch.

        Raises:
            ConfigurationError: The options, the schema or the mode are invalid.
        """
        from aiokproto.spark.sink.exactly_once.writers import TransactionalWriter
        from aiokproto.spark.sink.options import parse_write_options
        from aiokproto.spark.sink.writers import KafkaWriter

        if overwrite:
            raise ConfigurationError('mode("overwrite"): records of a topic cannot be replaced; use mode("append")')
        options = _write_options(parse_write_options(self.options), schema)
        if options.transactions is not None:
            return TransactionalWriter(options, options.transactions)
        return KafkaWriter(options)

    @without_traceback
    def streamWriter(self, schema: StructType, overwrite: bool) -> KafkaStreamWriter | TransactionalStreamWriter:
        """Return a writer of the batches of a stream. In the mode "complete" each batch contains all rows, and is
        appended.

        Raises:
            ConfigurationError: The options or the schema are invalid.
        """
        from aiokproto.spark.sink.exactly_once.writers import TransactionalStreamWriter
        from aiokproto.spark.sink.options import parse_write_options
        from aiokproto.spark.sink.writers import KafkaStreamWriter

        options = _write_options(parse_write_options(self.options, stream=True), schema)
        if options.transactions is not None:
            return TransactionalStreamWriter(options, options.transactions, _columns(schema))
        return KafkaStreamWriter(options, _columns(schema))


def _write_options(options: WriteOptions, schema: StructType) -> WriteOptions:
    """Return options with the schemas of payloads, after a check of the columns."""
    from aiokproto.spark.payloads.encoding import with_writer_schemas
    from aiokproto.spark.sink.rows import check_schema

    check_schema(_columns(schema), options.topic, [payload.column for payload in options.payloads])
    return replace(options, payloads=with_writer_schemas(worker, options.payloads))


class PushdownDataSource(KafkaDataSource):
    """The data source of a session whose setting ``spark.sql.python.filterPushdown.enabled`` is true."""

    pushdown = True


def _columns(schema: StructType) -> list[tuple[str, str]]:
    return [(field.name, field.dataType.simpleString()) for field in schema.fields]


def _types(payloads: Sequence[Payload]) -> dict[str, DataType]:
    """Return the types of all columns."""
    from pyspark.sql.pandas.types import from_arrow_type

    typed = {payload.column: from_arrow_type(column_type(payload), prefer_timestamp_ntz=True) for payload in payloads}
    return {**TYPES, **typed}


def _with_columns(options: ReadOptions, schema: StructType) -> ReadOptions:
    found = {field.name: field.metadata[SCHEMA] for field in schema.fields if SCHEMA in (field.metadata or {})}
    payloads = with_schemas(
        worker, [replace(payload, schema=found.get(payload.column, payload.schema)) for payload in options.payloads]
    )
    types = _types(payloads)
    for field in schema.fields:
        if field.name not in options.columns or field.dataType != types[field.name]:
            valid = ", ".join(f"{name} {types[name].simpleString()}" for name in options.columns)
            raise ConfigurationError(
                f"schema: {field.name} {field.dataType.simpleString()} is not a column; valid are {valid}"
            )
    return replace(options, columns=tuple(schema.names), payloads=payloads)
