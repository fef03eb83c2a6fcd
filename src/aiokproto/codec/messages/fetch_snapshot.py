"""FetchSnapshot (ApiKey 59): read a piece of a metadata snapshot."""

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
    end_offset: int64 = 0
    epoch: int32 = 0


class LeaderIdAndEpoch(Struct):
    leader_id: BrokerId = 0
    leader_epoch: int32 = 0


class FetchSnapshotResponsePartitionSnapshot(Struct):
    index: PartitionIndex = 0
    error_code: int16 = 0
    snapshot_id: SnapshotId = field(factory=SnapshotId)
    current_leader: LeaderIdAndEpoch = field(tag=0, factory=LeaderIdAndEpoch)
    size: int64 = 0
    position: int64 = 0
    unaligned_records: recordset = field(default=None)


class FetchSnapshotResponseTopicSnapshot(Struct):
    name: TopicName = ""
    partitions: list[FetchSnapshotResponsePartitionSnapshot] = field(factory=list)


class NodeEndpoint(Struct):
    node_id: BrokerId = 0
    host: string = ""
    port: uint16 = 0


class FetchSnapshotResponse(Response, key=59, versions="0-1", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    topics: list[FetchSnapshotResponseTopicSnapshot] = field(factory=list)
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0, factory=list)


class FetchSnapshotRequestPartitionSnapshot(Struct):
    partition: PartitionIndex = 0
    current_leader_epoch: int32 = 0
    snapshot_id: SnapshotId = field(factory=SnapshotId)
    position: int64 = 0
    replica_directory_id: uuid = field("1+", tag=0, default=ZERO_UUID, ignorable=True)


class FetchSnapshotRequestTopicSnapshot(Struct):
    name: TopicName = ""
    partitions: list[FetchSnapshotRequestPartitionSnapshot] = field(factory=list)


class FetchSnapshotRequest(Request[FetchSnapshotResponse], key=59, versions="0-1", flexible="0+", route=Route.QUORUM):
    cluster_id: string | None = field(tag=0, default=None)
    replica_id: BrokerId = -1
    max_bytes: int32 = 2147483647
    topics: list[FetchSnapshotRequestTopicSnapshot] = field(factory=list)
