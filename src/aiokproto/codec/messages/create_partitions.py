"""CreatePartitions (ApiKey 37): add partitions to topics."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, string


class CreatePartitionsTopicResult(Struct):
    name: string
    error_code: int16
    error_message: string | None = field(default=None)


class CreatePartitionsResponse(Response, key=37, versions="0-3", flexible="2+"):
    throttle_time_ms: int32
    results: list[CreatePartitionsTopicResult]


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int32]


class CreatePartitionsTopic(Struct):
    name: string
    count: int32
    assignments: list[CreatePartitionsAssignment] | None


class CreatePartitionsRequest(
    Request[CreatePartitionsResponse], key=37, versions="0-3", flexible="2+", route=Route.CONTROLLER
):
    topics: list[CreatePartitionsTopic]
    timeout_ms: int32
    validate_only: bool
