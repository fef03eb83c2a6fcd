"""DescribeQuorum (ApiKey 55): leader, voters and observers of the metadata quorum, and how far each is."""

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


class ReplicaState(Struct):
    replica_id: BrokerId = 0
    replica_directory_id: uuid = field("2+", default=ZERO_UUID)
    log_end_offset: int64 = 0
    last_fetch_timestamp: int64 = field("1+", default=-1, ignorable=True)
    last_caught_up_timestamp: int64 = field("1+", default=-1, ignorable=True)


class DescribeQuorumResponsePartitionData(Struct):
    partition_index: PartitionIndex = 0
    error_code: int16 = 0
    error_message: string | None = field("2+", default="", ignorable=True)
    leader_id: BrokerId = field(default=0, refused=-1)
    leader_epoch: int32 = field(default=0, refused=-1)
    high_watermark: int64 = field(default=0, refused=-1)
    current_voters: list[ReplicaState] = field(factory=list)
    observers: list[ReplicaState] = field(factory=list)


class DescribeQuorumResponseTopicData(Struct):
    topic_name: TopicName = ""
    partitions: list[DescribeQuorumResponsePartitionData] = field(factory=list)


class Listener(Struct):
    name: string = ""
    host: string = ""
    port: uint16 = 0


class Node(Struct):
    node_id: BrokerId = 0
    listeners: list[Listener] = field(factory=list)


class DescribeQuorumResponse(Response, key=55, versions="0-2", flexible="0+"):
    error_code: int16 = 0
    error_message: string | None = field("2+", default="", ignorable=True)
    topics: list[DescribeQuorumResponseTopicData] = field(factory=list)
    nodes: list[Node] = field("2+", factory=list)


class DescribeQuorumRequestPartitionData(Struct):
    partition_index: PartitionIndex = 0


class DescribeQuorumRequestTopicData(Struct):
    topic_name: TopicName = ""
    partitions: list[DescribeQuorumRequestPartitionData] = field(factory=list)


class DescribeQuorumRequest(
    Request[DescribeQuorumResponse], key=55, versions="0-2", flexible="0+", route=Route.CONTROLLER
):
    topics: list[DescribeQuorumRequestTopicData] = field(factory=list)
