"""ListPartitionReassignments (ApiKey 46): the partitions that are being moved."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, string


class OngoingPartitionReassignment(Struct):
    partition_index: int32
    replicas: list[int32]
    adding_replicas: list[int32]
    removing_replicas: list[int32]


class OngoingTopicReassignment(Struct):
    name: string
    partitions: list[OngoingPartitionReassignment]


class ListPartitionReassignmentsResponse(Response, key=46, versions="0", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    error_message: string | None
    topics: list[OngoingTopicReassignment]


class ListPartitionReassignmentsTopics(Struct):
    name: string
    partition_indexes: list[int32]


class ListPartitionReassignmentsRequest(
    Request[ListPartitionReassignmentsResponse], key=46, versions="0", flexible="0+", route=Route.CONTROLLER
):
    timeout_ms: int32 = field(default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(default=None)
