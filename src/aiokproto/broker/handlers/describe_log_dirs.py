"""DescribeLogDirs: the sizes of logs (KIP-113). v4: the size and free space of the disk (KIP-827).

All nodes share one directory, and each node reports the partitions that it replicates. Logs that can't be opened are
left out, like offline logs in Kafka: the response has an error code per directory, not per log.
"""

from __future__ import annotations

import shutil

from aiokproto.broker.metadata.topics import Partition
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (Required(Operation.DESCRIBE, ResourceType.CLUSTER),)


async def handle(request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse:
    wanted: dict[str, set[int]] | None = None
    if request.topics is not None:
        wanted = {topic.topic: set(topic.partitions) async for topic in context.each(request.topics)}
    disk = shutil.disk_usage(context.state.root)
    topics: list[DescribeLogDirsTopic] = []
    async for topic in context.each(list(context.state.topics.values())):
        chosen = [
            partition
            async for partition in context.each(list(topic.partitions))
            if context.node.node_id in partition.replicas
            and (wanted is None or partition.index in wanted.get(topic.name, ()))
        ]
        partitions = [
            DescribeLogDirsPartition(
                partition_index=partition.index, partition_size=size, offset_lag=0, is_future_key=False
            )
            async for partition in context.each(chosen)
            if (size := _size(partition)) is not None
        ]
        if partitions:
            topics.append(DescribeLogDirsTopic(name=topic.name, partitions=partitions))
    result = DescribeLogDirsResult(
        error_code=ErrorCode.NONE,
        log_dir=str(context.state.root),
        topics=topics,
        total_bytes=disk.total,
        usable_bytes=disk.free,
    )
    return DescribeLogDirsResponse(results=[result])


def _size(partition: Partition) -> int | None:
    """Return the size of a partition's log in bytes, or None if the log can't be opened."""
    try:
        return partition.log.size
    except BrokerError:
        return None
