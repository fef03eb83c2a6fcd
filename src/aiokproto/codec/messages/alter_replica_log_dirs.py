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
    """The result of one partition."""

    partition_index: PartitionIndex = 0
    error_code: int16 = 0


class AlterReplicaLogDirTopicResult(Struct):
    """The results of one topic."""

    topic_name: TopicName = ""
    partitions: list[AlterReplicaLogDirPartitionResult] = field(factory=list)


class AlterReplicaLogDirsResponse(Response, key=34, versions="0-2", flexible="2+", client_throttles="1+"):
    """One result per partition. DescribeLogDirs shows the progress of the move. Errors: see
    `AlterReplicaLogDirsRequest`."""

    throttle_time_ms: int32 = 0
    results: list[AlterReplicaLogDirTopicResult] = field(factory=list)


class AlterReplicaLogDirTopic(Struct):
    """Partitions of one topic."""

    name: TopicName = ""
    partitions: list[PartitionIndex] = field(factory=list)


class AlterReplicaLogDir(Struct):
    """A log directory, and the replicas to move there."""

    path: string = ""
    """Absolute path of the target directory on the broker."""
    topics: list[AlterReplicaLogDirTopic] = field(factory=list)


class AlterReplicaLogDirsRequest(
    Request[AlterReplicaLogDirsResponse], key=34, versions="0-2", flexible="2+", route=Route.BROKER
):
    """Move replicas between the log directories of one broker (KIP-113).

    Sent by admin tools to the broker that holds the replicas.

    Errors: per partition: CLUSTER_AUTHORIZATION_FAILED, LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR,
    REPLICA_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION.
    """

    dirs: list[AlterReplicaLogDir] = field(factory=list)
