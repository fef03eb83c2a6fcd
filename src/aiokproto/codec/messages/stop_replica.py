"""StopReplica (ApiKey 5): the ZooKeeper-era controller tells a broker to drop replicas."""

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
)


class StopReplicaPartitionError(Struct):
    topic_name: TopicName = ""
    partition_index: PartitionIndex = 0
    error_code: int16 = 0


class StopReplicaResponse(Response, key=5, versions="0-4", flexible="2+"):
    error_code: int16 = 0
    partition_errors: list[StopReplicaPartitionError] = field(factory=list)


class StopReplicaPartitionV0(Struct):
    topic_name: TopicName = ""
    partition_index: PartitionIndex = 0


class StopReplicaTopicV1(Struct):
    name: TopicName = ""
    partition_indexes: list[PartitionIndex] = field(factory=list)


class StopReplicaPartitionState(Struct):
    partition_index: PartitionIndex = 0
    leader_epoch: int32 = -1
    delete_partition: bool = False


class StopReplicaTopicState(Struct):
    topic_name: TopicName = ""
    partition_states: list[StopReplicaPartitionState] = field(factory=list)


class StopReplicaRequest(Request[StopReplicaResponse], key=5, versions="0-4", flexible="2+", route=Route.BROKER):
    controller_id: BrokerId = 0
    is_kraft_controller: bool = field("4+", default=False)
    controller_epoch: int32 = 0
    broker_epoch: int64 = field("1+", default=-1, ignorable=True)
    delete_partitions: bool = field("0-2", default=False)
    ungrouped_partitions: list[StopReplicaPartitionV0] = field("0", factory=list)
    topics: list[StopReplicaTopicV1] = field("1-2", factory=list)
    topic_states: list[StopReplicaTopicState] = field("3+", factory=list)
