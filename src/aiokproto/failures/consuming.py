"""Failures of Fetch, ListOffsets, OffsetForLeaderEpoch and the share APIs (KIP-320, KIP-392, KIP-932)."""

from __future__ import annotations

from aiokproto.error_codes import ErrorCode as Code
from aiokproto.errors import (
    BrokerConnectionError,
    DeadlineError,
    NotKafkaError,
    ResponseTooLargeError,
    UnsupportedVersionError,
)
from aiokproto.failures.action import Action, Row, Rows, Table, otherwise, rows
from aiokproto.failures.common import NO_SUCH_API

_PASSING: Rows = {
    # Java waits only. But a topic that was deleted and created again, on brokers without topic ids, starts at epoch 0:
    # only fresh metadata ends that.
    Code.UNKNOWN_LEADER_EPOCH: Row(Action.REFRESH_METADATA, "the broker, or the client, has not heard of an election"),
    Code.UNKNOWN_SERVER_ERROR: Row(Action.BACKOFF, "trouble of the broker's own; Java too reads on"),
}
_STORED = rows(Action.FAIL, "the broker finds its log damaged: it will again", Code.CORRUPT_MESSAGE)

FETCH = Table(
    {
        **NO_SUCH_API,
        **_PASSING,
        **_STORED,
        **rows(
            Action.NEW_SESSION,
            "client and broker no longer agree on the session",
            Code.FETCH_SESSION_ID_NOT_FOUND,
            Code.INVALID_FETCH_SESSION_EPOCH,
            Code.FETCH_SESSION_TOPIC_ID_ERROR,
        ),
        Code.OFFSET_OUT_OF_RANGE: Row(Action.RESET_OFFSET, "the leader's log begins later or ends earlier"),
        Code.FENCED_LEADER_EPOCH: Row(Action.VALIDATE_OFFSET, "there was an election, which may have cut the log"),
        # Java refreshes its metadata; but the leader is right, only its high watermark is behind.
        Code.OFFSET_NOT_AVAILABLE: Row(Action.BACKOFF, "a new leader does not know yet how far followers are"),
        ResponseTooLargeError: Row(Action.STOP, "every further answer would be too large as well"),
        **otherwise(Action.FAIL, "the partition cannot be read; others can"),
    },
    when=(
        (
            "follower",
            rows(
                Action.FETCH_FROM_LEADER,
                "only the leader knows; a follower lags, and may be gone or cut off",
                Code.OFFSET_OUT_OF_RANGE,
                Code.OFFSET_NOT_AVAILABLE,
                Code.NOT_LEADER_OR_FOLLOWER,
                Code.REPLICA_NOT_AVAILABLE,
                Code.UNKNOWN_TOPIC_OR_PARTITION,
                Code.UNKNOWN_TOPIC_ID,
                Code.UNKNOWN_LEADER_EPOCH,
                Code.FENCED_LEADER_EPOCH,
                Code.KAFKA_STORAGE_ERROR,
                Code.UNKNOWN_SERVER_ERROR,
                BrokerConnectionError,
                DeadlineError,
                NotKafkaError,
            ),
        ),
    ),
)
"""The response as a whole, and each partition in it."""

LIST_OFFSETS = Table(
    {
        **_PASSING,
        Code.UNSUPPORTED_FOR_MESSAGE_FORMAT: Row(Action.ACCEPT, "records before 0.10 have no time: none was found"),
        # Java asks again after whatever it does not know; here that would end in a deadline without the reason.
        **otherwise(Action.FAIL, "the partition cannot be asked; others can"),
    }
)

OFFSET_FOR_LEADER_EPOCH = Table(
    {
        **_PASSING,
        **rows(
            Action.ACCEPT,
            "brokers before 2.3 cannot be asked: positions are taken as they are",
            UnsupportedVersionError,
            Code.UNSUPPORTED_VERSION,
        ),
        **otherwise(Action.FAIL, "the partition cannot be asked; others can"),
    }
)

_SHARE: Rows = {
    **NO_SUCH_API,
    **rows(
        Action.NEW_SESSION,
        "client and broker no longer agree on the session; what it had acquired is released",
        Code.SHARE_SESSION_NOT_FOUND,
        Code.INVALID_SHARE_SESSION_EPOCH,
    ),
    Code.GROUP_AUTHORIZATION_FAILED: Row(Action.STOP, "the group may not be read with"),
}

SHARE_FETCH = Table(
    {
        **_SHARE,
        **_PASSING,
        **_STORED,
        ResponseTooLargeError: Row(Action.STOP, "every further answer would be too large as well"),
        **otherwise(Action.FAIL, "the partition cannot be read, or its acknowledgements are refused"),
    }
)

SHARE_ACKNOWLEDGE = Table(
    {
        **_SHARE,
        # Another leader, or a session lost with the connection: no member holds the records any longer.
        **rows(
            Action.FAIL,
            "the records were released; others may have them by now",
            Code.NOT_LEADER_OR_FOLLOWER,
            Code.FENCED_LEADER_EPOCH,
            Code.UNKNOWN_TOPIC_ID,
            Code.UNKNOWN_TOPIC_OR_PARTITION,
            BrokerConnectionError,
        ),
        **otherwise(Action.FAIL, "the acknowledgements are refused"),
    }
)
