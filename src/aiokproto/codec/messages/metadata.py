"""Metadata (ApiKey 3): the brokers of the cluster, its topics, and who leads which partition."""

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
    int16,
    int32,
    string,
)
from aiokproto.codec.wire import ZERO_UUID


class MetadataResponseBroker(Struct):
    node_id: BrokerId = 0
    host: string = ""
    port: int32 = 0
    rack: string | None = field("1+", default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    error_code: int16 = 0
    partition_index: PartitionIndex = 0
    leader_id: BrokerId = field(default=0, refused=-1)
    leader_epoch: int32 = field("7+", default=-1, ignorable=True)
    replica_nodes: list[BrokerId] = field(factory=list)
    isr_nodes: list[BrokerId] = field(factory=list)
    offline_replicas: list[BrokerId] = field("5+", factory=list, ignorable=True)


class MetadataResponseTopic(Struct):
    error_code: int16 = 0
    name: TopicName | None = field(nullable="12+", default="")
    topic_id: TopicId = field("10+", default=ZERO_UUID, ignorable=True)
    is_internal: bool = field("1+", default=False, ignorable=True)
    partitions: list[MetadataResponsePartition] = field(factory=list)
    topic_authorized_operations: int32 = field("8+", default=-2147483648)


class MetadataResponse(Response, key=3, versions="0-13", flexible="9+", client_throttles="6+"):
    throttle_time_ms: int32 = field("3+", default=0, ignorable=True)
    brokers: list[MetadataResponseBroker] = field(factory=list)
    cluster_id: string | None = field("2+", default=None, ignorable=True)
    controller_id: BrokerId = field("1+", default=-1, ignorable=True)
    topics: list[MetadataResponseTopic] = field(factory=list)
    cluster_authorized_operations: int32 = field("8-10", default=-2147483648)
    error_code: int16 = field("13+", default=0, ignorable=True)


class MetadataRequestTopic(Struct):
    topic_id: TopicId = field("10+", default=ZERO_UUID, ignorable=True)
    name: TopicName | None = field(nullable="10+", default="")


class MetadataRequest(Request[MetadataResponse], key=3, versions="0-13", flexible="9+", route=Route.ANY):
    topics: list[MetadataRequestTopic] | None = field(nullable="1+", factory=list)
    allow_auto_topic_creation: bool = field("4+", default=True)
    include_cluster_authorized_operations: bool = field("8-10", default=False)
    include_topic_authorized_operations: bool = field("8+", default=False)
