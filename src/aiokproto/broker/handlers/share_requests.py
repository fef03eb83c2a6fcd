"""What ShareFetch and ShareAcknowledge have in common: whose they are, what is acknowledged, and what a node serves."""

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

RENEWS = 2
"""The version since which locks can be renewed (KIP-1222)."""

_LONGEST_ID = 36

Refusal = BrokerError | None
Said = TypeVar("Said", share_fetch.AcknowledgementBatch, share_acknowledge.AcknowledgementBatch)


def identify(group: str | None, member: str | None, context: RequestContext) -> ShareSessionKey:
    """Whose request it is. That there is such a group and member, nobody asks: the session says so.

    Raises:
        BrokerError: INVALID_REQUEST or GROUP_AUTHORIZATION_FAILED.
    """
    if not group:
        raise BrokerError(ErrorCode.INVALID_REQUEST, detail="group_id is empty")
    context.require(Operation.READ, ResourceType.GROUP, group)
    if not member or len(member) > _LONGEST_ID:
        raise BrokerError(ErrorCode.INVALID_REQUEST, detail=f"member_id is not 1 to {_LONGEST_ID} characters")
    return ShareSessionKey(group, member)


def readable(partition_id: TopicIdPartition, context: RequestContext) -> tuple[Topic, Partition]:
    """A partition that the client may read, whoever leads it.

    Raises:
        BrokerError: UNKNOWN_TOPIC_ID, TOPIC_AUTHORIZATION_FAILED or UNKNOWN_TOPIC_OR_PARTITION.
    """
    topic_id, index = partition_id
    name = context.topic_name(None, topic_id, by_id=True)
    context.require(Operation.READ, ResourceType.TOPIC, name)
    return context.state.topics[name], context.state.partition(name, index)


def leader_of(partition_id: TopicIdPartition, context: RequestContext) -> tuple[int, int]:
    """Who leads a partition, and in which epoch; -1 where that is not known."""
    topic = context.state.topic_by_id(partition_id[0])
    partition = context.state.find_partition(topic.name, partition_id[1]) if topic is not None else None
    return (partition.leader, partition.leader_epoch) if partition is not None else (-1, -1)


def nodes(leaders: Iterable[int], context: RequestContext) -> list[Node]:
    """Those of the leaders that are up."""
    wanted = set(leaders)
    return [node for node in context.state.alive if node.node_id in wanted]


def acknowledge(
    session_key: ShareSessionKey, said: Mapping[TopicIdPartition, Sequence[Said]], renews: bool, context: RequestContext
) -> dict[TopicIdPartition, Refusal]:
    """Carry out what a member says of its records, in each partition for itself.

    Args:
        who: The member.
        said: What it says.
        renews: Whether locks may be renewed by that.
        context: The request's.

    Returns:
        Why it was refused, for each partition; None where it was not.
    """
    return {
        partition_id: _acknowledge(session_key, partition_id, batches, renews, context)
        for partition_id, batches in said.items()
    }


def _acknowledge(
    session_key: ShareSessionKey,
    partition_id: TopicIdPartition,
    batches: Sequence[Said],
    renews: bool,
    context: RequestContext,
) -> Refusal:
    try:
        _, partition = readable(partition_id, context)
        if partition.leader != context.node.node_id:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, detail="nothing was fetched of it here")
        acknowledgements = [_checked(batch, renews, context.version) for batch in batches]
        if any(later.first < earlier.last for earlier, later in pairwise(acknowledgements)):
            raise BrokerError(
                ErrorCode.INVALID_REQUEST, detail="acknowledgements are not in the order of their offsets"
            )
        context.shares.acknowledge(session_key, partition_id, acknowledgements)
    except BrokerError as error:
        return error
    return None


def _checked(batch: Said, renews: bool, version: int) -> Acknowledgement:
    types = batch.acknowledge_types
    size = batch.last_offset - batch.first_offset + 1
    if batch.first_offset < 0 or size < 1:
        raise BrokerError(
            ErrorCode.INVALID_REQUEST, detail=f"offsets {batch.first_offset} to {batch.last_offset} are none"
        )
    if len(types) != 1 and len(types) != size:
        raise BrokerError(ErrorCode.INVALID_REQUEST, detail=f"{len(types)} acknowledge types for {size} offsets")
    highest = RENEW if version >= RENEWS and renews else RENEW - 1
    for ack_type in set(types):
        if not 0 <= ack_type <= highest:
            raise BrokerError(ErrorCode.INVALID_REQUEST, detail=f"acknowledge type {ack_type} is not 0 to {highest}")
    return Acknowledgement(batch.first_offset, batch.last_offset, types)


def end_if_last(session: ShareSession, epoch: int, context: RequestContext) -> None:
    """End a session whose last request this was."""
    if epoch == FINAL_EPOCH:
        context.shares.end_session(context.share_sessions, session, context.node.node_id)
