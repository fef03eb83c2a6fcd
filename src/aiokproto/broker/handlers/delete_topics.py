"""DeleteTopics: delete topics. v6: by name or id (KIP-516)."""

from __future__ import annotations

from aiokproto.broker.metadata.topics import Topic
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import CLUSTER_NAME, Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (
    Required(Operation.DELETE, ResourceType.TOPIC, unless=Operation.DELETE, otherwise="refuses the topics"),
    Required(Operation.DESCRIBE, ResourceType.TOPIC, otherwise="does not tell which topics exist"),
)


async def handle(request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
    # As in CreateTopics, this is the first version that knows THROTTLING_QUOTA_EXCEEDED (KIP-599).
    context.mutation_quota.strict = context.version >= 5
    requested = request.topics
    if context.version < 6:
        requested = [
            DeleteTopicState(name=name, topic_id=ZERO_UUID) async for name in context.each(request.topic_names)
        ]
    return DeleteTopicsResponse(responses=[_delete(topic, context) async for topic in context.each(requested)])


def _delete(requested: DeleteTopicState, context: RequestContext) -> DeletableTopicResult:
    state = context.state
    response = DeletableTopicResult(name=requested.name, topic_id=requested.topic_id, error_code=ErrorCode.NONE)
    by_id = requested.topic_id != ZERO_UUID
    try:
        if by_id == (requested.name is not None):
            raise BrokerError(ErrorCode.INVALID_REQUEST, detail="a topic must have either a name or an id")
        topic = state.topic_by_id(requested.topic_id) if by_id else state.topics.get(requested.name or "")
        _authorize(requested.name, topic, context)
        if topic is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        # Put both name and id into the response, even for an error, because the client may know only one of them.
        response.name, response.topic_id = topic.name, topic.topic_id
        # Record the quota before deleting the topic: an exceeded quota rejects the deletion.
        context.mutation_quota.record(len(topic.partitions))
        state.delete_topic(topic)
    except BrokerError as error:
        response.error_code, response.error_message = error.code, error.detail
    return response


def _authorize(name: str | None, topic: Topic | None, context: RequestContext) -> None:
    """Check that the client may delete a topic, or may learn that it doesn't exist. Raises :class:`BrokerError`."""
    name = topic.name if topic is not None else name
    # Reporting an unknown id reveals nothing.
    if name is None or context.is_authorized(Operation.DELETE, ResourceType.CLUSTER, CLUSTER_NAME):
        return
    operation = Operation.DELETE if topic is not None else Operation.DESCRIBE
    context.authorize(operation, ResourceType.TOPIC, name)
