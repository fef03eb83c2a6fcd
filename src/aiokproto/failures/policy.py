"""The tables by ApiKey, and the functions that search them. The package's docstring explains the search order."""

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
    17: common.SASL,
    18: common.API_VERSIONS,
    22: producing.INIT_PRODUCER_ID,
    23: consuming.OFFSET_FOR_LEADER_EPOCH,
    24: producing.ADD_PARTITIONS_TO_TXN,
    25: producing.ADD_OFFSETS_TO_TXN,
    26: producing.END_TXN,
    28: producing.TXN_OFFSET_COMMIT,
    36: common.SASL,
    65: producing.DESCRIBE_TRANSACTIONS,
    68: membership.CONSUMER_GROUP_HEARTBEAT,
    71: common.TELEMETRY,
    72: common.TELEMETRY,
    76: membership.SHARE_GROUP_HEARTBEAT,
    78: consuming.SHARE_FETCH,
    79: consuming.SHARE_ACKNOWLEDGE,
    88: membership.STREAMS_GROUP_HEARTBEAT,
    93: membership.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE,
}
"""By ApiKey."""

# Kafka's own classification of error codes, for codes without a row. The first match wins. NOT_LEADER_OR_FOLLOWER
# (RETRY | REFRESH) becomes REFRESH_METADATA here.
_FLAGS = (
    (Policy.AUTHENTICATION, Row(Action.STOP, "a retry does not make credentials valid")),
    (Policy.REFRESH, Row(Action.REFRESH_METADATA, "the broker says that the metadata is out of date")),
    (Policy.RETRY, Row(Action.BACKOFF, "the error code is retriable")),
)


def classify(failure: ErrorCode | BaseException, situation: Situation) -> Action:
    """Return what to do about a failure.

    Args:
        failure: An error code in a response, or the exception that a request raised.
        situation: Which request it was, and who sent it.
    """
    return find_row(failure, situation).action


def find_row(failure: ErrorCode | BaseException, situation: Situation) -> Row:
    """Return the action and its reason.

    An exception matches its nearest base class with a row, whichever table the row is in. Among the tables, the
    situation's rows come first, then the API's, then the common ones.
    """
    # An API without a table is treated as a request of Client.request.
    table = common.REQUEST if situation.api is None else TABLES.get(situation.api, common.REQUEST)
    layers = [rows for flag, rows in table.when if getattr(situation, flag)]
    layers += [table.rows, common.COMMON]
    # An exception that was created from an error code is treated like the code.
    if isinstance(failure, BrokerError):
        failure = failure.code
    # The nearest class comes first, across all tables: a row for a subclass in a later table takes precedence over a
    # row for its base class in an earlier table.
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
