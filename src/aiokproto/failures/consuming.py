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

_TRANSIENT: Rows = {
    # Java only waits. But without topic ids (before Kafka 2.8), a topic that was deleted and created again starts at
    # epoch 0, and only fresh metadata makes the client accept that.
    Code.UNKNOWN_LEADER_EPOCH: Row(Action.REFRESH_METADATA, "the broker or the client has missed an election"),
    Code.UNKNOWN_SERVER_ERROR: Row(Action.BACKOFF, "an internal error of the broker; Java retries too"),
}
_STORED = rows(Action.FAIL, "the broker's log is damaged, and stays so", Code.CORRUPT_MESSAGE)

FETCH = Table(
    {
        **NO_SUCH_API,
        **_TRANSIENT,
        **_STORED,
        **rows(
            Action.NEW_SESSION,
            "client and broker no longer agree on the session",
            Code.FETCH_SESSION_ID_NOT_FOUND,
            Code.INVALID_FETCH_SESSION_EPOCH,
            Code.FETCH_SESSION_TOPIC_ID_ERROR,
        ),
        Code.OFFSET_OUT_OF_RANGE: Row(Action.RESET_OFFSET, "the leader's log starts later or ends earlier"),
        Code.FENCED_LEADER_EPOCH: Row(Action.VALIDATE_OFFSET, "an election may have truncated the log"),
        # Java refreshes its metadata, but the leader is the right one: only its high watermark lags behind (KIP-207).
        Code.OFFSET_NOT_AVAILABLE: Row(Action.BACKOFF, "a new leader's high watermark is still behind"),
        ResponseTooLargeError: Row(Action.STOP, "every further response would be too large as well"),
        **otherwise(Action.FAIL, "the partition cannot be read; others can"),
    },
    when=(
        (
            "follower",
            rows(
                Action.FETCH_FROM_LEADER,
                "a follower lags or is unreachable; the leader decides",
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
"""For the response as a whole, and for each partition in it."""

LIST_OFFSETS = Table(
    {
        **_TRANSIENT,
        Code.UNSUPPORTED_FOR_MESSAGE_FORMAT: Row(Action.ACCEPT, "magic 0 records have no timestamps: nothing matches"),
        # Java retries unknown codes. The call would then end with a deadline error instead of the reason.
        **otherwise(Action.FAIL, "this partition's offsets cannot be listed; others' can"),
    }
)

OFFSET_FOR_LEADER_EPOCH = Table(
    {
        **_TRANSIENT,
        **rows(
            Action.ACCEPT,
            "without the API (before Kafka 2.3) positions cannot be validated, and are used unvalidated",
            UnsupportedVersionError,
            Code.UNSUPPORTED_VERSION,
        ),
        **otherwise(Action.FAIL, "this partition's position cannot be validated; others' can"),
    }
)

_SHARE: Rows = {
    **NO_SUCH_API,
    **rows(
        Action.NEW_SESSION,
        "client and broker no longer agree on the session; its acquired records are released",
        Code.SHARE_SESSION_NOT_FOUND,
        Code.INVALID_SHARE_SESSION_EPOCH,
    ),
    Code.GROUP_AUTHORIZATION_FAILED: Row(Action.STOP, "the client may not read with this group"),
}

SHARE_FETCH = Table(
    {
        **_SHARE,
        **_TRANSIENT,
        **_STORED,
        ResponseTooLargeError: Row(Action.STOP, "every further response would be too large as well"),
        **otherwise(Action.FAIL, "the partition cannot be read, or its acknowledgements are rejected"),
    }
)

SHARE_ACKNOWLEDGE = Table(
    {
        **_SHARE,
        # The leader has changed, or the session has ended with the connection. Both release the acquired records.
        **rows(
            Action.FAIL,
            "the records were released, and others may have acquired them",
            Code.NOT_LEADER_OR_FOLLOWER,
            Code.FENCED_LEADER_EPOCH,
            Code.UNKNOWN_TOPIC_ID,
            Code.UNKNOWN_TOPIC_OR_PARTITION,
            BrokerConnectionError,
        ),
        **otherwise(Action.FAIL, "the acknowledgements are rejected"),
    },
    when=(
        (
            "divisible",
            {
                Code.INVALID_RECORD_STATE: Row(
                    Action.SPLIT_BATCH, "one record is not locked any more, and nothing was applied to the others"
                )
            },
        ),
    ),
)
