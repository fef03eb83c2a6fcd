"""TxnOffsetCommit (ApiKey 28): store how far a group has read, as a part of a transaction."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, int64, string, uuid
from aiokproto.codec.wire import ZERO_UUID


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int32
    error_code: int16


class TxnOffsetCommitResponseTopic(Struct):
    name: string = field("0-5", default="", ignorable=True)
    topic_id: uuid = field("6+", default=ZERO_UUID, ignorable=True)
    partitions: list[TxnOffsetCommitResponsePartition]


class TxnOffsetCommitResponse(Response, key=28, versions="0-6", flexible="3+"):
    throttle_time_ms: int32
    topics: list[TxnOffsetCommitResponseTopic]


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int32
    committed_offset: int64
    committed_leader_epoch: int32 = field("2+", default=-1, ignorable=True)
    committed_metadata: string | None


class TxnOffsetCommitRequestTopic(Struct):
    name: string = field("0-5", default="", ignorable=True)
    topic_id: uuid = field("6+", default=ZERO_UUID, ignorable=True)
    partitions: list[TxnOffsetCommitRequestPartition]


class TxnOffsetCommitRequest(
    Request[TxnOffsetCommitResponse], key=28, versions="0-6", flexible="3+", route=Route.GROUP
):
    transactional_id: string
    group_id: string
    producer_id: int64
    producer_epoch: int16
    generation_id_or_member_epoch: int32 = field("3+", default=-1)
    member_id: string = field("3+", default="")
    group_instance_id: string | None = field("3+", default=None)
    topics: list[TxnOffsetCommitRequestTopic]
