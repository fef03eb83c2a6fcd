"""BeginQuorumEpoch (ApiKey 53): a new KRaft leader says so to the voters."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, string, uint16, uuid
from aiokproto.codec.wire import ZERO_UUID


class BeginQuorumEpochResponsePartitionData(Struct):
    partition_index: int32
    error_code: int16
    leader_id: int32
    leader_epoch: int32


class BeginQuorumEpochResponseTopicData(Struct):
    topic_name: string
    partitions: list[BeginQuorumEpochResponsePartitionData]


class NodeEndpoint(Struct):
    node_id: int32
    host: string
    port: uint16


class BeginQuorumEpochResponse(Response, key=53, versions="0-1", flexible="1+"):
    error_code: int16
    topics: list[BeginQuorumEpochResponseTopicData]
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0, factory=list)


class BeginQuorumEpochRequestPartitionData(Struct):
    partition_index: int32
    voter_directory_id: uuid = field("1+", default=ZERO_UUID, ignorable=True)
    leader_id: int32
    leader_epoch: int32


class BeginQuorumEpochRequestTopicData(Struct):
    topic_name: string
    partitions: list[BeginQuorumEpochRequestPartitionData]


class LeaderEndpoint(Struct):
    name: string
    host: string
    port: uint16


class BeginQuorumEpochRequest(
    Request[BeginQuorumEpochResponse], key=53, versions="0-1", flexible="1+", route=Route.QUORUM
):
    cluster_id: string | None = field(default=None)
    voter_id: int32 = field("1+", default=-1, ignorable=True)
    topics: list[BeginQuorumEpochRequestTopicData]
    leader_endpoints: list[LeaderEndpoint] = field("1+", factory=list, ignorable=True)
