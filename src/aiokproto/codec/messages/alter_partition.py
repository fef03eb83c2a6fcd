"""AlterPartition (ApiKey 56): a partition's leader proposes a new set of in-sync replicas."""

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
    field,
    int8,
    int16,
    int32,
    int64,
)
from aiokproto.codec.wire import ZERO_UUID


class AlterPartitionResponsePartitionData(Struct):
    partition_index: PartitionIndex = 0
    error_code: int16 = 0
    leader_id: BrokerId = field(default=0, refused=-1)
    leader_epoch: int32 = field(default=0, refused=-1)
    isr: list[BrokerId] = field(factory=list)
    leader_recovery_state: int8 = field("1+", default=0, ignorable=True)
    partition_epoch: int32 = 0


class AlterPartitionResponseTopicData(Struct):
    topic_name: TopicName = field("0-1", default="", ignorable=True)
    topic_id: TopicId = field("2+", default=ZERO_UUID, ignorable=True)
    partitions: list[AlterPartitionResponsePartitionData] = field(factory=list)


class AlterPartitionResponse(Response, key=56, versions="0-3", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    topics: list[AlterPartitionResponseTopicData] = field(factory=list)


class BrokerState(Struct):
    broker_id: BrokerId = 0
    broker_epoch: int64 = -1


class AlterPartitionRequestPartitionData(Struct):
    partition_index: PartitionIndex = 0
    leader_epoch: int32 = 0
    new_isr: list[BrokerId] = field("0-2", factory=list)
    new_isr_with_epochs: list[BrokerState] = field("3+", factory=list)
    leader_recovery_state: int8 = field("1+", default=0)
    partition_epoch: int32 = 0


class AlterPartitionRequestTopicData(Struct):
    topic_name: TopicName = field("0-1", default="", ignorable=True)
    topic_id: TopicId = field("2+", default=ZERO_UUID, ignorable=True)
    partitions: list[AlterPartitionRequestPartitionData] = field(factory=list)


class AlterPartitionRequest(
    Request[AlterPartitionResponse], key=56, versions="0-3", flexible="0+", route=Route.CONTROLLER
):
    broker_id: BrokerId = 0
    broker_epoch: int64 = -1
    topics: list[AlterPartitionRequestTopicData] = field(factory=list)
