"""Converts Spark's rows to tables for the producer. Needs pyarrow. Rows are copied only if they go to several
topics."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from aiokproto.errors import ConfigurationError, InvalidRecordError
from aiokproto.spark.option_table import nearest

if TYPE_CHECKING:
    import pyarrow as pa

_BYTES = ("binary", "string")

TYPES: Mapping[str, tuple[str, ...]] = {
    "value": _BYTES,
    "key": _BYTES,
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int",),
}
"""The columns and their valid types, as in Spark's own connector. Only ``value`` is required."""

ROWS = 10_000
"""The rows per batch when batches are built from Python rows: as many as Spark's own batches contain by default."""


def check_schema(columns: Sequence[tuple[str, str]], topic: str | None, typed: Collection[str] = ()) -> None:
    """Check names and types of the columns. As in the official connector, columns that a record doesn't have are
    ignored.

    Args:
        columns: Pairs of name and type, in Spark's notation (``simpleString()``).
        topic: The option ``topic``.
        typed: Columns that have a format, and so may have any type.

    Raises:
        ConfigurationError: A column is missing, has a wrong type, or appears twice.
    """
    names = [name for name, _ in columns]
    for required in ("value",) if topic is not None else ("value", "topic"):
        if required not in names:
            also = "" if required == "value" else ", or the option topic"
            found = nearest(required, names) if names else ""
            raise ConfigurationError(f"schema: the column {required} is required{also}{found}")
    if absent := [name for name in typed if name not in names]:
        raise ConfigurationError(f"{absent[0]}.format has no effect: there is no column {absent[0]}")
    for name, kind in columns:
        if name in TYPES and kind not in TYPES[name] and name not in typed:
            formats = f", or set the option {name}.format" if name in ("key", "value") else ""
            raise ConfigurationError(f"schema: column {name} is {kind}: cast it to {' or '.join(TYPES[name])}{formats}")
        if name in TYPES and names.count(name) > 1:
            raise ConfigurationError(f"schema: column {name} is there {names.count(name)} times")


@dataclass(frozen=True)
class TopicRows:
    """Rows for one topic.

    Attributes:
        topic: The topic.
        table: The columns that the producer takes.
        numbers: The number of each row in its task; a range or a numpy array.
    """

    topic: str
    table: pa.RecordBatch
    numbers: Any

    @property
    def size(self) -> int:
        """The bytes of keys and values."""
        import pyarrow.compute as pc

        columns = [self.table.column(name) for name in ("key", "value") if name in self.table.schema.names]
        lengths = [pc.call_function("binary_length", [column]) for column in columns]
        return sum(pc.call_function("sum", [length]).as_py() or 0 for length in lengths)

    def check_partitions(self, count: int) -> None:
        """Check the column ``partition``.

        Raises:
            InvalidRecordError: A row names a partition that a topic with ``count`` partitions doesn't have.
        """
        if "partition" not in self.table.schema.names:
            return
        numbers = self.table.column("partition").fill_null(0).to_numpy()
        for row in ((numbers < 0) | (numbers >= count)).nonzero()[0][:1].tolist():
            has = "only partition 0" if count == 1 else f"partitions 0 to {count - 1}"
            raise InvalidRecordError(
                f"row {self.numbers[row]}: partition {numbers[row]} does not exist: topic {self.topic} has {has}"
            )


def by_topic(batch: pa.RecordBatch, topic: str | None, first: int) -> Iterator[TopicRows]:
    """Divide rows among their topics, and keep their order.

    Args:
        batch: The rows, with the columns that :func:`check_schema` accepts.
        topic: The topic of all rows; None if the column ``topic`` names it.
        first: The number of the first row in its task.

    Raises:
        InvalidRecordError: A row has no topic.
    """
    import numpy as np
    import pyarrow.compute as pc

    # Drop the columns that a record doesn't have.
    table = batch.select([name for name in batch.schema.names if name in TYPES and name != "topic"])
    if topic is not None:
        yield TopicRows(topic, table, range(first, first + len(table)))
        return
    column = batch.column("topic")
    if column.null_count:
        row = first + pc.index(column.is_null(), True).as_py()
        raise InvalidRecordError(f"row {row}: the topic is null; the option topic would name one for all rows")
    encoded = column.dictionary_encode()
    if len(encoded.dictionary) == 1:
        yield TopicRows(encoded.dictionary[0].as_py(), table, range(first, first + len(table)))
        return
    indexes = encoded.indices.to_numpy()
    for index, name in enumerate(encoded.dictionary.to_pylist()):
        (chosen,) = np.nonzero(indexes == index)
        yield TopicRows(name, table.take(chosen), chosen + first)


def from_rows(rows: Iterable[tuple[Any, ...]], columns: Sequence[tuple[str, str]]) -> Iterator[pa.RecordBatch]:
    """Return Python rows as batches; ``columns`` are pairs of name and type, in Spark's notation."""
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    kinds = {"binary": pa.binary(), "string": pa.string(), "int": pa.int32()}
    named = [(index, name, kind) for index, (name, kind) in enumerate(columns) if name in TYPES]
    chosen = [(index, name, kinds.get(kind, pa.list_(header))) for index, name, kind in named]
    left = iter(rows)
    while chunk := list(islice(left, ROWS)):
        yield pa.record_batch(
            [pa.array([row[index] for row in chunk], kind) for index, _, kind in chosen],
            names=[name for _, name, _ in chosen],
        )
