"""AlterReplicaLogDirs (ApiKey 34): move replicas between the log directories of a broker."""

from __future__ import annotations

from aiokproto.codec.schema import (
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
)


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: PartitionIndex = 0
    error_code: int16 = 0


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: TopicName = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = field(factory=list)


class AlterReplicaLogDirsResponse(Response, key=34, versions="0-2", flexible="2+", client_throttles="1+"):
    throttle_time_ms: int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = field(factory=list)


class AlterReplicaLogDirTopic(Struct):
    name: TopicName = ""
    partitions: list[PartitionIndex] = field(factory=list)


class AlterReplicaLogDir(Struct):
    path: string = ""
    topics: list[AlterReplicaLogDirTopic] = field(factory=list)


class AlterReplicaLogDirsRequest(
    Request[AlterReplicaLogDirsResponse], key=34, versions="0-2", flexible="2+", route=Route.BROKER
):
    dirs: list[AlterReplicaLogDir] = field(factory=list)
