"""BeginQuorumEpoch (ApiKey 53): a new KRaft leader says so to the voters."""

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
    uint16,
    uuid,
)
from aiokproto.codec.wire import ZERO_UUID


class BeginQuorumEpochResponsePartitionData(Struct):
    partition_index: PartitionIndex = 0
    error_code: int16 = 0
    leader_id: BrokerId = field(default=0, refused=-1)
    leader_epoch: int32 = field(default=0, refused=-1)


class BeginQuorumEpochResponseTopicData(Struct):
    topic_name: TopicName = ""
    partitions: list[BeginQuorumEpochResponsePartitionData] = field(factory=list)


class NodeEndpoint(Struct):
    node_id: BrokerId = 0
    host: string = ""
    port: uint16 = 0


class BeginQuorumEpochResponse(Response, key=53, versions="0-1", flexible="1+"):
    error_code: int16 = 0
    topics: list[BeginQuorumEpochResponseTopicData] = field(factory=list)
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0, factory=list)


class BeginQuorumEpochRequestPartitionData(Struct):
    partition_index: PartitionIndex = 0
    voter_directory_id: uuid = field("1+", default=ZERO_UUID, ignorable=True)
    leader_id: BrokerId = 0
    leader_epoch: int32 = 0


class BeginQuorumEpochRequestTopicData(Struct):
    topic_name: TopicName = ""
    partitions: list[BeginQuorumEpochRequestPartitionData] = field(factory=list)


class LeaderEndpoint(Struct):
    name: string = ""
    host: string = ""
    port: uint16 = 0


class BeginQuorumEpochRequest(
    Request[BeginQuorumEpochResponse], key=53, versions="0-1", flexible="1+", route=Route.QUORUM
):
    cluster_id: string | None = None
    voter_id: BrokerId = field("1+", default=-1, ignorable=True)
    topics: list[BeginQuorumEpochRequestTopicData] = field(factory=list)
    leader_endpoints: list[LeaderEndpoint] = field("1+", factory=list, ignorable=True)
