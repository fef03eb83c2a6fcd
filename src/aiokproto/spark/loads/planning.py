"""Planning a load: what is new since the last one, and whether the log still is the one that was loaded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from aiokproto.cluster import ClusterClient
from aiokproto.config import ClusterConfig
from aiokproto.spark.loads.history import History
from aiokproto.spark.loads.manifest import LoadedPartition, Position
from aiokproto.spark.loads.truncation import TruncationError, describe, diverged, written_in
from aiokproto.spark.options import ReadOptions
from aiokproto.spark.planning import TopicChangedError, find_partitions, plan

logger = logging.getLogger("aiokproto.spark")

T = TypeVar("T")

NOTHING = History()


@dataclass(frozen=True)
class LoadPlan:
    """What to load.

    Attributes:
        cluster_id: The cluster's id; None with brokers before 0.10.1.
        partitions: The ranges, nothing counted yet.
    """

    cluster_id: str | None
    partitions: tuple[LoadedPartition, ...]


def plan_load(options: ReadOptions, history: History, *, allow_truncation: bool) -> LoadPlan:
    """Plan what to load, for callers that are not asynchronous.

    Raises:
        TruncationError: A log no longer holds what was loaded, and that is not allowed.
        KafkaError: See :func:`aiokproto.spark.planning.plan`.
    """

    async def planned(cluster: ClusterClient) -> LoadPlan:
        partitions = await find_partitions(cluster, options)
        positions = {one: history.positions[one] for one in partitions if one in history.positions}
        found = await diverged(cluster, positions, options)
        if found and not allow_truncation:
            raise TruncationError(found, "on_truncation='continue' records this and loads what is there now")
        for partition, divergence in sorted(found.items()):
            logger.warning("%s %s; loading what is there now", partition, describe(divergence))
        resume = {one: position.offset for one, position in positions.items()}
        resume |= {one: divergence.offset for one, divergence in found.items()}
        made = await plan(cluster, options, resume)
        epochs = await written_in(cluster, made.ranges, options)
        loaded = [
            LoadedPartition(
                one.topic,
                one.topic_id.hex(),
                one.partition,
                one.start,
                one.end,
                one.leader_epoch,
                epochs.get(one.topic_partition, ()),
                after=history.positions.get(one.topic_partition),
                diverged=found.get(one.topic_partition),
            )
            for one in made.ranges
        ]
        return LoadPlan(made.cluster_id, tuple(loaded))

    return _connected(options, planned)


def check_log(
    options: ReadOptions,
    partitions: Collection[LoadedPartition],
    history: History = NOTHING,
    cluster_id: str | None = None,
) -> None:
    """See that the log is the one that was planned for, before and up to the ends of these ranges.

    A log that was truncated does not become again what it was. So this, asked after everything was read, says of all
    that was asked and read before whether it was of one log.

    Raises:
        TopicChangedError: It is another topic, or another cluster.
        TruncationError: The log no longer holds the records.
        KafkaError: The cluster cannot be asked.
    """
    ends = {one.topic_partition: Position(one.end, one.epochs) for one in partitions}
    starts = {one: history.positions[one] for one in ends.keys() & history.positions.keys()}
    for one in partitions:
        if one.diverged is not None and one.topic_partition in starts:
            starts[one.topic_partition] = starts[one.topic_partition].cut(one.diverged.offset)

    async def checked(cluster: ClusterClient) -> None:
        await find_partitions(cluster, options)
        if cluster_id is not None and cluster.snapshot.cluster_id != cluster_id:
            raise TopicChangedError(f"this is cluster {cluster.snapshot.cluster_id}, not {cluster_id}")
        for positions in (starts, ends):
            if found := await diverged(cluster, positions, options):
                raise TruncationError(found)

    _connected(options, checked)


def _connected(options: ReadOptions, work: Callable[[ClusterClient], Awaitable[T]]) -> T:
    """Run with a connection for it alone, in a thread for it alone: a notebook's has an event loop already."""

    async def run() -> T:
        async with ClusterClient(ClusterConfig.parse(options.connection)) as cluster:
            return await work(cluster)

    with ThreadPoolExecutor(1, "aiokproto-plan") as executor:
        return executor.submit(asyncio.run, run()).result()
