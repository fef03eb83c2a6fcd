"""CreatePartitions (ApiKey 37): add partitions to topics."""

from __future__ import annotations

from aiokproto.codec.schema import BrokerId, Request, Response, Route, Struct, TopicName, field, int16, int32, string


class CreatePartitionsTopicResult(Struct):
    """The result of one topic."""

    name: TopicName = ""
    error_code: int16 = 0
    error_message: string | None = None


class CreatePartitionsResponse(Response, key=37, versions="0-3", flexible="2+", client_throttles="1+"):
    """One result per topic. Errors: see `CreatePartitionsRequest`."""

    throttle_time_ms: int32 = 0
    results: list[CreatePartitionsTopicResult] = field(factory=list)


class CreatePartitionsAssignment(Struct):
    """The replicas of one new partition."""

    broker_ids: list[BrokerId] = field(factory=list)
    """Brokers that hold the partition, preferred leader first."""


class CreatePartitionsTopic(Struct):
    """A topic to enlarge."""

    name: TopicName = ""
    count: int32 = 0
    """Total number of partitions that the topic will have."""
    assignments: list[CreatePartitionsAssignment] | None = field(factory=list)
    """Replicas of each new partition, in order; null: the controller chooses."""


class CreatePartitionsRequest(
    Request[CreatePartitionsResponse], key=37, versions="0-3", flexible="2+", route=Route.CONTROLLER
):
    """Add partitions to topics (KIP-195).

    Sent by admin tools to the controller; brokers forward it.

    Errors: per topic: TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS,
    INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR (too few brokers), INVALID_REQUEST,
    REASSIGNMENT_IN_PROGRESS (with ZooKeeper), THROTTLING_QUOTA_EXCEEDED, POLICY_VIOLATION, REQUEST_TIMED_OUT,
    NOT_CONTROLLER.
    """

    topics: list[CreatePartitionsTopic] = field(factory=list)
    timeout_ms: int32 = 0
    """How long the receiver may take, in ms."""
    validate_only: bool = False
    """True: only check the request, without changing anything."""
