"""AlterPartitionReassignments (ApiKey 45): move partitions to other brokers, or stop moving them."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, string


class ReassignablePartitionResponse(Struct):
    partition_index: int32
    error_code: int16
    error_message: string | None


class ReassignableTopicResponse(Struct):
    name: string
    partitions: list[ReassignablePartitionResponse]


class AlterPartitionReassignmentsResponse(Response, key=45, versions="0-1", flexible="0+"):
    throttle_time_ms: int32
    allow_replication_factor_change: bool = field("1+", default=True, ignorable=True)
    error_code: int16
    error_message: string | None
    responses: list[ReassignableTopicResponse]


class ReassignablePartition(Struct):
    partition_index: int32
    replicas: list[int32] | None = field(default=None)


class ReassignableTopic(Struct):
    name: string
    partitions: list[ReassignablePartition]


class AlterPartitionReassignmentsRequest(
    Request[AlterPartitionReassignmentsResponse], key=45, versions="0-1", flexible="0+", route=Route.CONTROLLER
):
    timeout_ms: int32 = field(default=60000)
    allow_replication_factor_change: bool = field("1+", default=True)
    topics: list[ReassignableTopic]
