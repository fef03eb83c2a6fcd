"""The remote partition delete metadata record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import BrokerId, PartitionIndex, Payload, Struct, TopicId, TopicName, field, int8, int64
from aiokproto.codec.wire import ZERO_UUID


class TopicIdPartitionEntry(Struct):
    name: TopicName = ""
    id: TopicId = ZERO_UUID
    partition: PartitionIndex = 0


class RemotePartitionDeleteMetadataRecord(Payload, versions="0", flexible="0+"):
    topic_id_partition: TopicIdPartitionEntry = field(factory=TopicIdPartitionEntry)
    broker_id: BrokerId = 0
    event_timestamp_ms: int64 = 0
    remote_partition_delete_state: int8 = 0
