"""What members of a classic Streams group tell each other."""

from __future__ import annotations

from aiokproto.codec.schema import PartitionIndex, Payload, Struct, field, int8, int32, int64, string, uuid
from aiokproto.codec.wire import ZERO_UUID


class TaskId(Struct):
    topic_group_id: int32 = 0
    partition: PartitionIndex = 0


class PartitionToOffsetSum(Struct):
    partition: PartitionIndex = 0
    offset_sum: int64 = 0


class TaskOffsetSum(Struct):
    topic_group_id: int32 = 0
    partition: PartitionIndex = field("10+", default=0)
    offset_sum: int64 = field("10+", default=0)
    named_topology: string | None = field("10+", default="")
    partition_to_offset_sum: list[PartitionToOffsetSum] = field("7-9", factory=list)


class ClientTag(Struct):
    key: bytes = b""
    value: bytes = b""


class SubscriptionInfoData(Payload, versions="1-11"):
    version: int32 = 0
    latest_supported_version: int32 = field("3+", default=-1)
    process_id: uuid = ZERO_UUID
    prev_tasks: list[TaskId] = field("1-6", factory=list)
    standby_tasks: list[TaskId] = field("1-6", factory=list)
    user_end_point: bytes = field("2+", default=b"")
    task_offset_sums: list[TaskOffsetSum] = field("7+", factory=list)
    unique_field: int8 = field("8+", default=0)
    error_code: int32 = field("9+", default=0)
    client_tags: list[ClientTag] = field("11+", factory=list)
