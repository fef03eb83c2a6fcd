"""DescribeProducers: the producers of partitions and their open transactions (KIP-664)."""

from __future__ import annotations

from aiokproto.broker.handlers.once import Once
from aiokproto.broker.log.producer_state import ProducerStateEntry, ProducerStateManager
from aiokproto.broker.metadata.topics import check_topic_name
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (Required(Operation.READ, ResourceType.TOPIC),)


async def handle(request: DescribeProducersRequest, context: RequestContext) -> DescribeProducersResponse:
    once = Once()
    topics: list[TopicResponse] = []
    async for topic in context.each(request.topics):
        partitions = [
            _describe(topic.name, index, context)
            async for index in context.each(topic.partition_indexes)
            if once(topic.name, index)
        ]
        topics.append(TopicResponse(name=topic.name, partitions=partitions))
    return DescribeProducersResponse(topics=topics)


def _describe(topic: str, index: int, context: RequestContext) -> PartitionResponse:
    try:
        check_topic_name(topic)
        producers = context.state.led_partition(topic, index, context.node.node_id).log.producers
    except BrokerError as error:
        return PartitionResponse(
            partition_index=index, error_code=error.code, error_message=error.detail, active_producers=[]
        )
    return PartitionResponse(
        partition_index=index,
        error_code=ErrorCode.NONE,
        active_producers=[_state(producer, producers) for producer in producers],
    )


def _state(producer: ProducerStateEntry, producers: ProducerStateManager) -> ProducerState:
    begun = producers.transaction_start(producer.producer_id)
    return ProducerState(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=-1 if begun is None else begun,
    )
