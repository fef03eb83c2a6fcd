"""Failures of group requests: joining, heartbeats, offsets (KIP-345, KIP-394, KIP-848)."""

from __future__ import annotations

from aiokproto.error_codes import ErrorCode as Code
from aiokproto.errors import DecodeError
from aiokproto.failures.action import Action, Row, Rows, Table, otherwise, rows
from aiokproto.failures.common import COORDINATED, NO_SUCH_API

_FENCED: Rows = {Code.FENCED_INSTANCE_ID: Row(Action.STOP, "another process runs under this group.instance.id")}
_FORGOTTEN: Rows = {Code.UNKNOWN_MEMBER_ID: Row(Action.REJOIN_AS_NEW, "the group does not know this member")}
_MOVED_ON: Rows = {Code.ILLEGAL_GENERATION: Row(Action.REJOIN_LOST, "a generation began without this member")}
_REBALANCE: Rows = {Code.REBALANCE_IN_PROGRESS: Row(Action.REJOIN, "the next generation is being formed")}
# Java raises it from poll(), after which one can poll again. STOP would be final, and it is mostly a passing trouble.
_TROUBLE: Rows = {Code.UNKNOWN_SERVER_ERROR: Row(Action.BACKOFF, "trouble of the broker's own")}

_MEMBER: Rows = {
    **COORDINATED,
    **NO_SUCH_API,
    **_FENCED,
    **_FORGOTTEN,
    **_MOVED_ON,
    **_REBALANCE,
    **_TROUBLE,
    DecodeError: Row(Action.STOP, "a member that cannot read what the group says reads the wrong partitions"),
    **otherwise(Action.STOP, "the group refuses this member as it is set up"),
}

JOIN_GROUP = Table(
    {
        **_MEMBER,
        Code.MEMBER_ID_REQUIRED: Row(Action.REJOIN, "the answer has the member id to join with (KIP-394)"),
    }
)

SYNC_GROUP = Table(
    {
        **_MEMBER,
        Code.UNKNOWN_SERVER_ERROR: Row(Action.REJOIN, "the assignment could not be stored: the group starts again"),
    }
)

HEARTBEAT = Table(_MEMBER)

LEAVE_GROUP = Table(
    {
        **COORDINATED,
        **rows(
            Action.ACCEPT,
            "it is no member any more",
            Code.UNKNOWN_MEMBER_ID,
            Code.ILLEGAL_GENERATION,
            Code.FENCED_INSTANCE_ID,
        ),
        **otherwise(Action.FAIL, "the session will time out instead"),
    }
)

_OFFSETS: Rows = {
    **COORDINATED,
    Code.REQUEST_TIMED_OUT: Row(Action.FIND_COORDINATOR, "the coordinator cannot replicate: it may be cut off"),
    Code.STALE_MEMBER_EPOCH: Row(Action.BACKOFF, "the next heartbeat brings the epoch to say (KIP-848)"),
}

OFFSET_COMMIT = Table(
    {
        **_OFFSETS,
        # Also for a topic that was deleted: the committing code drops topics that fresh metadata lacks too, or the
        # commits of all other partitions would wait with it.
        **rows(
            Action.REFRESH_METADATA,
            "the coordinator may not have heard of a new topic yet",
            Code.UNKNOWN_TOPIC_OR_PARTITION,
            Code.UNKNOWN_TOPIC_ID,
        ),
        **otherwise(Action.FAIL, "the offsets are refused"),
    },
    when=(("member", {**_FENCED, **_FORGOTTEN, **_MOVED_ON, **_REBALANCE}),),
)

OFFSET_FETCH = Table(
    {
        **_OFFSETS,
        Code.UNKNOWN_TOPIC_OR_PARTITION: Row(Action.FAIL, "brokers say so of topics that may not be seen"),
        Code.UNKNOWN_TOPIC_ID: Row(Action.REFRESH_METADATA, "it was deleted, or the coordinator does not know it yet"),
        **otherwise(Action.FAIL, "the offsets may not be read"),
    },
    when=(("member", _FORGOTTEN),),
)

_EPOCHS: Rows = {
    **COORDINATED,
    **NO_SUCH_API,
    **_TROUBLE,
    **_FENCED,
    # The member id is the client's own and stays (KIP-1082).
    **rows(
        Action.REJOIN_LOST,
        "the group went on without this member",
        Code.UNKNOWN_MEMBER_ID,
        Code.FENCED_MEMBER_EPOCH,
    ),
    Code.UNRELEASED_INSTANCE_ID: Row(Action.STOP, "another process runs under this group.instance.id"),
    DecodeError: Row(Action.STOP, "a member that cannot read what the group says reads the wrong partitions"),
    **otherwise(Action.STOP, "the group refuses this member as it is set up"),
}

CONSUMER_GROUP_HEARTBEAT = Table(_EPOCHS)

SHARE_GROUP_HEARTBEAT = Table(_EPOCHS)
