"""LeaderAndIsr (ApiKey 4): the ZooKeeper-era controller tells a broker which replicas it leads or follows."""

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
    string,
)
from aiokproto.codec.wire import ZERO_UUID


class LeaderAndIsrPartitionError(Struct):
    topic_name: TopicName = field("0-4", default="", ignorable=True)
    partition_index: PartitionIndex = 0
    error_code: int16 = 0


class LeaderAndIsrTopicError(Struct):
    topic_id: TopicId = ZERO_UUID
    partition_errors: list[LeaderAndIsrPartitionError] = field(factory=list)


class LeaderAndIsrResponse(Response, key=4, versions="0-7", flexible="4+"):
    error_code: int16 = 0
    partition_errors: list[LeaderAndIsrPartitionError] = field("0-4", factory=list)
    topics: list[LeaderAndIsrTopicError] = field("5+", factory=list)


class LeaderAndIsrPartitionState(Struct):
    topic_name: TopicName = field("0-1", default="", ignorable=True)
    partition_index: PartitionIndex = 0
    controller_epoch: int32 = 0
    leader: BrokerId = 0
    leader_epoch: int32 = 0
    isr: list[BrokerId] = field(factory=list)
    partition_epoch: int32 = 0
    replicas: list[BrokerId] = field(factory=list)
    adding_replicas: list[BrokerId] = field("3+", factory=list, ignorable=True)
    removing_replicas: list[BrokerId] = field("3+", factory=list, ignorable=True)
    is_new: bool = field("1+", default=False, ignorable=True)
    leader_recovery_state: int8 = field("6+", default=0)


class LeaderAndIsrTopicState(Struct):
    topic_name: TopicName = ""
    topic_id: TopicId = field("5+", default=ZERO_UUID, ignorable=True)
    partition_states: list[LeaderAndIsrPartitionState] = field(factory=list)


class LeaderAndIsrLiveLeader(Struct):
    broker_id: BrokerId = 0
    host_name: string = ""
    port: int32 = 0


class LeaderAndIsrRequest(Request[LeaderAndIsrResponse], key=4, versions="0-7", flexible="4+", route=Route.BROKER):
    controller_id: BrokerId = 0
    is_kraft_controller: bool = field("7+", default=False)
    controller_epoch: int32 = 0
    broker_epoch: int64 = field("2+", default=-1, ignorable=True)
    type: int8 = field("5+", default=0)
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = field("0-1", factory=list)
    topic_states: list[LeaderAndIsrTopicState] = field("2+", factory=list)
    live_leaders: list[LeaderAndIsrLiveLeader] = field(factory=list)
