"""DescribeQuorum (ApiKey 55): leader, voters and observers of the metadata quorum, and the progress of each."""

from __future__ import annotations

from aiokproto.codec.schema import (
    BrokerId,
    PartitionIndex,
    Request,
    Response,
    Route,
    Struct,
    TopicName,
    field,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)
from aiokproto.codec.wire import ZERO_UUID


class ReplicaState(Struct):
    """A voter or an observer."""

    replica_id: BrokerId = 0
    """Node id of the replica."""
    replica_directory_id: uuid = field("2+", default=ZERO_UUID)
    """Id of the replica's metadata log directory; zero: unknown (KIP-853)."""
    log_end_offset: int64 = 0
    """Offset after the replica's last record; -1: unknown."""
    last_fetch_timestamp: int64 = field("1+", default=-1, ignorable=True)
    """Time of the replica's last fetch by the leader's clock, in ms since 1970; -1: unknown (KIP-836)."""
    last_caught_up_timestamp: int64 = field("1+", default=-1, ignorable=True)
    """Time when the replica was last caught up by the leader's clock, in ms since 1970; -1: unknown."""


class DescribeQuorumResponsePartitionData(Struct):
    """The quorum of one partition."""

    partition_index: PartitionIndex = 0
    error_code: int16 = 0
    error_message: string | None = field("2+", default="", ignorable=True)
    leader_id: BrokerId = field(default=0, refused=-1)
    """Node id of the leader; -1: unknown."""
    leader_epoch: int32 = field(default=0, refused=-1)
    """Newest epoch."""
    high_watermark: int64 = field(default=0, refused=-1)
    """Offset after the last committed record."""
    current_voters: list[ReplicaState] = field(factory=list)
    observers: list[ReplicaState] = field(factory=list)


class DescribeQuorumResponseTopicData(Struct):
    """The partitions of one topic."""

    topic_name: TopicName = ""
    partitions: list[DescribeQuorumResponsePartitionData] = field(factory=list)


class Listener(Struct):
    """A listener of the node."""

    name: string = ""
    """Listener name."""
    host: string = ""
    """Host name or address to connect to."""
    port: uint16 = 0
    """TCP port."""


class Node(Struct):
    """Listeners of a voter."""

    node_id: BrokerId = 0
    """Node id."""
    listeners: list[Listener] = field(factory=list)


class DescribeQuorumResponse(Response, key=55, versions="0-2", flexible="0+"):
    """The state of the quorum. Errors: see `DescribeQuorumRequest`."""

    error_code: int16 = 0
    error_message: string | None = field("2+", default="", ignorable=True)
    topics: list[DescribeQuorumResponseTopicData] = field(factory=list)
    nodes: list[Node] = field("2+", factory=list)


class DescribeQuorumRequestPartitionData(Struct):
    """A partition to describe: 0."""

    partition_index: PartitionIndex = 0


class DescribeQuorumRequestTopicData(Struct):
    """The partitions of one topic: `__cluster_metadata`."""

    topic_name: TopicName = ""
    partitions: list[DescribeQuorumRequestPartitionData] = field(factory=list)


class DescribeQuorumRequest(
    Request[DescribeQuorumResponse], key=55, versions="0-2", flexible="0+", route=Route.CONTROLLER
):
    """Describe the voters and observers of the metadata quorum (KIP-595).

    Sent by admin tools to the leader of the quorum; brokers forward it.

    Errors: CLUSTER_AUTHORIZATION_FAILED; per partition: NOT_LEADER_OR_FOLLOWER, UNKNOWN_TOPIC_OR_PARTITION.
    """

    topics: list[DescribeQuorumRequestTopicData] = field(factory=list)
