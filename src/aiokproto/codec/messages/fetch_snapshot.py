"""FetchSnapshot (ApiKey 59): read part of a snapshot of the metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import (
    BrokerId,
    PartitionIndex,
    Request,
    Response,
    Route,
    Struct,
    TopicName,
    field,
    int16,
    int32,
    int64,
    recordset,
    string,
    uint16,
    uuid,
)
from aiokproto.codec.wire import ZERO_UUID


class SnapshotId(Struct):
    """A snapshot, named by the offset and epoch it ends at."""

    end_offset: int64 = 0
    """Offset after the last record that the snapshot includes."""
    epoch: int32 = 0
    """Leader epoch of that record."""


class LeaderIdAndEpoch(Struct):
    """The leader of the partition."""

    leader_id: BrokerId = 0
    """Node id of the quorum leader; -1: unknown."""
    leader_epoch: int32 = 0
    """Newest epoch the responding node knows."""


class FetchSnapshotResponsePartitionSnapshot(Struct):
    """Part of a snapshot."""

    index: PartitionIndex = 0
    error_code: int16 = 0
    snapshot_id: SnapshotId = field(factory=SnapshotId)
    """The snapshot the bytes belong to."""
    current_leader: LeaderIdAndEpoch = field(tag=0, factory=LeaderIdAndEpoch)
    """Set with errors about the leader or its epoch."""
    size: int64 = 0
    """Size of the whole snapshot, in bytes."""
    position: int64 = 0
    """Byte position of `unaligned_records` in the snapshot."""
    unaligned_records: recordset = field(default=None)
    """Bytes of the snapshot. They can begin and end in the middle of a record batch."""


class FetchSnapshotResponseTopicSnapshot(Struct):
    """Results of one topic."""

    name: TopicName = ""
    partitions: list[FetchSnapshotResponsePartitionSnapshot] = field(factory=list)


class NodeEndpoint(Struct):
    """Address of the leader."""

    node_id: BrokerId = 0
    """Node id of the leader."""
    host: string = ""
    """Host name or address to connect to."""
    port: uint16 = 0
    """TCP port."""


class FetchSnapshotResponse(Response, key=59, versions="0-1", flexible="0+"):
    """A range of bytes of each snapshot. Errors: see `FetchSnapshotRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    topics: list[FetchSnapshotResponseTopicSnapshot] = field(factory=list)
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0, factory=list)
    """Addresses of the leaders in `current_leader`."""


class FetchSnapshotRequestPartitionSnapshot(Struct):
    """The snapshot to read, and the position in it."""

    partition: PartitionIndex = 0
    current_leader_epoch: int32 = 0
    """Leader epoch the replica knows; a lower one than the broker's is FENCED_LEADER_EPOCH, a higher one
    UNKNOWN_LEADER_EPOCH. -1: not checked."""
    snapshot_id: SnapshotId = field(factory=SnapshotId)
    """The snapshot to read, from the `snapshot_id` of a Fetch response."""
    position: int64 = 0
    """Byte position to read from; 0 at first."""
    replica_directory_id: uuid = field("1+", tag=0, default=ZERO_UUID, ignorable=True)
    """Id of the log directory of the replica that fetches; zero: not given."""


class FetchSnapshotRequestTopicSnapshot(Struct):
    """Partitions of one topic."""

    name: TopicName = ""
    partitions: list[FetchSnapshotRequestPartitionSnapshot] = field(factory=list)


class FetchSnapshotRequest(Request[FetchSnapshotResponse], key=59, versions="0-1", flexible="0+", route=Route.QUORUM):
    """Read a snapshot of the metadata log piece by piece (KIP-630).

    Sent by KRaft replicas to the quorum leader, when the offset they need is no longer in the log.

    Errors: INCONSISTENT_CLUSTER_ID, CLUSTER_AUTHORIZATION_FAILED, INVALID_REQUEST; per partition:
    UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, BROKER_NOT_AVAILABLE, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
    SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE.
    """

    cluster_id: string | None = field(tag=0, default=None)
    """Cluster id the replica expects; otherwise INCONSISTENT_CLUSTER_ID. null: not checked."""
    replica_id: BrokerId = -1
    """Node id of the replica that fetches; -1: an observer without an id."""
    max_bytes: int32 = 2147483647
    """Maximum number of bytes of snapshots to return."""
    topics: list[FetchSnapshotRequestTopicSnapshot] = field(factory=list)
