"""Loading with Spark: what is new in topics, appended to an output; a load run again; what an output holds."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from aiokproto.errors import ConfigurationError
from aiokproto.spark.loads.attempt import carry_out, new_directory
from aiokproto.spark.loads.commits import CommitLog
from aiokproto.spark.loads.job import SparkJob, pinned_options, read_parquet
from aiokproto.spark.loads.manifest import LoadedPartition, Manifest, ManifestError
from aiokproto.spark.loads.opening import open_storage
from aiokproto.spark.loads.planning import check_log, plan_load
from aiokproto.spark.loads.storage import Storage
from aiokproto.spark.offsets import DataLossError
from aiokproto.spark.options import TOPIC_IDS, parse_read_options
from aiokproto.spark.planning import TopicChangedError, plan_now

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Transform = Callable[[DataFrame], DataFrame]

logger = logging.getLogger("aiokproto.spark")

_START = "the manifests say where to start; starting= does for partitions that no load has read"
_DECIDED = {
    "kafka.bootstrap.servers": "bootstrap_servers= says where the cluster is",
    **dict.fromkeys(("subscribe", "subscribepattern", "assign"), "topics= says what to load"),
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
"""Options of the data source that an argument, or the manifests, decide about."""

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
    options: Mapping[str, object] | None = None,
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
        starting: Where to start with partitions that no load of this output has read: ``"earliest"``, or a fixed time
            (aware datetime, or milliseconds since the epoch). A load that finds nothing remembers nothing: with a time
            that moves, such as now, records between two loads would be passed over.
        on_truncation: What to do about a log that no longer holds what was loaded from it: ``"fail"``, or
            ``"continue"`` with what is there now, from the first offset that differs, and note it in the manifest.
        options: Further options of the data source, but for those that say what to read and where to start.
        transform: Makes the rows into what is to be written. It must keep the columns ``topic``, ``partition`` and
            ``offset``, and must not run queries on the rows it is given.

    Raises:
        TopicChangedError: A topic was deleted and created again since the last load, or this is another cluster.
        TruncationError: Records that were loaded are not in the log any more.
        DataLossError: Records that no load has read are gone.
        ConflictError: Another load of the same partitions was committed meanwhile. Nothing was.
        SchemaError: A column has another type than in earlier loads.
        CommitUncertainError: The storage does not say whether the load was committed: see :func:`runs`.
        ManifestError: The manifests cannot be read.
        ConfigurationError: An option or argument cannot be used.
        KafkaError: The cluster cannot be asked for the offsets. What fails while reading and writing is Spark's error.
    """
    if on_truncation not in ("fail", "continue"):
        raise ConfigurationError(f"on_truncation={on_truncation!r}: it is 'fail' or 'continue'")
    subscribed = topics if isinstance(topics, str) else ",".join(topics)
    if not subscribed:
        raise ConfigurationError("topics: none is given")
    output = open_storage(out, spark)
    history = CommitLog(output).latest()
    given = _options(bootstrap_servers, options)
    given["subscribe"] = subscribed
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
    pinned = parse_read_options(pinned_options(given, manifest))
    job = SparkJob(spark, output, history, manifest, given, transform)

    def validate(_: Manifest) -> None:
        check_log(pinned, plan.partitions, history, plan.cluster_id)

    return _result(carry_out(output, history, manifest, job.write, job.count, validate))


def rerun(
    spark: SparkSession,
    out: str | Path,
    run_id: str,
    *,
    bootstrap_servers: str | Sequence[str],
    allow_fewer_rows: bool = False,
    options: Mapping[str, object] | None = None,
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
            after compaction or retention; rows that only the output has would be gone with that.
        options: As for :func:`load`. Isolation level and headers are as they were.
        transform: As for :func:`load`; not kept, so it has to be given again.

    Raises:
        DataLossError: There are fewer records than there were. Records that go while tasks read are Spark's error.
        ConflictError: Another attempt at the same load was committed meanwhile. Nothing was.
        TopicChangedError, TruncationError, SchemaError, CommitUncertainError, ManifestError, ConfigurationError,
            KafkaError: As for :func:`load`.
    """
    output = open_storage(out, spark)
    log = CommitLog(output)
    history = log.latest()
    before = log.manifest(history.current_number(run_id))
    if before.run_id != run_id:
        raise ManifestError(f"there is no run {run_id!r} in {output.uri}; runs() lists them by their run_id")
    given = _options(bootstrap_servers, options)
    given["kafka.isolation.level"] = "read_committed" if before.read_committed else "read_uncommitted"
    given["includeheaders"] = str(before.include_headers)
    if allow_fewer_rows:
        given.setdefault("failondataloss", "false")
    pinned = parse_read_options(pinned_options(given, before))
    # What is gone already is found here, and not by a task, whose error would be Spark's.
    plan_now(pinned)
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
    job = SparkJob(spark, output, history, manifest, given, transform)

    def validate(counted: Manifest) -> None:
        if not allow_fewer_rows and (gone := job.missing_records(before)):
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

    return _result(carry_out(output, history, manifest, job.write, job.count, validate))


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

    After a load with ``on_truncation="continue"`` the output has records that the log has lost beside those that took
    their place: the same offsets twice. ``runs(out)`` has where, as ``diverged`` of a partition.
    """
    output = open_storage(out, spark)
    paths = [f"{output.uri}/{path}" for manifest in _current(output) for path in manifest.paths]
    if not paths:
        raise ManifestError(f"nothing was loaded into {output.uri} yet")
    return read_parquet(spark, *paths)


def _result(manifest: Manifest) -> LoadResult:
    logger.info("run %s is committed as manifest %d: %d rows", manifest.run_id, manifest.number, manifest.rows)
    return LoadResult(manifest.run_id, manifest.rows, manifest.partitions)


def _options(bootstrap_servers: str | Sequence[str], options: Mapping[str, object] | None) -> dict[str, str]:
    """The options of the data source, by names in lower case, as text: what Spark's own readers make of them."""
    servers = bootstrap_servers if isinstance(bootstrap_servers, str) else ",".join(bootstrap_servers)
    given = {"kafka.bootstrap.servers": servers}
    for name, value in (options or {}).items():
        if reason := _DECIDED.get(name.lower()):
            raise ConfigurationError(f"options: {name} cannot be set, {reason}")
        given[name.lower()] = str(value).lower() if isinstance(value, bool) else str(value)
    return given


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
