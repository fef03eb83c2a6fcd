"""DeleteShareGroupState (ApiKey 86): drop the persistent state of share partitions."""

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
    string,
)
from aiokproto.codec.wire import ZERO_UUID


class PartitionResult(Struct):
    """The result of one partition."""

    partition: PartitionIndex = 0
    error_code: int16 = 0
    error_message: string | None = None


class DeleteStateResult(Struct):
    """The results of one topic."""

    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionResult] = field(factory=list)


class DeleteShareGroupStateResponse(Response, key=86, versions="0", flexible="0+"):
    """One result per partition. Errors: see `DeleteShareGroupStateRequest`."""

    results: list[DeleteStateResult] = field(factory=list)


class PartitionData(Struct):
    """A partition whose state is deleted."""

    partition: PartitionIndex = 0


class DeleteStateData(Struct):
    """The partitions of one topic."""

    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionData] = field(factory=list)


class DeleteShareGroupStateRequest(
    Request[DeleteShareGroupStateResponse], key=86, versions="0", flexible="0+", route=Route.SHARE
):
    """Delete the persisted state of share partitions (KIP-932).

    Sent by the group coordinator to the share coordinator.

    Errors: per partition: CLUSTER_AUTHORIZATION_FAILED, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION,
    NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS.
    """

    group_id: GroupId = ""
    """The group."""
    topics: list[DeleteStateData] = field(factory=list)
