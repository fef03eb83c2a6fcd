"""Planning a read, on the driver: which partitions there are, and the offsets to read of each.

Everything is asked for once, here; tasks get offsets and never ask where the end is, so a task that is run again, or
twice at a time, reads the same.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.config import ClusterConfig
from aiokproto.errors import ConfigurationError, KafkaError
from aiokproto.spark.leaders import ask_leaders
from aiokproto.spark.offsets import EARLIEST, LATEST, Bound, Log, OffsetRange, resolve
from aiokproto.spark.options import ReadOptions
from aiokproto.types import TopicPartition

logger = logging.getLogger("aiokproto.spark")

NO_ID = ZERO_UUID.hex()
CONSUMER = -1
"""As ``replica_id``: not a broker."""


class TopicChangedError(KafkaError):
    """The topic is not the one it was: it was deleted, and maybe created again under the same name."""


@dataclass(frozen=True)
class Plan:
    """What to read.

    Attributes:
        cluster_id: The cluster's id; None with brokers before 0.10.1.
        ranges: One for each partition, in order, also where there is nothing to read.
    """

    cluster_id: str | None
    ranges: tuple[OffsetRange, ...]


def plan_now(options: ReadOptions, resume: Mapping[TopicPartition, int] | None = None) -> Plan:
    """:func:`plan` with a connection for it alone, for callers that are not asynchronous.

    A thread of its own runs it, since the caller may be in a notebook, where an event loop runs already.
    """
    with ThreadPoolExecutor(1, "aiokproto-plan") as executor:
        return executor.submit(asyncio.run, _plan_alone(options, resume)).result()


async def _plan_alone(options: ReadOptions, resume: Mapping[TopicPartition, int] | None) -> Plan:
    async with ClusterClient(ClusterConfig.parse(options.connection)) as cluster:
        return await plan(cluster, options, resume)


async def plan(
    cluster: ClusterClient, options: ReadOptions, resume: Mapping[TopicPartition, int] | None = None
) -> Plan:
    """Find the partitions and the offsets to read. Asks only; cancelling it has no effect on the cluster.

    Args:
        cluster: The cluster, started.
        options: What is wanted.
        resume: Where to start instead, for the partitions it names: the ends of the read before.

    Raises:
        UnknownTopicError: A topic does not exist.
        TopicChangedError: A topic has another id than it must have.
        DataLossError: Records that are wanted are gone.
        ConfigurationError: The options do not fit the partitions there are.
        DeadlineError, BrokerConnectionError, BrokerError: The cluster does not answer.
    """
    partitions = await find_partitions(cluster, options)
    topic_ids = {name: cluster.snapshot.topics[name].topic_id for name, _ in partitions}
    options.starting.check_covers(partitions)
    options.ending.check_covers(partitions)
    logs = await _logs(cluster, options, partitions, topic_ids)
    last_end = Bound("the end of the last load", each=resume or {})
    ranges = []
    for partition in partitions:
        resumed = partition in (resume or {})
        wanted, warning = resolve(
            partition,
            logs[partition],
            last_end if resumed else options.starting,
            options.ending,
            unmatched_is_latest=options.unmatched_is_latest,
            fail=options.fail_on_data_loss,
            # With topic ids the range was planned before: a missing end is truncation, which is never tolerated.
            pinned=bool(options.topic_ids),
            resumed=resumed,
        )
        if warning:
            logger.warning("%s", warning)
        ranges.append(wanted)
    return Plan(cluster.snapshot.cluster_id, tuple(ranges))


async def find_partitions(cluster: ClusterClient, options: ReadOptions) -> list[TopicPartition]:
    """The partitions that are to be read, in order.

    Raises:
        UnknownTopicError: A topic does not exist.
        TopicChangedError: A topic has another id than it must have.
        ConfigurationError: A partition does not exist.
        DeadlineError, BrokerConnectionError, BrokerError: The cluster does not answer.
    """
    selection = options.selection
    if selection.pattern is not None:
        topics = await cluster.topics()
        names = [name for name in topics if re.search(selection.pattern, name) and not topics[name].is_internal]
        # Asked for by name they are kept up to date, which those from a list of all are not.
        topics = await cluster.topics(names) if names else {}
    else:
        topics = await cluster.topics(selection.topics or selection.assignment or ())
    assignment = selection.assignment or {}
    chosen: list[TopicPartition] = []
    for name, info in sorted(topics.items()):
        count = len(info.partitions)
        wanted = assignment.get(name, range(count))
        if absent := [partition for partition in wanted if partition >= count]:
            raise ConfigurationError(f"assign: topic {name} has {count} partitions, no partition {absent[0]}")
        chosen.extend(TopicPartition(name, partition) for partition in wanted)
    _check_topic_ids({name: info.topic_id for name, info in topics.items()}, options.topic_ids)
    return chosen


def _check_topic_ids(actual: Mapping[str, bytes], expected: Mapping[str, str]) -> None:
    for name, topic_id in actual.items():
        # Brokers before 2.8 have no ids, and give the topics some when they are upgraded.
        if expected.get(name, topic_id.hex()) not in (topic_id.hex(), NO_ID) and topic_id != ZERO_UUID:
            raise TopicChangedError(
                f"topic {name} is not the one it was: its id is {topic_id.hex()}, and was {expected[name]}; "
                "it has been deleted and created again, so its offsets mean other records"
            )


async def _logs(
    cluster: ClusterClient, options: ReadOptions, partitions: Collection[TopicPartition], topic_ids: Mapping[str, bytes]
) -> dict[TopicPartition, Log]:
    async def found(timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListOffsetsPartitionResponse]:
        return await list_offsets(cluster, timestamps, options)

    first = await found(dict.fromkeys(partitions, EARLIEST))
    last = await found(dict.fromkeys(partitions, LATEST))
    at_start, at_end = [
        await found({one: bound.of(one) for one in partitions} if bound.by_timestamp else {})
        for bound in (options.starting, options.ending)
    ]
    return {
        one: Log(
            topic_ids[one.topic],
            first[one].offset,
            last[one].offset,
            last[one].leader_epoch,
            _match(at_start.get(one)),
            _match(at_end.get(one)),
        )
        for one in partitions
    }


def _match(answer: ListOffsetsPartitionResponse | None) -> int | None:
    return None if answer is None or answer.offset < 0 else answer.offset


async def list_offsets(
    cluster: ClusterClient, timestamps: Mapping[TopicPartition, int], options: ReadOptions
) -> dict[TopicPartition, ListOffsetsPartitionResponse]:
    """Ask the leaders for the offsets at timestamps (or ``EARLIEST``, ``LATEST``), again where one has moved.

    Raises:
        BrokerError, BrokerConnectionError, DeadlineError: The last failure, after ``fetchOffset.numRetries``.
    """

    async def ask(
        leader: int, partitions: list[TopicPartition]
    ) -> list[tuple[TopicPartition, ListOffsetsPartitionResponse]]:
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for one in partitions:
            topics.setdefault(one.topic, []).append(
                ListOffsetsPartition(
                    partition_index=one.partition,
                    # A leader that was deposed, and does not know it yet, does not have the end of the log.
                    current_leader_epoch=cluster.snapshot.leader_epoch(*one),
                    timestamp=timestamps[one],
                )
            )
        request = ListOffsetsRequest(
            replica_id=CONSUMER,
            isolation_level=options.fetch.isolation_level,
            topics=[ListOffsetsTopic(name=name, partitions=asked) for name, asked in topics.items()],
        )
        response = await cluster.request(request, node=leader)
        return [
            (TopicPartition(topic.name, answer.partition_index), answer)
            for topic in response.topics
            for answer in topic.partitions
        ]

    return await ask_leaders(cluster, "ListOffsets", timestamps, ask, options)
