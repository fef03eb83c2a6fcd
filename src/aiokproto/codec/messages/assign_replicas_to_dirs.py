"""AssignReplicasToDirs (ApiKey 73): a broker reports which log directories its replicas are in."""

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
    """The result of one partition."""

    partition_index: PartitionIndex = 0
    error_code: int16 = 0


class AssignReplicasToDirsResponseTopicData(Struct):
    """The results of one topic."""

    topic_id: TopicId = ZERO_UUID
    partitions: list[AssignReplicasToDirsResponsePartitionData] = field(factory=list)


class AssignReplicasToDirsResponseDirectoryData(Struct):
    """The results of one directory."""

    id: uuid = ZERO_UUID
    """Id of the log directory."""
    topics: list[AssignReplicasToDirsResponseTopicData] = field(factory=list)


class AssignReplicasToDirsResponse(Response, key=73, versions="0", flexible="0+"):
    """One result per partition. Errors: see `AssignReplicasToDirsRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    directories: list[AssignReplicasToDirsResponseDirectoryData] = field(factory=list)


class AssignReplicasToDirsRequestPartitionData(Struct):
    """A partition in the directory."""

    partition_index: PartitionIndex = 0


class AssignReplicasToDirsRequestTopicData(Struct):
    """The partitions of one topic."""

    topic_id: TopicId = ZERO_UUID
    partitions: list[AssignReplicasToDirsRequestPartitionData] = field(factory=list)


class AssignReplicasToDirsRequestDirectoryData(Struct):
    """A directory and the partitions in it."""

    id: uuid = ZERO_UUID
    """Id of the log directory."""
    topics: list[AssignReplicasToDirsRequestTopicData] = field(factory=list)


class AssignReplicasToDirsRequest(
    Request[AssignReplicasToDirsResponse], key=73, versions="0", flexible="0+", route=Route.CONTROLLER
):
    """Report which log directory holds which replica, so the controller can move leaders off a failed directory
    (KIP-858).

    Sent by brokers to the controller.

    Errors: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, STALE_BROKER_EPOCH, BROKER_ID_NOT_REGISTERED,
    UNSUPPORTED_VERSION (the metadata version is too low); per partition: UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER.
    """

    broker_id: BrokerId = 0
    """Broker that has the directories."""
    broker_epoch: int64 = -1
    """Epoch of the broker's registration; -1: unknown."""
    directories: list[AssignReplicasToDirsRequestDirectoryData] = field(factory=list)
