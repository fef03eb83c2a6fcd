"""FetchSnapshot (ApiKey 59): read a piece of a metadata snapshot."""

from __future__ import annotations

from aiokproto.codec.schema import (
    Request,
    Response,
    Route,
    Struct,
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
    end_offset: int64
    epoch: int32


class LeaderIdAndEpoch(Struct):
    leader_id: int32 = field(default=0)
    leader_epoch: int32 = field(default=0)


class FetchSnapshotResponsePartitionSnapshot(Struct):
    index: int32
    error_code: int16
    snapshot_id: SnapshotId
    current_leader: LeaderIdAndEpoch = field(tag=0, factory=LeaderIdAndEpoch)
    size: int64
    position: int64
    unaligned_records: recordset


class FetchSnapshotResponseTopicSnapshot(Struct):
    name: string
    partitions: list[FetchSnapshotResponsePartitionSnapshot]


class NodeEndpoint(Struct):
    node_id: int32
    host: string
    port: uint16


class FetchSnapshotResponse(Response, key=59, versions="0-1", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    topics: list[FetchSnapshotResponseTopicSnapshot]
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0, factory=list)


class FetchSnapshotRequestPartitionSnapshot(Struct):
    partition: int32
    current_leader_epoch: int32
    snapshot_id: SnapshotId
    position: int64
    replica_directory_id: uuid = field("1+", tag=0, default=ZERO_UUID, ignorable=True)


class FetchSnapshotRequestTopicSnapshot(Struct):
    name: string
    partitions: list[FetchSnapshotRequestPartitionSnapshot]


class FetchSnapshotRequest(Request[FetchSnapshotResponse], key=59, versions="0-1", flexible="0+", route=Route.QUORUM):
    cluster_id: string | None = field(tag=0, default=None)
    replica_id: int32 = field(default=-1)
    max_bytes: int32 = field(default=2147483647)
    topics: list[FetchSnapshotRequestTopicSnapshot]
