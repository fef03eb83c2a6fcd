"""OffsetForLeaderEpoch (ApiKey 23): look up where a leader epoch ends in the leader's log, to detect truncation."""

from __future__ import annotations

from aiokproto.codec.schema import (
    BrokerId,
    PartitionIndex,
    Request,
    Response,
    Route,
    Struct,
    TopicName,
    field,
    int16,
    int32,
    int64,
)


class EpochEndOffset(Struct):
    """The result of one partition."""

    error_code: int16 = 0
    partition: PartitionIndex = 0
    leader_epoch: int32 = field("1+", default=-1, ignorable=True)
    """Highest epoch in the log that isn't above the requested one; -1: none."""
    end_offset: int64 = -1
    """Offset after the last record of that epoch; -1: unknown. A reader with a higher position has read records that
    were truncated."""


class OffsetForLeaderTopicResult(Struct):
    """Results of one topic."""

    topic: TopicName = ""
    partitions: list[EpochEndOffset] = field(factory=list)


class OffsetForLeaderEpochResponse(Response, key=23, versions="0-4", flexible="4+"):
    """The end of one epoch per partition. Errors: see `OffsetForLeaderEpochRequest`."""

    throttle_time_ms: int32 = field("2+", default=0, ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = field(factory=list)


class OffsetForLeaderPartition(Struct):
    """A partition, and the leader epoch to look up."""

    partition: PartitionIndex = 0
    current_leader_epoch: int32 = field("2+", default=-1, ignorable=True)
    """Leader epoch the caller knows; FENCED_LEADER_EPOCH if it's lower than the broker's, UNKNOWN_LEADER_EPOCH if it's
    higher (KIP-320). -1: not checked."""
    leader_epoch: int32 = 0
    """Epoch to look up, from the last record read."""


class OffsetForLeaderTopic(Struct):
    """Partitions of one topic."""

    topic: TopicName = ""
    partitions: list[OffsetForLeaderPartition] = field(factory=list)


class OffsetForLeaderEpochRequest(
    Request[OffsetForLeaderEpochResponse], key=23, versions="0-4", flexible="4+", route=Route.LEADERS
):
    """Look up the end offset of a leader epoch (KIP-101, KIP-279, KIP-320).

    Sent by consumers and followers to the leader of each partition, after it has changed.

    Errors: per partition: NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, REPLICA_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, KAFKA_STORAGE_ERROR, UNKNOWN_SERVER_ERROR.
    """

    replica_id: BrokerId = field("3+", default=-2, ignorable=True)
    """Broker id of the follower; -1: a consumer; -2: a debugging client, also assumed below version 3."""
    topics: list[OffsetForLeaderTopic] = field(factory=list)
