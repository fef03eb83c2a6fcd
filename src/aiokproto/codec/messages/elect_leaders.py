"""ElectLeaders (ApiKey 43): elect preferred, or unclean, leaders."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, string


class PartitionResult(Struct):
    partition_id: int32
    error_code: int16
    error_message: string | None


class ReplicaElectionResult(Struct):
    topic: string
    partition_result: list[PartitionResult]


class ElectLeadersResponse(Response, key=43, versions="0-2", flexible="2+"):
    throttle_time_ms: int32
    error_code: int16 = field("1+", default=0)
    replica_election_results: list[ReplicaElectionResult]


class TopicPartitions(Struct):
    topic: string
    partitions: list[int32]


class ElectLeadersRequest(Request[ElectLeadersResponse], key=43, versions="0-2", flexible="2+", route=Route.CONTROLLER):
    election_type: int8 = field("1+", default=0)
    topic_partitions: list[TopicPartitions] | None
    timeout_ms: int32 = field(default=60000)
