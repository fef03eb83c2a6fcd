"""ListPartitionReassignments (ApiKey 46): list the partitions whose replicas are being reassigned (KIP-455)."""

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


class OngoingPartitionReassignment(Struct):
    """The reassignment of one partition."""

    partition_index: PartitionIndex = 0
    replicas: list[BrokerId] = field(factory=list)
    """All current replicas, including those being added and removed."""
    adding_replicas: list[BrokerId] = field(factory=list)
    """Replicas that the reassignment adds."""
    removing_replicas: list[BrokerId] = field(factory=list)
    """Replicas that the reassignment removes."""


class OngoingTopicReassignment(Struct):
    """Reassignments of one topic."""

    name: TopicName = ""
    partitions: list[OngoingPartitionReassignment] = field(factory=list)


class ListPartitionReassignmentsResponse(Response, key=46, versions="0", flexible="0+"):
    """The ongoing reassignments. Other partitions are left out.

    Errors: see `ListPartitionReassignmentsRequest`.
    """

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""
    topics: list[OngoingTopicReassignment] = field(factory=list)


class ListPartitionReassignmentsTopics(Struct):
    """Partitions of one topic."""

    name: TopicName = ""
    partition_indexes: list[PartitionIndex] = field(factory=list)


class ListPartitionReassignmentsRequest(
    Request[ListPartitionReassignmentsResponse], key=46, versions="0", flexible="0+", route=Route.CONTROLLER
):
    """List ongoing reassignments.

    Sent by admin tools to the controller; in KRaft, any broker forwards it.

    Errors: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, REQUEST_TIMED_OUT.
    """

    timeout_ms: int32 = 60000
    """How long the controller may take, in ms."""
    topics: list[ListPartitionReassignmentsTopics] | None = None
    """Partitions to look at; null: all that are being reassigned."""
