"""ShareFetch (ApiKey 78): acquire records for a share consumer, and acknowledge earlier ones (KIP-932)."""

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
    recordset,
    string,
)
from aiokproto.codec.wire import ZERO_UUID


class LeaderIdAndEpoch(Struct):
    """The leader of the partition."""

    leader_id: BrokerId = 0
    """Broker that leads the partition now; -1: unknown."""
    leader_epoch: int32 = 0
    """Epoch of that leader; -1: unknown."""


class AcquiredRecords(Struct):
    """A range of offsets that is locked for the member."""

    first_offset: int64 = 0
    """First offset of the range."""
    last_offset: int64 = 0
    """Last offset of the range, inclusive."""
    delivery_count: int16 = 0
    """How often the records have been delivered, including this time."""


class PartitionData(Struct):
    """Records of one partition that were acquired for the member."""

    partition_index: PartitionIndex = 0
    error_code: int16 = 0
    error_message: string | None = None
    acknowledge_error_code: int16 = 0
    """Error of the acknowledgements in the request; 0: none."""
    acknowledge_error_message: string | None = None
    """Message of that error; null: none."""
    current_leader: LeaderIdAndEpoch = field(factory=LeaderIdAndEpoch)
    """Set with NOT_LEADER_OR_FOLLOWER. The leader's address is in `node_endpoints`."""
    records: recordset | None = field(nullable="0", default=None)
    """Record batches that contain the acquired records, and possibly others: the member owns only offsets in
    `acquired_records`. null or empty: none."""
    acquired_records: list[AcquiredRecords] = field(factory=list)
    """Ranges the member acquired, in offset order."""


class ShareFetchableTopicResponse(Struct):
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


class ShareFetchResponse(Response, key=78, versions="0-2", flexible="0+"):
    """Records acquired by the member, and the results of its acknowledgements. Errors: see `ShareFetchRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    acquisition_lock_timeout_ms: int32 = field("1+", default=0)
    """Time for which the acquired records are locked for the member, in ms. Afterwards they can be delivered to another
    member."""
    responses: list[ShareFetchableTopicResponse] = field(factory=list)
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


class FetchPartition(Struct):
    """A partition to read, and acknowledgements for it."""

    partition_index: PartitionIndex = 0
    partition_max_bytes: int32 = field("0", default=0)
    """Maximum number of bytes to return for this partition; 0: acknowledge only (version 0)."""
    acknowledgement_batches: list[AcknowledgementBatch] = field(factory=list)
    """Acknowledgements of records acquired earlier; empty: none."""


class FetchTopic(Struct):
    """Partitions of one topic to read."""

    topic_id: TopicId = ZERO_UUID
    partitions: list[FetchPartition] = field(factory=list)


class ForgottenTopic(Struct):
    """Partitions to remove from the share session."""

    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionIndex] = field(factory=list)


class ShareFetchRequest(Request[ShareFetchResponse], key=78, versions="0-2", flexible="0+", route=Route.LEADER):
    """Acquire records of share partitions for a limited time, and acknowledge earlier ones.

    Sent by share consumers to the leader of the partitions.

    Errors: GROUP_AUTHORIZATION_FAILED, SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH,
    SHARE_SESSION_LIMIT_REACHED, INVALID_REQUEST, UNKNOWN_SERVER_ERROR; per partition, to fetch and to acknowledge:
    TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, NOT_LEADER_OR_FOLLOWER,
    KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE, INVALID_REQUEST, and to acknowledge only: INVALID_RECORD_STATE (not acquired
    by the member, or its lock has expired).
    """

    group_id: GroupId | None = None
    """Share group of the member."""
    member_id: string | None = ""
    """Id of the member, a UUID."""
    share_session_epoch: int32 = 0
    """Epoch of the share session. 0: open a session; then incremented with each request; -1: close it, releasing all
    acquired records."""
    max_wait_ms: int32 = 0
    """How long the broker may wait for records, in ms."""
    min_bytes: int32 = 0
    """Number of bytes of records to wait for before responding."""
    max_bytes: int32 = 2147483647
    """Maximum number of bytes of records to return. The first batch is returned whole even if it is larger (KIP-74)."""
    max_records: int32 = field("1+", default=0)
    """Maximum number of records to acquire. With `share_acquire_mode` 0, more are acquired to complete a batch."""
    batch_size: int32 = field("1+", default=0)
    """Target number of records per range in `acquired_records`. The broker splits ranges where record batches end."""
    share_acquire_mode: int8 = field("2+", default=0, ignorable=True)
    """0: batch-optimized, whole record batches; 1: record limit, never more than `max_records` (KIP-1206)."""
    is_renew_ack: bool = field("2+", default=False)
    """True: some `acknowledge_types` are 4 (KIP-1222). If so, nothing is fetched: `max_wait_ms`, `min_bytes`,
    `max_bytes` and `max_records` must be 0."""
    topics: list[FetchTopic] = field(factory=list)
    """Partitions to add to the session, or to acknowledge. The session's other partitions are fetched as well."""
    forgotten_topics_data: list[ForgottenTopic] = field(factory=list, mentioned=True)
    """Partitions the session no longer fetches."""
