"""StopReplica (ApiKey 5): the ZooKeeper-era controller tells a broker to drop replicas."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, int64, string


class StopReplicaPartitionError(Struct):
    topic_name: string
    partition_index: int32
    error_code: int16


class StopReplicaResponse(Response, key=5, versions="0-4", flexible="2+"):
    error_code: int16
    partition_errors: list[StopReplicaPartitionError]


class StopReplicaPartitionV0(Struct):
    topic_name: string
    partition_index: int32


class StopReplicaTopicV1(Struct):
    name: string
    partition_indexes: list[int32]


class StopReplicaPartitionState(Struct):
    partition_index: int32
    leader_epoch: int32 = field(default=-1)
    delete_partition: bool


class StopReplicaTopicState(Struct):
    topic_name: string
    partition_states: list[StopReplicaPartitionState]


class StopReplicaRequest(Request[StopReplicaResponse], key=5, versions="0-4", flexible="2+", route=Route.BROKER):
    controller_id: int32
    is_kraft_controller: bool = field("4+", default=False)
    controller_epoch: int32
    broker_epoch: int64 = field("1+", default=-1, ignorable=True)
    delete_partitions: bool = field("0-2", default=False)
    ungrouped_partitions: list[StopReplicaPartitionV0] = field("0", factory=list)
    topics: list[StopReplicaTopicV1] = field("1-2", factory=list)
    topic_states: list[StopReplicaTopicState] = field("3+", factory=list)
