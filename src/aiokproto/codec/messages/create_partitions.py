"""CreatePartitions (ApiKey 37): add partitions to topics."""

from __future__ import annotations

from aiokproto.codec.schema import BrokerId, Request, Response, Route, Struct, TopicName, field, int16, int32, string


class CreatePartitionsTopicResult(Struct):
    name: TopicName = ""
    error_code: int16 = 0
    error_message: string | None = None


class CreatePartitionsResponse(Response, key=37, versions="0-3", flexible="2+", client_throttles="1+"):
    throttle_time_ms: int32 = 0
    results: list[CreatePartitionsTopicResult] = field(factory=list)


class CreatePartitionsAssignment(Struct):
    broker_ids: list[BrokerId] = field(factory=list)


class CreatePartitionsTopic(Struct):
    name: TopicName = ""
    count: int32 = 0
    assignments: list[CreatePartitionsAssignment] | None = field(factory=list)


class CreatePartitionsRequest(
    Request[CreatePartitionsResponse], key=37, versions="0-3", flexible="2+", route=Route.CONTROLLER
):
    topics: list[CreatePartitionsTopic] = field(factory=list)
    timeout_ms: int32 = 0
    validate_only: bool = False
