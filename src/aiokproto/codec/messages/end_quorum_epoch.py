"""EndQuorumEpoch (ApiKey 54): a KRaft leader steps down."""

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


class EndQuorumEpochResponsePartitionData(Struct):
    partition_index: PartitionIndex = 0
    error_code: int16 = 0
    leader_id: BrokerId = field(default=0, refused=-1)
    leader_epoch: int32 = field(default=0, refused=-1)


class EndQuorumEpochResponseTopicData(Struct):
    topic_name: TopicName = ""
    partitions: list[EndQuorumEpochResponsePartitionData] = field(factory=list)


class NodeEndpoint(Struct):
    node_id: BrokerId = 0
    host: string = ""
    port: uint16 = 0


class EndQuorumEpochResponse(Response, key=54, versions="0-1", flexible="1+"):
    error_code: int16 = 0
    topics: list[EndQuorumEpochResponseTopicData] = field(factory=list)
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0, factory=list)


class ReplicaInfo(Struct):
    candidate_id: BrokerId = 0
    candidate_directory_id: uuid = ZERO_UUID


class EndQuorumEpochRequestPartitionData(Struct):
    partition_index: PartitionIndex = 0
    leader_id: BrokerId = 0
    leader_epoch: int32 = 0
    preferred_successors: list[int32] = field("0", factory=list, ignorable=True)
    preferred_candidates: list[ReplicaInfo] = field("1+", factory=list, ignorable=True)


class EndQuorumEpochRequestTopicData(Struct):
    topic_name: TopicName = ""
    partitions: list[EndQuorumEpochRequestPartitionData] = field(factory=list)


class LeaderEndpoint(Struct):
    name: string = ""
    host: string = ""
    port: uint16 = 0


class EndQuorumEpochRequest(Request[EndQuorumEpochResponse], key=54, versions="0-1", flexible="1+", route=Route.QUORUM):
    cluster_id: string | None = None
    topics: list[EndQuorumEpochRequestTopicData] = field(factory=list)
    leader_endpoints: list[LeaderEndpoint] = field("1+", factory=list, ignorable=True)
