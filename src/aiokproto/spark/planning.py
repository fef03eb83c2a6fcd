"""Planning of a read on the driver: the partitions, and the offsets to read from each.

The driver requests offsets once, here. A task receives a fixed range and never requests the end of the log, so a task
that Spark retries, or runs twice at once, reads the same records.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from aiokproto.cluster import ClusterClient
from aiokproto.cluster.exposure import REPORTED_ELSEWHERE
from aiokproto.codec.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, ConfigurationError, KafkaError, UnsupportedVersionError
from aiokproto.net.features import TIMES, TRANSACTIONS
from aiokproto.spark.connection import client_config
from aiokproto.spark.leaders import request_leaders
from aiokproto.spark.offsets import EARLIEST, LATEST, Bound, Log, OffsetRange, resolve
from aiokproto.spark.options import ReadOptions
from aiokproto.spark.pushdown import Conditions
from aiokproto.texts import counted
from aiokproto.types import TopicPartition

logger = logging.getLogger("aiokproto.spark")

NO_ID = ZERO_UUID.hex()
CONSUMER = -1
"""The ``replica_id`` of a client: it isn't a broker."""


class TopicChangedError(KafkaError):
    """The topic was deleted, or deleted and created again with the same name; or it's another cluster."""


@dataclass(frozen=True)
class Plan:
    """The offsets that a read covers.

    Attributes:
        cluster_id: The cluster's id; None with brokers before 0.10.1.
        ranges: One range per partition, in order. A range is empty if there is nothing to read. After :func:`narrow`
            a partition can have several ranges, or none.
    """

    cluster_id: str | None
    ranges: tuple[OffsetRange, ...]


def plan_now(
    options: ReadOptions,
    resume: Mapping[TopicPartition, int] | None = None,
    conditions: Conditions | None = None,
) -> Plan:
    """Call :func:`plan` with a new client, for synchronous callers, and :func:`narrow` if there are conditions.

    The caller may be in a notebook, whose thread has a running event loop, so it runs in a separate thread.
    """
    with ThreadPoolExecutor(1, "aiokproto-plan") as executor:
        return executor.submit(asyncio.run, _plan_with_new_client(options, resume, conditions)).result()


async def _plan_with_new_client(
    options: ReadOptions, resume: Mapping[TopicPartition, int] | None, conditions: Conditions | None
) -> Plan:
    REPORTED_ELSEWHERE.set(True)
    async with ClusterClient(client_config(options.connection)) as cluster:
        found = await plan(cluster, options, resume)
        return found if conditions is None else await narrow(cluster, options, found, conditions)


async def plan(
    cluster: ClusterClient, options: ReadOptions, resume: Mapping[TopicPartition, int] | None = None
) -> Plan:
    """Find the partitions and the offsets to read. It only reads, so cancelling it has no effect on the cluster.

    Args:
        cluster: The client, started.
        options: The options of the read.
        resume: The ends of the last load. These partitions start there instead.

    Raises:
        UnknownTopicError: A topic does not exist.
        TopicChangedError: A topic doesn't have the expected id.
        DataLossError: Requested records were deleted.
        ConfigurationError: The options don't match the partitions of the topics.
        DeadlineError, BrokerConnectionError, BrokerError: The cluster does not respond, or responds with an error.
    """
    partitions = await find_partitions(cluster, options)
    topic_ids = {name: cluster.snapshot.topics[name].topic_id for name, _ in partitions}
    options.starting.check_covers(partitions)
    options.ending.check_covers(partitions)
    logs = await request_logs(cluster, options, partitions, topic_ids)
    logs |= await _beyond_stable(cluster, options, logs, resume or {})
    last_end = Bound("the end of the last load", each=resume or {})
    ranges = []
    for partition in partitions:
        resumed = partition in (resume or {})
        resolved, warning = resolve(
            partition,
            logs[partition],
            last_end if resumed else options.starting,
            options.ending,
            unmatched_is_latest=options.unmatched_is_latest,
            fail=options.fail_on_data_loss,
            # If there are topic ids, the range was planned earlier, so a missing end is truncation, which is always an
            # error.
            pinned=bool(options.topic_ids),
            resumed=resumed,
        )
        if warning:
            logger.warning("%s", warning)
        ranges.append(resolved)
    return Plan(cluster.snapshot.cluster_id, tuple(ranges))


async def narrow(cluster: ClusterClient, options: ReadOptions, found: Plan, conditions: Conditions) -> Plan:
    """Return a plan without records that the conditions exclude. A partition may have several ranges in it, or none.

    The offsets of timestamps are requested after the ends of the ranges, so no record before an end can be missed.

    Raises:
        BrokerError, BrokerConnectionError, DeadlineError: The cluster doesn't respond, or responds with an error.
    """
    ranges = [one for one in conditions.narrow(found.ranges) if one.size]
    if ranges and conditions.since is not None:
        wanted = dict.fromkeys((one.topic_partition for one in ranges), conditions.since)
        try:
            first = await list_offsets(cluster, wanted, options)
        except UnsupportedVersionError:
            # Brokers before 0.10.1 have no index of timestamps, so only Spark compares them.
            pass
        except BrokerError as error:
            # Records in the format of Kafka before 0.10 have no timestamps to search. Spark compares the timestamps
            # that the topic's other records have.
            if error.code is not ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
                raise
        else:
            ranges = conditions.starting_at(ranges, {one: _offset(response) for one, response in first.items()})
    return replace(found, ranges=tuple(ranges))


