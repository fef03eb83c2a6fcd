"""OffsetCommit (ApiKey 8): commit the offsets of a group."""

from __future__ import annotations

from aiokproto.codec.schema import (
    GroupId,
    PartitionIndex,
    Request,
    Response,
    Route,
    Struct,
    TopicId,
    TopicName,
    field,
    int16,
    int32,
    int64,
    string,
)
from aiokproto.codec.wire import ZERO_UUID


class OffsetCommitResponsePartition(Struct):
    """The result of one partition."""

    partition_index: PartitionIndex = 0
    error_code: int16 = 0


class OffsetCommitResponseTopic(Struct):
    """Results of one topic."""

    name: TopicName = field("0-9", default="", ignorable=True)
    topic_id: TopicId = field("10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = field(factory=list)


class OffsetCommitResponse(Response, key=8, versions="0-10", flexible="8+", client_throttles="4+"):
    """One result per partition. Errors: see `OffsetCommitRequest`."""

    throttle_time_ms: int32 = field("3+", default=0, ignorable=True)
    topics: list[OffsetCommitResponseTopic] = field(factory=list)


class OffsetCommitRequestPartition(Struct):
    """The offset of one partition."""

    partition_index: PartitionIndex = 0
    committed_offset: int64 = 0
    """Offset of the next record to read: one after the last processed."""
    committed_leader_epoch: int32 = field("6+", default=-1, ignorable=True)
    """Leader epoch of the last processed record, to detect truncation after a restart (KIP-320); -1: unknown."""
    commit_timestamp: int64 = field("1", default=-1)
    """Time of the commit, in ms since the Unix epoch; -1: when the broker receives it (version 1)."""
    committed_metadata: string | None = ""
    """Arbitrary string from the caller, stored with the offset; limited by `offset.metadata.max.bytes`. null is stored
    as empty."""


class OffsetCommitRequestTopic(Struct):
    """Offsets of one topic."""

    name: TopicName = field("0-9", default="", ignorable=True)
    topic_id: TopicId = field("10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = field(factory=list)


class OffsetCommitRequest(Request[OffsetCommitResponse], key=8, versions="0-10", flexible="8+", route=Route.GROUP):
    """Commit offsets of a group.

    Sent by consumers, and by admin tools for a group without members, to the group coordinator.

    Errors: per partition: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, INVALID_GROUP_ID,
    GROUP_ID_NOT_FOUND (version 9+), GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION,
    UNKNOWN_TOPIC_ID (version 10+), UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, STALE_MEMBER_EPOCH (version 9+: commit again
    with the newer epoch), FENCED_INSTANCE_ID, FENCED_MEMBER_EPOCH, REBALANCE_IN_PROGRESS, OFFSET_METADATA_TOO_LARGE,
    INVALID_COMMIT_OFFSET_SIZE, UNSUPPORTED_VERSION, REQUEST_TIMED_OUT.
    """

    group_id: GroupId = ""
    """Group whose offsets are committed. If it doesn't exist and the caller isn't a member, it's created."""
    generation_id_or_member_epoch: int32 = field("1+", default=-1, ignorable=True)
    """Generation of a classic member, member epoch of a member of a consumer group (KIP-848); -1: not a member, which
    the coordinator accepts only while the group has no members."""
    member_id: string = field("1+", default="", ignorable=True)
    """Id of the member; empty: not a member."""
    group_instance_id: string | None = field("7+", default=None)
    """`group.instance.id` of a static member; null: dynamic."""
    retention_time_ms: int64 = field("2-4", default=-1, ignorable=True)
    """How long to retain the offsets, in ms; -1: the broker's `offsets.retention.minutes` (versions 2-4)."""
    topics: list[OffsetCommitRequestTopic] = field(factory=list)
