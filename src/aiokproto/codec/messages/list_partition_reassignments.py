"""ListPartitionReassignments (ApiKey 46): the partitions that are being moved."""

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
    string,
)


class OngoingPartitionReassignment(Struct):
    partition_index: PartitionIndex = 0
    replicas: list[BrokerId] = field(factory=list)
    adding_replicas: list[BrokerId] = field(factory=list)
    removing_replicas: list[BrokerId] = field(factory=list)


class OngoingTopicReassignment(Struct):
    name: TopicName = ""
    partitions: list[OngoingPartitionReassignment] = field(factory=list)


class ListPartitionReassignmentsResponse(Response, key=46, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""
    topics: list[OngoingTopicReassignment] = field(factory=list)


class ListPartitionReassignmentsTopics(Struct):
    name: TopicName = ""
    partition_indexes: list[PartitionIndex] = field(factory=list)


class ListPartitionReassignmentsRequest(
    Request[ListPartitionReassignmentsResponse], key=46, versions="0", flexible="0+", route=Route.CONTROLLER
):
    timeout_ms: int32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None
