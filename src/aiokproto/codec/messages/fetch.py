"""Fetch (ApiKey 1): read record batches from partitions, waiting for new ones if asked to."""

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
    epoch: int32 = -1
    end_offset: int64 = -1


class LeaderIdAndEpoch(Struct):
    leader_id: BrokerId = -1
    leader_epoch: int32 = -1


class SnapshotId(Struct):
    end_offset: int64 = -1
    epoch: int32 = -1


class AbortedTransaction(Struct):
    producer_id: ProducerId = 0
    first_offset: int64 = 0


class PartitionData(Struct):
    partition_index: PartitionIndex = 0
    error_code: int16 = 0
    high_watermark: int64 = field(default=0, refused=-1)
    last_stable_offset: int64 = field("4+", default=-1, ignorable=True)
    log_start_offset: int64 = field("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset = field("12+", tag=0, factory=EpochEndOffset)
    current_leader: LeaderIdAndEpoch = field("12+", tag=1, factory=LeaderIdAndEpoch)
    snapshot_id: SnapshotId = field("12+", tag=2, factory=SnapshotId)
    aborted_transactions: list[AbortedTransaction] | None = field("4+", factory=list, ignorable=True)
    preferred_read_replica: BrokerId = field("11+", default=-1)
    records: recordset | None = None


class FetchableTopicResponse(Struct):
    topic: TopicName = field("0-12", default="", ignorable=True)
    topic_id: TopicId = field("13+", default=ZERO_UUID, ignorable=True)
    partitions: list[PartitionData] = field(factory=list)


class NodeEndpoint(Struct):
    node_id: BrokerId = 0
    host: string = ""
    port: int32 = 0
    rack: string | None = None


class FetchResponse(Response, key=1, versions="0-18", flexible="12+", client_throttles="8+"):
    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    error_code: int16 = field("7+", default=0, ignorable=True)
    session_id: int32 = field("7+", default=0)
    responses: list[FetchableTopicResponse] = field(factory=list)
    node_endpoints: list[NodeEndpoint] = field("16+", tag=0, factory=list)


class ReplicaState(Struct):
    replica_id: BrokerId = -1
    replica_epoch: int64 = -1


class FetchPartition(Struct):
    partition: PartitionIndex = 0
    current_leader_epoch: int32 = field("9+", default=-1, ignorable=True)
    fetch_offset: int64 = 0
    last_fetched_epoch: int32 = field("12+", default=-1)
    log_start_offset: int64 = field("5+", default=-1, ignorable=True)
    partition_max_bytes: int32 = 0
    replica_directory_id: uuid = field("17+", tag=0, default=ZERO_UUID, ignorable=True)
    high_watermark: int64 = field("18+", tag=1, default=9223372036854775807, ignorable=True)


class FetchTopic(Struct):
    topic: TopicName = field("0-12", default="", ignorable=True)
    topic_id: TopicId = field("13+", default=ZERO_UUID, ignorable=True)
    partitions: list[FetchPartition] = field(factory=list)


class ForgottenTopic(Struct):
    topic: TopicName = field("7-12", default="", ignorable=True)
    topic_id: TopicId = field("13+", default=ZERO_UUID, ignorable=True)
    partitions: list[PartitionIndex] = field(factory=list)


class FetchRequest(Request[FetchResponse], key=1, versions="0-18", flexible="12+", route=Route.LEADER):
    cluster_id: string | None = field("12+", tag=0, default=None, ignorable=True)
    replica_id: BrokerId = field("0-14", default=-1)
    replica_state: ReplicaState = field("15+", tag=1, factory=ReplicaState)
    max_wait_ms: int32 = 0
    min_bytes: int32 = 0
    max_bytes: int32 = field("3+", default=2147483647, ignorable=True)
    isolation_level: int8 = field("4+", default=0, ignorable=True)
    session_id: int32 = field("7+", default=0, ignorable=True)
    session_epoch: int32 = field("7+", default=-1, ignorable=True)
    topics: list[FetchTopic] = field(factory=list)
    forgotten_topics_data: list[ForgottenTopic] = field("7+", factory=list, mentioned=True)
    rack_id: string = field("11+", default="", ignorable=True)
