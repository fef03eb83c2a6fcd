"""ShareFetch (ApiKey 78): acquire records of a share group, acknowledging earlier ones on the way (KIP-932)."""

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
    leader_id: BrokerId = 0
    leader_epoch: int32 = 0


class AcquiredRecords(Struct):
    first_offset: int64 = 0
    last_offset: int64 = 0
    delivery_count: int16 = 0


class PartitionData(Struct):
    partition_index: PartitionIndex = 0
    error_code: int16 = 0
    error_message: string | None = None
    acknowledge_error_code: int16 = 0
    acknowledge_error_message: string | None = None
    current_leader: LeaderIdAndEpoch = field(factory=LeaderIdAndEpoch)
    records: recordset | None = field(nullable="0", default=None)
    acquired_records: list[AcquiredRecords] = field(factory=list)


class ShareFetchableTopicResponse(Struct):
    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionData] = field(factory=list)


class NodeEndpoint(Struct):
    node_id: BrokerId = 0
    host: string = ""
    port: int32 = 0
    rack: string | None = None


class ShareFetchResponse(Response, key=78, versions="0-2", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    acquisition_lock_timeout_ms: int32 = field("1+", default=0)
    responses: list[ShareFetchableTopicResponse] = field(factory=list)
    node_endpoints: list[NodeEndpoint] = field(factory=list)


class AcknowledgementBatch(Struct):
    first_offset: int64 = 0
    last_offset: int64 = 0
    acknowledge_types: list[int8] = field(factory=list)


class FetchPartition(Struct):
    partition_index: PartitionIndex = 0
    partition_max_bytes: int32 = field("0", default=0)
    acknowledgement_batches: list[AcknowledgementBatch] = field(factory=list)


class FetchTopic(Struct):
    topic_id: TopicId = ZERO_UUID
    partitions: list[FetchPartition] = field(factory=list)


class ForgottenTopic(Struct):
    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionIndex] = field(factory=list)


class ShareFetchRequest(Request[ShareFetchResponse], key=78, versions="0-2", flexible="0+", route=Route.LEADER):
    group_id: GroupId | None = None
    member_id: string | None = ""
    share_session_epoch: int32 = 0
    max_wait_ms: int32 = 0
    min_bytes: int32 = 0
    max_bytes: int32 = 2147483647
    max_records: int32 = field("1+", default=0)
    batch_size: int32 = field("1+", default=0)
    share_acquire_mode: int8 = field("2+", default=0, ignorable=True)
    is_renew_ack: bool = field("2+", default=False)
    topics: list[FetchTopic] = field(factory=list)
    forgotten_topics_data: list[ForgottenTopic] = field(factory=list, mentioned=True)
