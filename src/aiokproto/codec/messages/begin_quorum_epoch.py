"""BeginQuorumEpoch (ApiKey 53): a new KRaft leader announces itself to the voters."""

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
    string,
    uint16,
    uuid,
)
from aiokproto.codec.wire import ZERO_UUID


class BeginQuorumEpochResponsePartitionData(Struct):
    """What the voter knows about the leader."""

    partition_index: PartitionIndex = 0
    error_code: int16 = 0
    leader_id: BrokerId = field(default=0, refused=-1)
    """Leader of the newest epoch that the voter knows; -1: none."""
    leader_epoch: int32 = field(default=0, refused=-1)
    """Newest epoch that the voter knows."""


class BeginQuorumEpochResponseTopicData(Struct):
    """The partitions of one topic."""

    topic_name: TopicName = ""
    partitions: list[BeginQuorumEpochResponsePartitionData] = field(factory=list)


class NodeEndpoint(Struct):
    """Address of a leader mentioned in the response."""

    node_id: BrokerId = 0
    """Node id."""
    host: string = ""
    """Host name or address to connect to."""
    port: uint16 = 0
    """TCP port."""


class BeginQuorumEpochResponse(Response, key=53, versions="0-1", flexible="1+"):
    """What each voter knows about the leader. Errors: see `BeginQuorumEpochRequest`."""

    error_code: int16 = 0
    topics: list[BeginQuorumEpochResponseTopicData] = field(factory=list)
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0, factory=list)


class BeginQuorumEpochRequestPartitionData(Struct):
    """The new leader of one partition."""

    partition_index: PartitionIndex = 0
    voter_directory_id: uuid = field("1+", default=ZERO_UUID, ignorable=True)
    """Id of the receiving voter's metadata log directory; zero: unknown."""
    leader_id: BrokerId = 0
    """Node id of the new leader, which sends the request."""
    leader_epoch: int32 = 0
    """Epoch that the leader was elected in."""


class BeginQuorumEpochRequestTopicData(Struct):
    """The partitions of one topic: only partition 0 of `__cluster_metadata`."""

    topic_name: TopicName = ""
    partitions: list[BeginQuorumEpochRequestPartitionData] = field(factory=list)


class LeaderEndpoint(Struct):
    """A listener of the new leader."""

    name: string = ""
    """Listener name."""
    host: string = ""
    """Host name or address to connect to."""
    port: uint16 = 0
    """TCP port."""


class BeginQuorumEpochRequest(
    Request[BeginQuorumEpochResponse], key=53, versions="0-1", flexible="1+", route=Route.QUORUM
):
    """Announce the leader of a new epoch to the voters of the metadata quorum (KIP-595).

    Sent by the new KRaft leader to each voter until that voter fetches from it.

    Errors: CLUSTER_AUTHORIZATION_FAILED, INCONSISTENT_CLUSTER_ID, INVALID_REQUEST; per partition:
    FENCED_LEADER_EPOCH, INVALID_VOTER_KEY, INVALID_REQUEST.
    """

    cluster_id: string | None = None
    """Cluster id of the sender; null: not checked."""
    voter_id: BrokerId = field("1+", default=-1, ignorable=True)
    """Node id of the receiver; -1: not checked."""
    topics: list[BeginQuorumEpochRequestTopicData] = field(factory=list)
    leader_endpoints: list[LeaderEndpoint] = field("1+", factory=list, ignorable=True)
