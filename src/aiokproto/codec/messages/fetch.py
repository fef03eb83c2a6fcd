"""Fetch (ApiKey 1): read record batches of partitions."""

from __future__ import annotations

from aiokproto.codec.schema import (
    BrokerId,
    PartitionIndex,
    ProducerId,
    Request,
    Response,
    Route,
    Struct,
    TopicId,
    TopicName,
    field,
    int8,
    int16,
    int32,
    int64,
    recordset,
    string,
    uuid,
)
from aiokproto.codec.wire import ZERO_UUID


class EpochEndOffset(Struct):
    """The last leader epoch that follower and leader share, and where it ends in the leader's log (KIP-595)."""

    epoch: int32 = -1
    """Highest epoch in the leader's log that isn't above `last_fetched_epoch`; -1: the logs do not diverge."""
    end_offset: int64 = -1
    """Offset after the last record of that epoch; the follower truncates to it. -1: the logs do not diverge."""


class LeaderIdAndEpoch(Struct):
    """The leader the broker knows of, which saves the client a Metadata request (KIP-951)."""

    leader_id: BrokerId = -1
    """Broker that leads the partition; -1: unknown, or the error is not about the leader."""
    leader_epoch: int32 = -1
    """Epoch of that leader; -1: unknown."""


class SnapshotId(Struct):
    """A snapshot of the metadata log, named by the offset and epoch it ends at (KIP-630)."""

    end_offset: int64 = -1
    """Offset after the last record of the snapshot; -1: no snapshot to fetch."""
    epoch: int32 = -1
    """Leader epoch of the snapshot's last record; -1: no snapshot to fetch."""


class AbortedTransaction(Struct):
    """A transaction whose records, from `first_offset` to its ABORT marker, READ_COMMITTED consumers drop."""

    producer_id: ProducerId = 0
    """Producer whose transaction was aborted."""
    first_offset: int64 = 0
    """Offset of the transaction's first record in the partition."""


class PartitionData(Struct):
    """Records of one partition, and its offsets."""

    partition_index: PartitionIndex = 0
    error_code: int16 = 0
    high_watermark: int64 = field(default=0, refused=-1)
    """Offset after the last record that all in-sync replicas have; -1: an error."""
    last_stable_offset: int64 = field("4+", default=-1, ignorable=True)
    """First offset that may belong to an open transaction: READ_COMMITTED reads only earlier records. -1: unknown."""
    log_start_offset: int64 = field("5+", default=-1, ignorable=True)
    """First offset of the log; -1: unknown."""
    diverging_epoch: EpochEndOffset = field("12+", tag=0, factory=EpochEndOffset)
    """Set when the fetch position is on a diverged branch of the log. Only for requests with `last_fetched_epoch`."""
    current_leader: LeaderIdAndEpoch = field("12+", tag=1, factory=LeaderIdAndEpoch)
    """Set with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH. The leader's address is in `node_endpoints`."""
    snapshot_id: SnapshotId = field("12+", tag=2, factory=SnapshotId)
    """The snapshot to fetch with FetchSnapshot, because the fetch offset is before the log start (metadata log
    only)."""
    aborted_transactions: list[AbortedTransaction] | None = field("4+", factory=list, ignorable=True)
    """Aborted transactions in the range of `records`, for READ_COMMITTED; null: none, or READ_UNCOMMITTED."""
    preferred_read_replica: BrokerId = field("11+", default=-1)
    """Replica to fetch from instead (KIP-392); `records` is then empty. -1: keep fetching from this broker."""
    records: recordset | None = None
    """Record batches, starting with the one that contains the fetch offset, so the first may start before it; the last
    batch can be cut short. null: none."""


class FetchableTopicResponse(Struct):
    """Results of one topic."""

    topic: TopicName = field("0-12", default="", ignorable=True)
    topic_id: TopicId = field("13+", default=ZERO_UUID, ignorable=True)
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


class FetchResponse(Response, key=1, versions="0-18", flexible="12+", client_throttles="8+"):
    """The record batches of each partition. In an incremental fetch, only partitions with changes.

    Errors: see `FetchRequest`.
    """

    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    error_code: int16 = field("7+", default=0, ignorable=True)
    session_id: int32 = field("7+", default=0)
    """Fetch session (KIP-227) for the following requests; 0: none was created."""
    responses: list[FetchableTopicResponse] = field(factory=list)
    node_endpoints: list[NodeEndpoint] = field("16+", tag=0, factory=list)
    """Addresses of the leaders in `current_leader`."""


class ReplicaState(Struct):
    """The follower that fetches; consumers use the defaults."""

    replica_id: BrokerId = -1
    """Broker id of the follower; -1: a consumer."""
    replica_epoch: int64 = -1
    """Broker epoch of the follower (KIP-903), to distinguish a restarted broker from its predecessor; -1: unknown."""


