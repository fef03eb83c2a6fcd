"""UpdateMetadata (ApiKey 6): the ZooKeeper-era controller tells a broker the state of the cluster."""

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


class UpdateMetadataResponse(Response, key=6, versions="0-8", flexible="6+"):
    error_code: int16 = 0


class UpdateMetadataPartitionState(Struct):
    topic_name: TopicName = field("0-4", default="", ignorable=True)
    partition_index: PartitionIndex = 0
    controller_epoch: int32 = 0
    leader: BrokerId = 0
    leader_epoch: int32 = 0
    isr: list[BrokerId] = field(factory=list)
    zk_version: int32 = 0
    replicas: list[BrokerId] = field(factory=list)
    offline_replicas: list[BrokerId] = field("4+", factory=list, ignorable=True)


class UpdateMetadataTopicState(Struct):
    topic_name: TopicName = ""
    topic_id: TopicId = field("7+", default=ZERO_UUID, ignorable=True)
    partition_states: list[UpdateMetadataPartitionState] = field(factory=list)


class UpdateMetadataEndpoint(Struct):
    port: int32 = 0
    host: string = ""
    listener: string = field("3+", default="", ignorable=True)
    security_protocol: int16 = 0


class UpdateMetadataBroker(Struct):
    id: BrokerId = 0
    v0_host: string = field("0", default="", ignorable=True)
    v0_port: int32 = field("0", default=0, ignorable=True)
    endpoints: list[UpdateMetadataEndpoint] = field("1+", factory=list, ignorable=True)
    rack: string | None = field("2+", default="", ignorable=True)


class UpdateMetadataRequest(Request[UpdateMetadataResponse], key=6, versions="0-8", flexible="6+", route=Route.BROKER):
    controller_id: BrokerId = 0
    is_kraft_controller: bool = field("8+", default=False)
    type: int8 = field("8+", tag=0, default=0)
    controller_epoch: int32 = 0
    broker_epoch: int64 = field("5+", default=-1, ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = field("0-4", factory=list)
    topic_states: list[UpdateMetadataTopicState] = field("5+", factory=list)
    live_brokers: list[UpdateMetadataBroker] = field(factory=list)