async def find_partitions(cluster: ClusterClient, options: ReadOptions) -> list[TopicPartition]:
    """Return the partitions to read, in order.

    Raises:
        UnknownTopicError: A topic doesn't exist.
        TopicChangedError: A topic doesn't have the expected id.
        ConfigurationError: A partition doesn't exist.
        DeadlineError, BrokerConnectionError, BrokerError: The cluster doesn't respond, or responds with an error.
    """
    selection = options.selection
    if selection.pattern is not None:
        topics = await cluster.topics()
        names = [name for name in topics if re.search(selection.pattern, name) and not topics[name].is_internal]
        # The client only refreshes topics that were requested by name, not a list of all topics, so request them by
        # name, too.
        topics = await cluster.topics(names) if names else {}
    else:
        topics = await cluster.topics(selection.topics or selection.assignment or ())
    assignment = selection.assignment or {}
    chosen: list[TopicPartition] = []
    for name, info in sorted(topics.items()):
        count = len(info.partitions)
        indexes = assignment.get(name, range(count))
        if absent := [index for index in indexes if index >= count]:
            raise ConfigurationError(
                f"assign: topic {name} has {counted(count, 'partition')}, no partition {absent[0]}"
            )
        chosen.extend(TopicPartition(name, index) for index in indexes)
    _check_topic_ids({name: info.topic_id for name, info in topics.items()}, options.topic_ids)
    return chosen


def _check_topic_ids(actual: Mapping[str, bytes], expected: Mapping[str, str]) -> None:
    for name, topic_id in actual.items():
        # Topics of brokers before 2.8 have no id, and get one when the cluster is upgraded.
        if expected.get(name, topic_id.hex()) not in (topic_id.hex(), NO_ID) and topic_id != ZERO_UUID:
            raise TopicChangedError(
                f"topic {name} was deleted and created again: its id is {topic_id.hex()}, expected {expected[name]}; "
                "its offsets belong to other records"
            )


async def request_logs(
    cluster: ClusterClient, options: ReadOptions, partitions: Collection[TopicPartition], topic_ids: Mapping[str, bytes]
) -> dict[TopicPartition, Log]:
    async def offsets_at(
        timestamps: Mapping[TopicPartition, int],
    ) -> dict[TopicPartition, ListOffsetsPartitionResponse]:
        return await list_offsets(cluster, timestamps, options)

    first = await offsets_at(dict.fromkeys(partitions, EARLIEST))
    last = await offsets_at(dict.fromkeys(partitions, LATEST))
    at_start, at_end = [
        await offsets_at({one: bound.of(one) for one in partitions} if bound.by_timestamp else {})
        for bound in (options.starting, options.ending)
    ]
    return {
        partition: Log(
            topic_ids[partition.topic],
            first[partition].offset,
            last[partition].offset,
            last[partition].leader_epoch,
            at_start=_offset(at_start.get(partition)),
            at_end=_offset(at_end.get(partition)),
        )
        for partition in partitions
    }


async def _beyond_stable(
    cluster: ClusterClient,
    options: ReadOptions,
    logs: Mapping[TopicPartition, Log],
    resume: Mapping[TopicPartition, int],
) -> dict[TopicPartition, Log]:
    """Return the logs whose last stable offset is before the end of the last load, with their high watermarks.

    The last load has read transactions that are still open, so nothing is missing, and there is nothing to read yet.
    """
    if not options.fetch.read_committed:
        return {}
    wanted = [one for one, end in resume.items() if one in logs and end > logs[one].end]
    uncommitted = replace(options, fetch=replace(options.fetch, read_committed=False))
    found = await list_offsets(cluster, dict.fromkeys(wanted, LATEST), uncommitted)
    return {one: replace(logs[one], high_watermark=found[one].offset) for one in wanted}


def _offset(response: ListOffsetsPartitionResponse | None) -> int | None:
    return None if response is None or response.offset < 0 else response.offset


async def list_offsets(
    cluster: ClusterClient, timestamps: Mapping[TopicPartition, int], options: ReadOptions
) -> dict[TopicPartition, ListOffsetsPartitionResponse]:
    """Send ListOffsets for timestamps (or ``EARLIEST``, ``LATEST``) to the leaders, and retry if a leader has moved.

    Raises:
        BrokerError, BrokerConnectionError, DeadlineError: The last failure, after ``fetchOffset.numRetries``.
        UnsupportedVersionError: A broker before 0.10.1 can't look up timestamps.
    """

    async def send(
        leader: int, partitions: list[TopicPartition]
    ) -> list[tuple[TopicPartition, ListOffsetsPartitionResponse]]:
        versions = await cluster.broker_versions(leader)
        # Version 0 would return segments that are older than the timestamp.
        if any(timestamps[one] >= 0 for one in partitions):
            versions.require(TIMES)
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for partition in partitions:
            topics.setdefault(partition.topic, []).append(
                ListOffsetsPartition(
                    partition_index=partition.partition,
                    # The epoch prevents a broker that doesn't know yet that it lost the leadership from reporting an
                    # old end of the log (KIP-320).
                    current_leader_epoch=cluster.snapshot.leader_epoch(*partition),
                    timestamp=timestamps[partition],
                )
            )
        request = ListOffsetsRequest(
            replica_id=CONSUMER,
            # A broker without transactions has only committed records, and its requests have no such field.
            isolation_level=options.fetch.isolation_level if versions.supports(TRANSACTIONS) else 0,
            topics=[ListOffsetsTopic(name=name, partitions=requests) for name, requests in topics.items()],
        )
        response = await cluster.request(request, node=leader)
        found = [
            (TopicPartition(topic.name, data.partition_index), data)
            for topic in response.topics
            for data in topic.partitions
        ]
        for _, data in found:
            # Version 0 returns a list of offsets, here with one entry.
            if data.old_style_offsets:
                data.offset = data.old_style_offsets[0]
        return found

    return await request_leaders(cluster, ListOffsetsRequest, timestamps, send, options)
