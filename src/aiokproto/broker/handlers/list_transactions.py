"""ListTransactions: the transactional ids that this node coordinates, filtered by state and producer id (KIP-664).

v1 (KIP-994): filter by duration. v2 (KIP-1152): filter by a regular expression of the id.
"""

from __future__ import annotations

from aiokproto.broker.patterns import compile_pattern
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.required import Required
from aiokproto.broker.transactions.transaction_metadata import TransactionStatus
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
    wanted_states, producer_ids = frozenset(request.state_filters), frozenset(request.producer_id_filters)
    begun_before = None if request.duration_filter < 0 else context.state.clock.wall() - request.duration_filter
    return ListTransactionsResponse(
        error_code=ErrorCode.NONE,
        unknown_state_filters=[name for name in request.state_filters if name not in _STATES],
        transaction_states=[
            TransactionState(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=each.status.text,
            )
            for each in known
            if context.is_authorized(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, each.transactional_id)
            and (not wanted_states or each.status.text in wanted_states)
            and (not producer_ids or each.producer_id in producer_ids)
            and (begun_before is None or each.started < begun_before)
            and (pattern is None or pattern.fullmatch(each.transactional_id))
        ],
    )
