"""Key and value of the coordinator's share group member metadata records."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, Payload, TopicName, field, string


class ShareGroupMemberMetadataKey(Payload, versions="0"):
    group_id: GroupId = ""
    member_id: string = ""


class ShareGroupMemberMetadataValue(Payload, versions="0", flexible="0+"):
    rack_id: string | None = ""
    client_id: string = ""
    client_host: string = ""
    subscribed_topic_names: list[TopicName] = field(factory=list)
