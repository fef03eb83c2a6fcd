"""AlterPartitionReassignments (ApiKey 45): move partitions to other brokers, or stop moving them."""

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
)


class ReassignablePartitionResponse(Struct):
    """The result of one partition."""

    partition_index: PartitionIndex = 0
    error_code: int16 = 0
    error_message: string | None = ""


class ReassignableTopicResponse(Struct):
    """The results of one topic."""

    name: TopicName = ""
    partitions: list[ReassignablePartitionResponse] = field(factory=list)


class AlterPartitionReassignmentsResponse(Response, key=45, versions="0-1", flexible="0+"):
    """One result per partition. A result means that the reassignment was started, not that it is complete;
    ListPartitionReassignments shows reassignments in progress. Errors: see `AlterPartitionReassignmentsRequest`."""

    throttle_time_ms: int32 = 0
    allow_replication_factor_change: bool = field("1+", default=True, ignorable=True)
    """The value from the request."""
    error_code: int16 = 0
    error_message: string | None = ""
    responses: list[ReassignableTopicResponse] = field(factory=list)


class ReassignablePartition(Struct):
    """The replicas that one partition should have."""

    partition_index: PartitionIndex = 0
    replicas: list[BrokerId] | None = None
    """Brokers that will hold the partition, preferred leader first; null: cancel the reassignment in progress."""


class ReassignableTopic(Struct):
    """The partitions of one topic."""

    name: TopicName = ""
    partitions: list[ReassignablePartition] = field(factory=list)


class AlterPartitionReassignmentsRequest(
    Request[AlterPartitionReassignmentsResponse], key=45, versions="0-1", flexible="0+", route=Route.CONTROLLER
):
    """Start or cancel moving partitions to other brokers (KIP-455).

    Sent by admin tools to the controller; brokers forward it.

    Errors: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, REQUEST_TIMED_OUT; per partition:
    UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR, NO_REASSIGNMENT_IN_PROGRESS.
    """

    timeout_ms: int32 = 60000
    """How long the receiver may take, in ms."""
    allow_replication_factor_change: bool = field("1+", default=True)
    """True: the number of replicas can change; false: a change is an error (KIP-860)."""
    topics: list[ReassignableTopic] = field(factory=list)
