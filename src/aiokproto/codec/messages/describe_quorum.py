"""DescribeQuorum (ApiKey 55): leader, voters and observers of the metadata quorum, and how far each is."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, int64, string, uint16, uuid
from aiokproto.codec.wire import ZERO_UUID


class ReplicaState(Struct):
    replica_id: int32
    replica_directory_id: uuid = field("2+", default=ZERO_UUID)
    log_end_offset: int64
    last_fetch_timestamp: int64 = field("1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int64 = field("1+", default=-1, ignorable=True)


class DescribeQuorumResponsePartitionData(Struct):
    partition_index: int32
    error_code: int16
    error_message: string | None = field("2+", default="", ignorable=True)
    leader_id: int32
    leader_epoch: int32
    high_watermark: int64
    current_voters: list[ReplicaState]
    observers: list[ReplicaState]


class DescribeQuorumResponseTopicData(Struct):
    topic_name: string
    partitions: list[DescribeQuorumResponsePartitionData]


class Listener(Struct):
    name: string
    host: string
    port: uint16


class Node(Struct):
    node_id: int32
    listeners: list[Listener]


class DescribeQuorumResponse(Response, key=55, versions="0-2", flexible="0+"):
    error_code: int16
    error_message: string | None = field("2+", default="", ignorable=True)
    topics: list[DescribeQuorumResponseTopicData]
    nodes: list[Node] = field("2+", factory=list)


class DescribeQuorumRequestPartitionData(Struct):
    partition_index: int32


class DescribeQuorumRequestTopicData(Struct):
    topic_name: string
    partitions: list[DescribeQuorumRequestPartitionData]


class DescribeQuorumRequest(
    Request[DescribeQuorumResponse], key=55, versions="0-2", flexible="0+", route=Route.CONTROLLER
):
    topics: list[DescribeQuorumRequestTopicData]
