"""What a client must be permitted to do for each API: the table that the dispatcher goes by."""

from __future__ import annotations

from typing import NamedTuple

from aiokproto.broker.security.acls import Operation

READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
)
CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS = (
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)


class Rule(NamedTuple):
    """What a request needs.

    Attributes:
        cluster: An operation on the cluster; without it nothing of the request is done.
        transaction: An operation on the request's transactional id, if it has one; likewise.
        group: An operation on each group that it names; the others are served.
        topic: An operation on each topic that it names; the others are served.
        all_topics: An operation on the cluster that will do for every topic.
        together: Whether one topic that is refused keeps the others from being served.
    """

    cluster: Operation | None = None
    transaction: Operation | None = None
    group: Operation | None = None
    topic: Operation | None = None
    all_topics: Operation | None = None
    together: bool = False


_OPEN = Rule()
"""For everybody; or the handler decides, since Kafka's answer to who may not is more than an error."""

RULES = {
    # Records
    "Produce": Rule(transaction=WRITE, topic=WRITE),
    "Fetch": _OPEN,
    "ListOffsets": Rule(topic=DESCRIBE),
    "OffsetForLeaderEpoch": Rule(topic=DESCRIBE, all_topics=CLUSTER_ACTION),
    "DeleteRecords": Rule(topic=DELETE),
    "DescribeProducers": Rule(topic=READ),
    # Topics and the cluster
    "Metadata": _OPEN,
    "DescribeTopicPartitions": _OPEN,
    "CreateTopics": Rule(topic=CREATE, all_topics=CREATE),
    "DeleteTopics": Rule(topic=DELETE, all_topics=DELETE),
    "CreatePartitions": Rule(topic=ALTER),
    "DescribeConfigs": _OPEN,
    "AlterConfigs": _OPEN,
    "IncrementalAlterConfigs": _OPEN,
    "ListConfigResources": Rule(cluster=DESCRIBE_CONFIGS),
    "DescribeCluster": _OPEN,
    "DescribeLogDirs": Rule(cluster=DESCRIBE),
    "AlterReplicaLogDirs": Rule(cluster=ALTER),
    "ElectLeaders": Rule(cluster=ALTER),
    "AlterPartitionReassignments": Rule(cluster=ALTER),
    "ListPartitionReassignments": Rule(cluster=DESCRIBE),
    "DescribeQuorum": Rule(cluster=DESCRIBE),
    "UpdateFeatures": Rule(cluster=ALTER),
    "UnregisterBroker": Rule(cluster=ALTER),
    # Groups
    "FindCoordinator": _OPEN,
    "JoinGroup": Rule(group=READ),
    "SyncGroup": Rule(group=READ),
    "Heartbeat": Rule(group=READ),
    "LeaveGroup": Rule(group=READ),
    "OffsetCommit": Rule(group=READ, topic=READ),
    "OffsetFetch": Rule(group=DESCRIBE, topic=DESCRIBE),
    "OffsetDelete": Rule(group=DELETE, topic=READ),
    "DescribeGroups": Rule(group=DESCRIBE),
    "ListGroups": _OPEN,
    "DeleteGroups": Rule(group=DELETE),
    "ConsumerGroupHeartbeat": Rule(group=READ),
    "ConsumerGroupDescribe": Rule(group=DESCRIBE),
    "ShareGroupHeartbeat": Rule(group=READ),
    "ShareGroupDescribe": Rule(group=DESCRIBE),
    "ShareFetch": Rule(group=READ, topic=READ),
    "ShareAcknowledge": Rule(group=READ, topic=READ),
    "DescribeShareGroupOffsets": Rule(group=DESCRIBE, topic=DESCRIBE),
    "AlterShareGroupOffsets": Rule(group=READ, topic=READ),
    "DeleteShareGroupOffsets": Rule(group=DELETE, topic=READ),
    "StreamsGroupHeartbeat": Rule(group=READ),
    "StreamsGroupDescribe": Rule(group=DESCRIBE),
    # Transactions
    "InitProducerId": _OPEN,
    "AddPartitionsToTxn": Rule(transaction=WRITE, topic=WRITE, together=True),
    "AddOffsetsToTxn": Rule(transaction=WRITE, group=READ),
    "EndTxn": Rule(transaction=WRITE),
    "TxnOffsetCommit": Rule(transaction=WRITE, group=READ, topic=READ),
    "WriteTxnMarkers": Rule(cluster=CLUSTER_ACTION),
    "DescribeTransactions": _OPEN,
    "ListTransactions": _OPEN,
    # Security and quotas
    "ApiVersions": _OPEN,
    "SaslHandshake": _OPEN,
    "SaslAuthenticate": _OPEN,
    "CreateAcls": Rule(cluster=ALTER),
    "DescribeAcls": Rule(cluster=DESCRIBE),
    "DeleteAcls": Rule(cluster=ALTER),
    "AlterUserScramCredentials": Rule(cluster=ALTER),
    "DescribeUserScramCredentials": Rule(cluster=DESCRIBE),
    "AlterClientQuotas": Rule(cluster=ALTER_CONFIGS),
    "DescribeClientQuotas": Rule(cluster=DESCRIBE_CONFIGS),
    # Of clients about themselves
    "GetTelemetrySubscriptions": _OPEN,
    "PushTelemetry": _OPEN,
}

INTERNAL = Rule(cluster=CLUSTER_ACTION)
"""What has no rule is for the cluster's own nodes."""
