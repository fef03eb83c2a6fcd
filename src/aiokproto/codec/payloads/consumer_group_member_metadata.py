"""Key and value of the coordinator's consumer group member metadata records."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, Payload, Struct, TopicName, field, int32, string


class ConsumerGroupMemberMetadataKey(Payload, versions="0"):
    group_id: GroupId = ""
    member_id: string = ""


class ClassicProtocol(Struct):
    name: string = ""
    metadata: bytes = b""


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int32 = 0
    supported_protocols: list[ClassicProtocol] = field(factory=list)


class ConsumerGroupMemberMetadataValue(Payload, versions="0", flexible="0+"):
    instance_id: string | None = ""
    rack_id: string | None = ""
    client_id: string = ""
    client_host: string = ""
    subscribed_topic_names: list[TopicName] = field(factory=list)
    subscribed_topic_regex: string | None = ""
    rebalance_timeout_ms: int32 = -1
    server_assignor: string | None = ""
    classic_member_metadata: ClassicMemberMetadata | None = field(tag=0, factory=ClassicMemberMetadata)
