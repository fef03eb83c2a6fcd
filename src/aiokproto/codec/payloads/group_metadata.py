"""Key and value of the coordinator's group metadata records."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, Struct, field, int32, int64, string


class GroupMetadataKey(Payload, versions="0"):
    group: string = ""


class MemberMetadata(Struct):
    member_id: string = ""
    group_instance_id: string | None = field("3+", default=None, ignorable=True)
    client_id: string = ""
    client_host: string = ""
    rebalance_timeout: int32 = field("1+", default=-1, ignorable=True)
    session_timeout: int32 = 0
    subscription: bytes = b""
    assignment: bytes = b""


class GroupMetadataValue(Payload, versions="0-4", flexible="4+"):
    protocol_type: string = ""
    generation: int32 = 0
    protocol: string | None = ""
    leader: string | None = ""
    current_state_timestamp: int64 = field("2+", default=-1, ignorable=True)
    members: list[MemberMetadata] = field(factory=list)