class FetchPartition(Struct):
    """A partition to read, and the position in it."""

    partition: PartitionIndex = 0
    current_leader_epoch: int32 = field("9+", default=-1, ignorable=True)
    """Leader epoch the reader knows; a lower one than the broker's is FENCED_LEADER_EPOCH, a higher one
    UNKNOWN_LEADER_EPOCH (KIP-320). -1: not checked."""
    fetch_offset: int64 = 0
    """Offset to read from."""
    last_fetched_epoch: int32 = field("12+", default=-1)
    """Leader epoch of the last record read, to detect truncation (see `diverging_epoch`); -1: not checked."""
    log_start_offset: int64 = field("5+", default=-1, ignorable=True)
    """First offset of the follower's log; -1: a consumer."""
    partition_max_bytes: int32 = 0
    """Maximum number of bytes to return for this partition. As with `max_bytes`, the first batch is returned whole even
    if it is larger."""
    replica_directory_id: uuid = field("17+", tag=0, default=ZERO_UUID, ignorable=True)
    """Id of the log directory that the follower fetches into (KIP-853, metadata log); zero: not given."""
    high_watermark: int64 = field("18+", tag=1, default=9223372036854775807, ignorable=True)
    """High watermark the replica knows (KIP-1166): the leader responds at once if its own is higher. -1: the replica
    doesn't know it; 2^63 - 1: the replica doesn't support this."""


class FetchTopic(Struct):
    """Partitions of one topic to read."""

    topic: TopicName = field("0-12", default="", ignorable=True)
    topic_id: TopicId = field("13+", default=ZERO_UUID, ignorable=True)
    partitions: list[FetchPartition] = field(factory=list)


class ForgottenTopic(Struct):
    """Partitions to remove from the fetch session."""

    topic: TopicName = field("7-12", default="", ignorable=True)
    topic_id: TopicId = field("13+", default=ZERO_UUID, ignorable=True)
    partitions: list[PartitionIndex] = field(factory=list)


class FetchRequest(Request[FetchResponse], key=1, versions="0-18", flexible="12+", route=Route.LEADER):
    """Read record batches of partitions.

    Sent by consumers and followers to the leader, and by consumers to a nearby follower (KIP-392); in KRaft, also by
    brokers and controllers, for the metadata log.

    Errors: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR,
    INCONSISTENT_CLUSTER_ID; per partition: OFFSET_OUT_OF_RANGE, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH,
    UNKNOWN_LEADER_EPOCH, REPLICA_NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID and INCONSISTENT_TOPIC_ID
    (version 13+), OFFSET_MOVED_TO_TIERED_STORAGE (followers, version 14+), TOPIC_AUTHORIZATION_FAILED,
    KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE, UNSUPPORTED_COMPRESSION_TYPE (zstd below version 10), UNKNOWN_SERVER_ERROR.
    """

    cluster_id: string | None = field("12+", tag=0, default=None, ignorable=True)
    """Cluster id the replica expects, for the metadata log; otherwise INCONSISTENT_CLUSTER_ID. null: not checked."""
    replica_id: BrokerId = field("0-14", default=-1)
    """Broker id of the follower; -1: a consumer. Replaced by `replica_state` in version 15."""
    replica_state: ReplicaState = field("15+", tag=1, factory=ReplicaState)
    """The follower that fetches (version 15+)."""
    max_wait_ms: int32 = 0
    """How long the broker may wait for `min_bytes`, in ms."""
    min_bytes: int32 = 0
    """Number of bytes of records to wait for before responding; 0: respond at once."""
    max_bytes: int32 = field("3+", default=2147483647, ignorable=True)
    """Maximum number of bytes of records to return. The first batch of the first partition with data is returned even
    if it is larger, so a reader never gets stuck (KIP-74)."""
    isolation_level: int8 = field("4+", default=0, ignorable=True)
    """0: READ_UNCOMMITTED, up to the high watermark; 1: READ_COMMITTED, up to the last stable offset."""
    session_id: int32 = field("7+", default=0, ignorable=True)
    """Fetch session of the previous response; 0: none."""
    session_epoch: int32 = field("7+", default=-1, ignorable=True)
    """0: full fetch that requests a new session; -1: full fetch without a session, closing `session_id`; 1 and above:
    incremental fetch, incremented each time."""
    topics: list[FetchTopic] = field(factory=list)
    """Partitions to read, in the order they are served. In an incremental fetch, only those added or changed."""
    forgotten_topics_data: list[ForgottenTopic] = field("7+", factory=list, mentioned=True)
    """Partitions the session no longer reads."""
    rack_id: string = field("11+", default="", ignorable=True)
    """Rack of the consumer (`client.rack`), to choose a nearby replica; empty: unknown."""
