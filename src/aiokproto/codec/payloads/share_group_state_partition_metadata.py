"""Key and value of the coordinator's share group state partition metadata records."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, Struct, int32, string, uuid


class ShareGroupStatePartitionMetadataKey(Payload, versions="0"):
    group_id: string


class TopicPartitionsInfo(Struct):
    topic_id: uuid
    topic_name: string
    partitions: list[int32]


class TopicInfo(Struct):
    topic_id: uuid
    topic_name: string


class ShareGroupStatePartitionMetadataValue(Payload, versions="0", flexible="0+"):
    initializing_topics: list[TopicPartitionsInfo]
    initialized_topics: list[TopicPartitionsInfo]
    deleting_topics: list[TopicInfo]
