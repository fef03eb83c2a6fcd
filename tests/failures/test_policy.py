"""What failures mean, API by API."""

from __future__ import annotations

import asyncio

import pytest

from aiokproto.codec.registry import api_name
from aiokproto.error_codes import ErrorCode as Code
from aiokproto.errors import (
    AuthenticationError,
    BrokerConnectionError,
    ClientClosedError,
    ConfigurationError,
    CorruptRecordError,
    DeadlineError,
    DecodeError,
    EncodeError,
    NotKafkaError,
    ResponseTooLargeError,
    UnsupportedVersionError,
    error_for,
)
from aiokproto.failures import Action, Situation, classify, find_row
from aiokproto.failures.policy import TABLES

PRODUCE, FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 0, 1, 2, 3, 8, 9, 10
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = (
    11,
    12,
    13,
    14,
    17,
    18,
    36,
)
INIT_PRODUCER_ID, EPOCHS, ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT = 22, 23, 24, 25, 26, 28
CONSUMER_HEARTBEAT, SHARE_HEARTBEAT, SHARE_FETCH, SHARE_ACKNOWLEDGE = 68, 76, 78, 79
STREAMS_HEARTBEAT, STREAMS_DESCRIPTION = 88, 93
GET_TELEMETRY, PUSH_TELEMETRY = 71, 72

NAMES = {
    PRODUCE: "Produce",
    FETCH: "Fetch",
    LIST_OFFSETS: "ListOffsets",
    METADATA: "Metadata",
    OFFSET_COMMIT: "OffsetCommit",
    OFFSET_FETCH: "OffsetFetch",
    FIND_COORDINATOR: "FindCoordinator",
    JOIN_GROUP: "JoinGroup",
    HEARTBEAT: "Heartbeat",
    LEAVE_GROUP: "LeaveGroup",
    SYNC_GROUP: "SyncGroup",
    SASL_HANDSHAKE: "SaslHandshake",
    API_VERSIONS: "ApiVersions",
    INIT_PRODUCER_ID: "InitProducerId",
    EPOCHS: "OffsetForLeaderEpoch",
    ADD_PARTITIONS: "AddPartitionsToTxn",
    ADD_OFFSETS: "AddOffsetsToTxn",
    END_TXN: "EndTxn",
    TXN_OFFSET_COMMIT: "TxnOffsetCommit",
    SASL_AUTHENTICATE: "SaslAuthenticate",
    65: "DescribeTransactions",
    CONSUMER_HEARTBEAT: "ConsumerGroupHeartbeat",
    SHARE_HEARTBEAT: "ShareGroupHeartbeat",
    SHARE_FETCH: "ShareFetch",
    SHARE_ACKNOWLEDGE: "ShareAcknowledge",
    STREAMS_HEARTBEAT: "StreamsGroupHeartbeat",
    STREAMS_DESCRIPTION: "StreamsGroupTopologyDescriptionUpdate",
    GET_TELEMETRY: "GetTelemetrySubscriptions",
    PUSH_TELEMETRY: "PushTelemetry",
}

FLAGS = [flag for flag in Situation._fields if flag != "api"]
SITUATIONS = [
    situation
    for api in [None, *TABLES]
    for situation in [Situation(api), *(Situation(api)._replace(**{flag: True}) for flag in FLAGS)]
]

RETRIED = {
    Action.RETRY,
    Action.BACKOFF,
    Action.REFRESH_METADATA,
    Action.REBOOTSTRAP,
    Action.FIND_COORDINATOR,
    Action.NEW_SESSION,
    Action.FETCH_FROM_LEADER,
    Action.VALIDATE_OFFSET,
}
"""Actions after which the same request is sent again."""

PRODUCER_ONLY = {Action.RESTART_SEQUENCE, Action.NEW_PRODUCER_ID}
READER_ONLY = {Action.RESET_OFFSET, Action.VALIDATE_OFFSET, Action.FETCH_FROM_LEADER}
MEMBER_ONLY = {Action.REJOIN, Action.REJOIN_LOST, Action.REJOIN_AS_NEW}
TRANSACTIONS = {INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT}


def test_the_tables_match_their_apis() -> None:
    assert {api: api_name(api) for api in TABLES} == NAMES


