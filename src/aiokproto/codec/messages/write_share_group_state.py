"""WriteShareGroupState (ApiKey 85): write the persistent state of share partitions (KIP-932)."""

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
    int8,
    int16,
    int32,
    int64,
    string,
)
from aiokproto.codec.wire import ZERO_UUID


class PartitionResult(Struct):
    """The result of one partition."""

    partition: PartitionIndex = 0
    error_code: int16 = 0
    error_message: string | None = None


class WriteStateResult(Struct):
    """Results of one topic."""

    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionResult] = field(factory=list)


class WriteShareGroupStateResponse(Response, key=85, versions="0-1", flexible="0+"):
    """One result per share partition. Errors: see `WriteShareGroupStateRequest`."""

    results: list[WriteStateResult] = field(factory=list)


class StateBatch(Struct):
    """A range of offsets in the same state."""

    first_offset: int64 = 0
    """First offset of the range."""
    last_offset: int64 = 0
    """Last offset of the range, inclusive."""
    delivery_state: int8 = 0
    """0: available; 2: acknowledged; 3: archiving (KIP-1191); 4: archived."""
    delivery_count: int16 = 0
    """How often the records of the range have been delivered."""


class PartitionData(Struct):
    """The changed state of one partition."""

    partition: PartitionIndex = 0
    state_epoch: int32 = 0
    """State epoch from ReadShareGroupState; FENCED_STATE_EPOCH if it's lower than the coordinator's."""
    leader_epoch: int32 = 0
    """Leader epoch of the writer; FENCED_LEADER_EPOCH if the coordinator has seen a higher one."""
    start_offset: int64 = 0
    """New share-partition start offset (SPSO); -1: unchanged."""
    delivery_complete_count: int32 = field("1+", default=-1, ignorable=True)
    """Number of offsets past the start offset whose delivery is complete (acknowledged or archived, KIP-1226); -1:
    unknown."""
    state_batches: list[StateBatch] = field(factory=list)
    """Ranges whose state has changed; the coordinator merges them into the stored ranges."""


class WriteStateData(Struct):
    """Partitions of one topic."""

    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionData] = field(factory=list)


class WriteShareGroupStateRequest(
    Request[WriteShareGroupStateResponse], key=85, versions="0-1", flexible="0+", route=Route.SHARE
):
    """Write changes to the state of share partitions.

    Sent by the leader of a share partition (a broker) to its share coordinator.

    Errors: per partition: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, GROUP_ID_NOT_FOUND,
    UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH, INVALID_REQUEST, CLUSTER_AUTHORIZATION_FAILED,
    UNKNOWN_SERVER_ERROR.
    """

    group_id: GroupId = ""
    """Share group of the share partitions."""
    topics: list[WriteStateData] = field(factory=list)
