"""Code shared by OffsetCommit and TxnOffsetCommit: validates the offsets of a topic, partition by partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from aiokproto.broker.groups.assignment import TopicIdPartition
from aiokproto.broker.groups.records import OffsetAndMetadata
from aiokproto.broker.request_context import RequestContext
from aiokproto.codec.messages.offset_commit import OffsetCommitRequest
from aiokproto.codec.messages.txn_offset_commit import TxnOffsetCommitRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError


class _Partition(Protocol):
    partition_index: Any
    committed_metadata: str | None


P = TypeVar("P", bound=_Partition)
P_co = TypeVar("P_co", bound=_Partition, covariant=True)


class _Topic(Protocol[P_co]):
    @property
    def name(self) -> str: ...
    @property
    def topic_id(self) -> bytes: ...
    @property
    def partitions(self) -> Sequence[P_co]: ...


async def collect_offsets(
    topic: _Topic[P],
    offsets: dict[tuple[str, int], OffsetAndMetadata],
    committed: Callable[[P], OffsetAndMetadata],
    context: RequestContext,
    *,
    by_id: bool,
) -> list[tuple[int, ErrorCode]]:
    """Add the valid offsets of a topic to ``offsets``.

    Other tasks can run in between. So after the last topic, the caller must check whether the offsets can be committed,
    without any await between the check and the commit.

    Args:
        topic: The topic in the request.
        offsets: Receives the offsets that can be committed.
        committed: Creates a committed offset from a partition in the request.
        context: The context of the request.
        by_id: Whether the request names topics by id instead of by name.

    Returns:
        The error of each partition.
    """
    name, error = topic.name, ErrorCode.NONE
    try:
        name = context.topic_name(topic.name, topic.topic_id, by_id)
    except BrokerError as unknown:
        error = unknown.code
    errors: list[tuple[int, ErrorCode]] = []
    async for partition in context.each(topic.partitions):
        index = partition.partition_index
        failure = error or _check_offset(name, index, partition.committed_metadata, context)
        if not failure:
            offsets[name, index] = committed(partition)
        errors.append((index, failure))
    return errors


def _check_offset(topic: str, partition: int, metadata: str | None, context: RequestContext) -> ErrorCode:
    if context.state.find_partition(topic, partition) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if len((metadata or "").encode()) > context.state.options.number("offset.metadata.max.bytes"):
        return ErrorCode.OFFSET_METADATA_TOO_LARGE
    return ErrorCode.NONE


def partition_ids(
    request: OffsetCommitRequest | TxnOffsetCommitRequest, context: RequestContext
) -> Iterator[TopicIdPartition]:
    """Return the partitions of a request by topic id. :func:`collect_offsets` reports unknown topics."""
    for topic_request in request.topics:
        topic = context.state.topics.get(topic_request.name)
        topic_id = topic.topic_id if topic is not None else topic_request.topic_id
        yield from ((topic_id, partition.partition_index) for partition in topic_request.partitions)
