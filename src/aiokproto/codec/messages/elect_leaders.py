"""ElectLeaders (ApiKey 43): elect preferred, or unclean, leaders."""

from __future__ import annotations

from aiokproto.codec.schema import (
    PartitionIndex,
    Request,
    Response,
    Route,
    Struct,
    TopicName,
    field,
    int8,
    int16,
    int32,
    string,
)


class PartitionResult(Struct):
    partition_id: PartitionIndex = 0
    error_code: int16 = 0
    error_message: string | None = ""


class ReplicaElectionResult(Struct):
    topic: TopicName = ""
    partition_result: list[PartitionResult] = field(factory=list)


class ElectLeadersResponse(Response, key=43, versions="0-2", flexible="2+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = field("1+", default=0)
    replica_election_results: list[ReplicaElectionResult] = field(factory=list)


class TopicPartitions(Struct):
    topic: TopicName = ""
    partitions: list[PartitionIndex] = field(factory=list)


class ElectLeadersRequest(Request[ElectLeadersResponse], key=43, versions="0-2", flexible="2+", route=Route.CONTROLLER):
    election_type: int8 = field("1+", default=0)
    topic_partitions: list[TopicPartitions] | None = field(factory=list)
    timeout_ms: int32 = 60000
