"""The share group partition metadata value."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, Struct, int32, string, uuid


class PartitionMetadata(Struct):
    partition: int32
    racks: list[string]


class TopicMetadata(Struct):
    topic_id: uuid
    topic_name: string
    num_partitions: int32
    partition_metadata: list[PartitionMetadata]


class ShareGroupPartitionMetadataValue(Payload, versions="0", flexible="0+"):
    topics: list[TopicMetadata]
