"""Functions for loading with Spark: append new records to an output, rerun a load, list the loads, read the rows."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from aiokproto.errors import ConfigurationError
from aiokproto.spark.loads.attempt import new_directory, run_attempt
from aiokproto.spark.loads.commits import CommitLog
from aiokproto.spark.loads.history import History
from aiokproto.spark.loads.job import SparkJob, parse_partition_by, pinned_options, read_parquet
from aiokproto.spark.loads.manifest import LoadedPartition, Manifest, ManifestError
from aiokproto.spark.loads.opening import local_directory, open_storage
from aiokproto.spark.loads.planning import check_log, plan_load
from aiokproto.spark.loads.storage import Storage
from aiokproto.spark.offsets import DataLossError
from aiokproto.spark.options import TOPIC_IDS, parse_read_options
from aiokproto.spark.payloads.columns import column_type
from aiokproto.spark.planning import TopicChangedError, plan_now
from aiokproto.texts import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Transform = Callable[[DataFrame], DataFrame]

logger = logging.getLogger("aiokproto.spark")

_START = "the manifests define where to start; use from_timestamp= for partitions that no load has read"
_REPLACED = {
    "kafka.bootstrap.servers": "use bootstrap_servers=",
    **dict.fromkeys(("subscribe", "subscribepattern", "assign"), "use topics="),
    **dict.fromkeys(
        (
            "startingoffsets",
            "startingtimestamp",
            "startingoffsetsbytimestamp",
            "startingoffsetsbytimestampstrategy",
        ),
        _START,
    ),
}
"""Options of the data source that an argument, or the manifests, replace."""

OnTruncation = Literal["fail", "continue"]


@dataclass(frozen=True)
class LoadResult:
    """The result of a load.

    Attributes:
        run_id: The name of the load, for :func:`rerun`; None if there were no new records, so nothing was written.
        rows: Rows written.
        partitions: The ranges that were read, one per partition.
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
    from_timestamp: int | datetime | None = None,
    on_truncation: OnTruncation = "fail",
    options: Mapping[str, object] | None = None,
    transform: Transform | None = None,
    partition_by: str | Sequence[str] | Mapping[str, str] | None = None,
) -> LoadResult:
    """Append the new records of the topics, up to now, to an output.

    Several loads may write to an output at the same time. If loads read the same partitions, one is committed, and the
    others fail with :class:`ConflictError`.

    Args:
        spark: The session.
        topics: The topics; loads into one output may have different topics.
        out: A directory, as a path or URI. Read it with :func:`read`: it can have files without a commit.
        bootstrap_servers: Bootstrap servers, ``"host:port,host:port"`` or a list.
        from_timestamp: Where to start in partitions that no load of this output has read: at the first record that
            isn't before this time (an aware datetime, or milliseconds since the epoch); None for the earliest record.
            Pass a fixed time. A load without records stores nothing, so a moving time, such as now, would skip the
            records between two loads.
        on_truncation: What to do if the log no longer has records that were loaded: ``"fail"``, or ``"continue"`` with
            the current records from the first offset that differs, and record the gap in the manifest.
        options: More options of the data source, except options that define what to read and where to start.
        transform: Transforms the rows before they are written. It must keep the columns ``topic``, ``partition`` and
            ``offset``, and must not run queries on the rows.
        partition_by: Columns whose values divide the files among directories ``by_<name>=<value>``: names, or a mapping
            of new columns to SQL expressions: ``{"day": "to_date(timestamp)"}``. The files have these columns, too.

    Raises:
        TopicChangedError: A topic was deleted and created again since the last load, or this is another cluster.
        TruncationError: The log no longer has records that were loaded.
        DataLossError: Records were deleted before a load read them.
        ConflictError: Another load of the same partitions was committed first, so this one wasn't.
        SchemaError: A column's type differs from earlier loads.
        CommitUncertainError: It's unknown whether the load was committed: see :func:`runs`.
        ManifestError: The manifests can't be read.
        ConfigurationError: An option or argument is invalid.
        KafkaError: The request for the offsets failed. A failure while tasks read or write is Spark's own error.
    """
    if on_truncation not in ("fail", "continue"):
        raise ConfigurationError(f"on_truncation={on_truncation!r}: must be 'fail' or 'continue'")
    subscribed = topics if isinstance(topics, str) else ",".join(topics)
    if not subscribed:
        raise ConfigurationError("topics is empty: name at least one topic")
    directories = parse_partition_by(partition_by)
    output = open_storage(out, spark)
    history = CommitLog(output).latest()
    given = _options(bootstrap_servers, options) | _starting(from_timestamp)
    given |= {"subscribe": subscribed, TOPIC_IDS: json.dumps(dict(history.topic_ids))}
    parsed = parse_read_options(given)
    plan = plan_load(parsed, history, allow_truncation=on_truncation == "continue")
    if history.cluster_id is not None and plan.cluster_id != history.cluster_id:
        raise TopicChangedError(
            f"{output.uri} was loaded from cluster {history.cluster_id}, but bootstrap_servers is cluster "
            f"{plan.cluster_id}: its offsets belong to other records"
        )
    if not any(loaded.end > loaded.start for loaded in plan.partitions):
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
    pinned = parse_read_options(pinned_options(given, manifest))
    job = SparkJob(spark, output, history, manifest, given, transform, directories)

    def validate(_: Manifest) -> None:
        check_log(pinned, plan.partitions, history, plan.cluster_id)

    return _result(run_attempt(output, history, manifest, job.write, job.count, validate))


