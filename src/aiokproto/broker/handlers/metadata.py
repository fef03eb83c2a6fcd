"""Metadata: nodes, topics and leaders. v10: topic ids (KIP-516). v13: REBOOTSTRAP_REQUIRED, which is never returned.

If a topic doesn't exist, it is created with the broker's defaults, provided that both the broker and the request allow
it. Unlike in Kafka, leaders are elected immediately, so the response already contains them.
"""

from __future__ import annotations

from aiokproto.broker.handlers.once import Once
from aiokproto.broker.metadata.topics import INTERNAL, NO_LEADER, Partition, Topic, unknown_topic_error
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import CLUSTER_NAME, Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from aiokproto.codec.schema import Versions
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (
    Required(Operation.DESCRIBE, ResourceType.TOPIC, otherwise="refuses topics that are named, leaves out others"),
    Required(
        Operation.CREATE, ResourceType.TOPIC, unless=Operation.CREATE, otherwise="refuses topics that would be created"
    ),
    Required(
        Operation.DESCRIBE,
        ResourceType.CLUSTER,
        versions=Versions.parse("8-10"),
        otherwise="reports no operations on the cluster",
    ),
)


async def handle(request: MetadataRequest, context: RequestContext) -> MetadataResponse:
    state = context.state
    # The list isn't nullable in v0, so an empty list means all topics.
    if request.topics is None or (context.version == 0 and not request.topics):
        # Leave out topics that the client may not describe. Errors would reveal their names.
        topics = [
            _describe(topic, context)
            async for topic in context.each(list(state.topics.values()))
            if context.is_authorized(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
        ]
    else:
        once, topics = Once(), []
        for requested in request.topics:
            if context.turns.uses_up():
                await context.turns.pause()
            if once(requested.name, requested.topic_id):
                before = len(state.topics)
                topics.append(_find_or_create(requested, request.allow_auto_topic_creation, context))
                if len(state.topics) != before:
                    # Creating a topic takes longer than describing it, and a request can contain thousands of topics.
                    await context.turns.pause()
    if request.include_topic_authorized_operations:
        async for found in context.each(topics):
            if not found.error_code:
                found.topic_authorized_operations = context.authorized_operations(ResourceType.TOPIC, found.name or "")
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in state.alive
        ],
        cluster_id=state.cluster_id,
        controller_id=state.controller_id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(context)
    return response


def cluster_operations(context: RequestContext) -> int:
    """Return the client's authorized operations on the cluster, or 0 if it isn't allowed to describe the cluster."""
    if not context.is_authorized(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return 0
    return context.authorized_operations(ResourceType.CLUSTER, CLUSTER_NAME)


def _find_or_create(
    requested: MetadataRequestTopic, may_create: bool, context: RequestContext
) -> MetadataResponseTopic:
    state = context.state
    if requested.name is None or requested.topic_id != ZERO_UUID:
        topic = state.topic_by_id(requested.topic_id)
        if topic is None:
            # The name isn't nullable in v10 and v11.
            name = None if context.version >= 12 else ""
            return _failed(ErrorCode.UNKNOWN_TOPIC_ID, name, requested.topic_id)
        if not context.is_authorized(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
            # The client sent the id, and the response must not reveal the name.
            name = None if context.version >= 12 else ""
            return _failed(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, requested.topic_id)
        return _describe(topic, context)
    # Check this before the lookup, so the error doesn't reveal whether the topic exists.
    if not context.is_authorized(Operation.DESCRIBE, ResourceType.TOPIC, requested.name):
        return _failed(ErrorCode.TOPIC_AUTHORIZATION_FAILED, requested.name)
    topic = state.topics.get(requested.name)
    if topic is None and may_create and state.options.value("auto.create.topics.enable"):
        if not (
            # Either permission is enough, as for CreateTopics (KIP-277).
            context.is_authorized(Operation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
            or context.is_authorized(Operation.CREATE, ResourceType.TOPIC, requested.name)
        ):
            return _failed(ErrorCode.TOPIC_AUTHORIZATION_FAILED, requested.name)
        try:
            name = requested.name
            # Internal topics have their own number of partitions, which determines where coordinators are.
            topic = state.internal_topic(name) if name in INTERNAL else state.create_topic(name)
        except BrokerError as error:
            return _failed(error.code, requested.name)
    if topic is None:
        # INVALID_TOPIC_EXCEPTION makes a client give up. With UNKNOWN_TOPIC_OR_PARTITION, it would retry forever.
        return _failed(unknown_topic_error(requested.name), requested.name)
    return _describe(topic, context)


def _failed(error: ErrorCode, name: str | None, topic_id: bytes = ZERO_UUID) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=error, name=name, topic_id=topic_id, partitions=[])


def _describe(topic: Topic, context: RequestContext) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=[_describe_partition(partition, context) for partition in topic.partitions],
    )


def _describe_partition(partition: Partition, context: RequestContext) -> MetadataResponsePartition:
    nodes = context.state.nodes
    return MetadataResponsePartition(
        # This error is retriable: the client refreshes its metadata until there is a leader.
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if partition.leader == NO_LEADER else ErrorCode.NONE,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=[node_id for node_id in partition.replicas if not nodes[node_id].alive],
    )
