"""Produce (ApiKey 0): append record batches to partitions."""

from __future__ import annotations

from aiokproto.codec.schema import (
    BrokerId,
    PartitionIndex,
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
    recordset,
    string,
)
from aiokproto.codec.wire import ZERO_UUID


class BatchIndexAndErrorMessage(Struct):
    batch_index: int32 = 0
    batch_index_error_message: string | None = None


class LeaderIdAndEpoch(Struct):
    leader_id: BrokerId = -1
    leader_epoch: int32 = -1


class PartitionProduceResponse(Struct):
    index: PartitionIndex = 0
    error_code: int16 = 0
    base_offset: int64 = field(default=0, refused=-1)
    log_append_time_ms: int64 = field("2+", default=-1, ignorable=True)
    log_start_offset: int64 = field("5+", default=-1, ignorable=True)
    record_errors: list[BatchIndexAndErrorMessage] = field("8+", factory=list, ignorable=True)
    error_message: string | None = field("8+", default=None, ignorable=True)
    current_leader: LeaderIdAndEpoch = field("10+", tag=0, factory=LeaderIdAndEpoch)


class TopicProduceResponse(Struct):
    name: TopicName = field("0-12", default="", ignorable=True)
    topic_id: TopicId = field("13+", default=ZERO_UUID, ignorable=True)
    partition_responses: list[PartitionProduceResponse] = field(factory=list)


class NodeEndpoint(Struct):
    node_id: BrokerId = 0
    host: string = ""
    port: int32 = 0
    rack: string | None = None


class ProduceResponse(Response, key=0, versions="0-13", flexible="9+", client_throttles="6+"):
    responses: list[TopicProduceResponse] = field(factory=list)
    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    node_endpoints: list[NodeEndpoint] = field("10+", tag=0, factory=list)


class PartitionProduceData(Struct):
    index: PartitionIndex = 0
    records: recordset | None = None


class TopicProduceData(Struct):
    name: TopicName = field("0-12", default="", ignorable=True)
    topic_id: TopicId = field("13+", default=ZERO_UUID, ignorable=True)
    partition_data: list[PartitionProduceData] = field(factory=list)


class ProduceRequest(Request[ProduceResponse], key=0, versions="0-13", flexible="9+", route=Route.LEADER):
    transactional_id: TransactionalId | None = field("3+", default=None)
    acks: int16 = 0
    timeout_ms: int32 = 0
    topic_data: list[TopicProduceData] = field(factory=list)
