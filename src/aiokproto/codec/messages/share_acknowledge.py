"""ShareAcknowledge (ApiKey 79): accept, release, reject or renew acquired records (KIP-932)."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, int64, string, uuid


class LeaderIdAndEpoch(Struct):
    leader_id: int32
    leader_epoch: int32


class PartitionData(Struct):
    partition_index: int32
    error_code: int16
    error_message: string | None = field(default=None)
    current_leader: LeaderIdAndEpoch


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: uuid
    partitions: list[PartitionData]


class NodeEndpoint(Struct):
    node_id: int32
    host: string
    port: int32
    rack: string | None = field(default=None)


class ShareAcknowledgeResponse(Response, key=79, versions="0-2", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    error_message: string | None = field(default=None)
    acquisition_lock_timeout_ms: int32 = field("2+", default=0, ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse]
    node_endpoints: list[NodeEndpoint]


class AcknowledgementBatch(Struct):
    first_offset: int64
    last_offset: int64
    acknowledge_types: list[int8]


class AcknowledgePartition(Struct):
    partition_index: int32
    acknowledgement_batches: list[AcknowledgementBatch]


class AcknowledgeTopic(Struct):
    topic_id: uuid
    partitions: list[AcknowledgePartition]


class ShareAcknowledgeRequest(
    Request[ShareAcknowledgeResponse], key=79, versions="0-2", flexible="0+", route=Route.LEADER
):
    group_id: string | None = field(default=None)
    member_id: string | None
    share_session_epoch: int32
    is_renew_ack: bool = field("2+", default=False)
    topics: list[AcknowledgeTopic]
