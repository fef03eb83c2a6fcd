"""The class that Spark calls for a stream.

Spark creates a reader in a process that lives as long as the query, and calls all methods but ``read`` there. It
creates another reader in a short-lived process, pickles it, and calls ``read`` on its copies in tasks. It doesn't
always call ``stop``.

Spark before 4.2 doesn't say where a batch starts when it requests an end, so limits can't work, and are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from aiokproto.errors import ConfigurationError
from aiokproto.spark.entry_points import read_partition, without_traceback
from aiokproto.spark.options import StreamOptions
from aiokproto.spark.stream.offsets import StreamOffset, parse_offset
from aiokproto.spark.stream.planner import StreamPlanner
from aiokproto.spark.worker import worker

if TYPE_CHECKING:
    import pyarrow as pa


def _limits() -> Any:
    """Return the module with the limits of batches, or None before PySpark 4.2."""
    try:
        return import_module("pyspark.sql.streaming.datasource")
    except ModuleNotFoundError:
        return None


LIMITS = _limits()
_AvailableNow: Any = object if LIMITS is None else LIMITS.SupportsTriggerAvailableNow


class KafkaStreamReader(DataSourceStreamReader, _AvailableNow):  # type: ignore[misc]
    """Plans the batches of a stream on the driver, and reads a range of one in each task."""

    def __init__(self, options: StreamOptions) -> None:
        if LIMITS is None and (options.max_offsets is not None or options.min_offsets is not None):
            raise ConfigurationError("maxOffsetsPerTrigger and minOffsetsPerTrigger need PySpark 4.2 or later")
        self._options = options
        # Only the process that plans has a planner, so it isn't pickled.
        self._planner: StreamPlanner | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_planner": None}

    @without_traceback
    def initialOffset(self) -> dict[str, Any]:
        """Return where the query starts if it has no checkpoint."""
        return worker().start(self._planning().initial()).result().as_json()

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:
        """Let the stream end where the topics end now."""
        worker().start(self._planning().fix_end()).result()

    def getDefaultReadLimit(self) -> Any:
        """Return the limit that the options set."""
        if self._options.max_offsets is not None:
            return LIMITS.ReadMaxRows(self._options.max_offsets)
        if self._options.min_offsets is not None:
            return LIMITS.ReadMinRows(self._options.min_offsets)
        return LIMITS.ReadAllAvailable()

    @without_traceback
    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        """Return the end of the next batch, or ``start`` if there is nothing for one."""
        planner = self._planning()
        before = None if start is None else parse_offset(start)
        # Spark itself passes ReadAllAvailable, which has neither limit. In that case the options' limits don't apply.
        kind = type(limit).__name__
        end = planner.end(
            before,
            most=limit.max_rows if kind == "ReadMaxRows" else None,
            waits=kind in ("ReadMaxRows", "ReadMinRows") and self._options.min_offsets is not None,
        )
        found = worker().start(end).result()
        if found is None:
            assert start is not None, "without a start there is always an end"
            return start
        return found.as_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Return where the partitions end, for progress reports."""
        latest = {} if self._planner is None else self._planner.latest
        return StreamOffset(latest).as_json() if latest else None

    @without_traceback
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the ranges of a batch, one per task."""
        ranges = worker().start(self._planning().ranges(parse_offset(start), parse_offset(end))).result()
        return [InputPartition(astuple(one)) for one in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range, as Arrow batches."""
        return read_partition(partition, self._options.read)

    def stop(self) -> None:
        """Disconnect."""
        if self._planner is not None:
            planner, self._planner = self._planner, None
            worker().start(planner.close()).result()

    def _planning(self) -> StreamPlanner:
        if self._planner is None:
            planner = StreamPlanner(self._options)
            worker().start(planner.start()).result()
            self._planner = planner
        return self._planner


class FailedStreamReader(DataSourceStreamReader):
    """Raises the error in a stream's options, as soon as Spark calls it."""

    def __init__(self, problem: str) -> None:
        self._problem = problem

    @without_traceback
    def initialOffset(self) -> NoReturn:
        """Raise the error. Spark calls this when a query starts."""
        raise ConfigurationError(self._problem)

    @without_traceback
    def latestOffset(self, start: Any = None, limit: Any = None) -> NoReturn:
        """Raise the error. Spark calls this when a query continues."""
        raise ConfigurationError(self._problem)

    def read(self, partition: InputPartition) -> NoReturn:
        """Raise the error. Spark never calls this: a query fails earlier."""
        raise ConfigurationError(self._problem)
