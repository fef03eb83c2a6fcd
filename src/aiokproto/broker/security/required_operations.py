"""The operations that a client needs for each API, as in the Protocol section of Kafka's authorization docs."""

from __future__ import annotations

from typing import NamedTuple

from aiokproto.broker.security.acls import Operation


class RequiredOperations(NamedTuple):
    """The operations that a request needs.

    Attributes:
        cluster: On the cluster; without it the whole request is refused.
        transaction: On the request's transactional id, if it has one; without it the whole request is refused.
        group: On each group that it names; only groups without it are refused.
        topic: On each topic that it names; only topics without it are refused.
        all_topics: On the cluster; it replaces ``topic`` for every topic.
        together: Whether a refused topic refuses all others too.
        brokers_since: The version since which only nodes of the cluster may send it; None if clients may send all.
    """

    cluster: Operation | None = None
    transaction: Operation | None = None
    group: Operation | None = None
    topic: Operation | None = None
    all_topics: Operation | None = None
    together: bool = False
    brokers_since: int | None = None


_TABLE = (
    # No operation, or the handler checks it, because Kafka's response differs from a plain error code.
    (RequiredOperations(), "ApiVersions SaslHandshake SaslAuthenticate GetTelemetrySubscriptions PushTelemetry"),
    (RequiredOperations(), "ShareFetch ShareAcknowledge"),
    (
        RequiredOperations(),
        "Fetch Metadata DescribeTopicPartitions DescribeCluster FindCoordinator ListGroups InitProducerId",
    ),
    (
        RequiredOperations(),
        "DescribeConfigs AlterConfigs IncrementalAlterConfigs DescribeTransactions ListTransactions",
    ),
    (RequiredOperations(), "CreateDelegationToken RenewDelegationToken ExpireDelegationToken DescribeDelegationToken"),
    # The cluster
    (
        RequiredOperations(cluster=Operation.DESCRIBE),
        "DescribeLogDirs ListPartitionReassignments DescribeQuorum DescribeAcls",
    ),
    (RequiredOperations(cluster=Operation.DESCRIBE), "DescribeUserScramCredentials"),
    (
        RequiredOperations(cluster=Operation.ALTER),
        "AlterReplicaLogDirs ElectLeaders AlterPartitionReassignments UpdateFeatures",
    ),
    (RequiredOperations(cluster=Operation.ALTER), "UnregisterBroker CreateAcls DeleteAcls AlterUserScramCredentials"),
    (RequiredOperations(cluster=Operation.DESCRIBE_CONFIGS), "ListConfigResources DescribeClientQuotas"),
    (RequiredOperations(cluster=Operation.ALTER_CONFIGS), "AlterClientQuotas"),
    (
        RequiredOperations(cluster=Operation.CLUSTER_ACTION),
        "WriteTxnMarkers InitializeShareGroupState DeleteShareGroupState",
    ),
    (
        RequiredOperations(cluster=Operation.CLUSTER_ACTION),
        "ReadShareGroupState ReadShareGroupStateSummary WriteShareGroupState",
    ),
    # Topics
    (RequiredOperations(topic=Operation.READ), "DescribeProducers"),
    (RequiredOperations(topic=Operation.DELETE), "DeleteRecords"),
    (RequiredOperations(topic=Operation.ALTER), "CreatePartitions"),
    (RequiredOperations(topic=Operation.DESCRIBE), "ListOffsets"),
    (RequiredOperations(topic=Operation.DESCRIBE, all_topics=Operation.CLUSTER_ACTION), "OffsetForLeaderEpoch"),
    (RequiredOperations(topic=Operation.CREATE, all_topics=Operation.CREATE), "CreateTopics"),
    (RequiredOperations(topic=Operation.DELETE, all_topics=Operation.DELETE), "DeleteTopics"),
    # Groups
    (RequiredOperations(group=Operation.READ), "JoinGroup SyncGroup Heartbeat LeaveGroup"),
    (RequiredOperations(group=Operation.READ), "ConsumerGroupHeartbeat ShareGroupHeartbeat StreamsGroupHeartbeat"),
    (RequiredOperations(group=Operation.READ), "StreamsGroupTopologyDescriptionUpdate"),
    (RequiredOperations(group=Operation.DELETE), "DeleteGroups"),
    (
        RequiredOperations(group=Operation.DESCRIBE),
        "DescribeGroups ConsumerGroupDescribe ShareGroupDescribe StreamsGroupDescribe",
    ),
    (
        RequiredOperations(group=Operation.READ, topic=Operation.READ),
        "OffsetCommit AlterShareGroupOffsets",
    ),
    (RequiredOperations(group=Operation.DELETE, topic=Operation.READ), "OffsetDelete DeleteShareGroupOffsets"),
    (RequiredOperations(group=Operation.DESCRIBE, topic=Operation.DESCRIBE), "OffsetFetch DescribeShareGroupOffsets"),
    # Transactions
    (RequiredOperations(transaction=Operation.WRITE), "EndTxn"),
    (RequiredOperations(transaction=Operation.WRITE, topic=Operation.WRITE), "Produce"),
    (
        RequiredOperations(transaction=Operation.WRITE, topic=Operation.WRITE, together=True, brokers_since=4),
        "AddPartitionsToTxn",
    ),
    (RequiredOperations(transaction=Operation.WRITE, group=Operation.READ), "AddOffsetsToTxn"),
    (RequiredOperations(transaction=Operation.WRITE, group=Operation.READ, topic=Operation.READ), "TxnOffsetCommit"),
)

REQUIRED_OPERATIONS = {api: rule for rule, apis in _TABLE for api in apis.split()}

INTER_BROKER = RequiredOperations(cluster=Operation.CLUSTER_ACTION)
"""For APIs without a row: they are for brokers."""
