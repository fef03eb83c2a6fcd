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
    """A replica in the directory."""

    partition_index: PartitionIndex = 0
    partition_size: int64 = 0
    """Size of the replica's segments, in bytes."""
    offset_lag: int64 = 0
    """How many records the replica is behind. A current replica: from its log end to the high watermark; a future
    replica: to the current replica's log end."""
    is_future_key: bool = False
    """True: the copy that AlterReplicaLogDirs is filling, which will replace the current replica."""


class DescribeLogDirsTopic(Struct):
    """The replicas of one topic."""

    name: TopicName = ""
    partitions: list[DescribeLogDirsPartition] = field(factory=list)


class DescribeLogDirsResult(Struct):
    """A log directory."""

    error_code: int16 = 0
    log_dir: string = ""
    """Absolute path of the directory."""
    topics: list[DescribeLogDirsTopic] = field(factory=list)
    total_bytes: int64 = field("4+", default=-1, ignorable=True)
    """Size of the volume, in bytes (KIP-827); -1: unknown."""
    usable_bytes: int64 = field("4+", default=-1, ignorable=True)
    """Free space of the volume, in bytes; -1: unknown."""
    is_cordoned: bool = field("5+", default=False, ignorable=True)
    """True: the directory doesn't receive new replicas (KIP-1066)."""


class DescribeLogDirsResponse(Response, key=35, versions="0-5", flexible="2+", client_throttles="1+"):
    """The log directories of the broker. Errors: see `DescribeLogDirsRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = field("3+", default=0, ignorable=True)
    results: list[DescribeLogDirsResult] = field(factory=list)


class DescribableLogDirTopic(Struct):
    """Partitions of one topic."""

    topic: TopicName = ""
    partitions: list[PartitionIndex] = field(factory=list)


class DescribeLogDirsRequest(
    Request[DescribeLogDirsResponse], key=35, versions="0-5", flexible="2+", route=Route.BROKER
):
    """List the log directories of a broker, and the replicas in them (KIP-113).

    Sent by admin tools to each broker of interest.

    Errors: CLUSTER_AUTHORIZATION_FAILED (version 3 and later); per directory: KAFKA_STORAGE_ERROR.
    """

    topics: list[DescribableLogDirTopic] | None = field(factory=list)
    """Partitions to list; null: all."""
