"""Loading topics into files together with their offsets, each record once, and any load again.

A load plans which offsets to read, once, writes them as Parquet with the offset of every row, and then commits a
manifest that says what was read. The next load starts where the last manifest ends. There is no other state: a load
that fails has no manifest, its files do not count, and the next one does the same work anew.
"""

from __future__ import annotations

import contextlib
import json
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from aiokproto.errors import ConfigurationError, KafkaError
from aiokproto.spark.manifest import LoadedPartition, Manifest, ManifestError, progress
from aiokproto.spark.offsets import format_offsets
from aiokproto.spark.options import OFFSET_OPTIONS, TOPIC_IDS, parse_read_options
from aiokproto.spark.planning import Plan, TopicChangedError, plan_now
from aiokproto.spark.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Transform = Callable[[DataFrame], DataFrame]

logger = logging.getLogger("aiokproto.spark")

WHERE = ("topic", "partition", "offset")
"""The columns that say where a row comes from. Every load has them."""


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
    options: Mapping[str, str] | None = None,
    transform: Transform | None = None,
) -> LoadResult:
    """Append what is new in the topics, up to now, to an output.

    One load at a time may write to an output; of two at the same time one fails.

    Args:
        spark: The session.
        topics: The topics; loads into one output may differ in them.
        out: A directory, as a path or URI. Read it with :func:`read`: it can hold files that do not count.
        bootstrap_servers: Brokers to begin with, ``"host:port,host:port"`` or a list.
        starting: Where to start with partitions that no load of this output has read: ``"earliest"``, or a time
            (aware datetime, or milliseconds since the epoch).
        options: Further options of the data source.
        transform: Makes the rows into what is to be written. It must keep the columns ``topic``, ``partition`` and
            ``offset``.

    Raises:
        TopicChangedError: A topic was deleted and created again since the last load, or this is another cluster.
        DataLossError: Records that no load has read are gone.
        ManifestError: The manifests cannot be read, or another load was faster.
        ConfigurationError: An option or argument cannot be used.
        KafkaError: The cluster cannot be asked for the offsets. What fails while reading and writing is Spark's error.
    """
    store = Store(out)
    before = store.manifests()
    done = progress(before)
    given = _options(bootstrap_servers, options)
    given["subscribe"] = topics if isinstance(topics, str) else ",".join(topics)
    given |= {TOPIC_IDS: json.dumps(dict(done.topic_ids)), **_starting(starting, given)}
    parsed = parse_read_options(given)
    plan = plan_now(parsed, done.positions)
    if done.cluster_id is not None and plan.cluster_id != done.cluster_id:
        raise TopicChangedError(
            f"{store.uri} was loaded from cluster {done.cluster_id}, this is {plan.cluster_id}: "
            "its offsets mean other records"
        )
    if not any(one.size for one in plan.ranges):
        return LoadResult(None, 0, _partitions(plan))
    run_id = f"{done.number + 1:06}-{secrets.token_hex(4)}"
    manifest = Manifest(
        run_id=run_id,
        number=done.number + 1,
        attempt=1,
        cluster_id=plan.cluster_id,
        data=f"run={run_id}",
        created="",
        read_committed=parsed.fetch.read_committed,
        include_headers=parsed.include_headers,
        partitions=_partitions(plan),
    )
    return _run(spark, store, manifest, given, transform, before)


def rerun(
    spark: SparkSession,
    out: str | Path,
    run_id: str,
    *,
    bootstrap_servers: str | Sequence[str],
    options: Mapping[str, str] | None = None,
    transform: Transform | None = None,
) -> LoadResult:
    """Do a load again, with exactly the offsets it had, in place of what it wrote: as when ``transform`` had a mistake.

    What was written before counts until this is committed; its files stay, and can be deleted afterwards.

    Args:
        spark: The session.
        out: The output.
        run_id: Which load, as in :attr:`LoadResult.run_id` and :func:`runs`.
        bootstrap_servers: As for :func:`load`.
        options: As for :func:`load`. Isolation level and headers are as they were.
        transform: As for :func:`load`; not kept, so it has to be given again.

    Raises:
        TopicChangedError, DataLossError, ManifestError, ConfigurationError, KafkaError: As for :func:`load`; records
            that retention has deleted since cannot be read again.
    """
    store = Store(out)
    before = store.manifests()
    manifest = store.manifest(run_id)
    manifest = replace(manifest, attempt=manifest.attempt + 1, data=f"run={run_id}.{manifest.attempt + 1}")
    given = _options(bootstrap_servers, options)
    given["kafka.isolation.level"] = "read_committed" if manifest.read_committed else "read_uncommitted"
    given["includeheaders"] = str(manifest.include_headers)
    return _run(spark, store, manifest, given, transform, before)


