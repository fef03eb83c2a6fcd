"""CreateTopics: create topics. v4: -1 means the broker's defaults. v5: returns the topic's options (KIP-525). v7:
returns its id (KIP-516).

Every node serves this request: in Kafka, brokers forward it to the controller.
"""

from __future__ import annotations

from collections import Counter

from aiokproto.broker.handlers.describe_configs import topic_entries
from aiokproto.broker.metadata.cluster_state import check_new_partitions
from aiokproto.broker.metadata.topics import Topic
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from aiokproto.codec.schema import Versions
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (
    Required(Operation.CREATE, ResourceType.TOPIC, unless=Operation.CREATE),
    Required(
        Operation.DESCRIBE_CONFIGS,
        ResourceType.TOPIC,
        versions=Versions.parse("5+"),
        otherwise="does not return the topic's options",
    ),
)


async def handle(request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
    times = Counter(topic.name for topic in request.topics)
    # Older clients don't know THROTTLING_QUOTA_EXCEEDED. They are throttled after the change instead (KIP-599).
    context.mutation_quota.strict = context.version >= 6
    check_new_partitions(_count(topic, context) for topic in request.topics)
    response = CreateTopicsResponse(topics=[])
    for topic in request.topics:
        if response.topics:
            # Creating a topic looks for existing directories, and a request can contain thousands of topics.
            await context.turns.pause()
        response.topics.append(_response(topic, times[topic.name], request.validate_only, context))
    return response


def _count(requested: CreatableTopic, context: RequestContext) -> int:
    if requested.assignments:
        return len(requested.assignments)
    default = context.state.options.number("num.partitions")
    return default if requested.num_partitions == -1 else max(requested.num_partitions, 0)


def _response(requested: CreatableTopic, times: int, dry_run: bool, context: RequestContext) -> CreatableTopicResult:
    try:
        # If a topic is listed twice, both fail: there's no telling which one is meant.
        if times > 1:
            raise BrokerError(
                ErrorCode.INVALID_REQUEST, detail=f"topic {requested.name!r} is in the request {times} times"
            )
        topic = _create(requested, dry_run, context)
    except BrokerError as error:
        return CreatableTopicResult(name=requested.name, error_code=error.code, error_message=error.detail)
    if not context.is_authorized(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name):
        # The permission to create a topic doesn't include the permission to describe its options (KIP-525).
        return CreatableTopicResult(
            name=topic.name,
            topic_id=topic.topic_id,
            error_code=ErrorCode.NONE,
            error_message=None,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            configs=[],
        )
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=topic.replication,
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.config_source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in topic_entries(topic)
        ],
    )


def _create(requested: CreatableTopic, dry_run: bool, context: RequestContext) -> Topic:
    if requested.assignments and (requested.num_partitions, requested.replication_factor) != (-1, -1):
        raise BrokerError(
            ErrorCode.INVALID_REQUEST,
            detail="num_partitions and replication_factor must be -1 with assignments, not"
            f" {requested.num_partitions} and {requested.replication_factor}",
        )
    # Record the quota before creating the topic: an exceeded quota rejects it. The quota counts partitions, not
    # requests.
    context.mutation_quota.record(_count(requested, context))
    return context.state.create_topic(
        requested.name,
        requested.num_partitions,
        requested.replication_factor,
        {config.name: config.value for config in requested.configs},
        {assignment.partition_index: assignment.broker_ids for assignment in requested.assignments},
        dry_run=dry_run,
    )
