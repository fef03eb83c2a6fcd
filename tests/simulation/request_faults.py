"""Faults of single requests: rejected, lost, late, served twice."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.codec.registry import lookup
from aiokproto.codec.schema import Request, Response
from aiokproto.error_codes import ErrorCode
from aiokproto.failures import Action, Situation, classify
from aiokproto.failures.policy import TABLES
from tests.simulation.environment import Environment

APIS = (
    "Produce",
    "InitProducerId",
    "Metadata",
    "Fetch",
    "ListOffsets",
    "OffsetForLeaderEpoch",
    "FindCoordinator",
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "OffsetCommit",
    "OffsetFetch",
    "ShareFetch",
    "ShareAcknowledge",
    "ShareGroupHeartbeat",
    "ConsumerGroupHeartbeat",
    "GetTelemetrySubscriptions",
    "PushTelemetry",
)

TRANSIENT = {
    Action.RETRY,
    Action.BACKOFF,
    Action.REFRESH_METADATA,
    Action.REBOOTSTRAP,
    Action.FIND_COORDINATOR,
    Action.NEW_SESSION,
    Action.RESTART_SEQUENCE,
    Action.NEW_PRODUCER_ID,
    Action.VALIDATE_OFFSET,
    Action.REJOIN,
    Action.REJOIN_LOST,
    Action.REJOIN_AS_NEW,
}

GENERAL: dict[str, tuple[ErrorCode, ...]] = {
    "Produce": (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
    ),
    "InitProducerId": (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR),
    "Metadata": (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    "Fetch": (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    ),
    "ListOffsets": (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
    ),
    "OffsetForLeaderEpoch": (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
    ),
    "FindCoordinator": (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    "JoinGroup": (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,),
    "SyncGroup": (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,),
    "Heartbeat": (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,),
    "OffsetCommit": (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,),
    "OffsetFetch": (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,),
    "ShareFetch": (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    ),
    "ShareAcknowledge": (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.KAFKA_STORAGE_ERROR),
    "ShareGroupHeartbeat": (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,),
    "ConsumerGroupHeartbeat": (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,),
    "GetTelemetrySubscriptions": (),
    "PushTelemetry": (),
}
"""Codes that brokers return for an API without a row in its own table. Kafka's general classification applies."""


IMPOSSIBLE = {
    ErrorCode.STALE_MEMBER_EPOCH,  # only to a member whose epoch has grown, whose next heartbeat returns it (KIP-848)
    # Only the producer itself starts its next epoch, so a batch that may be in the log never gets this error.
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
}
"""Codes that no broker returns to these clients in the workloads here."""


def request_class(api: str) -> type[Request[Any]]:
    """Return the request class of an API."""
    return cast("type[Request[Any]]", lookup(f"{api}Request"))


def _transient(api: str) -> tuple[ErrorCode, ...]:
    key = request_class(api).api_key
    table = TABLES[key]
    # OffsetCommit has the member id, but OffsetFetch doesn't.
    situation = Situation(key, idempotent=True, member=api != "OffsetFetch")
    layers = [table.rows, *(rows for flag, rows in table.when if getattr(situation, flag))]
    named = {kind for rows in layers for kind in rows if isinstance(kind, ErrorCode)}
    codes = sorted(named | set(GENERAL[api]))
    return tuple(code for code in codes if code not in IMPOSSIBLE and classify(code, situation) in TRANSIENT)


TRANSACTIONAL: dict[str, tuple[ErrorCode, ...]] = {
    "Produce": (*GENERAL["Produce"], ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    **dict.fromkeys(
        ("InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR),
    ),
    "FindCoordinator": GENERAL["FindCoordinator"],
    "Metadata": GENERAL["Metadata"],
}
"""The same as ``GENERAL``, for the requests of a transactional producer."""

UNTRUE = {
    "FindCoordinator": {ErrorCode.TRANSACTION_ABORTABLE},
    "InitProducerId": {ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_ID_MAPPING},
    "EndTxn": {
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.INVALID_TXN_STATE,
        # A request gets this code if it is sent again, and was executed before.
        ErrorCode.TRANSACTION_ABORTABLE,
    },
}
"""Codes that end a transaction for its producer. No coordinator returns them unless that is true."""


def _transactional(api: str) -> tuple[ErrorCode, ...]:
    """Return the codes that a valid request of a transaction may get: it is retried, or the transaction is aborted."""
    key = request_class(api).api_key
    situation = Situation(key, transactional=True)
    table = TABLES[key]
    layers = [table.rows, *(rows for flag, rows in table.when if getattr(situation, flag))]
    named = {kind for rows in layers for kind in rows if isinstance(kind, ErrorCode)} - UNTRUE.get(api, set())
    allowed = TRANSIENT if api == "InitProducerId" else TRANSIENT | {Action.ABORT_TRANSACTION}
    return tuple(code for code in sorted(named | set(TRANSACTIONAL[api])) if classify(code, situation) in allowed)


SPLITTING = {"Produce": (ErrorCode.MESSAGE_TOO_LARGE,)}
"""Codes after which a batch is split. A batch with a single record fails."""

REFUSALS = {api: _transient(api) for api in APIS}
"""The error codes that brokers return for an API although the request is valid."""

TRANSACTIONAL_REFUSALS = {api: _transactional(api) for api in TRANSACTIONAL}
"""The same, for the requests of a transactional producer."""


async def refuse(environment: Environment, seconds: float, api: str, code: ErrorCode, times: int) -> None:
    with environment.cluster.faults.fail(request_class(api), code, times=times):
        await asyncio.sleep(seconds)


async def drop(environment: Environment, seconds: float, api: str, what: str, times: int) -> None:
    with environment.cluster.faults.drop(request_class(api), what, times=times):  # type: ignore[arg-type]
        await asyncio.sleep(seconds)


async def delay_answers(environment: Environment, seconds: float, api: str, by: float) -> None:
    with environment.cluster.faults.delay(request_class(api), by):
        await asyncio.sleep(seconds)


async def serve_twice(environment: Environment, seconds: float, api: str) -> None:
    """Serve a request twice, as if it were sent again after its response was lost."""

    async def twice(call: RequestInfo, serve: Serve) -> Response | None:
        await serve(call.request)
        return await serve(call.request)

    with environment.cluster.faults.intercept(request_class(api), twice):
        await asyncio.sleep(seconds)


async def throttle(environment: Environment, seconds: float, api: str, by_ms: int) -> None:
    async def throttled(call: RequestInfo, serve: Serve) -> Response | None:
        response: Any = await serve(call.request)
        if hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = by_ms
        return cast("Response | None", response)

    with environment.cluster.faults.intercept(request_class(api), throttled):
        await asyncio.sleep(seconds)
