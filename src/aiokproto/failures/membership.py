"""Failures of group requests: joining, heartbeats, offsets (KIP-345, KIP-394, KIP-848)."""

from __future__ import annotations

from aiokproto.error_codes import ErrorCode as Code
from aiokproto.errors import DecodeError, UnsupportedVersionError
from aiokproto.failures.action import Action, Row, Rows, Table, otherwise, rows
from aiokproto.failures.common import COORDINATED, NO_SUCH_API

_FENCED: Rows = {Code.FENCED_INSTANCE_ID: Row(Action.STOP, "another process uses this group.instance.id")}
_UNKNOWN_MEMBER: Rows = {Code.UNKNOWN_MEMBER_ID: Row(Action.REJOIN_AS_NEW, "the group has removed this member")}
_OLD_GENERATION: Rows = {Code.ILLEGAL_GENERATION: Row(Action.REJOIN_LOST, "a generation began without this member")}
_REBALANCE: Rows = {Code.REBALANCE_IN_PROGRESS: Row(Action.REJOIN, "the next generation is being formed")}
# Java raises it from poll(), and the next poll() tries again. STOP would end the client because of a usually transient
# error.
_INTERNAL: Rows = {Code.UNKNOWN_SERVER_ERROR: Row(Action.BACKOFF, "an internal error of the broker")}
# Java raises it from poll() too. The broker repeats the content of the response when it gets a JoinGroup or a full
# heartbeat.
_MALFORMED: Rows = {DecodeError: Row(Action.BACKOFF, "the next response can be valid, and says the same")}

_MEMBER: Rows = {
    **COORDINATED,
    **NO_SUCH_API,
    **_FENCED,
    **_UNKNOWN_MEMBER,
    **_OLD_GENERATION,
    **_REBALANCE,
    **_INTERNAL,
    **_MALFORMED,
    **otherwise(Action.STOP, "the group rejects this member's configuration"),
}

JOIN_GROUP = Table(
    {
        **_MEMBER,
        Code.MEMBER_ID_REQUIRED: Row(Action.REJOIN, "the response has the member id to join with (KIP-394)"),
    }
)

SYNC_GROUP = Table(
    {
        **_MEMBER,
        # Here the code has another meaning than in _INTERNAL: a coordinator that can't write the assignment returns it
        # to every member.
        Code.UNKNOWN_SERVER_ERROR: Row(Action.REJOIN, "the assignment could not be stored: the group starts again"),
        # Java's consumer stops here.
        Code.INCONSISTENT_GROUP_PROTOCOL: Row(
            Action.REJOIN,
            "a consumer group became a classic one after JoinGroup, and has chosen another assignor; without one in "
            "common JoinGroup says the same",
        ),
    }
)

HEARTBEAT = Table(_MEMBER)

LEAVE_GROUP = Table(
    {
        **COORDINATED,
        **rows(
            Action.ACCEPT,
            "the member is out of the group already",
            Code.UNKNOWN_MEMBER_ID,
            Code.ILLEGAL_GENERATION,
            Code.FENCED_INSTANCE_ID,
        ),
        **otherwise(Action.FAIL, "the session will time out instead"),
    }
)

_OFFSETS: Rows = {
    **COORDINATED,
    Code.REQUEST_TIMED_OUT: Row(Action.FIND_COORDINATOR, "the coordinator cannot replicate: it may be isolated"),
    Code.STALE_MEMBER_EPOCH: Row(Action.BACKOFF, "the next heartbeat returns the current member epoch (KIP-848)"),
}

