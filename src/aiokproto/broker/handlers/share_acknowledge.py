"""ShareAcknowledge (KIP-932): acknowledge records in a share session, without fetching more.

v2: renewal of acquisition locks (KIP-1222). The session must exist: only ShareFetch creates one. Epoch -1 closes it.
"""

from __future__ import annotations

from aiokproto.broker.handlers.share_requests import (
    RENEW_VERSION,
    AcknowledgeError,
    acknowledge,
    end_if_last,
    identify,
    leader_of,
    nodes,
)
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.broker.share.session import INITIAL_EPOCH, ShareSession, ShareSessionKey, TopicIdPartition
from aiokproto.codec.messages.share_acknowledge import (
    AcknowledgementBatch,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (
    Required(Operation.READ, ResourceType.GROUP, otherwise="refuses the request"),
    Required(Operation.READ, ResourceType.TOPIC, otherwise="refuses the topics of the session"),
)


async def handle(request: ShareAcknowledgeRequest, context: RequestContext) -> ShareAcknowledgeResponse:
    try:
        session_key = identify(request.group_id, request.member_id, context)
        session = _session(session_key, request, context)
    except BrokerError as error:
        return ShareAcknowledgeResponse(
            error_code=error.code, error_message=error.detail, responses=[], node_endpoints=[]
        )
    acknowledgements: dict[TopicIdPartition, list[AcknowledgementBatch]] = {}
    async for topic in context.each(request.topics):
        async for partition in context.each(topic.partitions):
            if partition.acknowledgement_batches:
                partition_id = (topic.topic_id, partition.partition_index)
                acknowledgements.setdefault(partition_id, []).extend(partition.acknowledgement_batches)
    renew = context.version >= RENEW_VERSION and request.is_renew_ack
    results = await acknowledge(session_key, acknowledgements, renew, context)
    end_if_last(session, request.share_session_epoch, context)
    return await _respond(session_key, results, context)


def _session(session_key: ShareSessionKey, request: ShareAcknowledgeRequest, context: RequestContext) -> ShareSession:
    if request.share_session_epoch == INITIAL_EPOCH:
        raise BrokerError(
            ErrorCode.INVALID_SHARE_SESSION_EPOCH,
            detail="epoch 0 creates a share session, which only ShareFetch can do",
        )
    return context.share_sessions.next_request(session_key, request.share_session_epoch)


async def _respond(
    session_key: ShareSessionKey, results: dict[TopicIdPartition, AcknowledgeError], context: RequestContext
) -> ShareAcknowledgeResponse:
    topics: dict[bytes, list[PartitionData]] = {}
    leaders = set()
    async for partition_id, error in context.each(results.items()):
        leader, epoch = -1, -1
        if error is not None and error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            leader, epoch = leader_of(partition_id, context)
            leaders.add(leader)
        topics.setdefault(partition_id[0], []).append(
            PartitionData(
                partition_index=partition_id[1],
                error_code=error.code if error is not None else ErrorCode.NONE,
                error_message=error.detail if error is not None else None,
                current_leader=LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch),
            )
        )
    return ShareAcknowledgeResponse(
        error_code=ErrorCode.NONE,
        acquisition_lock_timeout_ms=round(context.shares.settings(session_key.group_id).config.lock_duration * 1000),
        responses=[
            ShareAcknowledgeTopicResponse(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in topics.items()
        ],
        node_endpoints=[
            NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port) for node in nodes(leaders, context)
        ],
    )
