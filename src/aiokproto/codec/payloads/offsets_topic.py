"""The records of ``__consumer_offsets`` that classic groups and committed offsets are kept in."""

from __future__ import annotations

from aiokproto.codec.schema import PartitionIndex, Payload, Struct, TopicId, TopicName, field, int32, int64, string
from aiokproto.codec.wire import ZERO_UUID


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


class OffsetCommitKey(Payload, versions="0"):
    group: string = ""
    topic: TopicName = ""
    partition: PartitionIndex = 0


class OffsetCommitValue(Payload, versions="0-4", flexible="4+"):
    offset: int64 = 0
    leader_epoch: int32 = field("3+", default=-1, ignorable=True)
    metadata: string = ""
    commit_timestamp: int64 = 0
    expire_timestamp: int64 = field("1", default=-1, ignorable=True)
    topic_id: TopicId = field("4+", tag=0, default=ZERO_UUID, ignorable=True)


class LegacyOffsetCommitKey(Payload, versions="0"):
    group: string = ""
    topic: TopicName = ""
    partition: PartitionIndex = 0


class LegacyOffsetCommitValue(Payload, versions="0"):
    offset: int64 = 0
    metadata: string = ""
    commit_timestamp: int64 = 0
