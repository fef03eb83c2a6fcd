"""What holds for every API unless its own table says otherwise, and the tables of the client's own errands."""

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
    NotKafkaError,
    ResponseTooLargeError,
    UnsupportedVersionError,
)
from aiokproto.failures.action import Action, Row, Rows, Table, otherwise, rows

COMMON: Rows = {
    Code.NONE: Row(Action.ACCEPT, "it worked"),
    ClientClosedError: Row(Action.STOP, "what this part of the client stands on is closed"),
    AuthenticationError: Row(Action.STOP, "credentials do not become valid by waiting, and each attempt may lock them"),
    NotKafkaError: Row(Action.REFRESH_METADATA, "the address may have been given to something else"),
    BrokerConnectionError: Row(Action.REFRESH_METADATA, "the broker may be back, or another has taken over"),
    DeadlineError: Row(Action.REFRESH_METADATA, "a silent broker may be dead, and its partitions be led by another"),
    UnsupportedVersionError: Row(Action.FAIL, "the broker will not learn it; what else it serves goes on"),
    ResponseTooLargeError: Row(Action.FAIL, "the same request gets the same answer"),
    CorruptRecordError: Row(Action.FAIL, "the records are damaged where they are stored"),
    DecodeError: Row(Action.FAIL, "the same request gets the same answer"),
    KafkaError: Row(Action.FAIL, "it is about the call, not about the time"),
    BaseException: Row(Action.STOP, "a cancelled task or a defect: nobody can say what is left undone"),
}

COORDINATOR_MOVED = rows(
    Action.FIND_COORDINATOR, "the coordinator has moved", Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE
)
COORDINATOR_LOST = rows(
    Action.FIND_COORDINATOR,
    "a coordinator that is dead or silent is replaced by another broker",
    BrokerConnectionError,
    DeadlineError,
    NotKafkaError,
)
COORDINATED: Rows = {**COORDINATOR_MOVED, **COORDINATOR_LOST}

# Java raises these from the call that meets them, or not at all; a client whose tasks meet them has no such call.
NO_SUCH_API = rows(
    Action.STOP, "what the client lives by is not served", UnsupportedVersionError, Code.UNSUPPORTED_VERSION
)

REQUEST = Table(
    {
        **COORDINATOR_MOVED,
        Code.NOT_CONTROLLER: Row(Action.REFRESH_METADATA, "the controller has moved"),
        # Kafka's own classification has it beside codes that pass.
        Code.ELECTION_NOT_NEEDED: Row(Action.ACCEPT, "the leader is the wanted one already"),
        # The caller has sent it in a session of its own.
        **rows(
            Action.FAIL,
            "only the caller can begin the session again",
            Code.FETCH_SESSION_ID_NOT_FOUND,
            Code.INVALID_FETCH_SESSION_EPOCH,
            Code.FETCH_SESSION_TOPIC_ID_ERROR,
            Code.SHARE_SESSION_NOT_FOUND,
            Code.INVALID_SHARE_SESSION_EPOCH,
        ),
        **otherwise(Action.FAIL, "the broker refuses this request"),
    },
    when=(("coordinated", COORDINATED),),
)
"""Requests of ``Client.request``, and those without a table of their own. Java's admin client retries the same."""

METADATA = Table(
    {
        Code.REBOOTSTRAP_REQUIRED: Row(Action.REBOOTSTRAP, "this address belongs to another cluster now"),
        # An answer to fewer topics may fit, or topics may go.
        ResponseTooLargeError: Row(Action.BACKOFF, "the cluster's topics change"),
        DecodeError: Row(Action.BACKOFF, "another broker may answer better"),
        UnsupportedVersionError: Row(Action.BACKOFF, "another broker may be newer"),
        **otherwise(Action.FAIL, "the topic cannot be had: its name, or the right to see it"),
    },
    when=(
        (
            "starting",
            {
                NotKafkaError: Row(Action.FAIL, "the address is more likely wrong than about to change"),
                **rows(
                    Action.FAIL,
                    "nothing is known yet that could change it",
                    ResponseTooLargeError,
                    DecodeError,
                    UnsupportedVersionError,
                    AuthenticationError,
                ),
            },
        ),
    ),
)
"""A broker's answer as a whole, and each topic in it. That a topic is unknown is believed after several answers."""

API_VERSIONS = Table(
    {
        Code.UNSUPPORTED_VERSION: Row(Action.RETRY, "the answer names the versions to ask in (KIP-511)"),
        **otherwise(Action.FAIL, "there is no other way to learn a broker's versions"),
    }
)

FIND_COORDINATOR = Table(
    {
        **rows(
            Action.BACKOFF,
            "there is none yet: its partition has no leader, or the internal topic is being created",
            Code.COORDINATOR_NOT_AVAILABLE,
            Code.NOT_COORDINATOR,
        ),
        Code.TRANSACTION_ABORTABLE: Row(Action.ABORT_TRANSACTION, "the broker says so"),
        **otherwise(Action.FAIL, "the group or transactional id may not be used"),
    },
    when=(
        ("transactional", otherwise(Action.STOP, "a transactional producer without its coordinator can do nothing")),
    ),
)
