"""Vote (ApiKey 52): a KRaft candidate asks for votes."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, int64, string, uint16, uuid
from aiokproto.codec.wire import ZERO_UUID


class VoteResponsePartitionData(Struct):
    partition_index: int32
    error_code: int16
    leader_id: int32
    leader_epoch: int32
    vote_granted: bool


class VoteResponseTopicData(Struct):
    topic_name: string
    partitions: list[VoteResponsePartitionData]


class NodeEndpoint(Struct):
    node_id: int32
    host: string
    port: uint16


class VoteResponse(Response, key=52, versions="0-2", flexible="0+"):
    error_code: int16
    topics: list[VoteResponseTopicData]
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0, factory=list)


class VoteRequestPartitionData(Struct):
    partition_index: int32
    replica_epoch: int32
    replica_id: int32
    replica_directory_id: uuid = field("1+", default=ZERO_UUID, ignorable=True)
    voter_directory_id: uuid = field("1+", default=ZERO_UUID, ignorable=True)
    last_offset_epoch: int32
    last_offset: int64
    pre_vote: bool = field("2+", default=False)


class VoteRequestTopicData(Struct):
    topic_name: string
    partitions: list[VoteRequestPartitionData]


class VoteRequest(Request[VoteResponse], key=52, versions="0-2", flexible="0+", route=Route.QUORUM):
    cluster_id: string | None = field(default=None)
    voter_id: int32 = field("1+", default=-1, ignorable=True)
    topics: list[VoteRequestTopicData]
