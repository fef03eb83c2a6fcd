"""AssignReplicasToDirs (ApiKey 73): a broker says in which log directories its replicas are."""

from __future__ import annotations

from aiokproto.codec.schema import (
    BrokerId,
    PartitionIndex,
    Request,
    Response,
    Route,
    Struct,
    TopicId,
    field,
    int16,
    int32,
    int64,
    uuid,
)
from aiokproto.codec.wire import ZERO_UUID


class AssignReplicasToDirsResponsePartitionData(Struct):
    partition_index: PartitionIndex = 0
    error_code: int16 = 0


class AssignReplicasToDirsResponseTopicData(Struct):
    topic_id: TopicId = ZERO_UUID
    partitions: list[AssignReplicasToDirsResponsePartitionData] = field(factory=list)


class AssignReplicasToDirsResponseDirectoryData(Struct):
    id: uuid = ZERO_UUID
    topics: list[AssignReplicasToDirsResponseTopicData] = field(factory=list)


class AssignReplicasToDirsResponse(Response, key=73, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    directories: list[AssignReplicasToDirsResponseDirectoryData] = field(factory=list)


class AssignReplicasToDirsRequestPartitionData(Struct):
    partition_index: PartitionIndex = 0


class AssignReplicasToDirsRequestTopicData(Struct):
    topic_id: TopicId = ZERO_UUID
    partitions: list[AssignReplicasToDirsRequestPartitionData] = field(factory=list)


class AssignReplicasToDirsRequestDirectoryData(Struct):
    id: uuid = ZERO_UUID
    topics: list[AssignReplicasToDirsRequestTopicData] = field(factory=list)


class AssignReplicasToDirsRequest(
    Request[AssignReplicasToDirsResponse], key=73, versions="0", flexible="0+", route=Route.CONTROLLER
):
    broker_id: BrokerId = 0
    broker_epoch: int64 = -1
    directories: list[AssignReplicasToDirsRequestDirectoryData] = field(factory=list)
