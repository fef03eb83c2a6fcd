"""ListTransactions: the transactional ids that this node coordinates, filtered by state and producer id (KIP-664).

v1 (KIP-994): filter by duration. v2 (KIP-1152): filter by a regular expression of the id.
"""

from __future__ import annotations

from aiokproto.broker.patterns import compile_pattern
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.broker.transactions.transaction_metadata import TransactionMetadata, TransactionStatus
from aiokproto.codec.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

_STATES = {status.text for status in TransactionStatus}

REQUIRES = (Required(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, otherwise="leaves out transactions"),)


async def handle(request: ListTransactionsRequest, context: RequestContext) -> ListTransactionsResponse:
    try:
        wanted = request.transactional_id_pattern
        pattern = compile_pattern(wanted) if wanted else None
        known = list(context.transactions.transactions_of(context.node.node_id))
    except BrokerError as error:
        return ListTransactionsResponse(error_code=error.code, unknown_state_filters=[], transaction_states=[])
    now = context.state.clock.wall()
    states, producer_ids = set(request.state_filters), set(request.producer_id_filters)
    known = [
        each
        async for each in context.each(known)
        if context.is_authorized(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, each.transactional_id)
        and _matches(each, states, producer_ids, request.duration_filter, now)
    ]
    if pattern is not None:
        known = [each for each in known if await pattern.fullmatch_in_turns(each.transactional_id)]
    return ListTransactionsResponse(
        error_code=ErrorCode.NONE,
        unknown_state_filters=[name async for name in context.each(request.state_filters) if name not in _STATES],
        transaction_states=[
            TransactionState(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=each.status.text,
            )
            async for each in context.each(known)
        ],
    )


def _matches(
    transaction: TransactionMetadata, states: set[str], producer_ids: set[int], duration: int, now: int
) -> bool:
    return (
        (not states or transaction.status.text in states)
        and (not producer_ids or transaction.producer_id in producer_ids)
        and (duration < 0 or now - transaction.started > duration)
    )
