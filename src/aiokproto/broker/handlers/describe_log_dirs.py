"""DescribeLogDirs: the sizes of logs (KIP-113), and from v4 on the size and free space of the disk (KIP-827).

All nodes share one directory; each reports the partitions of which it has a replica.
"""

from __future__ import annotations

import shutil

from aiokproto.broker.request_context import RequestContext
from aiokproto.codec.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from aiokproto.error_codes import ErrorCode


async def handle(request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse:
    wanted = None if request.topics is None else {topic.topic: set(topic.partitions) for topic in request.topics}
    disk = shutil.disk_usage(context.state.root)
    topics = []
    for topic in context.state.topics.values():
        partitions = [
            DescribeLogDirsPartition(
                partition_index=each.index, partition_size=each.log.size, offset_lag=0, is_future_key=False
            )
            for each in topic.partitions
            if context.node.node_id in each.replicas and (wanted is None or each.index in wanted.get(topic.name, ()))
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