@pytest.mark.parametrize("situation", SITUATIONS, ids=str)
def test_every_code_has_a_row_in_every_situation(situation: Situation) -> None:
    """No API's failure leads to an action that only another API's caller can carry out."""
    for code in Code:
        row = find_row(code, situation)
        assert row.why
        assert (row.action is Action.ACCEPT) >= (code is Code.NONE)
        if row.action in PRODUCER_ONLY:
            assert situation.api == PRODUCE
        if row.action is Action.SPLIT_BATCH:
            assert situation.api in {PRODUCE, SHARE_ACKNOWLEDGE}
        if row.action in READER_ONLY:
            assert situation.api == FETCH
        if row.action in MEMBER_ONLY:
            assert situation.api in {JOIN_GROUP, SYNC_GROUP, HEARTBEAT, OFFSET_COMMIT, OFFSET_FETCH} | {
                CONSUMER_HEARTBEAT,
                SHARE_HEARTBEAT,
                STREAMS_HEARTBEAT,
            }
        if row.action is Action.ABORT_TRANSACTION:
            assert situation.transactional or situation.api in TRANSACTIONS or situation.api == FIND_COORDINATOR
        if row.action is Action.NEW_SESSION:
            assert situation.api in {FETCH, SHARE_FETCH, SHARE_ACKNOWLEDGE}


@pytest.mark.parametrize("situation", SITUATIONS, ids=str)
def test_errors_that_kafka_calls_retriable_are_retried_with_few_exceptions(situation: Situation) -> None:
    """These are all exceptions. Java's client doesn't simply send them again, either."""
    exceptions = {
        (None, Code.ELECTION_NOT_NEEDED),
        # The caller has started these sessions, and knows what they held.
        (None, Code.FETCH_SESSION_ID_NOT_FOUND),
        (None, Code.INVALID_FETCH_SESSION_EPOCH),
        (None, Code.FETCH_SESSION_TOPIC_ID_ERROR),
        (None, Code.SHARE_SESSION_NOT_FOUND),
        (None, Code.INVALID_SHARE_SESSION_EPOCH),
        (FETCH, Code.CORRUPT_MESSAGE),
        (SHARE_FETCH, Code.CORRUPT_MESSAGE),
        (OFFSET_FETCH, Code.UNKNOWN_TOPIC_OR_PARTITION),
        *(
            (SHARE_ACKNOWLEDGE, code)
            for code in (
                Code.NOT_LEADER_OR_FOLLOWER,
                Code.FENCED_LEADER_EPOCH,
                Code.UNKNOWN_TOPIC_ID,
                Code.UNKNOWN_TOPIC_OR_PARTITION,
            )
        ),
    }
    for code in Code:
        if code.retriable and (situation.api, code) not in exceptions:
            assert classify(code, situation) in RETRIED, code


def test_a_code_of_a_later_release_falls_to_each_apis_default() -> None:
    unknown = Code(9999)
    assert classify(unknown, Situation()) is Action.FAIL
    assert classify(unknown, Situation(PRODUCE, idempotent=True)) is Action.FAIL
    assert classify(unknown, Situation(PRODUCE, transactional=True)) is Action.ABORT_TRANSACTION
    assert classify(unknown, Situation(JOIN_GROUP)) is Action.STOP


@pytest.mark.parametrize("situation", [s for s in SITUATIONS if not s.starting], ids=str)
def test_lost_credentials_stop_the_client_after_any_request(situation: Situation) -> None:
    assert classify(AuthenticationError("refused"), situation) is Action.STOP
    assert classify(Code.SASL_AUTHENTICATION_FAILED, situation) is Action.STOP


@pytest.mark.parametrize("situation", SITUATIONS, ids=str)
def test_a_cancelled_task_and_a_defect_stop_the_client(situation: Situation) -> None:
    assert classify(asyncio.CancelledError(), situation) is Action.STOP
    assert classify(ZeroDivisionError(), situation) is Action.STOP
    assert classify(ClientClosedError("closed"), situation) is Action.STOP


@pytest.mark.parametrize("situation", SITUATIONS, ids=str)
def test_a_mistake_in_the_call_is_its_own(situation: Situation) -> None:
    assert classify(ConfigurationError("no node"), situation) is Action.FAIL
    assert classify(EncodeError("no such field"), situation) is Action.FAIL


@pytest.mark.parametrize("situation", SITUATIONS, ids=str)
def test_a_lost_connection_and_a_silent_broker_are_tried_again(situation: Situation) -> None:
    """All but the acknowledgements of a share consumer: the records were released with the connection."""
    if situation.api == SHARE_ACKNOWLEDGE:
        assert classify(BrokerConnectionError("lost"), situation) is Action.FAIL
    else:
        assert classify(BrokerConnectionError("lost"), situation) in RETRIED
        assert classify(DeadlineError("silent"), situation) in RETRIED


