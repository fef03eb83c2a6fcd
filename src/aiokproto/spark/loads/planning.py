"""Planning of a load: the new records since the last one, and the check that the log was not truncated."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from aiokproto.cluster import ClusterClient
from aiokproto.cluster.exposure import REPORTED_ELSEWHERE
from aiokproto.spark.connection import client_config
from aiokproto.spark.loads.history import History
from aiokproto.spark.loads.manifest import LoadedPartition
from aiokproto.spark.options import ReadOptions
from aiokproto.spark.planning import TopicChangedError, find_partitions, plan
from aiokproto.spark.positions import Position
from aiokproto.spark.truncation import TruncationError, describe, find_divergences, request_epochs

logger = logging.getLogger("aiokproto.spark")

T = TypeVar("T")

NOTHING = History()


@dataclass(frozen=True)
class LoadPlan:
    """The offsets that a load covers.

    Attributes:
        cluster_id: The cluster's id; None with brokers before 0.10.1.
        partitions: The ranges, without counts.
    """

    cluster_id: str | None
    partitions: tuple[LoadedPartition, ...]


def plan_load(options: ReadOptions, history: History, *, allow_truncation: bool) -> LoadPlan:
    """Plan a load, for synchronous callers.

    Raises:
        TruncationError: A log no longer has the loaded records, and ``allow_truncation`` is not set.
        KafkaError: See :func:`aiokproto.spark.planning.plan`.
    """

    async def planned(cluster: ClusterClient) -> LoadPlan:
        partitions = await find_partitions(cluster, options)
        positions = {one: history.positions[one] for one in partitions if one in history.positions}
        found = await find_divergences(cluster, positions, options)
        if found and not allow_truncation:
            raise TruncationError(found, "on_truncation='continue' records this and loads the current records")
        for partition, divergence in sorted(found.items()):
            logger.warning("%s %s; loading the current records", partition, describe(divergence))
        resume = {one: position.offset for one, position in positions.items()}
        resume |= {one: divergence.offset for one, divergence in found.items()}
        read_plan = await plan(cluster, options, resume)
        epochs = await request_epochs(cluster, read_plan.ranges, options)
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
            for one in read_plan.ranges
        ]
        return LoadPlan(read_plan.cluster_id, tuple(loaded))

    return _run_with_client(options, planned)


def check_log(
    options: ReadOptions,
    partitions: Collection[LoadedPartition],
    history: History = NOTHING,
    cluster_id: str | None = None,
) -> None:
    """Check that the log was not truncated since it was planned, up to the ends of these ranges.

    A truncated log does not get its old records back. So one check after all tasks have read covers all earlier
    requests and reads: they saw the same log.

    Raises:
        TopicChangedError: It is another topic, or another cluster.
        TruncationError: The log no longer has the records.
        KafkaError: The requests to the cluster failed.
    """
    ends = {one.topic_partition: Position(one.end, one.epochs) for one in partitions}
    starts = {one: history.positions[one] for one in ends.keys() & history.positions.keys()}
    for one in partitions:
        if one.diverged is not None and one.topic_partition in starts:
            starts[one.topic_partition] = starts[one.topic_partition].cut(one.diverged.offset)

    async def checked(cluster: ClusterClient) -> None:
        await find_partitions(cluster, options)
        if cluster_id is not None and cluster.snapshot.cluster_id != cluster_id:
            raise TopicChangedError(
                f"bootstrap_servers is cluster {cluster.snapshot.cluster_id}, expected {cluster_id}: "
                "its offsets belong to other records"
            )
        for positions in (starts, ends):
            if found := await find_divergences(cluster, positions, options):
                raise TruncationError(found)

    _run_with_client(options, checked)


def _run_with_client(options: ReadOptions, work: Callable[[ClusterClient], Awaitable[T]]) -> T:
    """Run ``work`` with a new client in a new thread: the thread of a notebook has a running event loop."""

    async def run() -> T:
        REPORTED_ELSEWHERE.set(True)
        async with ClusterClient(client_config(options.connection)) as cluster:
            return await work(cluster)

    with ThreadPoolExecutor(1, "aiokproto-plan") as executor:
        return executor.submit(asyncio.run, run()).result()
