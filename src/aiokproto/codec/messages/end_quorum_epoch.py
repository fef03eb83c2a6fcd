"""EndQuorumEpoch (ApiKey 54): a KRaft leader steps down."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, string, uint16, uuid


class EndQuorumEpochResponsePartitionData(Struct):
    partition_index: int32
    error_code: int16
    leader_id: int32
    leader_epoch: int32


class EndQuorumEpochResponseTopicData(Struct):
    topic_name: string
    partitions: list[EndQuorumEpochResponsePartitionData]


class NodeEndpoint(Struct):
    node_id: int32
    host: string
    port: uint16


class EndQuorumEpochResponse(Response, key=54, versions="0-1", flexible="1+"):
    error_code: int16
    topics: list[EndQuorumEpochResponseTopicData]
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0, factory=list)


class ReplicaInfo(Struct):
    candidate_id: int32
    candidate_directory_id: uuid


class EndQuorumEpochRequestPartitionData(Struct):
    partition_index: int32
    leader_id: int32
    leader_epoch: int32
    preferred_successors: list[int32] = field("0", factory=list, ignorable=True)
    preferred_candidates: list[ReplicaInfo] = field("1+", factory=list, ignorable=True)


class EndQuorumEpochRequestTopicData(Struct):
    topic_name: string
    partitions: list[EndQuorumEpochRequestPartitionData]


class LeaderEndpoint(Struct):
    name: string
    host: string
    port: uint16


class EndQuorumEpochRequest(Request[EndQuorumEpochResponse], key=54, versions="0-1", flexible="1+", route=Route.QUORUM):
    cluster_id: string | None = field(default=None)
    topics: list[EndQuorumEpochRequestTopicData]
    leader_endpoints: list[LeaderEndpoint] = field("1+", factory=list, ignorable=True)