@pytest.mark.parametrize(
    ("failure", "situation", "action"),
    [
        # Producing.
        (Code.NOT_LEADER_OR_FOLLOWER, Situation(PRODUCE), Action.REFRESH_METADATA),
        (Code.NOT_ENOUGH_REPLICAS, Situation(PRODUCE), Action.BACKOFF),
        (Code.MESSAGE_TOO_LARGE, Situation(PRODUCE, divisible=True), Action.SPLIT_BATCH),
        (Code.INVALID_RECORD_STATE, Situation(SHARE_ACKNOWLEDGE, divisible=True), Action.SPLIT_BATCH),
        (Code.MESSAGE_TOO_LARGE, Situation(PRODUCE), Action.FAIL),
        (Code.DUPLICATE_SEQUENCE_NUMBER, Situation(PRODUCE, idempotent=True), Action.ACCEPT),
        (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Situation(PRODUCE, idempotent=True), Action.RESTART_SEQUENCE),
        (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Situation(PRODUCE, transactional=True), Action.ABORT_TRANSACTION),
        (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Situation(PRODUCE), Action.FAIL),
        (Code.INVALID_PRODUCER_EPOCH, Situation(PRODUCE, idempotent=True), Action.NEW_PRODUCER_ID),
        (Code.INVALID_PRODUCER_EPOCH, Situation(PRODUCE, transactional=True), Action.CHECK_EPOCH),
        (Code.PRODUCER_FENCED, Situation(PRODUCE, transactional=True), Action.CHECK_EPOCH),
        (Code.TOPIC_AUTHORIZATION_FAILED, Situation(PRODUCE, idempotent=True), Action.FAIL),
        (DecodeError("broken"), Situation(PRODUCE, idempotent=True), Action.BACKOFF),
        (UnsupportedVersionError("old"), Situation(PRODUCE), Action.STOP),
        (Code.CLUSTER_AUTHORIZATION_FAILED, Situation(INIT_PRODUCER_ID), Action.FAIL),
        (Code.INVALID_PRODUCER_EPOCH, Situation(INIT_PRODUCER_ID, transactional=True), Action.STOP),
        (Code.NOT_COORDINATOR, Situation(INIT_PRODUCER_ID, transactional=True), Action.FIND_COORDINATOR),
        (Code.CONCURRENT_TRANSACTIONS, Situation(ADD_PARTITIONS, transactional=True), Action.BACKOFF),
        (Code.OPERATION_NOT_ATTEMPTED, Situation(ADD_PARTITIONS, transactional=True), Action.ABORT_TRANSACTION),
        (Code.UNKNOWN_MEMBER_ID, Situation(TXN_OFFSET_COMMIT, transactional=True), Action.ABORT_TRANSACTION),
        (Code.INVALID_TXN_STATE, Situation(END_TXN, transactional=True), Action.CHECK_EPOCH),
        (Code.TRANSACTION_ABORTABLE, Situation(END_TXN, transactional=True), Action.ABORT_TRANSACTION),
        (Code.TRANSACTION_ABORTABLE, Situation(END_TXN, transactional=True, aborting=True), Action.BACKOFF),
        (Code.UNKNOWN_SERVER_ERROR, Situation(END_TXN, transactional=True), Action.STOP),
        (Code.GROUP_ID_NOT_FOUND, Situation(TXN_OFFSET_COMMIT, transactional=True), Action.ABORT_TRANSACTION),
        (Code.INVALID_PRODUCER_EPOCH, Situation(TXN_OFFSET_COMMIT, transactional=True), Action.CHECK_EPOCH),
        (Code.PRODUCER_FENCED, Situation(TXN_OFFSET_COMMIT, transactional=True), Action.CHECK_EPOCH),
        # Reading.
        (Code.OFFSET_OUT_OF_RANGE, Situation(FETCH), Action.RESET_OFFSET),
        (Code.OFFSET_OUT_OF_RANGE, Situation(FETCH, follower=True), Action.FETCH_FROM_LEADER),
        (BrokerConnectionError("cut off"), Situation(FETCH, follower=True), Action.FETCH_FROM_LEADER),
        (AuthenticationError("refused"), Situation(FETCH, follower=True), Action.STOP),
        (Code.FENCED_LEADER_EPOCH, Situation(FETCH), Action.VALIDATE_OFFSET),
        (Code.FENCED_LEADER_EPOCH, Situation(LIST_OFFSETS), Action.REFRESH_METADATA),
        (Code.UNKNOWN_SERVER_ERROR, Situation(FETCH), Action.BACKOFF),
        (Code.CORRUPT_MESSAGE, Situation(FETCH), Action.FAIL),
        (CorruptRecordError("damaged"), Situation(FETCH), Action.FAIL),
        (ResponseTooLargeError("too large"), Situation(FETCH), Action.STOP),
        (Code.UNSUPPORTED_FOR_MESSAGE_FORMAT, Situation(LIST_OFFSETS), Action.ACCEPT),
        (UnsupportedVersionError("old"), Situation(EPOCHS), Action.ACCEPT),
        (Code.INVALID_RECORD_STATE, Situation(SHARE_ACKNOWLEDGE), Action.FAIL),
        (Code.SHARE_SESSION_LIMIT_REACHED, Situation(SHARE_FETCH), Action.BACKOFF),
        # Groups.
        (Code.MEMBER_ID_REQUIRED, Situation(JOIN_GROUP), Action.REJOIN),
        (Code.UNKNOWN_MEMBER_ID, Situation(JOIN_GROUP), Action.REJOIN_AS_NEW),
        (Code.ILLEGAL_GENERATION, Situation(SYNC_GROUP), Action.REJOIN_LOST),
        (Code.REBALANCE_IN_PROGRESS, Situation(HEARTBEAT), Action.REJOIN),
        (Code.FENCED_INSTANCE_ID, Situation(HEARTBEAT), Action.STOP),
        (Code.GROUP_AUTHORIZATION_FAILED, Situation(HEARTBEAT), Action.STOP),
        (Code.UNKNOWN_SERVER_ERROR, Situation(HEARTBEAT), Action.BACKOFF),
        (Code.UNKNOWN_MEMBER_ID, Situation(LEAVE_GROUP), Action.ACCEPT),
        (Code.UNKNOWN_MEMBER_ID, Situation(OFFSET_COMMIT, member=True), Action.REJOIN_AS_NEW),
        (Code.UNKNOWN_MEMBER_ID, Situation(OFFSET_COMMIT), Action.FAIL),
        (Code.REQUEST_TIMED_OUT, Situation(OFFSET_COMMIT, member=True), Action.FIND_COORDINATOR),
        (Code.UNSTABLE_OFFSET_COMMIT, Situation(OFFSET_FETCH), Action.BACKOFF),
        (Code.UNKNOWN_TOPIC_ID, Situation(OFFSET_FETCH), Action.REFRESH_METADATA),
        (Code.GROUP_ID_NOT_FOUND, Situation(OFFSET_FETCH), Action.ACCEPT),
        (Code.GROUP_ID_NOT_FOUND, Situation(OFFSET_FETCH, member=True), Action.FAIL),
        (Code.GROUP_ID_NOT_FOUND, Situation(CONSUMER_HEARTBEAT, member=True), Action.STOP),
        (Code.GROUP_ID_NOT_FOUND, Situation(CONSUMER_HEARTBEAT, member=True, optional=True), Action.FALL_BACK),
        (
            Code.GROUP_ID_NOT_FOUND,
            Situation(CONSUMER_HEARTBEAT, member=True, optional=True, joined=True),
            Action.REJOIN_LOST,
        ),
        (Code.UNKNOWN_TOPIC_ID, Situation(OFFSET_COMMIT, member=True), Action.REFRESH_METADATA),
        (Code.TOPIC_AUTHORIZATION_FAILED, Situation(OFFSET_COMMIT, member=True), Action.FAIL),
        (Code.FENCED_INSTANCE_ID, Situation(OFFSET_COMMIT, member=True), Action.STOP),
        (Code.FENCED_INSTANCE_ID, Situation(OFFSET_COMMIT), Action.FAIL),
        (DeadlineError("silent"), Situation(JOIN_GROUP), Action.FIND_COORDINATOR),
        (Code.FENCED_MEMBER_EPOCH, Situation(CONSUMER_HEARTBEAT), Action.REJOIN_LOST),
        (Code.UNRELEASED_INSTANCE_ID, Situation(CONSUMER_HEARTBEAT), Action.BACKOFF),
        # The cluster.
        (Code.REBOOTSTRAP_REQUIRED, Situation(METADATA), Action.REBOOTSTRAP),
        (Code.INVALID_TOPIC_EXCEPTION, Situation(METADATA), Action.FAIL),
        (Code.COORDINATOR_NOT_AVAILABLE, Situation(FIND_COORDINATOR), Action.BACKOFF),
        (Code.UNSUPPORTED_VERSION, Situation(API_VERSIONS), Action.RETRY),
        (AuthenticationError("refused"), Situation(METADATA, starting=True), Action.FAIL),
        (NotKafkaError("http"), Situation(METADATA, starting=True), Action.FAIL),
        (NotKafkaError("http"), Situation(METADATA), Action.REFRESH_METADATA),
        # These are requests of users.
        (Code.NOT_CONTROLLER, Situation(), Action.REFRESH_METADATA),
        (Code.NOT_COORDINATOR, Situation(coordinated=True), Action.FIND_COORDINATOR),
        (BrokerConnectionError("lost"), Situation(coordinated=True), Action.FIND_COORDINATOR),
        (Code.THROTTLING_QUOTA_EXCEEDED, Situation(), Action.BACKOFF),
        (Code.TOPIC_ALREADY_EXISTS, Situation(), Action.FAIL),
        (UnsupportedVersionError("old"), Situation(), Action.FAIL),
    ],
    ids=str,
)
def test_the_action_for_each_error(failure: Code | BaseException, situation: Situation, action: Action) -> None:
    assert classify(failure, situation) is action
    if isinstance(failure, Code):
        assert classify(error_for(failure), situation) is action, "an error means what its code does"
