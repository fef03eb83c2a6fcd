"""LeaderAndIsr (ApiKey 4): the ZooKeeper-era controller tells a broker which replicas it leads or follows."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, int64, string, uuid
from aiokproto.codec.wire import ZERO_UUID


class LeaderAndIsrPartitionError(Struct):
    topic_name: string = field("0-4", default="", ignorable=True)
    partition_index: int32
    error_code: int16


class LeaderAndIsrTopicError(Struct):
    topic_id: uuid
    partition_errors: list[LeaderAndIsrPartitionError]


class LeaderAndIsrResponse(Response, key=4, versions="0-7", flexible="4+"):
    error_code: int16
    partition_errors: list[LeaderAndIsrPartitionError] = field("0-4", factory=list)
    topics: list[LeaderAndIsrTopicError] = field("5+", factory=list)


class LeaderAndIsrPartitionState(Struct):
    topic_name: string = field("0-1", default="", ignorable=True)
    partition_index: int32
    controller_epoch: int32
    leader: int32
    leader_epoch: int32
    isr: list[int32]
    partition_epoch: int32
    replicas: list[int32]
    adding_replicas: list[int32] = field("3+", factory=list, ignorable=True)
    removing_replicas: list[int32] = field("3+", factory=list, ignorable=True)
    is_new: bool = field("1+", default=False, ignorable=True)
    leader_recovery_state: int8 = field("6+", default=0)


class LeaderAndIsrTopicState(Struct):
    topic_name: string
    topic_id: uuid = field("5+", default=ZERO_UUID, ignorable=True)
    partition_states: list[LeaderAndIsrPartitionState]


class LeaderAndIsrLiveLeader(Struct):
    broker_id: int32
    host_name: string
    port: int32


class LeaderAndIsrRequest(Request[LeaderAndIsrResponse], key=4, versions="0-7", flexible="4+", route=Route.BROKER):
    controller_id: int32
    is_kraft_controller: bool = field("7+", default=False)
    controller_epoch: int32
    broker_epoch: int64 = field("2+", default=-1, ignorable=True)
    type: int8 = field("5+", default=0)
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = field("0-1", factory=list)
    topic_states: list[LeaderAndIsrTopicState] = field("2+", factory=list)
    live_leaders: list[LeaderAndIsrLiveLeader]
