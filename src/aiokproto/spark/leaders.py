"""Requests to the leaders of partitions, with retries if a leader has moved."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, Protocol, TypeVar

from aiokproto.cluster import ClusterClient
from aiokproto.codec.registry import api_name
from aiokproto.codec.schema import Request
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerConnectionError, BrokerError, DeadlineError, KafkaError, error_for
from aiokproto.spark.options import ReadOptions
from aiokproto.types import TopicPartition


class PartitionResponse(Protocol):
    """A partition's part of a response."""

    error_code: int


R = TypeVar("R", bound=PartitionResponse)
Send = Callable[[int, list[TopicPartition]], Awaitable[Iterable[tuple[TopicPartition, R]]]]


async def request_leaders(
    cluster: ClusterClient,
    request: type[Request[Any]],
    partitions: Collection[TopicPartition],
    send: Send[R],
    options: ReadOptions,
) -> dict[TopicPartition, R]:
    """Return the leaders' responses for partitions, and retry requests that fail.

    Args:
        cluster: The client, which has the metadata of the topics.
        request: The kind of request, for messages.
        partitions: The partitions.
        send: Sends a request for some of the partitions to their leader.
        options: The number of retries, and the interval between them.

    Raises:
        UnknownTopicError: A topic was deleted, and is still missing after ``fetchOffset.numRetries``.
        BrokerError, BrokerConnectionError, DeadlineError: The last failure, after ``fetchOffset.numRetries``.
    """
    api = api_name(request.api_key)
    responses: dict[TopicPartition, R] = {}
    retries = options.offset_retries
    while True:
        failure: KafkaError | None = None
        for leader, requested in _by_leader(cluster, set(partitions) - responses.keys()).items():
            try:
                if leader is None:
                    raise _no_leader(cluster, api, requested)
                for partition, response in await send(leader, requested):
                    if response.error_code:
                        context = f"{api} of {partition} at broker {leader}"
                        asked = cluster.asked(request, partition.topic)
                        failure = error_for(response.error_code, context, None, asked)
                    else:
                        responses[partition] = response
            except (BrokerConnectionError, DeadlineError, BrokerError) as error:
                failure = error
        if failure is None:
            return responses
        if not retries or (isinstance(failure, BrokerError) and not failure.retriable):
            raise failure
        cluster.metadata.invalidate(str(failure))
        retries -= 1
        await asyncio.sleep(options.offset_retry_interval)


def _no_leader(cluster: ClusterClient, api: str, partitions: list[TopicPartition]) -> BrokerError:
    # The metadata contained the topics when their partitions were listed. A topic is dropped once several responses
    # lack it.
    for partition in partitions:
        if partition.topic not in cluster.snapshot.topics:
            return error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{api} of {partition}")
    return error_for(ErrorCode.LEADER_NOT_AVAILABLE, f"{api} of {partitions[0]}")


def _by_leader(cluster: ClusterClient, partitions: Iterable[TopicPartition]) -> dict[int | None, list[TopicPartition]]:
    groups: dict[int | None, list[TopicPartition]] = {}
    for partition in sorted(partitions):
        groups.setdefault(cluster.snapshot.leader(*partition), []).append(partition)
    return groups
