"""EndQuorumEpoch (ApiKey 54): a KRaft leader resigns."""

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


class EndQuorumEpochResponsePartitionData(Struct):
    """The result of one partition."""

    partition_index: PartitionIndex = 0
    error_code: int16 = 0
    leader_id: BrokerId = field(default=0, refused=-1)
    """Node id of the quorum leader; -1: unknown."""
    leader_epoch: int32 = field(default=0, refused=-1)
    """Newest epoch the responding node knows."""


class EndQuorumEpochResponseTopicData(Struct):
    """Results of one topic."""

    topic_name: TopicName = ""
    partitions: list[EndQuorumEpochResponsePartitionData] = field(factory=list)


class NodeEndpoint(Struct):
    """Address of the leader."""

    node_id: BrokerId = 0
    """Node id of the leader."""
    host: string = ""
    """Host name or address to connect to."""
    port: uint16 = 0
    """TCP port."""


class EndQuorumEpochResponse(Response, key=54, versions="0-1", flexible="1+"):
    """The leader and epoch that the voter knows. Errors: see `EndQuorumEpochRequest`."""

    error_code: int16 = 0
    topics: list[EndQuorumEpochResponseTopicData] = field(factory=list)
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0, factory=list)
    """Endpoints of the leaders named in `topics`."""


class ReplicaInfo(Struct):
    """A voter, by node id and log directory (KIP-853)."""

    candidate_id: BrokerId = 0
    """Node id of the voter."""
    candidate_directory_id: uuid = ZERO_UUID
    """Id of the voter's metadata log directory; zero: unknown."""


class EndQuorumEpochRequestPartitionData(Struct):
    """The leadership of one partition, which ends."""

    partition_index: PartitionIndex = 0
    leader_id: BrokerId = 0
    """The leader that resigns."""
    leader_epoch: int32 = 0
    """The epoch that ends."""
    preferred_successors: list[int32] = field("0", factory=list, ignorable=True)
    """Node ids of voters, most up-to-date log first. The first starts an election at once, and each later one waits
    longer."""
    preferred_candidates: list[ReplicaInfo] = field("1+", factory=list, ignorable=True)
    """Like `preferred_successors`, with directory ids."""


class EndQuorumEpochRequestTopicData(Struct):
    """Partitions of one topic."""

    topic_name: TopicName = ""
    partitions: list[EndQuorumEpochRequestPartitionData] = field(factory=list)


class LeaderEndpoint(Struct):
    """Address of a listener of the leader that resigns."""

    name: string = ""
    """Listener name."""
    host: string = ""
    """Host name or address to connect to."""
    port: uint16 = 0
    """TCP port."""


class EndQuorumEpochRequest(Request[EndQuorumEpochResponse], key=54, versions="0-1", flexible="1+", route=Route.QUORUM):
    """Resign as leader of the metadata quorum (KIP-595): the voters elect a new one at once.

    Sent by the resigning KRaft leader to each voter.

    Errors: INCONSISTENT_CLUSTER_ID, CLUSTER_AUTHORIZATION_FAILED, INVALID_REQUEST; per partition: FENCED_LEADER_EPOCH,
    INVALID_REQUEST.
    """

    cluster_id: string | None = None
    """Cluster id of the sender; a voter of another cluster responds with INCONSISTENT_CLUSTER_ID. null: not checked."""
    topics: list[EndQuorumEpochRequestTopicData] = field(factory=list)
    leader_endpoints: list[LeaderEndpoint] = field("1+", factory=list, ignorable=True)
    """Listeners of the resigning leader."""
