"""AssignReplicasToDirs (ApiKey 73): a broker says in which log directories its replicas are."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, int64, uuid


class AssignReplicasToDirsResponsePartitionData(Struct):
    partition_index: int32
    error_code: int16


class AssignReplicasToDirsResponseTopicData(Struct):
    topic_id: uuid
    partitions: list[AssignReplicasToDirsResponsePartitionData]


class AssignReplicasToDirsResponseDirectoryData(Struct):
    id: uuid
    topics: list[AssignReplicasToDirsResponseTopicData]


class AssignReplicasToDirsResponse(Response, key=73, versions="0", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    directories: list[AssignReplicasToDirsResponseDirectoryData]


class AssignReplicasToDirsRequestPartitionData(Struct):
    partition_index: int32


class AssignReplicasToDirsRequestTopicData(Struct):
    topic_id: uuid
    partitions: list[AssignReplicasToDirsRequestPartitionData]


class AssignReplicasToDirsRequestDirectoryData(Struct):
    id: uuid
    topics: list[AssignReplicasToDirsRequestTopicData]


class AssignReplicasToDirsRequest(
    Request[AssignReplicasToDirsResponse], key=73, versions="0", flexible="0+", route=Route.CONTROLLER
):
    broker_id: int32
    broker_epoch: int64 = field(default=-1)
    directories: list[AssignReplicasToDirsRequestDirectoryData]
