"""Rows for every API, and the tables of Metadata, ApiVersions and FindCoordinator, which the client sends itself."""

from __future__ import annotations

from aiokproto.error_codes import ErrorCode as Code
from aiokproto.errors import (
    AuthenticationError,
    BrokerConnectionError,
    ClientClosedError,
    CorruptRecordError,
    DeadlineError,
    DecodeError,
    KafkaError,
    MisroutedConnectionError,
    NotKafkaError,
    ResponseTooLargeError,
    UnsupportedVersionError,
)
from aiokproto.failures.action import Action, Row, Rows, Table, otherwise, rows

COMMON: Rows = {
    Code.NONE: Row(Action.ACCEPT, "the request succeeded"),
    ClientClosedError: Row(Action.STOP, "the client is closed"),
    AuthenticationError: Row(Action.STOP, "retries cannot succeed, and can lock the account"),
    # Once the cluster has been reached, this error isn't final: an address can change hands in a running cluster. See
    # "starting" below.
    NotKafkaError: Row(Action.REFRESH_METADATA, "the address may belong to another server by now"),
    BrokerConnectionError: Row(Action.REFRESH_METADATA, "the broker may be back, or another has taken over"),
    DeadlineError: Row(Action.REFRESH_METADATA, "the broker may be dead, and its partitions have other leaders"),
    UnsupportedVersionError: Row(Action.FAIL, "a retry meets the same versions; other APIs can still be used"),
    ResponseTooLargeError: Row(Action.FAIL, "the same request gets the same response"),
    CorruptRecordError: Row(Action.FAIL, "the stored records are damaged"),
    DecodeError: Row(Action.FAIL, "the same request gets the same response"),
    KafkaError: Row(Action.FAIL, "the error is in the call, so a retry fails again"),
    BaseException: Row(Action.STOP, "a cancelled task or a bug: the client's state is unknown"),
}

COORDINATOR_MOVED = rows(
    Action.FIND_COORDINATOR, "the coordinator has moved", Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE
)
COORDINATOR_LOST = rows(
    Action.FIND_COORDINATOR,
    "if the coordinator is down, another broker takes over",
    BrokerConnectionError,
    DeadlineError,
    NotKafkaError,
)
COORDINATED: Rows = {**COORDINATOR_MOVED, **COORDINATOR_LOST}

# Java raises these errors from the call that sent the request. Here a background task has sent it, so there's no such
# call.
NO_SUCH_API = rows(
    Action.STOP,
    "the broker lacks an API that the client needs",
    UnsupportedVersionError,
    Code.UNSUPPORTED_VERSION,
)

REQUEST = Table(
    {
        **COORDINATOR_MOVED,
        Code.NOT_CONTROLLER: Row(Action.REFRESH_METADATA, "the controller has moved"),
        # Kafka classifies it as retriable, but a retry can only return the same code.
        Code.ELECTION_NOT_NEEDED: Row(Action.ACCEPT, "the partition has the preferred leader already"),
        # The caller manages the fetch or share session.
        **rows(
            Action.FAIL,
            "only the caller can start a new session",
            Code.FETCH_SESSION_ID_NOT_FOUND,
            Code.INVALID_FETCH_SESSION_EPOCH,
            Code.FETCH_SESSION_TOPIC_ID_ERROR,
            Code.SHARE_SESSION_NOT_FOUND,
            Code.INVALID_SHARE_SESSION_EPOCH,
        ),
        **otherwise(Action.FAIL, "the broker rejects this request"),
    },
    when=(("coordinated", COORDINATED),),
)
"""``Client.request``, and APIs without their own table. Java's admin client retries the same error codes."""

METADATA = Table(
    {
        Code.REBOOTSTRAP_REQUIRED: Row(Action.REBOOTSTRAP, "this address belongs to another cluster now"),
        # A later response may be small enough: tracked topics expire and topics are deleted.
        ResponseTooLargeError: Row(Action.BACKOFF, "the cluster's topics change"),
        DecodeError: Row(Action.BACKOFF, "another broker may return a valid response"),
        UnsupportedVersionError: Row(Action.BACKOFF, "another broker may be newer"),
        # Brokers 0.8 and 0.9 return this if they should create a topic before they know of any broker. Java expects it
        # too.
        Code.UNKNOWN_SERVER_ERROR: Row(Action.BACKOFF, "the broker may have just started"),
        **otherwise(Action.FAIL, "the topic's name is invalid, or this client may not describe it"),
    },
    when=(
        (
            "starting",
            {
                NotKafkaError: Row(Action.FAIL, "the address is more likely wrong than about to change"),
                **rows(
                    Action.FAIL,
                    "no other broker is known yet",
                    ResponseTooLargeError,
                    DecodeError,
                    UnsupportedVersionError,
                    AuthenticationError,
                ),
            },
        ),
    ),
)
"""Errors of a Metadata response as a whole, and of each topic in it. A topic counts as unknown only if several
responses say so."""

API_VERSIONS = Table(
    {
        Code.UNSUPPORTED_VERSION: Row(Action.RETRY, "the response lists the supported versions (KIP-511)"),
        **rows(
            Action.REBOOTSTRAP,
            "the address leads to another broker or cluster: the metadata is not of this one (KIP-1242)",
            Code.REBOOTSTRAP_REQUIRED,
            MisroutedConnectionError,
        ),
        **otherwise(Action.FAIL, "without ApiVersions the broker's versions are unknown"),
    }
)

SASL = Table(
    {
        **rows(
            Action.STOP,
            "the broker does not accept these credentials, this mechanism, or any on this listener",
            Code.SASL_AUTHENTICATION_FAILED,
            Code.UNSUPPORTED_SASL_MECHANISM,
            Code.ILLEGAL_SASL_STATE,
        ),
        **otherwise(Action.BACKOFF, "the broker could not decide, and may the next time"),
    },
    when=(
        (
            "renewing",
            rows(Action.BACKOFF, "too soon after the last time: a new connection can do it", Code.ILLEGAL_SASL_STATE),
        ),
    ),
)
"""SaslHandshake and SaslAuthenticate. Every action except STOP ends the connection, as if connecting had failed."""

FIND_COORDINATOR = Table(
    {
        **rows(
            Action.BACKOFF,
            "no coordinator yet: its partition has no leader, or the internal topic is being created",
            Code.COORDINATOR_NOT_AVAILABLE,
            Code.NOT_COORDINATOR,
        ),
        Code.TRANSACTION_ABORTABLE: Row(Action.ABORT_TRANSACTION, "the broker requires an abort (KIP-890)"),
        **otherwise(Action.FAIL, "the client may not use the group or transactional id"),
    },
    when=(("transactional", otherwise(Action.STOP, "a transactional producer cannot work without its coordinator")),),
)

TELEMETRY = Table(
    {
        **rows(
            Action.RETRY,
            "the subscription has changed: request it again",
            Code.UNKNOWN_SUBSCRIPTION_ID,
            Code.UNSUPPORTED_COMPRESSION_TYPE,
        ),
        **rows(
            Action.BACKOFF,
            "a later push is accepted",
            Code.THROTTLING_QUOTA_EXCEEDED,
            Code.TELEMETRY_TOO_LARGE,
        ),
        # A request that is malformed now will be malformed next time too. Java does the same.
        **otherwise(Action.FAIL, "the broker takes no metrics from this client"),
    }
)
"""GetTelemetrySubscriptions and PushTelemetry (KIP-714). FAIL only ends the pushing of metrics."""
