"""Helpers for the methods that Spark calls: errors without a traceback, and reading a partition in a task.

Spark pickles readers and partitions, so they hold only values, not connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from aiokproto.errors import KafkaError
from aiokproto.spark.offsets import OffsetRange
from aiokproto.spark.options import ReadOptions
from aiokproto.spark.reading import read_range
from aiokproto.spark.worker import worker

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition

P = ParamSpec("P")
R = TypeVar("R")


def without_traceback(method: Callable[P, R]) -> Callable[P, R]:
    """Remove the traceback from a KafkaError that a method raises.

    Spark prints all frames of an error before its message, and the message is what the user needs from a KafkaError.
    Other errors are bugs, and keep their traceback.
    """

    @wraps(method)
    def call(*args: P.args, **options: P.kwargs) -> R:
        try:
            return method(*args, **options)
        except KafkaError as error:
            raise error.with_traceback(None) from None

    return call


def read_partition(partition: InputPartition, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range, as Arrow batches. The partition's value is the range, or None if there is none."""
    if partition.value is None:
        return
    try:
        yield from read_range(worker(), OffsetRange(*partition.value), options)
    except KafkaError as error:
        raise error.with_traceback(None) from None
