"""Code shared by the handlers for the state of share partitions (KIP-932): each partition has its own result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.share.records import SharePartitionKey
from aiokproto.errors import BrokerError


class _RequestedPartition(Protocol):
    partition: int


A = TypeVar("A", bound=_RequestedPartition)
A_co = TypeVar("A_co", bound=_RequestedPartition, covariant=True)
R = TypeVar("R")


class _Topic(Protocol[A_co]):
    @property
    def topic_id(self) -> bytes: ...
    @property
    def partitions(self) -> Sequence[A_co]: ...


class _Request(Protocol[A_co]):
    @property
    def group_id(self) -> str: ...
    @property
    def topics(self) -> Sequence[_Topic[A_co]]: ...


async def partition_results(
    request: _Request[A],
    context: RequestContext,
    serve: Callable[[SharePartitionKey, A], R],
    failed: Callable[[int, BrokerError], R],
) -> list[tuple[bytes, list[R]]]:
    """Return the results of the partitions of each topic, by topic id.

    Args:
        request: The request.
        context: The context of the request.
        serve: Serves a partition that this node coordinates; can raise :class:`BrokerError`.
        failed: Creates the partition's result from such an error.
    """

    def result(topic_id: bytes, partition: A) -> R:
        key = SharePartitionKey(request.group_id, topic_id, partition.partition)
        try:
            context.share_states.check_coordinator(key, context.node.node_id)
            return serve(key, partition)
        except BrokerError as error:
            return failed(partition.partition, error)

    # As in Kafka, a request with an empty group id gets an empty response instead of an error.
    results: list[tuple[bytes, list[R]]] = []
    async for topic in context.each(request.topics if request.group_id else ()):
        if topic.partitions:
            partitions = [result(topic.topic_id, partition) async for partition in context.each(topic.partitions)]
            results.append((topic.topic_id, partitions))
    return results
