"""AlterReplicaLogDirs: move replicas to another log directory of the same node (KIP-113). There is only one here."""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from aiokproto.error_codes import ErrorCode

REQUIRES = (Required(Operation.ALTER, ResourceType.CLUSTER),)


async def handle(request: AlterReplicaLogDirsRequest, context: RequestContext) -> AlterReplicaLogDirsResponse:
    topics: list[AlterReplicaLogDirTopicResult] = []
    async for directory in context.each(request.dirs):
        async for topic in context.each(directory.topics):
            partitions = [
                AlterReplicaLogDirPartitionResult(
                    partition_index=index, error_code=_move(directory.path, topic.name, index, context)
                )
                async for index in context.each(topic.partitions)
            ]
            topics.append(AlterReplicaLogDirTopicResult(topic_name=topic.name, partitions=partitions))
    return AlterReplicaLogDirsResponse(results=topics)


def _move(path: str, topic: str, index: int, context: RequestContext) -> ErrorCode:
    if path != str(context.state.root):
        return ErrorCode.LOG_DIR_NOT_FOUND
    partition = context.state.find_partition(topic, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE if context.node.node_id in partition.replicas else ErrorCode.NOT_LEADER_OR_FOLLOWER
