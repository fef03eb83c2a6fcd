"""DescribeTransactions: the states of transactions and the partitions they have written to (KIP-664)."""

from __future__ import annotations

from aiokproto.broker.handlers.once import Once
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (
    Required(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, otherwise="refuses the transactional id"),
    Required(Operation.DESCRIBE, ResourceType.TOPIC, otherwise="leaves out topics"),
)


async def handle(request: DescribeTransactionsRequest, context: RequestContext) -> DescribeTransactionsResponse:
    once = Once()
    return DescribeTransactionsResponse(
        transaction_states=[
            _describe(each, context) async for each in context.each(request.transactional_ids) if once(each)
        ]
    )


def _describe(transactional_id: str, context: RequestContext) -> TransactionState:
    try:
        context.authorize(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        context.transactions.check(transactional_id, context.node.node_id)
        found = context.transactions.find(transactional_id)
        if found is None:
            raise BrokerError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    except BrokerError as error:
        return TransactionState(
            error_code=error.code,
            transactional_id=transactional_id,
            transaction_state="",
            transaction_timeout_ms=0,
            transaction_start_time_ms=0,
            producer_id=0,
            producer_epoch=0,
            topics=[],
        )
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(found.partitions):
        if not context.is_authorized(Operation.DESCRIBE, ResourceType.TOPIC, topic):
            continue
        topics.setdefault(topic, []).append(index)
    return TransactionState(
        error_code=ErrorCode.NONE,
        transactional_id=transactional_id,
        transaction_state=found.status.text,
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.started,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[TopicData(topic=topic, partitions=partitions) for topic, partitions in topics.items()],
    )
