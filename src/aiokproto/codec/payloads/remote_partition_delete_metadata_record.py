"""The remote partition delete metadata record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, Struct, int8, int32, int64, string, uuid


class TopicIdPartitionEntry(Struct):
    name: string
    id: uuid
    partition: int32


class RemotePartitionDeleteMetadataRecord(Payload, versions="0", flexible="0+"):
    topic_id_partition: TopicIdPartitionEntry
    broker_id: int32
    event_timestamp_ms: int64
    remote_partition_delete_state: int8
