"""TxnOffsetCommit (ApiKey 28): store how far a group has read, as a part of a transaction."""

from __future__ import annotations

from aiokproto.codec.schema import (
    GroupId,
    PartitionIndex,
    ProducerId,
    Request,
    Response,
    Route,
    Struct,
    TopicId,
    TopicName,
    TransactionalId,
    field,
    int16,
    int32,
    int64,
    string,
)
from aiokproto.codec.wire import ZERO_UUID


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: PartitionIndex = 0
    error_code: int16 = 0


class TxnOffsetCommitResponseTopic(Struct):
    name: TopicName = field("0-5", default="", ignorable=True)
    topic_id: TopicId = field("6+", default=ZERO_UUID, ignorable=True)
    partitions: list[TxnOffsetCommitResponsePartition] = field(factory=list)


class TxnOffsetCommitResponse(Response, key=28, versions="0-6", flexible="3+", client_throttles="1+"):
    throttle_time_ms: int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = field(factory=list)


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: PartitionIndex = 0
    committed_offset: int64 = 0
    committed_leader_epoch: int32 = field("2+", default=-1, ignorable=True)
    committed_metadata: string | None = ""


class TxnOffsetCommitRequestTopic(Struct):
    name: TopicName = field("0-5", default="", ignorable=True)
    topic_id: TopicId = field("6+", default=ZERO_UUID, ignorable=True)
    partitions: list[TxnOffsetCommitRequestPartition] = field(factory=list)


class TxnOffsetCommitRequest(
    Request[TxnOffsetCommitResponse], key=28, versions="0-6", flexible="3+", route=Route.GROUP
):
    transactional_id: TransactionalId = ""
    group_id: GroupId = ""
    producer_id: ProducerId = 0
    producer_epoch: int16 = 0
    generation_id_or_member_epoch: int32 = field("3+", default=-1)
    member_id: string = field("3+", default="")
    group_instance_id: string | None = field("3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic] = field(factory=list)
