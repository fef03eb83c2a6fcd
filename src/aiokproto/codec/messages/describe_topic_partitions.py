"""DescribeTopicPartitions (ApiKey 75): topics and their partitions, page by page."""

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
)
from aiokproto.codec.wire import ZERO_UUID


class DescribeTopicPartitionsResponsePartition(Struct):
    """A partition."""

    error_code: int16 = 0
    partition_index: PartitionIndex = 0
    leader_id: BrokerId = field(default=0, refused=-1)
    """Broker that leads the partition; -1: none."""
    leader_epoch: int32 = -1
    """Epoch of that leader; -1: unknown."""
    replica_nodes: list[BrokerId] = field(factory=list)
    """Brokers that hold the partition, preferred leader first."""
    isr_nodes: list[BrokerId] = field(factory=list)
    """Brokers that are in sync."""
    eligible_leader_replicas: list[BrokerId] | None = None
    """Brokers outside the ISR that can lead without losing committed records (KIP-966); null: unknown."""
    last_known_elr: list[BrokerId] | None = None
    """Last in-sync replicas when both the ISR and the eligible replicas are empty; null: unknown."""
    offline_replicas: list[BrokerId] = field(factory=list)
    """Brokers that hold the partition and are not available."""


class DescribeTopicPartitionsResponseTopic(Struct):
    """A topic, or as many of its partitions as fit."""

    error_code: int16 = 0
    name: TopicName | None = ""
    topic_id: TopicId = ZERO_UUID
    is_internal: bool = False
    """True: an internal topic of Kafka, such as `__consumer_offsets`."""
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(factory=list)
    topic_authorized_operations: int32 = -2147483648
    """Bit field of operations that the caller is authorized for; -2147483648: not requested."""


class Cursor(Struct):
    """The partition that the next page starts with."""

    topic_name: TopicName = ""
    partition_index: PartitionIndex = 0


class DescribeTopicPartitionsResponse(Response, key=75, versions="0", flexible="0+"):
    """One page of partitions, in order of topic name and partition. Errors: see `DescribeTopicPartitionsRequest`."""

    throttle_time_ms: int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = field(factory=list)
    next_cursor: Cursor | None = None
    """Cursor of the next request; null: this is the last page."""


class TopicRequest(Struct):
    """A topic to describe."""

    name: TopicName = ""


class DescribeTopicPartitionsRequest(
    Request[DescribeTopicPartitionsResponse], key=75, versions="0", flexible="0+", route=Route.ANY
):
    """Describe topics and their partitions, in pages (KIP-966).

    Sent by admin tools to any broker.

    Errors: per topic: TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION,
    INVALID_REQUEST (a negative partition in the cursor); per partition: LEADER_NOT_AVAILABLE, LISTENER_NOT_FOUND.
    """

    topics: list[TopicRequest] = field(factory=list)
    """Topics to describe; empty: all that the caller can see."""
    response_partition_limit: int32 = 2000
    """Maximum number of partitions in the response; the broker has its own limit too."""
    cursor: Cursor | None = None
    """Where to start; null: at the beginning."""