def runs(out: str | Path) -> list[Manifest]:
    """The loads that were committed, in order.

    Raises:
        ManifestError: A manifest cannot be read.
    """
    return Store(out).manifests()


def read(spark: SparkSession, out: str | Path) -> DataFrame:
    """The rows of all loads that were committed. Where a later load added columns, earlier rows have null there.

    Raises:
        ManifestError: There is none yet.
    """
    store = Store(out)
    paths = [store.data_uri(manifest.data) for manifest in store.manifests()]
    if not paths:
        raise ManifestError(f"nothing was loaded into {store.uri} yet")
    return spark.read.option("mergeSchema", "true").parquet(*paths)


def _run(
    spark: SparkSession,
    store: Store,
    manifest: Manifest,
    options: Mapping[str, str],
    transform: Transform | None,
    before: Sequence[Manifest],
) -> LoadResult:
    from aiokproto.spark import register

    register(spark)
    try:
        frame = _frame(spark, manifest, options)
        if transform is not None:
            frame = transform(frame)
        if lacking := [name for name in WHERE if name not in frame.columns]:
            raise ConfigurationError(f"columns and transform must keep {', '.join(WHERE)}; {lacking[0]} is gone")
        uri = store.data_uri(manifest.data)
        frame.write.parquet(uri)
        partitions = _count(spark, uri, manifest.partitions)
        if store.manifests() != before:
            raise ManifestError(f"another load into {store.uri} was committed while run {manifest.run_id} went on")
        created = datetime.now(timezone.utc).isoformat(timespec="seconds")
        store.commit(replace(manifest, created=created, partitions=partitions))
    except BaseException:
        # They do not count; this only tidies up, and what went wrong matters more than failing at that.
        with contextlib.suppress(OSError):
            store.discard(manifest.data)
        raise
    result = LoadResult(manifest.run_id, sum(one.rows for one in partitions), partitions)
    logger.info("load %s: %d rows into %s", manifest.run_id, result.rows, uri)
    return result


def _frame(spark: SparkSession, manifest: Manifest, options: Mapping[str, str]) -> DataFrame:
    assignment: dict[str, list[int]] = {}
    for one in manifest.partitions:
        assignment.setdefault(one.topic, []).append(one.partition)
    pinned = {
        "assign": json.dumps(assignment),
        "startingOffsets": format_offsets({one.topic_partition: one.start for one in manifest.partitions}),
        "endingOffsets": format_offsets({one.topic_partition: one.end for one in manifest.partitions}),
        TOPIC_IDS: json.dumps({one.topic: one.topic_id for one in manifest.partitions}),
    }
    lowered = {name.lower() for name in OFFSET_OPTIONS}
    others = {name: value for name, value in options.items() if name.lower() not in lowered}
    return spark.read.format("aiokproto").options(**{**others, **pinned}).load()


def _count(spark: SparkSession, uri: str, partitions: Sequence[LoadedPartition]) -> tuple[LoadedPartition, ...]:
    """What is in the files, read from the files."""
    from pyspark.sql import functions

    offset = functions.col("offset")
    grouped = spark.read.parquet(uri).groupBy("topic", "partition")
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
    return tuple(counted)


def _partitions(plan: Plan) -> tuple[LoadedPartition, ...]:
    return tuple(
        LoadedPartition(one.topic, one.topic_id.hex(), one.partition, one.start, one.end, one.leader_epoch)
        for one in plan.ranges
    )


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
