"""Loading with Spark: what is new in topics, appended to an output; a load run again; what an output holds."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote

from aiokproto.errors import ConfigurationError, KafkaError
from aiokproto.spark.loads.attempt import Counted, Written, carry_out, new_directory
from aiokproto.spark.loads.commits import CommitLog
from aiokproto.spark.loads.manifest import LoadedPartition, Manifest, ManifestError
from aiokproto.spark.loads.opening import open_storage
from aiokproto.spark.loads.planning import check_log, plan_load
from aiokproto.spark.loads.storage import Storage
from aiokproto.spark.offsets import DataLossError, format_offsets
from aiokproto.spark.options import OFFSET_OPTIONS, TOPIC_IDS, parse_read_options
from aiokproto.spark.planning import TopicChangedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession

    Transform = Callable[[DataFrame], DataFrame]

logger = logging.getLogger("aiokproto.spark")

WHERE = {"topic": "string", "partition": "int", "offset": "bigint"}
"""The columns that say where a row comes from, and their types. Every load has them."""

# The other algorithm moves files of a task before the job is committed: a task that is run again may leave some twice.
_COMMITTER = {"mapreduce.fileoutputcommitter.algorithm.version": "1"}

OBSERVATION_SECONDS = 30.0
"""How long Spark may take to say what it has observed in a job that is done."""

OnTruncation = Literal["fail", "continue"]


@dataclass(frozen=True)
class LoadResult:
    """What a load did.

    Attributes:
        run_id: Its name, for :func:`rerun`; None when there was nothing new to read, and nothing was written.
        rows: Rows written.
        partitions: What was read of each partition.
    """

    run_id: str | None
    rows: int
    partitions: tuple[LoadedPartition, ...]


def load(
    spark: SparkSession,
    topics: str | Sequence[str],
    out: str | Path,
    *,
    bootstrap_servers: str | Sequence[str],
    starting: str | int | datetime = "earliest",
    on_truncation: OnTruncation = "fail",
    options: Mapping[str, str] | None = None,
    transform: Transform | None = None,
) -> LoadResult:
    """Append what is new in the topics, up to now, to an output.

    Several loads may write to an output at a time. Of those that read the same partitions one is committed, and the
    others fail with :class:`ConflictError`.

    Args:
        spark: The session.
        topics: The topics; loads into one output may differ in them.
        out: A directory, as a path or URI. Read it with :func:`read`: it can hold files that do not count.
        bootstrap_servers: Brokers to begin with, ``"host:port,host:port"`` or a list.
        starting: Where to start with partitions that no load of this output has read: ``"earliest"``, or a time
            (aware datetime, or milliseconds since the epoch).
        on_truncation: What to do about a log that no longer holds what was loaded from it: ``"fail"``, or
            ``"continue"`` with what is there now, from the first offset that differs, and note it in the manifest.
        options: Further options of the data source.
        transform: Makes the rows into what is to be written. It must keep the columns ``topic``, ``partition`` and
            ``offset``, and must not run queries on the rows it is given.

    Raises:
        TopicChangedError: A topic was deleted and created again since the last load, or this is another cluster.
        TruncationError: Records that were loaded are not in the log any more.
        DataLossError: Records that no load has read are gone.
        ConflictError: Another load of the same partitions was committed meanwhile. Nothing was.
        CommitUncertainError: The storage does not say whether the load was committed: see :func:`runs`.
        ManifestError: The manifests cannot be read.
        ConfigurationError: An option or argument cannot be used.
        KafkaError: The cluster cannot be asked for the offsets. What fails while reading and writing is Spark's error.
    """
    if on_truncation not in ("fail", "continue"):
        raise ConfigurationError(f"on_truncation={on_truncation!r}: it is 'fail' or 'continue'")
    output = open_storage(out, spark)
    history = CommitLog(output).latest()
    given = _options(bootstrap_servers, options)
    given["subscribe"] = topics if isinstance(topics, str) else ",".join(topics)
    given |= {TOPIC_IDS: json.dumps(dict(history.topic_ids)), **_starting(starting, given)}
    parsed = parse_read_options(given)
    plan = plan_load(parsed, history, allow_truncation=on_truncation == "continue")
    if history.cluster_id is not None and plan.cluster_id != history.cluster_id:
        raise TopicChangedError(
            f"{output.uri} was loaded from cluster {history.cluster_id}, this is {plan.cluster_id}: "
            "its offsets mean other records"
        )
    if not any(one.end > one.start for one in plan.partitions):
        return LoadResult(None, 0, plan.partitions)
    data, token = new_directory(datetime.now(timezone.utc))
    manifest = Manifest(
        number=0,
        run_id=f"-{token}",
        attempt=1,
        replaces=None,
        cluster_id=plan.cluster_id,
        data=data,
        files=(),
        created="",
        read_committed=parsed.fetch.read_committed,
        include_headers=parsed.include_headers,
        source_rows=0,
        partitions=plan.partitions,
    )
    pinned = parse_read_options(_pinned(given, manifest))
    job = _Job(spark, output, given, transform)
    manifest = carry_out(
        output,
        history,
        manifest,
        job.write(manifest),
        job.count(manifest),
        lambda _: check_log(pinned, plan.partitions, history, plan.cluster_id),
    )
    return _result(manifest)


def rerun(
    spark: SparkSession,
    out: str | Path,
    run_id: str,
    *,
    bootstrap_servers: str | Sequence[str],
    allow_fewer_rows: bool = False,
    options: Mapping[str, str] | None = None,
    transform: Transform | None = None,
) -> LoadResult:
    """Do a load again, with exactly the offsets it had, in place of what it wrote: as when ``transform`` had a mistake.

    What was written before counts until this is committed; its files stay until :func:`vacuum` removes them.

    Args:
        spark: The session.
        out: The output.
        run_id: Which load, as in :attr:`LoadResult.run_id` and :func:`runs`.
        bootstrap_servers: As for :func:`load`.
        allow_fewer_rows: Whether to commit though the topics have fewer records in these offsets than they had, as
            after compaction; rows that only the output has would be gone with that.
        options: As for :func:`load`. Isolation level and headers are as they were.
        transform: As for :func:`load`; not kept, so it has to be given again.

    Raises:
        DataLossError: There are fewer records than there were.
        ConflictError: Another attempt at the same load was committed meanwhile. Nothing was.
        TopicChangedError, TruncationError, CommitUncertainError, ManifestError, ConfigurationError, KafkaError: As for
            :func:`load`.
    """
    output = open_storage(out, spark)
    log = CommitLog(output)
    history = log.latest()
    before = log.manifest(history.current_number(run_id))
    if before.run_id != run_id:
        raise ManifestError(f"there is no run {run_id!r} in {output.uri}")
    given = _options(bootstrap_servers, options)
    given["kafka.isolation.level"] = "read_committed" if before.read_committed else "read_uncommitted"
    given["includeheaders"] = str(before.include_headers)
    pinned = parse_read_options(_pinned(given, before))
    check_log(pinned, before.partitions, cluster_id=before.cluster_id)
    data, _ = new_directory(datetime.now(timezone.utc))
    manifest = replace(before, attempt=before.attempt + 1, replaces=before.number, data=data, files=())

    job = _Job(spark, output, given, transform)

    def fits(counted: Manifest) -> None:
        if not allow_fewer_rows and (gone := job.gone(before)):
            raise DataLossError(
                f"run {run_id} has rows of {gone} records that the topics do not have any more: compaction or "
                "retention took them (allow_fewer_rows=True replaces the rows all the same)"
            )
        # What transform had left out may be gone, too. Spark says how many records were taken, but not exactly so
        # where transform takes some of them only, or twice.
        if counted.source_rows < before.source_rows and not allow_fewer_rows:
            raise DataLossError(
                f"run {run_id} had {before.source_rows} records, and its offsets have {counted.source_rows} now: "
                "compaction or retention took the others (allow_fewer_rows=True replaces the rows all the same)"
            )
        check_log(pinned, before.partitions, cluster_id=before.cluster_id)

    return _result(carry_out(output, history, manifest, job.write(manifest), job.count(manifest), fits))


def runs(out: str | Path, spark: SparkSession | None = None) -> list[Manifest]:
    """The loads that were committed, in order, each with the attempt that counts. ``spark`` is needed on HDFS only.

    Raises:
        ManifestError: A manifest cannot be read, or they contradict each other.
    """
    return _current(open_storage(out, spark))


def _current(output: Storage) -> list[Manifest]:
    return list({manifest.run_id: manifest for manifest in CommitLog(output).manifests()}.values())


def read(spark: SparkSession, out: str | Path) -> DataFrame:
    """The rows of all loads that were committed. Where a later load added columns, earlier rows have null there.

    Raises:
        ManifestError: There is none yet; or they contradict each other, as when two hold the same offsets.
    """
    output = open_storage(out, spark)
    paths = [f"{output.uri}/{path}" for manifest in _current(output) for path in manifest.paths]
    if not paths:
        raise ManifestError(f"nothing was loaded into {output.uri} yet")
    return _parquet(spark, *paths)


def _parquet(spark: SparkSession, *paths: str) -> DataFrame:
    # Whatever a session has as its defaults: a file that is missing or damaged is an error.
    whole = {"mergeSchema": "true", "ignoreMissingFiles": "false", "ignoreCorruptFiles": "false"}
    return spark.read.options(**whole).parquet(*paths)


class _Job:
    """The part of an attempt that Spark does."""

    def __init__(
        self, spark: SparkSession, output: Storage, options: Mapping[str, str], transform: Transform | None
    ) -> None:
        self._spark = spark
        self._output = output
        self._options = options
        self._transform = transform

    def write(self, manifest: Manifest) -> Callable[[str], Written]:
        def write(data: str) -> Written:
            from pyspark.sql import Observation, functions

            from aiokproto.spark import register

            register(self._spark)
            rows = functions.count(functions.lit(1)).alias("rows")
            taken, written = Observation(), Observation()
            frame = self._frame(manifest).observe(taken, rows)
            if self._transform is not None:
                frame = self._transform(frame)
            types = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
            if lacking := [name for name in WHERE if name not in types]:
                raise ConfigurationError(f"columns and transform must keep {', '.join(WHERE)}; {lacking[0]} is gone")
            if changed := [name for name in WHERE if types[name] != WHERE[name]]:
                raise ConfigurationError(f"transform must keep {changed[0]} as it is; it is {types[changed[0]]} now")
            frame.observe(written, rows).write.options(**_COMMITTER).parquet(self._uri(data))
            return Written(_observed(taken), _observed(written))

        return write

    def count(self, manifest: Manifest) -> Callable[[str], Counted]:
        def count(data: str) -> Counted:
            return _count(self._spark, self._uri(data), manifest.partitions)

        return count

    def gone(self, manifest: Manifest) -> int:
        """How many of the records that its rows come from the topics have not any more."""
        if not manifest.files:
            return 0
        held = _parquet(self._spark, *map(self._uri, manifest.paths)).select(*WHERE).distinct()
        there = self._spark.read.format("aiokproto").options(
            **{**_pinned(self._options, manifest), "columns": ",".join(WHERE), "includeheaders": "false"}
        )
        return held.join(there.load(), [*WHERE], "left_anti").count()

    def _uri(self, data: str) -> str:
        return f"{self._output.uri}/{data}"

    def _frame(self, manifest: Manifest) -> DataFrame:
        return self._spark.read.format("aiokproto").options(**_pinned(self._options, manifest)).load()


def _pinned(options: Mapping[str, str], manifest: Manifest) -> dict[str, str]:
    """The options that make a source read these offsets, of these topics, and no others."""
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


def _observed(rows: Observation) -> int:
    from py4j.protocol import Py4JJavaError

    found: futures.Future[int] = futures.Future()

    def ask() -> None:
        try:
            found.set_result(int(rows.get["rows"]))
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            found.set_exception(error)

    # Where Spark has seen that there is no row, it leaves the observation out with what it would have observed: later
    # releases fail then, and 4.0 never answers.
    threading.Thread(target=ask, name="aiokproto-observation", daemon=True).start()
    try:
        return found.result(OBSERVATION_SECONDS)
    except futures.TimeoutError:
        return 0
    except Py4JJavaError as error:
        if "toPyRow" not in str(error):
            raise
        return 0


def _result(manifest: Manifest) -> LoadResult:
    logger.info("run %s is committed as manifest %d: %d rows", manifest.run_id, manifest.number, manifest.rows)
    return LoadResult(manifest.run_id, manifest.rows, manifest.partitions)


def _count(spark: SparkSession, uri: str, partitions: Sequence[LoadedPartition]) -> Counted:
    """What is in the files, read from the files."""
    from pyspark.sql import functions

    offset = functions.col("offset")
    # Both of one list of the files: what is counted is what is committed.
    frame = _parquet(spark, uri)
    files = tuple(unquote(file.rpartition("/")[2]) for file in frame.inputFiles())
    grouped = frame.groupBy("topic", "partition")
    rows = grouped.agg(functions.count(offset), functions.min(offset), functions.max(offset)).collect()
    found = {(row[0], row[1]): (row[2], row[3], row[4]) for row in rows}
    counted = []
    for one in partitions:
        count, first, last = found.pop((one.topic, one.partition), (0, None, None))
        if first is not None and not one.start <= first <= last < one.end:
            raise KafkaError(f"{uri} has offsets {first} to {last} of {one.topic_partition}, not within its range")
        counted.append(replace(one, rows=count, first_offset=first, last_offset=last))
    if found:
        raise KafkaError(f"{uri} has rows of {sorted(found)}, which were not read")
    return Counted(files, tuple(counted))


def _options(bootstrap_servers: str | Sequence[str], options: Mapping[str, str] | None) -> dict[str, str]:
    servers = bootstrap_servers if isinstance(bootstrap_servers, str) else ",".join(bootstrap_servers)
    return {"kafka.bootstrap.servers": servers, **{name.lower(): value for name, value in (options or {}).items()}}


def _starting(starting: str | int | datetime, options: Mapping[str, str]) -> dict[str, str]:
    if starting == "earliest":
        return {}
    if isinstance(starting, datetime):
        if starting.tzinfo is None:
            raise ConfigurationError(f"starting={starting!r}: it takes a datetime with a time zone")
        starting = int(starting.timestamp() * 1000)
    if isinstance(starting, bool) or not isinstance(starting, int):
        raise ConfigurationError(f"starting={starting!r}: it takes 'earliest', a datetime or milliseconds")
    # A partition without anything so new is no mistake here: the next load takes up what comes.
    return {"startingTimestamp": str(starting), "startingOffsetsByTimestampStrategy": "latest"}