OFFSET_COMMIT = Table(
    {
        **_OFFSETS,
        # A deleted topic returns the same code. So the code that commits drops topics that are missing from fresh
        # metadata; otherwise they would hold up the commits of all other partitions.
        **rows(
            Action.REFRESH_METADATA,
            "the coordinator may not have the metadata of a new topic yet",
            Code.UNKNOWN_TOPIC_OR_PARTITION,
            Code.UNKNOWN_TOPIC_ID,
        ),
        **otherwise(Action.FAIL, "the coordinator rejects the offsets"),
    },
    when=(
        (
            "member",
            {
                **_FENCED,
                **_UNKNOWN_MEMBER,
                **_OLD_GENERATION,
                **_REBALANCE,
                # The same request would be refused again.
                Code.STALE_MEMBER_EPOCH: Row(Action.REFRESH_EPOCH, "the member's epoch has grown meanwhile"),
            },
        ),
    ),
)

OFFSET_FETCH = Table(
    {
        **_OFFSETS,
        Code.UNKNOWN_TOPIC_OR_PARTITION: Row(Action.FAIL, "the client may not describe the topic"),
        Code.UNKNOWN_TOPIC_ID: Row(Action.REFRESH_METADATA, "the topic is deleted, or new to the coordinator"),
        # Kafka responds with offsets of -1 instead.
        Code.GROUP_ID_NOT_FOUND: Row(Action.ACCEPT, "a group that does not exist has committed no offsets"),
        **otherwise(Action.FAIL, "the client may not read the offsets"),
    },
    when=(
        (
            "member",
            {
                **_UNKNOWN_MEMBER,
                # The same request would be refused again.
                Code.STALE_MEMBER_EPOCH: Row(Action.REFRESH_EPOCH, "the member's epoch has grown meanwhile"),
                # ACCEPT would be wrong here: the member would start from the beginning although its group has committed
                # offsets.
                Code.GROUP_ID_NOT_FOUND: Row(Action.FAIL, "the coordinator does not know the member's own group"),
            },
        ),
    ),
)

_EPOCHS: Rows = {
    **COORDINATED,
    **NO_SUCH_API,
    **_INTERNAL,
    **_FENCED,
    # The client has chosen the member id, and keeps it (KIP-1082).
    **rows(
        Action.REJOIN_LOST,
        "the group has continued without this member",
        Code.UNKNOWN_MEMBER_ID,
        Code.FENCED_MEMBER_EPOCH,
    ),
    # Java stops. But if a static member has crashed and restarted, it gets this error until the session of its former
    # self has expired. If the other member is a live process, this member waits, and logs that.
    Code.UNRELEASED_INSTANCE_ID: Row(
        Action.BACKOFF, "a process that used this group.instance.id has not left: its session may expire"
    ),
    # The error concerns one topic of several, and the ACL may be granted during the member's lifetime. The lookup of
    # the topic reports it.
    Code.TOPIC_AUTHORIZATION_FAILED: Row(Action.BACKOFF, "the client may not describe a topic that it subscribes to"),
    **_MALFORMED,
    **otherwise(Action.STOP, "the group rejects this member's configuration"),
}

# Java's consumer stops here.
_JOINED: tuple[str, Rows] = (
    "joined",
    {
        Code.GROUP_ID_NOT_FOUND: Row(
            Action.REJOIN_LOST, "the group was deleted, or became a classic one, after it had removed this member"
        )
    },
)

CONSUMER_GROUP_HEARTBEAT = Table(
    _EPOCHS,
    when=(
        _JOINED,
        (
            "optional",
            {
                **rows(
                    Action.FALL_BACK,
                    "the broker lacks the consumer protocol, or has disabled it",
                    UnsupportedVersionError,
                    Code.UNSUPPORTED_VERSION,
                ),
                Code.GROUP_ID_NOT_FOUND: Row(
                    Action.FALL_BACK, "it is a classic group that the coordinator may not convert"
                ),
            },
        ),
    ),
)

SHARE_GROUP_HEARTBEAT = Table(_EPOCHS, when=(_JOINED,))

STREAMS_GROUP_HEARTBEAT = Table(_EPOCHS, when=(_JOINED,))

STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = Table(
    {**COORDINATED, **otherwise(Action.FAIL, "nothing but the description of the group depends on it")}
)
