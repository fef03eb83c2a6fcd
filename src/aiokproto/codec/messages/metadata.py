"""Metadata (ApiKey 3): the brokers of the cluster, its topics, and who leads which partition."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, string, uuid
from aiokproto.codec.wire import ZERO_UUID


class MetadataResponseBroker(Struct):
    node_id: int32
    host: string
    port: int32
    rack: string | None = field("1+", default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    error_code: int16
    partition_index: int32
    leader_id: int32
    leader_epoch: int32 = field("7+", default=-1, ignorable=True)
    replica_nodes: list[int32]
    isr_nodes: list[int32]
    offline_replicas: list[int32] = field("5+", factory=list, ignorable=True)


class MetadataResponseTopic(Struct):
    error_code: int16
    name: string | None = field(nullable="12+")
    topic_id: uuid = field("10+", default=ZERO_UUID, ignorable=True)
    is_internal: bool = field("1+", default=False, ignorable=True)
    partitions: list[MetadataResponsePartition]
    topic_authorized_operations: int32 = field("8+", default=-2147483648)


class MetadataResponse(Response, key=3, versions="0-13", flexible="9+"):
    throttle_time_ms: int32 = field("3+", default=0, ignorable=True)
    brokers: list[MetadataResponseBroker]
    cluster_id: string | None = field("2+", default=None, ignorable=True)
    controller_id: int32 = field("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: int32 = field("8-10", default=-2147483648)
    error_code: int16 = field("13+", default=0, ignorable=True)


class MetadataRequestTopic(Struct):
    topic_id: uuid = field("10+", default=ZERO_UUID, ignorable=True)
    name: string | None = field(nullable="10+")


class MetadataRequest(Request[MetadataResponse], key=3, versions="0-13", flexible="9+", route=Route.ANY):
    topics: list[MetadataRequestTopic] | None = field(nullable="1+")
    allow_auto_topic_creation: bool = field("4+", default=True)
    include_cluster_authorized_operations: bool = field("8-10", default=False)
    include_topic_authorized_operations: bool = field("8+", default=False)
