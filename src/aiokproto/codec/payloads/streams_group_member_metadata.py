"""Key and value of the coordinator's streams group member metadata records."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, Struct, field, int32, string, uint16


class StreamsGroupMemberMetadataKey(Payload, versions="0"):
    group_id: string
    member_id: string


class Endpoint(Struct):
    host: string
    port: uint16


class KeyValue(Struct):
    key: string
    value: string


class StreamsGroupMemberMetadataValue(Payload, versions="0", flexible="0+"):
    instance_id: string | None
    rack_id: string | None
    client_id: string
    client_host: string
    rebalance_timeout_ms: int32 = field(default=-1)
    topology_epoch: int32
    process_id: string
    user_endpoint: Endpoint | None = field(default=None)
    client_tags: list[KeyValue]
