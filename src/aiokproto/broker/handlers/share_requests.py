"""Code shared by ShareFetch and ShareAcknowledge: session keys, acknowledgements, and leader hints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TypeVar

from aiokproto.broker.metadata.cluster_state import Node
from aiokproto.broker.metadata.topics import Partition, Topic
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.share.partition import RENEW, Acknowledgement
from aiokproto.broker.share.session import FINAL_EPOCH, ShareSession, ShareSessionKey, TopicIdPartition
from aiokproto.codec.messages import share_acknowledge, share_fetch
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

RENEW_VERSION = 2
"""The first version in which acquisition locks can be renewed (KIP-1222)."""

_MAX_MEMBER_ID = 36

AcknowledgeError = BrokerError | None
B = TypeVar("B", share_fetch.AcknowledgementBatch, share_acknowledge.AcknowledgementBatch)


def identify(group: str | None, member: str | None, context: RequestContext) -> ShareSessionKey:
    """Return the session key of a request. As in Kafka, this doesn't check whether the group and the member exist.

    Raises:
        BrokerError: INVALID_REQUEST or GROUP_AUTHORIZATION_FAILED.
    """
    if not group:
        raise BrokerError(ErrorCode.INVALID_REQUEST, detail="group_id is empty")
    context.authorize(Operation.READ, ResourceType.GROUP, group)
    if not member or len(member) > _MAX_MEMBER_ID:
        raise BrokerError(ErrorCode.INVALID_REQUEST, detail=f"member_id is not 1 to {_MAX_MEMBER_ID} characters")
    return ShareSessionKey(group, member)


def readable(partition_id: TopicIdPartition, context: RequestContext) -> tuple[Topic, Partition]:
    """Return a partition that the client is permitted to read, whichever node leads it.

    Raises:
        BrokerError: UNKNOWN_TOPIC_ID, TOPIC_AUTHORIZATION_FAILED or UNKNOWN_TOPIC_OR_PARTITION.
    """
    topic_id, index = partition_id
    name = context.topic_name(None, topic_id, by_id=True)
    context.authorize(Operation.READ, ResourceType.TOPIC, name)
    return context.state.topics[name], context.state.partition(name, index)


def leader_of(partition_id: TopicIdPartition, context: RequestContext) -> tuple[int, int]:
    """Return a partition's leader and leader epoch, both -1 if the partition is unknown."""
    topic = context.state.topic_by_id(partition_id[0])
    partition = context.state.find_partition(topic.name, partition_id[1]) if topic is not None else None
    return (partition.leader, partition.leader_epoch) if partition is not None else (-1, -1)


def nodes(leaders: Iterable[int], context: RequestContext) -> list[Node]:
    """Return the leaders that are alive."""
    wanted = set(leaders)
    return [node for node in context.state.alive if node.node_id in wanted]


async def acknowledge(
    session_key: ShareSessionKey,
    acknowledgements: Mapping[TopicIdPartition, Sequence[B]],
    renew: bool,
    context: RequestContext,
) -> dict[TopicIdPartition, AcknowledgeError]:
    """Apply a member's acknowledgements, for each partition independently.

    Args:
        session_key: The member.
        acknowledgements: The acknowledgement batches by partition.
        renew: Whether the request can renew acquisition locks (``is_renew_ack``).
        context: The context of the request.

    Returns:
        The error of each partition, or None.
    """
    return {
        partition_id: _acknowledge(session_key, partition_id, batches, renew, context)
        async for partition_id, batches in context.each(acknowledgements.items())
    }


def _acknowledge(
    session_key: ShareSessionKey,
    partition_id: TopicIdPartition,
    batches: Sequence[B],
    renew: bool,
    context: RequestContext,
) -> AcknowledgeError:
    try:
        _, partition = readable(partition_id, context)
        if partition.leader != context.node.node_id:
            raise BrokerError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                detail="this node does not lead the partition, so that nothing was fetched from it",
            )
        acknowledgements = [_validate(batch, renew, context.version) for batch in batches]
        if any(later.first < earlier.last for earlier, later in pairwise(acknowledgements)):
            raise BrokerError(
                ErrorCode.INVALID_REQUEST, detail="the acknowledgement batches are not in the order of their offsets"
            )
        context.shares.acknowledge(session_key, partition_id, acknowledgements)
    except BrokerError as error:
        return error
    return None


def _validate(batch: B, renew: bool, version: int) -> Acknowledgement:
    types = batch.acknowledge_types
    size = batch.last_offset - batch.first_offset + 1
    if batch.first_offset < 0 or size < 1:
        raise BrokerError(
            ErrorCode.INVALID_REQUEST,
            detail=f"an acknowledgement batch has offsets {batch.first_offset} to {batch.last_offset}",
        )
    if len(types) != 1 and len(types) != size:
        raise BrokerError(ErrorCode.INVALID_REQUEST, detail=f"{len(types)} acknowledge types for {size} offsets")
    highest = RENEW if version >= RENEW_VERSION and renew else RENEW - 1
    for ack_type in set(types):
        if not 0 <= ack_type <= highest:
            raise BrokerError(
                ErrorCode.INVALID_REQUEST, detail=f"acknowledge type {ack_type} is not from 0 to {highest}"
            )
    return Acknowledgement(batch.first_offset, batch.last_offset, types)


def end_if_last(session: ShareSession, epoch: int, context: RequestContext) -> None:
    """Close the session if the request's epoch is the final one, -1."""
    if epoch == FINAL_EPOCH:
        context.shares.end_session(context.share_sessions, session, context.node.node_id)
