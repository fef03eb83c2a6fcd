"""Produce (ApiKey 0): append record batches to partitions."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, int64, recordset, string, uuid
from aiokproto.codec.wire import ZERO_UUID


class BatchIndexAndErrorMessage(Struct):
    batch_index: int32
    batch_index_error_message: string | None = field(default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: int32 = field(default=-1)
    leader_epoch: int32 = field(default=-1)


class PartitionProduceResponse(Struct):
    index: int32
    error_code: int16
    base_offset: int64
    log_append_time_ms: int64 = field("2+", default=-1, ignorable=True)
    log_start_offset: int64 = field("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = field("8+", factory=list, ignorable=True)
    error_message: string | None = field("8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = field("10+", tag=0, factory=LeaderIdAndEpoch)


class TopicProduceResponse(Struct):
    name: string = field("0-12", default="", ignorable=True)
    topic_id: uuid = field("13+", default=ZERO_UUID, ignorable=True)
    partition_responses: list[PartitionProduceResponse]


class NodeEndpoint(Struct):
    node_id: int32
    host: string
    port: int32
    rack: string | None = field(default=None)


class ProduceResponse(Response, key=0, versions="0-13", flexible="9+"):
    responses: list[TopicProduceResponse]
    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    node_endpoints: list[NodeEndpoint] = field("10+", tag=0, factory=list)


class PartitionProduceData(Struct):
    index: int32
    records: recordset | None


class TopicProduceData(Struct):
    name: string = field("0-12", default="", ignorable=True)
    topic_id: uuid = field("13+", default=ZERO_UUID, ignorable=True)
    partition_data: list[PartitionProduceData]


class ProduceRequest(Request[ProduceResponse], key=0, versions="0-13", flexible="9+", route=Route.LEADER):
    transactional_id: string | None = field("3+", default=None)
    acks: int16
    timeout_ms: int32
    topic_data: list[TopicProduceData]
