"""Key and value of the coordinator's share group state partition metadata records."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, PartitionIndex, Payload, Struct, TopicId, TopicName, field
from aiokproto.codec.wire import ZERO_UUID


class ShareGroupStatePartitionMetadataKey(Payload, versions="0"):
    group_id: GroupId = ""


class TopicPartitionsInfo(Struct):
    topic_id: TopicId = ZERO_UUID
    topic_name: TopicName = ""
    partitions: list[PartitionIndex] = field(factory=list)


class TopicInfo(Struct):
    topic_id: TopicId = ZERO_UUID
    topic_name: TopicName = ""


class ShareGroupStatePartitionMetadataValue(Payload, versions="0", flexible="0+"):
    initializing_topics: list[TopicPartitionsInfo] = field(factory=list)
    initialized_topics: list[TopicPartitionsInfo] = field(factory=list)
    deleting_topics: list[TopicInfo] = field(factory=list)