def rerun(
    spark: SparkSession,
    out: str | Path,
    run_id: str,
    *,
    bootstrap_servers: str | Sequence[str],
    allow_fewer_rows: bool = False,
    options: Mapping[str, object] | None = None,
    transform: Transform | None = None,
    partition_by: str | Sequence[str] | Mapping[str, str] | None = None,
) -> LoadResult:
    """Read the offsets of an earlier load again and replace its rows, for example after a mistake in ``transform``.

    The earlier rows stay current until this attempt is committed; their files stay until :func:`vacuum` removes them.

    Args:
        spark: The session.
        out: The output.
        run_id: The load, as in :attr:`LoadResult.run_id` and :func:`runs`.
        bootstrap_servers: As for :func:`load`.
        allow_fewer_rows: Whether to commit even if the topics have fewer records in these offsets than before, as after
            compaction or retention. If so, rows that only the output still has are lost.
        options: As for :func:`load`. Isolation level and headers stay as in the earlier load.
        transform: As for :func:`load`. It isn't stored, so pass it again.
        partition_by: As for :func:`load`. It isn't stored, either.

    Raises:
        DataLossError: There are fewer records than before. If records are deleted while tasks read, Spark raises its
            own error.
        ConflictError: Another attempt at the same load was committed first, so this one wasn't.
        TopicChangedError, TruncationError, SchemaError, CommitUncertainError, ManifestError, ConfigurationError,
            KafkaError: As for :func:`load`.
    """
    directories = parse_partition_by(partition_by)
    output = open_storage(out, spark)
    log = CommitLog(output)
    history = log.latest()
    before = _find_run(output, log, history, run_id)
    given = _options(bootstrap_servers, options)
    given["kafka.isolation.level"] = "read_committed" if before.read_committed else "read_uncommitted"
    given["includeheaders"] = str(before.include_headers)
    if allow_fewer_rows:
        given.setdefault("failondataloss", "false")
    pinned = parse_read_options(pinned_options(given, before))
    # Look for deleted records now: from a task, the error would arrive wrapped in one of Spark's.
    try:
        plan_now(pinned)
    except DataLossError as error:
        raise DataLossError(f"run {run_id}: {error}. allow_fewer_rows=True does so, and replaces the rows") from None
    check_log(pinned, before.partitions, cluster_id=before.cluster_id)
    data, _ = new_directory(datetime.now(timezone.utc))
    manifest = replace(
        before,
        attempt=before.attempt + 1,
        replaces=before.number,
        data=data,
        files=(),
        columns={},
        replaced_columns=before.columns,
    )
    job = SparkJob(spark, output, history, manifest, given, transform, directories)

    def validate(counted: Manifest) -> None:
        if not allow_fewer_rows and (missing := job.missing_records(before)):
            raise DataLossError(
                f"run {run_id} has rows of {missing} records that the topics no longer have: compaction or "
                "retention deleted them (allow_fewer_rows=True replaces the rows anyway)"
            )
        # Compare the source rows, too, because records that the earlier transform dropped may be missing. Spark's count
        # isn't exact if transform reads only some of the rows, or reads them twice.
        if counted.source_rows < before.source_rows and not allow_fewer_rows:
            raise DataLossError(
                f"run {run_id} had {before.source_rows} records, but its offsets have {counted.source_rows} now: "
                "compaction or retention deleted the others (allow_fewer_rows=True replaces the rows anyway)"
            )
        check_log(pinned, before.partitions, cluster_id=before.cluster_id)

    return _result(run_attempt(output, history, manifest, job.write, job.count, validate))


