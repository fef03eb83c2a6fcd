"""ReadShareGroupStateSummary (ApiKey 87): read the start offsets of share partitions from their persistent state."""

from __future__ import annotations

from aiokproto.codec.schema import (
    GroupId,
    PartitionIndex,
    Request,
    Response,
    Route,
    Struct,
    TopicId,
    field,
    int16,
    int32,
    int64,
    string,
)
from aiokproto.codec.wire import ZERO_UUID


class PartitionResult(Struct):
    """The offsets and epochs of one partition."""

    partition: PartitionIndex = 0
    error_code: int16 = 0
    error_message: string | None = None
    state_epoch: int32 = 0
    """Epoch of the state."""
    leader_epoch: int32 = field(default=0, refused=-1)
    """Leader epoch stored with the state; -1: none."""
    start_offset: int64 = 0
    """Share-partition start offset (SPSO); -1: not initialized."""
    delivery_complete_count: int32 = field("1+", default=-1, ignorable=True)
    """Number of offsets past `start_offset` whose delivery is complete (acknowledged or archived), to compute the lag
    (KIP-1226); -1: unknown."""


class ReadStateSummaryResult(Struct):
    """Results of one topic."""

    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionResult] = field(factory=list)


class ReadShareGroupStateSummaryResponse(Response, key=87, versions="0-1", flexible="0+"):
    """The start offset of each share partition, without the state batches.

    Errors: see `ReadShareGroupStateSummaryRequest`.
    """

    results: list[ReadStateSummaryResult] = field(factory=list)


class PartitionData(Struct):
    """A partition whose state to read."""

    partition: PartitionIndex = 0
    leader_epoch: int32 = 0
    """Leader epoch the reader knows; FENCED_LEADER_EPOCH if the coordinator has seen a higher one."""


class ReadStateSummaryData(Struct):
    """Partitions of one topic."""

    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionData] = field(factory=list)


class ReadShareGroupStateSummaryRequest(
    Request[ReadShareGroupStateSummaryResponse], key=87, versions="0-1", flexible="0+", route=Route.SHARE
):
    """Read the start offset of share partitions.

    Sent by the group coordinator (a broker), for DescribeShareGroupOffsets, to the share coordinator. Unlike
    ReadShareGroupState, it doesn't fence leaders.

    Errors: per partition: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, GROUP_ID_NOT_FOUND,
    UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH, INVALID_REQUEST, CLUSTER_AUTHORIZATION_FAILED,
    UNKNOWN_SERVER_ERROR.
    """

    group_id: GroupId = ""
    """Share group of the share partitions."""
    topics: list[ReadStateSummaryData] = field(factory=list)
