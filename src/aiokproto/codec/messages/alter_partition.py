"""AlterPartition (ApiKey 56): a partition's leader proposes a new set of in-sync replicas."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, int64, string, uuid
from aiokproto.codec.wire import ZERO_UUID


class AlterPartitionResponsePartitionData(Struct):
    partition_index: int32
    error_code: int16
    leader_id: int32
    leader_epoch: int32
    isr: list[int32]
    leader_recovery_state: int8 = field("1+", default=0, ignorable=True)
    partition_epoch: int32


class AlterPartitionResponseTopicData(Struct):
    topic_name: string = field("0-1", default="", ignorable=True)
    topic_id: uuid = field("2+", default=ZERO_UUID, ignorable=True)
    partitions: list[AlterPartitionResponsePartitionData]


class AlterPartitionResponse(Response, key=56, versions="0-3", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    topics: list[AlterPartitionResponseTopicData]


class BrokerState(Struct):
    broker_id: int32
    broker_epoch: int64 = field(default=-1)


class AlterPartitionRequestPartitionData(Struct):
    partition_index: int32
    leader_epoch: int32
    new_isr: list[int32] = field("0-2", factory=list)
    new_isr_with_epochs: list[BrokerState] = field("3+", factory=list)
    leader_recovery_state: int8 = field("1+", default=0)
    partition_epoch: int32


class AlterPartitionRequestTopicData(Struct):
    topic_name: string = field("0-1", default="", ignorable=True)
    topic_id: uuid = field("2+", default=ZERO_UUID, ignorable=True)
    partitions: list[AlterPartitionRequestPartitionData]


class AlterPartitionRequest(
    Request[AlterPartitionResponse], key=56, versions="0-3", flexible="0+", route=Route.CONTROLLER
):
    broker_id: int32
    broker_epoch: int64 = field(default=-1)
    topics: list[AlterPartitionRequestTopicData]
