"""From a failure to what to do about it: the tables by API, and the one function that reads them."""

from __future__ import annotations

from aiokproto.error_codes import ErrorCode, Policy
from aiokproto.errors import BrokerError
from aiokproto.failures import common, consuming, membership, producing
from aiokproto.failures.action import Action, Row, Situation, Table

TABLES: dict[int, Table] = {
    0: producing.PRODUCE,
    1: consuming.FETCH,
    2: consuming.LIST_OFFSETS,
    3: common.METADATA,
    8: membership.OFFSET_COMMIT,
    9: membership.OFFSET_FETCH,
    10: common.FIND_COORDINATOR,
    11: membership.JOIN_GROUP,
    12: membership.HEARTBEAT,
    13: membership.LEAVE_GROUP,
    14: membership.SYNC_GROUP,
    18: common.API_VERSIONS,
    22: producing.INIT_PRODUCER_ID,
    23: consuming.OFFSET_FOR_LEADER_EPOCH,
    24: producing.ADD_PARTITIONS_TO_TXN,
    25: producing.ADD_OFFSETS_TO_TXN,
    26: producing.END_TXN,
    28: producing.TXN_OFFSET_COMMIT,
    68: membership.CONSUMER_GROUP_HEARTBEAT,
    76: membership.SHARE_GROUP_HEARTBEAT,
    78: consuming.SHARE_FETCH,
    79: consuming.SHARE_ACKNOWLEDGE,
}
"""By ApiKey."""

# What Kafka says of a code for all APIs, in the order in which it counts.
_FLAGS = (
    (Policy.AUTHENTICATION, Row(Action.STOP, "credentials do not become valid by waiting")),
    (Policy.REFRESH, Row(Action.REFRESH_METADATA, "the broker says that the metadata is out of date")),
    (Policy.RETRY, Row(Action.BACKOFF, "the broker says that it will pass")),
)


def classify(failure: ErrorCode | BaseException, situation: Situation) -> Action:
    """What to do about a failure.

    Args:
        failure: An error code of a response, or what a request ended with instead of one.
        situation: Which request it was, and whose.
    """
    return find_row(failure, situation).action


def find_row(failure: ErrorCode | BaseException, situation: Situation) -> Row:
    """What to do, and why.

    An exception counts as its nearest base class that has a row, whichever table it is in; among the tables the one
    for the situation comes first, then the API's, then the common one.
    """
    table = common.REQUEST if situation.api is None else TABLES.get(situation.api, common.REQUEST)
    layers = [rows for flag, rows in table.when if getattr(situation, flag)]
    layers += [table.rows, common.COMMON]
    if isinstance(failure, BrokerError):
        failure = failure.code
    kinds = (failure,) if isinstance(failure, ErrorCode) else type(failure).__mro__
    for kind in kinds:
        for rows in layers:
            if kind in rows:
                return rows[kind]
    assert isinstance(failure, ErrorCode), "BaseException has a row"
    for flag, row in _FLAGS:
        if failure.policy & flag:
            return row
    return next(rows[None] for rows in layers if None in rows)
