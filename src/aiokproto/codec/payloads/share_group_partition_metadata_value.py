"""The share group partition metadata value."""

from __future__ import annotations

from aiokproto.codec.schema import PartitionIndex, Payload, Struct, TopicId, TopicName, field, int32, string
from aiokproto.codec.wire import ZERO_UUID


class PartitionMetadata(Struct):
    partition: PartitionIndex = 0
    racks: list[string] = field(factory=list)


class TopicMetadata(Struct):
    topic_id: TopicId = ZERO_UUID
    topic_name: TopicName = ""
    num_partitions: int32 = 0
    partition_metadata: list[PartitionMetadata] = field(factory=list)


class ShareGroupPartitionMetadataValue(Payload, versions="0", flexible="0+"):
    topics: list[TopicMetadata] = field(factory=list)
