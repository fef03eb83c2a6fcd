"""ListOffsets (ApiKey 2): look up the first or last offset of partitions, or the offset of a timestamp."""

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
    int8,
    int16,
    int32,
    int64,
)


class ListOffsetsPartitionResponse(Struct):
    """The result of one partition."""

    partition_index: PartitionIndex = 0
    error_code: int16 = 0
    old_style_offsets: list[int64] = field("0", factory=list)
    """Segment start offsets at or before the timestamp, newest first (version 0)."""
    timestamp: int64 = field("1+", default=-1)
    """Timestamp of the record found, in ms since the Unix epoch; -1: none, or the first or last offset was
    requested."""
    offset: int64 = field("1+", default=-1)
    """The offset; -1: no record has this timestamp or a later one."""
    leader_epoch: int32 = field("4+", default=-1)
    """Leader epoch of the record found; -1: unknown."""


class ListOffsetsTopicResponse(Struct):
    """Results of one topic."""

    name: TopicName = ""
    partitions: list[ListOffsetsPartitionResponse] = field(factory=list)


class ListOffsetsResponse(Response, key=2, versions="0-11", flexible="6+", client_throttles="3+"):
    """One offset per partition. Errors: see `ListOffsetsRequest`."""

    throttle_time_ms: int32 = field("2+", default=0, ignorable=True)
    topics: list[ListOffsetsTopicResponse] = field(factory=list)


class ListOffsetsPartition(Struct):
    """A partition, and the offset to look up."""

    partition_index: PartitionIndex = 0
    current_leader_epoch: int32 = field("4+", default=-1, ignorable=True)
    """Leader epoch the caller knows; FENCED_LEADER_EPOCH if it's lower than the broker's, UNKNOWN_LEADER_EPOCH if it's
    higher (KIP-320). -1: not checked."""
    timestamp: int64 = 0
    """Find the first record at or after this time, in ms since the Unix epoch. Special values: -1: the end (see
    `isolation_level`); -2: the start; -3: the record with the largest timestamp (version 7+); -4: the start of the
    local log (8+); -5: the last offset in tiered storage (9+); -6: the first offset not yet uploaded to it (11+)."""
    max_num_offsets: int32 = field("0", default=1)
    """Maximum number of offsets to return (version 0)."""


class ListOffsetsTopic(Struct):
    """Partitions of one topic."""

    name: TopicName = ""
    partitions: list[ListOffsetsPartition] = field(factory=list)


class ListOffsetsRequest(Request[ListOffsetsResponse], key=2, versions="0-11", flexible="6+", route=Route.LEADERS):
    """Look up offsets by position or time.

    Sent by consumers, followers and admin tools to the leader of each partition.

    Errors: per partition: NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, REPLICA_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED, LEADER_NOT_AVAILABLE (versions 0-4) or OFFSET_NOT_AVAILABLE
    (5+) from a new leader whose high watermark is still behind, UNSUPPORTED_FOR_MESSAGE_FORMAT, UNSUPPORTED_VERSION (a
    special `timestamp` that the version lacks), INVALID_REQUEST (a partition named twice), REQUEST_TIMED_OUT,
    KAFKA_STORAGE_ERROR, UNKNOWN_SERVER_ERROR.
    """

    replica_id: BrokerId = 0
    """Broker id of the follower; -1: a client; -2: a debugging client, which reads a follower."""
    isolation_level: int8 = field("2+", default=0)
    """Defines the end of a partition. 0: READ_UNCOMMITTED, the high watermark; 1: READ_COMMITTED, the last stable
    offset."""
    topics: list[ListOffsetsTopic] = field(factory=list)
    timeout_ms: int32 = field("10+", default=0, ignorable=True)
    """How long the broker may take to read tiered storage, in ms."""
