"""Key and value of the coordinator's streams group metadata records."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, Payload, Struct, field, int32, int64, string


class StreamsGroupMetadataKey(Payload, versions="0"):
    group_id: GroupId = ""


class LastAssignmentConfig(Struct):
    key: string = ""
    value: string = ""


class StreamsGroupMetadataValue(Payload, versions="0", flexible="0+"):
    epoch: int32 = 0
    metadata_hash: int64 = 0
    validated_topology_epoch: int32 = field(tag=0, default=-1)
    last_assignment_configs: list[LastAssignmentConfig] | None = field(tag=1, factory=list)
    stored_description_topology_epoch: int32 = field(tag=2, default=-1)
    failed_description_topology_epoch: int32 = field(tag=3, default=-1)
