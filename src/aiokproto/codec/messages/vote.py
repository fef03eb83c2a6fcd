"""Vote (ApiKey 52): a KRaft voter requests votes to become leader."""

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


class VoteResponsePartitionData(Struct):
    """The vote for one partition."""

    partition_index: PartitionIndex = 0
    error_code: int16 = 0
    leader_id: BrokerId = field(default=0, refused=-1)
    """Node id of the quorum leader; -1: unknown."""
    leader_epoch: int32 = field(default=0, refused=-1)
    """Newest epoch the responding node knows."""
    vote_granted: bool = False
    """True: the vote is granted to the replica."""


class VoteResponseTopicData(Struct):
    """Results of one topic."""

    topic_name: TopicName = ""
    partitions: list[VoteResponsePartitionData] = field(factory=list)


class NodeEndpoint(Struct):
    """Address of the leader."""

    node_id: BrokerId = 0
    """Node id of the leader."""
    host: string = ""
    """Host name or address to connect to."""
    port: uint16 = 0
    """TCP port."""


class VoteResponse(Response, key=52, versions="0-2", flexible="0+"):
    """The voter's decision, and the leader that it knows. Errors: see `VoteRequest`."""

    error_code: int16 = 0
    topics: list[VoteResponseTopicData] = field(factory=list)
    node_endpoints: list[NodeEndpoint] = field("1+", tag=0, factory=list)
    """Endpoints of the leaders named in `topics`."""


class VoteRequestPartitionData(Struct):
    """The candidacy for one partition."""

    partition_index: PartitionIndex = 0
    replica_epoch: int32 = 0
    """Epoch the replica wants to lead in; in a pre-vote, its current epoch."""
    replica_id: BrokerId = 0
    """Node id of the replica that requests the vote."""
    replica_directory_id: uuid = field("1+", default=ZERO_UUID, ignorable=True)
    """Id of its metadata log directory; zero: unknown."""
    voter_directory_id: uuid = field("1+", default=ZERO_UUID, ignorable=True)
    """Id of the receiver's metadata log directory; zero: unknown."""
    last_offset_epoch: int32 = 0
    """Leader epoch of the last record in the replica's log. A voter with a newer log rejects the request."""
    last_offset: int64 = 0
    """End offset of the replica's log."""
    pre_vote: bool = field("2+", default=False)
    """True: only find out whether the voter would grant its vote. Nothing is persisted and no epoch changes
    (KIP-996)."""


class VoteRequestTopicData(Struct):
    """Partitions of one topic."""

    topic_name: TopicName = ""
    partitions: list[VoteRequestPartitionData] = field(factory=list)


class VoteRequest(Request[VoteResponse], key=52, versions="0-2", flexible="0+", route=Route.QUORUM):
    """Request a vote for the leadership of the metadata quorum (KIP-595).

    Sent by a KRaft candidate to all other voters.

    Errors: INCONSISTENT_CLUSTER_ID, CLUSTER_AUTHORIZATION_FAILED, INVALID_REQUEST; per partition: FENCED_LEADER_EPOCH,
    INVALID_REQUEST, INVALID_VOTER_KEY (version 1+: `voter_id` and `voter_directory_id` don't match the receiver).
    """

    cluster_id: string | None = None
    """Cluster id of the sender; a voter of another cluster responds with INCONSISTENT_CLUSTER_ID. null: not checked."""
    voter_id: BrokerId = field("1+", default=-1, ignorable=True)
    """Node id of the receiver; -1: not checked."""
    topics: list[VoteRequestTopicData] = field(factory=list)
