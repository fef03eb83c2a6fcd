"""AlterReplicaLogDirs (ApiKey 34): move replicas between the log directories of a broker."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, int16, int32, string


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int32
    error_code: int16


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: string
    partitions: list[AlterReplicaLogDirPartitionResult]


class AlterReplicaLogDirsResponse(Response, key=34, versions="0-2", flexible="2+"):
    throttle_time_ms: int32
    results: list[AlterReplicaLogDirTopicResult]


class AlterReplicaLogDirTopic(Struct):
    name: string
    partitions: list[int32]


class AlterReplicaLogDir(Struct):
    path: string
    topics: list[AlterReplicaLogDirTopic]


class AlterReplicaLogDirsRequest(
    Request[AlterReplicaLogDirsResponse], key=34, versions="0-2", flexible="2+", route=Route.BROKER
):
    dirs: list[AlterReplicaLogDir]
