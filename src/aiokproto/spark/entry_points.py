"""What the methods that Spark calls share: errors without their traceback, and how a task reads its partition.

Spark pickles readers and partitions, so they hold values only, no connections.
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


def read_partition(partition: InputPartition, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range, as Arrow batches. The partition's value is the range, or None for nothing."""
    if partition.value is None:
        return
    try:
        yield from read_range(worker(), OffsetRange(*partition.value), options)
    except KafkaError as error:
        raise error.with_traceback(None) from None
