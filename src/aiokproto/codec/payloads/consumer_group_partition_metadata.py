"""Key and value of the coordinator's consumer group partition metadata records."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, Struct, int32, string, uuid


class ConsumerGroupPartitionMetadataKey(Payload, versions="0"):
    group_id: string


class PartitionMetadata(Struct):
    partition: int32
    racks: list[string]


class TopicMetadata(Struct):
    topic_id: uuid
    topic_name: string
    num_partitions: int32
    partition_metadata: list[PartitionMetadata]


class ConsumerGroupPartitionMetadataValue(Payload, versions="0", flexible="0+"):
    topics: list[TopicMetadata]
