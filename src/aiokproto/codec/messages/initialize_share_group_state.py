"""InitializeShareGroupState (ApiKey 83): create the persistent state of share partitions (KIP-932)."""

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
    """The result of one partition."""

    partition: PartitionIndex = 0
    error_code: int16 = 0
    error_message: string | None = None


class InitializeStateResult(Struct):
    """Results of one topic."""

    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionResult] = field(factory=list)


class InitializeShareGroupStateResponse(Response, key=83, versions="0", flexible="0+"):
    """One result per share partition. Errors: see `InitializeShareGroupStateRequest`."""

    results: list[InitializeStateResult] = field(factory=list)


class PartitionData(Struct):
    """The initial state of one partition."""

    partition: PartitionIndex = 0
    state_epoch: int32 = 0
    """Epoch of the state, which grows each time the share partition is initialized. A lower epoch is fenced."""
    start_offset: int64 = 0
    """Share-partition start offset (SPSO); -1: chosen by the share partition leader."""


class InitializeStateData(Struct):
    """Partitions of one topic."""

    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionData] = field(factory=list)


class InitializeShareGroupStateRequest(
    Request[InitializeShareGroupStateResponse], key=83, versions="0", flexible="0+", route=Route.SHARE
):
    """Create the state of share partitions.

    Sent by the group coordinator (a broker) to the share coordinator of the partition.

    Errors: per partition: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, FENCED_STATE_EPOCH,
    INVALID_REQUEST, CLUSTER_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_SERVER_ERROR.
    """

    group_id: GroupId = ""
    """Share group of the share partitions."""
    topics: list[InitializeStateData] = field(factory=list)
