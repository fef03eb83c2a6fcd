"""ShareAcknowledge (ApiKey 79): accept, release, reject or renew acquired records (KIP-932)."""

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
    leader_id: BrokerId = 0
    leader_epoch: int32 = 0


class PartitionData(Struct):
    partition_index: PartitionIndex = 0
    error_code: int16 = 0
    error_message: string | None = None
    current_leader: LeaderIdAndEpoch = field(factory=LeaderIdAndEpoch)


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionData] = field(factory=list)


class NodeEndpoint(Struct):
    node_id: BrokerId = 0
    host: string = ""
    port: int32 = 0
    rack: string | None = None


class ShareAcknowledgeResponse(Response, key=79, versions="0-2", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    acquisition_lock_timeout_ms: int32 = field("2+", default=0, ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = field(factory=list)
    node_endpoints: list[NodeEndpoint] = field(factory=list)


class AcknowledgementBatch(Struct):
    first_offset: int64 = 0
    last_offset: int64 = 0
    acknowledge_types: list[int8] = field(factory=list)


class AcknowledgePartition(Struct):
    partition_index: PartitionIndex = 0
    acknowledgement_batches: list[AcknowledgementBatch] = field(factory=list)


class AcknowledgeTopic(Struct):
    topic_id: TopicId = ZERO_UUID
    partitions: list[AcknowledgePartition] = field(factory=list)


class ShareAcknowledgeRequest(
    Request[ShareAcknowledgeResponse], key=79, versions="0-2", flexible="0+", route=Route.LEADER
):
    group_id: GroupId | None = None
    member_id: string | None = ""
    share_session_epoch: int32 = 0
    is_renew_ack: bool = field("2+", default=False)
    topics: list[AcknowledgeTopic] = field(factory=list)
