"""ReadShareGroupState (ApiKey 84): read the persistent state of share partitions (KIP-932)."""

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


class PartitionResult(Struct):
    """The state of one partition."""

    partition: PartitionIndex = 0
    error_code: int16 = 0
    error_message: string | None = None
    state_epoch: int32 = 0
    """Epoch of the state, to send with each write."""
    start_offset: int64 = 0
    """Share-partition start offset (SPSO); -1: not initialized."""
    state_batches: list[StateBatch] = field(factory=list)
    """States of the offsets starting at `start_offset`. Offsets that aren't listed have no state yet."""


class ReadStateResult(Struct):
    """Results of one topic."""

    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionResult] = field(factory=list)


class ReadShareGroupStateResponse(Response, key=84, versions="0", flexible="0+"):
    """The state of each share partition. Errors: see `ReadShareGroupStateRequest`."""

    results: list[ReadStateResult] = field(factory=list)


class PartitionData(Struct):
    """A partition whose state to read."""

    partition: PartitionIndex = 0
    leader_epoch: int32 = 0
    """Leader epoch of the reader; FENCED_LEADER_EPOCH if the coordinator has seen a higher one."""


class ReadStateData(Struct):
    """Partitions of one topic."""

    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionData] = field(factory=list)


class ReadShareGroupStateRequest(
    Request[ReadShareGroupStateResponse], key=84, versions="0", flexible="0+", route=Route.SHARE
):
    """Read the state of share partitions.

    Sent by the new leader of a share partition (a broker) to its share coordinator, which fences older leaders from
    then on.

    Errors: per partition: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, GROUP_ID_NOT_FOUND,
    UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH, INVALID_REQUEST, CLUSTER_AUTHORIZATION_FAILED,
    UNKNOWN_SERVER_ERROR.
    """

    group_id: GroupId = ""
    """Share group of the share partitions."""
    topics: list[ReadStateData] = field(factory=list)
