"""Vote (ApiKey 52): a KRaft candidate asks for votes."""

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
    int64,
    string,
    uint16,
    uuid,
)
from aiokproto.codec.wire import ZERO_UUID


class VoteResponsePartitionData(Struct):
    partition_index: PartitionIndex = 0
    error_code: int16 = 0
    leader_id: BrokerId = field(default=0, refused=-1)
    leader_epoch: int32 = field(default=0, refused=-1)
    vote_granted: bool = False


class VoteResponseTopicData(Struct):
    topic_name: TopicName = ""
    partitions: list[VoteResponsePartitionData] = field(factory=list)


class NodeEndpoint(Struct):
    node_id: BrokerId = 0
    host: string = ""
    port: uint16 = 0


class VoteResponse(Response, key=52, versions="0-2", flexible="0+"):
    error_code: int16 = 0
    topics: list[VoteResponseTopicData] = field(factory=list)
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0, factory=list)


class VoteRequestPartitionData(Struct):
    partition_index: PartitionIndex = 0
    replica_epoch: int32 = 0
    replica_id: BrokerId = 0
    replica_directory_id: uuid = field("1+", default=ZERO_UUID, ignorable=True)
    voter_directory_id: uuid = field("1+", default=ZERO_UUID, ignorable=True)
    last_offset_epoch: int32 = 0
    last_offset: int64 = 0
    pre_vote: bool = field("2+", default=False)


class VoteRequestTopicData(Struct):
    topic_name: TopicName = ""
    partitions: list[VoteRequestPartitionData] = field(factory=list)


class VoteRequest(Request[VoteResponse], key=52, versions="0-2", flexible="0+", route=Route.QUORUM):
    cluster_id: string | None = None
    voter_id: BrokerId = field("1+", default=-1, ignorable=True)
    topics: list[VoteRequestTopicData] = field(factory=list)
