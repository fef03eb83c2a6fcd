"""UpdateMetadata (ApiKey 6): the ZooKeeper-era controller tells a broker the state of the cluster."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, int64, string, uuid
from aiokproto.codec.wire import ZERO_UUID


class UpdateMetadataResponse(Response, key=6, versions="0-8", flexible="6+"):
    error_code: int16


class UpdateMetadataPartitionState(Struct):
    topic_name: string = field("0-4", default="", ignorable=True)
    partition_index: int32
    controller_epoch: int32
    leader: int32
    leader_epoch: int32
    isr: list[int32]
    zk_version: int32
    replicas: list[int32]
    offline_replicas: list[int32] = field("4+", factory=list, ignorable=True)


class UpdateMetadataTopicState(Struct):
    topic_name: string
    topic_id: uuid = field("7+", default=ZERO_UUID, ignorable=True)
    partition_states: list[UpdateMetadataPartitionState]


class UpdateMetadataEndpoint(Struct):
    port: int32
    host: string
    listener: string = field("3+", default="", ignorable=True)
    security_protocol: int16


class UpdateMetadataBroker(Struct):
    id: int32
    v0_host: string = field("0", default="", ignorable=True)
    v0_port: int32 = field("0", default=0, ignorable=True)
    endpoints: list[UpdateMetadataEndpoint] = field("1+", factory=list, ignorable=True)
    rack: string | None = field("2+", default="", ignorable=True)


class UpdateMetadataRequest(Request[UpdateMetadataResponse], key=6, versions="0-8", flexible="6+", route=Route.BROKER):
    controller_id: int32
    is_kraft_controller: bool = field("8+", default=False)
    type: int8 = field("8+", tag=0, default=0)
    controller_epoch: int32
    broker_epoch: int64 = field("5+", default=-1, ignorable=True)
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = field("0-4", factory=list)
    topic_states: list[UpdateMetadataTopicState] = field("5+", factory=list)
    live_brokers: list[UpdateMetadataBroker]
