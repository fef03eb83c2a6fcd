"""The Spark jobs of an attempt: write the rows, read them back, and find records that the topics no longer have."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import unquote

from aiokproto.errors import ConfigurationError
from aiokproto.spark.loads.attempt import Counted, Written
from aiokproto.spark.loads.columns import columns_of
from aiokproto.spark.loads.history import History
from aiokproto.spark.loads.manifest import Manifest
from aiokproto.spark.loads.storage import Storage
from aiokproto.spark.offsets import format_offsets
from aiokproto.spark.options import OFFSET_OPTIONS, TOPIC_IDS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession

    Transform = Callable[[DataFrame], DataFrame]

PartitionBy = Mapping[str, str]
NO_PARTITIONS: PartitionBy = {}

POSITION_COLUMNS = {"topic": "string", "partition": "int", "offset": "bigint"}
"""The columns that identify the record of a row, with their types. Every output has them."""

OBSERVATION_SECONDS = 30.0
"""Maximum wait (s) for the observations of a finished job."""

# Version 2 would move a task's files before the job is committed, so a retried task could leave duplicates.
_COMMITTER = {"mapreduce.fileoutputcommitter.algorithm.version": "1"}

# These make a missing or damaged file an error, whatever the session's defaults are.
_STRICT = {"mergeSchema": "true", "ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}


class SparkJob:
    """The jobs of one attempt at a load."""

    def __init__(
        self,
        spark: SparkSession,
        storage: Storage,
        history: History,
        manifest: Manifest,
        options: Mapping[str, str],
        transform: Transform | None,
        partition_by: PartitionBy = NO_PARTITIONS,
    ) -> None:
        self._spark = spark
        self._storage = storage
        self._history = history
        self._manifest = manifest
        self._options = options
        self._transform = transform
        self._partition_by = partition_by

    def write(self, directory: str) -> Written:
        """Read the manifest's ranges, transform the rows, and write them as Parquet."""
        from pyspark.sql import DataFrame, Observation, functions

        from aiokproto.spark import register

        register(self._spark)
        count = functions.count(functions.lit(1)).alias("rows")
        source, written = Observation(), Observation()
        frame = self._records().observe(source, count)
        if self._transform is not None:
            frame = self._transform(frame)
            if not isinstance(frame, DataFrame):
                raise ConfigurationError(f"transform must return a DataFrame, got {type(frame).__name__}")
        frame = _with_columns(frame, {name: functions.expr(text) for name, text in self._partition_by.items() if text})
        _check_schema(frame)
        copies = _copies(frame, self._partition_by)
        columns = columns_of(frame.schema.jsonValue())
        # Check before anything is written. The commit checks again: other loads may commit in the meantime.
        self._history.with_columns(replace(self._manifest, columns=columns))
        frame = _with_columns(
            frame.observe(written, count), {copy: functions.col(name) for copy, name in copies.items()}
        )
        frame.write.options(**_COMMITTER).partitionBy(*copies).parquet(self._uri(directory))
        rows = _observed_rows(written)
        source_rows = _observed_rows(source)
        if source_rows is None:
            source_rows = self._records().count()
        return Written(source_rows, rows or 0, columns)

    def count(self, directory: str) -> Counted:
        """Read the files back, and count their rows by partition."""
        from pyspark.sql import functions

        uri, offset = self._uri(directory), functions.col("offset")
        # Take the names and the counts from one listing, so that exactly the counted files are committed.
        frame = read_parquet(self._spark, uri)
        files = tuple(unquote(file.rpartition(f"/{directory}/")[2]) for file in frame.inputFiles())
        grouped = frame.groupBy("topic", "partition")
        rows = grouped.agg(functions.count(offset), functions.min(offset), functions.max(offset)).collect()
        found = {(row[0], row[1]): (row[2], row[3], row[4]) for row in rows}
        counted = []
        for planned in self._manifest.partitions:
            count, first, last = found.pop((planned.topic, planned.partition), (0, None, None))
            if first is not None and not planned.start <= first <= last < planned.end:
                raise ConfigurationError(
                    f"transform must not change offset: {planned.topic_partition} has offsets {first} to {last} now, "
                    f"but {planned.start} to {planned.end - 1} were read"
                )
            counted.append(replace(planned, rows=count, first_offset=first, last_offset=last))
        if found:
            raise ConfigurationError(
                f"transform must not change topic and partition: it returned rows of {sorted(found)[:3]}, "
                "which were not read"
            )
        return Counted(files, tuple(counted))

    def missing_records(self, manifest: Manifest) -> int:
        """Return the number of records in an earlier attempt's files that the topics no longer have."""
        if not manifest.files:
            return 0
        loaded = read_parquet(self._spark, *map(self._uri, manifest.paths)).select(*POSITION_COLUMNS).distinct()
        present = self._records(columns=",".join(POSITION_COLUMNS), includeheaders="false")
        return loaded.join(present, [*POSITION_COLUMNS], "left_anti").count()

    def _uri(self, path: str) -> str:
        return f"{self._storage.uri}/{path}"

    def _records(self, **options: str) -> DataFrame:
        pinned = {**pinned_options(self._options, self._manifest), **options}
        return self._spark.read.format("aiokproto").options(**pinned).load()


