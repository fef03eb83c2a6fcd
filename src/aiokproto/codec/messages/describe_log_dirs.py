"""DescribeLogDirs (ApiKey 35): the log directories of a broker and the replicas in them."""

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
    int64,
    string,
)


class DescribeLogDirsPartition(Struct):
    partition_index: PartitionIndex = 0
    partition_size: int64 = 0
    offset_lag: int64 = 0
    is_future_key: bool = False


class DescribeLogDirsTopic(Struct):
    name: TopicName = ""
    partitions: list[DescribeLogDirsPartition] = field(factory=list)


class DescribeLogDirsResult(Struct):
    error_code: int16 = 0
    log_dir: string = ""
    topics: list[DescribeLogDirsTopic] = field(factory=list)
    total_bytes: int64 = field("4+", default=-1, ignorable=True)
    usable_bytes: int64 = field("4+", default=-1, ignorable=True)
    is_cordoned: bool = field("5+", default=False, ignorable=True)


class DescribeLogDirsResponse(Response, key=35, versions="0-5", flexible="2+", client_throttles="1+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = field("3+", default=0, ignorable=True)
    results: list[DescribeLogDirsResult] = field(factory=list)


class DescribableLogDirTopic(Struct):
    topic: TopicName = ""
    partitions: list[PartitionIndex] = field(factory=list)


class DescribeLogDirsRequest(
    Request[DescribeLogDirsResponse], key=35, versions="0-5", flexible="2+", route=Route.BROKER
):
    topics: list[DescribableLogDirTopic] | None = field(factory=list)
