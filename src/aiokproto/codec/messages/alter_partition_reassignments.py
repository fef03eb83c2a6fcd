"""AlterPartitionReassignments (ApiKey 45): move partitions to other brokers, or stop moving them."""

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


class ReassignablePartitionResponse(Struct):
    partition_index: PartitionIndex = 0
    error_code: int16 = 0
    error_message: string | None = ""


class ReassignableTopicResponse(Struct):
    name: TopicName = ""
    partitions: list[ReassignablePartitionResponse] = field(factory=list)


class AlterPartitionReassignmentsResponse(Response, key=45, versions="0-1", flexible="0+"):
    throttle_time_ms: int32 = 0
    allow_replication_factor_change: bool = field("1+", default=True, ignorable=True)
    error_code: int16 = 0
    error_message: string | None = ""
    responses: list[ReassignableTopicResponse] = field(factory=list)


class ReassignablePartition(Struct):
    partition_index: PartitionIndex = 0
    replicas: list[BrokerId] | None = None


class ReassignableTopic(Struct):
    name: TopicName = ""
    partitions: list[ReassignablePartition] = field(factory=list)


class AlterPartitionReassignmentsRequest(
    Request[AlterPartitionReassignmentsResponse], key=45, versions="0-1", flexible="0+", route=Route.CONTROLLER
):
    timeout_ms: int32 = 60000
    allow_replication_factor_change: bool = field("1+", default=True)
    topics: list[ReassignableTopic] = field(factory=list)
