"""What a client must be permitted to do for each API: the table that the dispatcher goes by."""

from __future__ import annotations

from typing import NamedTuple

from aiokproto.broker.security.acls import Operation


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


_TABLE = (
    # For everybody; or the handler decides, since Kafka's answer to who may not is more than an error.
    (Rule(), "ApiVersions SaslHandshake SaslAuthenticate GetTelemetrySubscriptions PushTelemetry"),
    (Rule(), "ShareFetch ShareAcknowledge"),
    (Rule(), "Fetch Metadata DescribeTopicPartitions DescribeCluster FindCoordinator ListGroups InitProducerId"),
    (Rule(), "DescribeConfigs AlterConfigs IncrementalAlterConfigs DescribeTransactions ListTransactions"),
    (Rule(), "CreateDelegationToken RenewDelegationToken ExpireDelegationToken DescribeDelegationToken"),
    # The cluster
    (Rule(cluster=Operation.DESCRIBE), "DescribeLogDirs ListPartitionReassignments DescribeQuorum DescribeAcls"),
    (Rule(cluster=Operation.DESCRIBE), "DescribeUserScramCredentials"),
    (Rule(cluster=Operation.ALTER), "AlterReplicaLogDirs ElectLeaders AlterPartitionReassignments UpdateFeatures"),
    (Rule(cluster=Operation.ALTER), "UnregisterBroker CreateAcls DeleteAcls AlterUserScramCredentials"),
    (Rule(cluster=Operation.DESCRIBE_CONFIGS), "ListConfigResources DescribeClientQuotas"),
    (Rule(cluster=Operation.ALTER_CONFIGS), "AlterClientQuotas"),
    (Rule(cluster=Operation.CLUSTER_ACTION), "WriteTxnMarkers InitializeShareGroupState DeleteShareGroupState"),
    (Rule(cluster=Operation.CLUSTER_ACTION), "ReadShareGroupState ReadShareGroupStateSummary WriteShareGroupState"),
    # Topics
    (Rule(topic=Operation.READ), "DescribeProducers"),
    (Rule(topic=Operation.DELETE), "DeleteRecords"),
    (Rule(topic=Operation.ALTER), "CreatePartitions"),
    (Rule(topic=Operation.DESCRIBE), "ListOffsets"),
    (Rule(topic=Operation.DESCRIBE, all_topics=Operation.CLUSTER_ACTION), "OffsetForLeaderEpoch"),
    (Rule(topic=Operation.CREATE, all_topics=Operation.CREATE), "CreateTopics"),
    (Rule(topic=Operation.DELETE, all_topics=Operation.DELETE), "DeleteTopics"),
    # Groups
    (Rule(group=Operation.READ), "JoinGroup SyncGroup Heartbeat LeaveGroup"),
    (Rule(group=Operation.READ), "ConsumerGroupHeartbeat ShareGroupHeartbeat StreamsGroupHeartbeat"),
    (Rule(group=Operation.READ), "StreamsGroupTopologyDescriptionUpdate"),
    (Rule(group=Operation.DELETE), "DeleteGroups"),
    (
        Rule(group=Operation.DESCRIBE),
        "DescribeGroups ConsumerGroupDescribe ShareGroupDescribe StreamsGroupDescribe",
    ),
    (
        Rule(group=Operation.READ, topic=Operation.READ),
        "OffsetCommit AlterShareGroupOffsets",
    ),
    (Rule(group=Operation.DELETE, topic=Operation.READ), "OffsetDelete DeleteShareGroupOffsets"),
    (Rule(group=Operation.DESCRIBE, topic=Operation.DESCRIBE), "OffsetFetch DescribeShareGroupOffsets"),
    # Transactions
    (Rule(transaction=Operation.WRITE), "EndTxn"),
    (Rule(transaction=Operation.WRITE, topic=Operation.WRITE), "Produce"),
    (Rule(transaction=Operation.WRITE, topic=Operation.WRITE, together=True), "AddPartitionsToTxn"),
    (Rule(transaction=Operation.WRITE, group=Operation.READ), "AddOffsetsToTxn"),
    (Rule(transaction=Operation.WRITE, group=Operation.READ, topic=Operation.READ), "TxnOffsetCommit"),
)

RULES = {api: rule for rule, apis in _TABLE for api in apis.split()}

INTERNAL = Rule(cluster=Operation.CLUSTER_ACTION)
"""What has no rule is for the cluster's own nodes."""
