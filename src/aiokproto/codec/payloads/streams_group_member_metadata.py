"""Key and value of the coordinator's streams group member metadata records."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, Payload, Struct, field, int32, string, uint16


class StreamsGroupMemberMetadataKey(Payload, versions="0"):
    group_id: GroupId = ""
    member_id: string = ""


class Endpoint(Struct):
    host: string = ""
    port: uint16 = 0


class KeyValue(Struct):
    key: string = ""
    value: string = ""


class StreamsGroupMemberMetadataValue(Payload, versions="0", flexible="0+"):
    instance_id: string | None = ""
    rack_id: string | None = ""
    client_id: string = ""
    client_host: string = ""
    rebalance_timeout_ms: int32 = -1
    topology_epoch: int32 = 0
    process_id: string = ""
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] = field(factory=list)