def parse_partition_by(given: str | Sequence[str] | Mapping[str, str] | None) -> PartitionBy:
    """Return the columns that divide the files, each with its SQL expression, or ``""`` if the rows already have it.

    Raises:
        ConfigurationError: A name is empty, or appears twice.
    """
    if given is None:
        return NO_PARTITIONS
    if isinstance(given, Mapping):
        found = dict(given)
    else:
        names = [given] if isinstance(given, str) else list(given)
        if len(set(names)) < len(names):
            raise ConfigurationError(f"partition_by: a column is named twice in {', '.join(names)}")
        found = dict.fromkeys(names, "")
    if not all(isinstance(text, str) for text in (*found, *found.values())) or "" in found:
        raise ConfigurationError(
            f"partition_by={given!r}: must be names of columns, or a mapping of names to expressions"
        )
    return found


def _copies(frame: DataFrame, partition_by: PartitionBy) -> dict[str, str]:
    """Return the columns that name directories, each with the column that it copies.

    Spark leaves the columns of directories out of files. The output is read file by file, so the files need them.
    """
    if lacking := [name for name in partition_by if name not in frame.columns]:
        raise ConfigurationError(
            f"partition_by: the rows have no column {lacking[0]}; they have {', '.join(frame.columns)}"
        )
    copies = {f"by_{name}": name for name in partition_by}
    if taken := [copy for copy in copies if copy in frame.columns]:
        raise ConfigurationError(f"partition_by={copies[taken[0]]!r}: the rows have a column {taken[0]} already")
    return copies


def pinned_options(options: Mapping[str, str], manifest: Manifest) -> dict[str, str]:
    """Return options that make the data source read exactly the ranges and the topic ids of a manifest."""
    assignment: dict[str, list[int]] = {}
    for loaded in manifest.partitions:
        assignment.setdefault(loaded.topic, []).append(loaded.partition)
    lowered = {name.lower() for name in OFFSET_OPTIONS}
    return {
        **{name: value for name, value in options.items() if name.lower() not in lowered},
        "assign": json.dumps(assignment),
        "startingOffsets": format_offsets({loaded.topic_partition: loaded.start for loaded in manifest.partitions}),
        "endingOffsets": format_offsets({loaded.topic_partition: loaded.end for loaded in manifest.partitions}),
        TOPIC_IDS: json.dumps({loaded.topic: loaded.topic_id for loaded in manifest.partitions}),
    }


def read_parquet(spark: SparkSession, *paths: str) -> DataFrame:
    """Read files of several loads, whose columns may differ."""
    return spark.read.options(**_STRICT).parquet(*paths)


def _with_columns(frame: DataFrame, columns: dict[str, Column]) -> DataFrame:
    # Spark Connect's client rejects an empty mapping.
    return frame.withColumns(columns) if columns else frame


def _check_schema(frame: DataFrame) -> None:
    types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    if lacking := [name for name in POSITION_COLUMNS if name not in types]:
        raise ConfigurationError(
            f"columns and transform must keep {', '.join(POSITION_COLUMNS)}; {lacking[0]} is missing"
        )
    if changed := [name for name in POSITION_COLUMNS if types[name] != POSITION_COLUMNS[name]]:
        name = changed[0]
        raise ConfigurationError(
            f"transform must not change {name}: its type is {types[name]} now, expected {POSITION_COLUMNS[name]}"
        )


def _observed_rows(observation: Observation) -> int | None:
    """Return the number of rows that an observation counted; None if Spark doesn't report it."""
    rows: futures.Future[int] = futures.Future()

    def get_rows() -> None:
        try:
            rows.set_result(int(observation.get["rows"]))
        except Exception as error:  # noqa: BLE001 - the waiting thread raises it
            rows.set_exception(error)

    # Wait in a thread: the optimizer removes the observations of a query that it proves empty. Then `get`
    # blocks forever in Spark 4.0, fails in later releases, and has no rows over Spark Connect.
    threading.Thread(target=get_rows, name="aiokproto-observation", daemon=True).start()
    try:
        return rows.result(OBSERVATION_SECONDS)
    except (futures.TimeoutError, KeyError):
        return None
    # Don't name py4j's class: clients of Spark Connect don't need py4j.
    except Exception as error:
        if "toPyRow" not in str(error):
            raise
        return None
