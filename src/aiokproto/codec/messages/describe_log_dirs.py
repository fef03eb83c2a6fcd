"""DescribeLogDirs (ApiKey 35): the log directories of a broker and the replicas in them."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, int64, string


class DescribeLogDirsPartition(Struct):
    partition_index: int32
    partition_size: int64
    offset_lag: int64
    is_future_key: bool


class DescribeLogDirsTopic(Struct):
    name: string
    partitions: list[DescribeLogDirsPartition]


class DescribeLogDirsResult(Struct):
    error_code: int16
    log_dir: string
    topics: list[DescribeLogDirsTopic]
    total_bytes: int64 = field("4+", default=-1, ignorable=True)
    usable_bytes: int64 = field("4+", default=-1, ignorable=True)
    is_cordoned: bool = field("5+", default=False, ignorable=True)


class DescribeLogDirsResponse(Response, key=35, versions="0-5", flexible="2+"):
    throttle_time_ms: int32
    error_code: int16 = field("3+", default=0, ignorable=True)
    results: list[DescribeLogDirsResult]


class DescribableLogDirTopic(Struct):
    topic: string
    partitions: list[int32]


class DescribeLogDirsRequest(
    Request[DescribeLogDirsResponse], key=35, versions="0-5", flexible="2+", route=Route.BROKER
):
    topics: list[DescribableLogDirTopic] | None
