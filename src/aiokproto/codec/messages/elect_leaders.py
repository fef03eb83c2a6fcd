"""ElectLeaders (ApiKey 43): elect the preferred leader of partitions, or an unclean leader."""

from __future__ import annotations

from aiokproto.codec.schema import (
    PartitionIndex,
    Request,
    Response,
    Route,
    Struct,
    TopicName,
    field,
    int8,
    int16,
    int32,
    string,
)


class PartitionResult(Struct):
    """The result of one partition."""

    partition_id: PartitionIndex = 0
    error_code: int16 = 0
    error_message: string | None = ""


class ReplicaElectionResult(Struct):
    """Results of one topic."""

    topic: TopicName = ""
    partition_result: list[PartitionResult] = field(factory=list)


class ElectLeadersResponse(Response, key=43, versions="0-2", flexible="2+"):
    """One result per partition. Errors: see `ElectLeadersRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = field("1+", default=0)
    replica_election_results: list[ReplicaElectionResult] = field(factory=list)
    """Results by topic; empty when all partitions were requested and the caller lacks permission."""


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic: TopicName = ""
    partitions: list[PartitionIndex] = field(factory=list)


class ElectLeadersRequest(Request[ElectLeadersResponse], key=43, versions="0-2", flexible="2+", route=Route.CONTROLLER):
    """Elect the preferred leader, or any live replica, as leader of partitions (KIP-460).

    Sent by admin tools to the controller; in KRaft, any broker forwards it.

    Errors: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, REQUEST_TIMED_OUT; per partition: UNKNOWN_TOPIC_OR_PARTITION,
    ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE, ELIGIBLE_LEADERS_NOT_AVAILABLE.
    """

    election_type: int8 = field("1+", default=0)
    """0: the preferred replica (the first of the replica list), if it is in sync; 1: unclean, the first live replica,
    if no in-sync replica is live (records can be lost). Versions without this field elect the preferred replica."""
    topic_partitions: list[TopicPartitions] | None = field(factory=list)
    """Partitions to elect a leader for; null: all partitions that need an election."""
    timeout_ms: int32 = 60000
    """How long the controller may take for the election, in ms."""
