"""ShareFetch (ApiKey 78): acquire records of a share group, acknowledging earlier ones on the way (KIP-932)."""

from __future__ import annotations

from aiokproto.codec.schema import (
    Request,
    Response,
    Route,
    Struct,
    field,
    int8,
    int16,
    int32,
    int64,
    recordset,
    string,
    uuid,
)


class LeaderIdAndEpoch(Struct):
    leader_id: int32
    leader_epoch: int32


class AcquiredRecords(Struct):
    first_offset: int64
    last_offset: int64
    delivery_count: int16


class PartitionData(Struct):
    partition_index: int32
    error_code: int16
    error_message: string | None = field(default=None)
    acknowledge_error_code: int16
    acknowledge_error_message: string | None = field(default=None)
    current_leader: LeaderIdAndEpoch
    records: recordset | None = field(nullable="0")
    acquired_records: list[AcquiredRecords]


class ShareFetchableTopicResponse(Struct):
    topic_id: uuid
    partitions: list[PartitionData]


class NodeEndpoint(Struct):
    node_id: int32
    host: string
    port: int32
    rack: string | None = field(default=None)


class ShareFetchResponse(Response, key=78, versions="0-2", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    error_message: string | None = field(default=None)
    acquisition_lock_timeout_ms: int32 = field("1+", default=0)
    responses: list[ShareFetchableTopicResponse]
    node_endpoints: list[NodeEndpoint]


class AcknowledgementBatch(Struct):
    first_offset: int64
    last_offset: int64
    acknowledge_types: list[int8]


class FetchPartition(Struct):
    partition_index: int32
    partition_max_bytes: int32 = field("0", default=0)
    acknowledgement_batches: list[AcknowledgementBatch]


class FetchTopic(Struct):
    topic_id: uuid
    partitions: list[FetchPartition]


class ForgottenTopic(Struct):
    topic_id: uuid
    partitions: list[int32]


class ShareFetchRequest(Request[ShareFetchResponse], key=78, versions="0-2", flexible="0+", route=Route.LEADER):
    group_id: string | None = field(default=None)
    member_id: string | None
    share_session_epoch: int32
    max_wait_ms: int32
    min_bytes: int32
    max_bytes: int32 = field(default=2147483647)
    max_records: int32 = field("1+", default=0)
    batch_size: int32 = field("1+", default=0)
    share_acquire_mode: int8 = field("2+", default=0, ignorable=True)
    is_renew_ack: bool = field("2+", default=False)
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic]
