"""The records of classic groups and committed offsets in ``__consumer_offsets``."""

from __future__ import annotations

from aiokproto.codec.schema import PartitionIndex, Payload, Struct, TopicId, TopicName, field, int32, int64, string
from aiokproto.codec.wire import ZERO_UUID


class GroupMetadataKey(Payload, versions="0"):
    """Key of a classic group's record."""

    group: string = ""
    """The group."""


class MemberMetadata(Struct):
    """A member of the group."""

    member_id: string = ""
    """Id of the member."""
    group_instance_id: string | None = field("3+", default=None, ignorable=True)
    """Static member id (`group.instance.id`, KIP-345); null: a dynamic member."""
    client_id: string = ""
    """Client id of the member's requests."""
    client_host: string = ""
    """Address that the member connects from."""
    rebalance_timeout: int32 = field("1+", default=-1, ignorable=True)
    """Time that members have to rejoin in a rebalance, in ms; -1: the session timeout."""
    session_timeout: int32 = 0
    """Time without a heartbeat after which the member is removed, in ms."""
    subscription: bytes = b""
    """Metadata of the member for the chosen protocol, as in JoinGroup."""
    assignment: bytes = b""
    """Assignment of the member, as in SyncGroup."""


class GroupMetadataValue(Payload, versions="0-4", flexible="4+"):
    """State of a classic group."""

    protocol_type: string = ""
    """Type of protocol, such as `consumer`."""
    generation: int32 = 0
    """Number of the generation; grows with each rebalance."""
    protocol: string | None = ""
    """Name of the chosen protocol; null: none."""
    leader: string | None = ""
    """Member id of the leader; null: none."""
    current_state_timestamp: int64 = field("2+", default=-1, ignorable=True)
    """Time of the last state change, in ms since 1970; -1: unknown."""
    members: list[MemberMetadata] = field(factory=list)


class OffsetCommitKey(Payload, versions="0"):
    """Key of a committed offset."""

    group: string = ""
    """The group."""
    topic: TopicName = ""
    partition: PartitionIndex = 0


class OffsetCommitValue(Payload, versions="0-4", flexible="4+"):
    """A committed offset."""

    offset: int64 = 0
    """Committed offset: the offset of the next record to read."""
    leader_epoch: int32 = field("3+", default=-1, ignorable=True)
    """Leader epoch of the last record read; -1: unknown."""
    metadata: string = ""
    """Text that the client stored with the offset."""
    commit_timestamp: int64 = 0
    """Time of the commit, in ms since 1970."""
    expire_timestamp: int64 = field("1", default=-1, ignorable=True)
    """Time the offset expires, in ms since 1970; -1: the broker's retention applies."""
    topic_id: TopicId = field("4+", tag=0, default=ZERO_UUID, ignorable=True)


class LegacyOffsetCommitKey(Payload, versions="0"):
    """Key of a committed offset, in the oldest versions of the key."""

    group: string = ""
    """The group."""
    topic: TopicName = ""
    partition: PartitionIndex = 0


class LegacyOffsetCommitValue(Payload, versions="0"):
    """A committed offset, in the oldest version of the value."""

    offset: int64 = 0
    """Committed offset: the offset of the next record to read."""
    metadata: string = ""
    """Text that the client stored with the offset."""
    commit_timestamp: int64 = 0
    """Time of the commit, in ms since 1970."""
