"""What Spark does for an attempt: it writes the rows, reads them back, and finds records that the topics lost."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
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
    from pyspark.sql import DataFrame, Observation, SparkSession

    Transform = Callable[[DataFrame], DataFrame]

POSITION_COLUMNS = {"topic": "string", "partition": "int", "offset": "bigint"}
"""The columns that say which record a row comes from, and their types. Every load has them."""

OBSERVATION_SECONDS = 30.0
"""How long to wait for what Spark has observed in a job that is done."""

# Version 2 moves the files of a task before the job is committed: a task that is retried may leave some of them twice.
_COMMITTER = {"mapreduce.fileoutputcommitter.algorithm.version": "1"}

# Whatever the session's defaults: a file that is missing or damaged is an error.
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
    ) -> None:
        self._spark = spark
        self._storage = storage
        self._history = history
        self._manifest = manifest
        self._options = options
        self._transform = transform

    def write(self, directory: str) -> Written:
        """Read the manifest's ranges, transform the rows, and write them as Parquet."""
        from pyspark.sql import DataFrame, Observation, functions

        from aiokproto.spark import register

        register(self._spark)
        count = functions.count(functions.lit(1)).alias("rows")
        taken, written = Observation(), Observation()
        frame = self._records().observe(taken, count)
        if self._transform is not None:
            frame = self._transform(frame)
            if not isinstance(frame, DataFrame):
                raise ConfigurationError(f"transform must return a DataFrame, got {type(frame).__name__}")
        _check_schema(frame)
        columns = columns_of(frame.schema.jsonValue())
        # Before anything is written; the commit compares again with what others have committed meanwhile.
        self._history.with_columns(replace(self._manifest, columns=columns))
        frame.observe(written, count).write.options(**_COMMITTER).parquet(self._uri(directory))
        rows = _observed(written)
        source_rows = _observed(taken)
        if source_rows is None:
            source_rows = self._records().count()
        return Written(source_rows, rows or 0, columns)

    def count(self, directory: str) -> Counted:
        """Read the files back: their names, and what they hold of each partition."""
        from pyspark.sql import functions

        uri, offset = self._uri(directory), functions.col("offset")
        # The names and the counts come from one listing: what is counted is what is committed.
        frame = read_parquet(self._spark, uri)
        files = tuple(unquote(file.rpartition("/")[2]) for file in frame.inputFiles())
        grouped = frame.groupBy("topic", "partition")
        rows = grouped.agg(functions.count(offset), functions.min(offset), functions.max(offset)).collect()
        found = {(row[0], row[1]): (row[2], row[3], row[4]) for row in rows}
        counted = []
        for one in self._manifest.partitions:
            count, first, last = found.pop((one.topic, one.partition), (0, None, None))
            if first is not None and not one.start <= first <= last < one.end:
                raise ConfigurationError(
                    f"transform must keep offset as it is: {one.topic_partition} has offsets {first} to {last} now, "
                    f"and {one.start} to {one.end - 1} were read"
                )
            counted.append(replace(one, rows=count, first_offset=first, last_offset=last))
        if found:
            raise ConfigurationError(
                f"transform must keep topic and partition as they are: there are rows of {sorted(found)[:3]}, "
                "which were not read"
            )
        return Counted(files, tuple(counted))

    def missing_records(self, manifest: Manifest) -> int:
        """How many of the records in the files of an earlier attempt the topics do not have any more."""
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


def pinned_options(options: Mapping[str, str], manifest: Manifest) -> dict[str, str]:
    """The options that make a source read the ranges of a manifest, of the topics with these ids, and no others."""
    assignment: dict[str, list[int]] = {}
    for one in manifest.partitions:
        assignment.setdefault(one.topic, []).append(one.partition)
    lowered = {name.lower() for name in OFFSET_OPTIONS}
    return {
        **{name: value for name, value in options.items() if name.lower() not in lowered},
        "assign": json.dumps(assignment),
        "startingOffsets": format_offsets({one.topic_partition: one.start for one in manifest.partitions}),
        "endingOffsets": format_offsets({one.topic_partition: one.end for one in manifest.partitions}),
        TOPIC_IDS: json.dumps({one.topic: one.topic_id for one in manifest.partitions}),
    }


def read_parquet(spark: SparkSession, *paths: str) -> DataFrame:
    """Files of loads, whose columns may differ."""
    return spark.read.options(**_STRICT).parquet(*paths)


def _check_schema(frame: DataFrame) -> None:
    types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    if lacking := [name for name in POSITION_COLUMNS if name not in types]:
        raise ConfigurationError(f"columns and transform must keep {', '.join(POSITION_COLUMNS)}; {lacking[0]} is gone")
    if changed := [name for name in POSITION_COLUMNS if types[name] != POSITION_COLUMNS[name]]:
        raise ConfigurationError(f"transform must keep {changed[0]} as it is; it is {types[changed[0]]} now")


def _observed(observation: Observation) -> int | None:
    """The rows that an observation counted; None where Spark does not say."""
    from py4j.protocol import Py4JJavaError

    answer: futures.Future[int] = futures.Future()

    def ask() -> None:
        try:
            answer.set_result(int(observation.get["rows"]))
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            answer.set_exception(error)

    # An optimizer that proves a query empty removes its observations: later releases fail then, and 4.0 never answers.
    threading.Thread(target=ask, name="aiokproto-observation", daemon=True).start()
    try:
        return answer.result(OBSERVATION_SECONDS)
    except futures.TimeoutError:
        return None
    except Py4JJavaError as error:
        if "toPyRow" not in str(error):
            raise
        return None