def check_arguments(
    topics: Sequence[str],
    *,
    bootstrap_servers: str | Sequence[str],
    options: Mapping[str, object],
    partition_by: Mapping[str, str] | None,
    from_timestamp: int | datetime | None = None,
) -> None:
    """Check arguments of :func:`load` or :func:`rerun` without a session, and without the cluster.

    Raises:
        ConfigurationError: An option or argument is invalid.
    """
    parse_partition_by(partition_by)
    given = _options(bootstrap_servers, options) | _starting(from_timestamp)
    for payload in parse_read_options(given | {"subscribe": ",".join(topics)}).payloads:
        # The schema of the other payloads is in a registry.
        if payload.schema is not None:
            column_type(payload)


def check_run(out: str | Path, run_id: str) -> None:
    """Check that an output has this load. It doesn't use a session, so the output must not be on HDFS.

    Raises:
        ManifestError: The output doesn't have the load, or the manifests can't be read.
        ConfigurationError: ``out`` isn't a path or URI of an output.
        FileNotFoundError: The output is local, and there is no such directory.
    """
    check_directory(out)
    output = open_storage(out)
    log = CommitLog(output)
    _find_run(output, log, log.latest(), run_id)


def check_directory(out: str | Path) -> None:
    """Check that an output exists if it's local.

    Raises:
        FileNotFoundError: There is no such directory.
        ConfigurationError: ``out`` isn't a path or URI of an output.
    """
    if (folder := local_directory(out)) is not None and not folder.exists():
        raise FileNotFoundError(f"{out}: there is no such directory")


def _find_run(output: Storage, log: CommitLog, history: History, run_id: str) -> Manifest:
    """Return the current manifest of a load."""
    found = log.manifest(history.current_number(run_id))
    if found.run_id != run_id:
        raise ManifestError(f"there is no run {run_id!r} in {output.uri}; runs() lists them by their run_id")
    return found


def runs(out: str | Path, spark: SparkSession | None = None) -> list[Manifest]:
    """Return the current manifest of each committed load, in order. Only outputs on HDFS need ``spark``.

    Raises:
        ManifestError: A manifest can't be read, or they contradict each other.
    """
    return _current_manifests(open_storage(out, spark))


def _current_manifests(output: Storage) -> list[Manifest]:
    return list({manifest.run_id: manifest for manifest in CommitLog(output).manifests()}.values())


def read(spark: SparkSession, out: str | Path) -> DataFrame:
    """Return the rows of all committed loads. In columns that a later load added, earlier rows have null.

    After a load with ``on_truncation="continue"`` the output has both the records that the log has lost and the records
    that replaced them, with the same offsets. ``runs(out)`` reports these ranges as ``diverged`` of a partition.

    Raises:
        ManifestError: There is no manifest yet; or manifests contradict each other, for instance by covering the same
            offsets.
    """
    output = open_storage(out, spark)
    paths = [f"{output.uri}/{path}" for manifest in _current_manifests(output) for path in manifest.paths]
    if not paths:
        raise ManifestError(f"nothing was loaded into {output.uri} yet")
    return read_parquet(spark, *paths)


def _result(manifest: Manifest) -> LoadResult:
    logger.info(
        "run %s was committed as manifest %d: %s", manifest.run_id, manifest.number, counted(manifest.rows, "row")
    )
    return LoadResult(manifest.run_id, manifest.rows, manifest.partitions)


def _options(bootstrap_servers: str | Sequence[str], options: Mapping[str, object] | None) -> dict[str, str]:
    """Return the options of the data source as text, with lower-case names, as Spark's own readers pass them."""
    servers = bootstrap_servers if isinstance(bootstrap_servers, str) else ",".join(bootstrap_servers)
    given = {"kafka.bootstrap.servers": servers}
    for name, value in (options or {}).items():
        if reason := _REPLACED.get(name.lower()):
            raise ConfigurationError(f"options: {name} cannot be set: {reason}")
        given[name.lower()] = str(value).lower() if isinstance(value, bool) else str(value)
    return given


def _starting(from_timestamp: int | datetime | None) -> dict[str, str]:
    if from_timestamp is None:
        return {}
    if isinstance(from_timestamp, datetime):
        if from_timestamp.tzinfo is None:
            raise ConfigurationError(f"from_timestamp={from_timestamp!r}: the datetime must have a time zone")
        from_timestamp = int(from_timestamp.timestamp() * 1000)
    if isinstance(from_timestamp, bool) or not isinstance(from_timestamp, int):
        raise ConfigurationError(f"from_timestamp={from_timestamp!r}: must be a datetime or milliseconds (int)")
    # A partition without a record at or after this time isn't an error: a later load reads its records.
    return {"startingTimestamp": str(from_timestamp), "startingOffsetsByTimestampStrategy": "latest"}
