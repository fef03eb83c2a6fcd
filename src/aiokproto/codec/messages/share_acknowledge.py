"""ShareAcknowledge (ApiKey 79): acknowledge records that a share consumer acquired (KIP-932)."""

from __future__ import annotations

from aiokproto.codec.schema import (
    BrokerId,
    GroupId,
    PartitionIndex,
    Request,
    Response,
    Route,
    Struct,
    TopicId,
    field,
    int8,
    int16,
    int32,
    int64,
    string,
)
from aiokproto.codec.wire import ZERO_UUID


class LeaderIdAndEpoch(Struct):
    """The leader of the partition."""

    leader_id: BrokerId = 0
    """Broker that leads the partition now; -1: unknown."""
    leader_epoch: int32 = 0
    """Epoch of that leader; -1: unknown."""


class PartitionData(Struct):
    """The result of one partition."""

    partition_index: PartitionIndex = 0
    error_code: int16 = 0
    error_message: string | None = None
    current_leader: LeaderIdAndEpoch = field(factory=LeaderIdAndEpoch)
    """Set with NOT_LEADER_OR_FOLLOWER. The leader's address is in `node_endpoints`."""


class ShareAcknowledgeTopicResponse(Struct):
    """Results of one topic."""

    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionData] = field(factory=list)


class NodeEndpoint(Struct):
    """Address of a broker mentioned in a `current_leader`."""

    node_id: BrokerId = 0
    """Id of the broker."""
    host: string = ""
    """Host name or address to connect to."""
    port: int32 = 0
    """TCP port."""
    rack: string | None = None
    """Rack of the broker (`broker.rack`); null: none configured."""


class ShareAcknowledgeResponse(Response, key=79, versions="0-2", flexible="0+"):
    """One result per partition. Errors: see `ShareAcknowledgeRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    acquisition_lock_timeout_ms: int32 = field("2+", default=0, ignorable=True)
    """Time for which acquired (or renewed) records are locked for the member, in ms."""
    responses: list[ShareAcknowledgeTopicResponse] = field(factory=list)
    node_endpoints: list[NodeEndpoint] = field(factory=list)
    """Addresses of the leaders in `current_leader`."""


class AcknowledgementBatch(Struct):
    """A range of acquired offsets and their outcome."""

    first_offset: int64 = 0
    """First offset of the range."""
    last_offset: int64 = 0
    """Last offset of the range, inclusive."""
    acknowledge_types: list[int8] = field(factory=list)
    """0: gap (no record at the offset); 1: accept; 2: release (deliver again); 3: reject (never again); 4: renew the
    lock (version 2+). One for the whole range, or one per offset."""


class AcknowledgePartition(Struct):
    """Acknowledgements for one partition."""

    partition_index: PartitionIndex = 0
    acknowledgement_batches: list[AcknowledgementBatch] = field(factory=list)


class AcknowledgeTopic(Struct):
    """Acknowledgements for one topic."""

    topic_id: TopicId = ZERO_UUID
    partitions: list[AcknowledgePartition] = field(factory=list)


class ShareAcknowledgeRequest(
    Request[ShareAcknowledgeResponse], key=79, versions="0-2", flexible="0+", route=Route.LEADER
):
    """Accept, release, reject or renew acquired records, without fetching more.

    Sent by share consumers to the leader of the partitions, in the session that ShareFetch opened.

    Errors: GROUP_AUTHORIZATION_FAILED, SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH, INVALID_REQUEST,
    UNKNOWN_SERVER_ERROR; per partition: TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID,
    NOT_LEADER_OR_FOLLOWER, INVALID_RECORD_STATE (not acquired by the member, or its lock has expired),
    KAFKA_STORAGE_ERROR, INVALID_REQUEST.
    """

    group_id: GroupId | None = None
    """Share group of the member."""
    member_id: string | None = ""
    """Id of the member, a UUID."""
    share_session_epoch: int32 = 0
    """Epoch of the share session, incremented with each request; -1: close it. 0 would open a session, which only
    ShareFetch can do."""
    is_renew_ack: bool = field("2+", default=False)
    """True: some `acknowledge_types` are 4 (KIP-1222)."""
    topics: list[AcknowledgeTopic] = field(factory=list)
