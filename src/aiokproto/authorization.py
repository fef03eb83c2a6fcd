"""Determines the operation and resource that a refused request needed (pure).

A broker that refuses a request says which kind of resource it's about (TOPIC_AUTHORIZATION_FAILED), but not which
operation was missing. That follows from the API, according to the Protocol section of Kafka's authorization docs. If an
API needs several operations, the one that clients lack most often comes first.
"""

from __future__ import annotations

from typing import NamedTuple

from aiokproto.error_codes import ErrorCode

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = "topic", "group", "cluster", "transactional id"
DELEGATION_TOKEN = "delegation token"

CLUSTER_NAME = "kafka-cluster"
"""The name of the cluster in ACLs."""

_RESOURCES = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: TOPIC,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: GROUP,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: CLUSTER,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: TRANSACTIONAL_ID,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: DELEGATION_TOKEN,
}

_FLAGS = {
    TOPIC: "--topic",
    GROUP: "--group",
    CLUSTER: "--cluster",
    TRANSACTIONAL_ID: "--transactional-id",
    DELEGATION_TOKEN: "--delegation-token",
}
"""The arguments of kafka-acls.sh."""

# The operation on a topic, a group, the cluster, or a transactional id, by ApiKey. ACLs use the same names.
_OPERATIONS: dict[int, dict[str, str]] = {
    0: {TOPIC: "WRITE", TRANSACTIONAL_ID: "WRITE", CLUSTER: "IDEMPOTENT_WRITE"},  # Produce
    1: {TOPIC: "READ", CLUSTER: "CLUSTER_ACTION"},  # Fetch
    2: {TOPIC: "DESCRIBE"},  # ListOffsets
    3: {TOPIC: "DESCRIBE", CLUSTER: "DESCRIBE"},  # Metadata
    8: {GROUP: "READ", TOPIC: "READ"},  # OffsetCommit
    9: {GROUP: "DESCRIBE", TOPIC: "DESCRIBE"},  # OffsetFetch
    10: {GROUP: "DESCRIBE", TRANSACTIONAL_ID: "DESCRIBE", CLUSTER: "CLUSTER_ACTION"},  # FindCoordinator
    11: {GROUP: "READ"},  # JoinGroup
    12: {GROUP: "READ"},  # Heartbeat
    13: {GROUP: "READ"},  # LeaveGroup
    14: {GROUP: "READ"},  # SyncGroup
    15: {GROUP: "DESCRIBE"},  # DescribeGroups
    16: {CLUSTER: "DESCRIBE", GROUP: "DESCRIBE"},  # ListGroups
    19: {TOPIC: "CREATE", CLUSTER: "CREATE"},  # CreateTopics
    20: {TOPIC: "DELETE"},  # DeleteTopics
    21: {TOPIC: "DELETE"},  # DeleteRecords
    22: {TRANSACTIONAL_ID: "WRITE", CLUSTER: "IDEMPOTENT_WRITE"},  # InitProducerId
    23: {TOPIC: "DESCRIBE", CLUSTER: "CLUSTER_ACTION"},  # OffsetForLeaderEpoch
    24: {TRANSACTIONAL_ID: "WRITE", TOPIC: "WRITE"},  # AddPartitionsToTxn
    25: {TRANSACTIONAL_ID: "WRITE", GROUP: "READ"},  # AddOffsetsToTxn
    26: {TRANSACTIONAL_ID: "WRITE"},  # EndTxn
    27: {CLUSTER: "CLUSTER_ACTION"},  # WriteTxnMarkers
    28: {TRANSACTIONAL_ID: "WRITE", GROUP: "READ", TOPIC: "READ"},  # TxnOffsetCommit
    29: {CLUSTER: "DESCRIBE"},  # DescribeAcls
    30: {CLUSTER: "ALTER"},  # CreateAcls
    31: {CLUSTER: "ALTER"},  # DeleteAcls
    32: {TOPIC: "DESCRIBE_CONFIGS", CLUSTER: "DESCRIBE_CONFIGS", GROUP: "DESCRIBE_CONFIGS"},  # DescribeConfigs
    33: {TOPIC: "ALTER_CONFIGS", CLUSTER: "ALTER_CONFIGS", GROUP: "ALTER_CONFIGS"},  # AlterConfigs
    34: {CLUSTER: "ALTER"},  # AlterReplicaLogDirs
    35: {CLUSTER: "DESCRIBE"},  # DescribeLogDirs
    37: {TOPIC: "ALTER"},  # CreatePartitions
    41: {DELEGATION_TOKEN: "DESCRIBE"},  # DescribeDelegationToken
    42: {GROUP: "DELETE"},  # DeleteGroups
    43: {CLUSTER: "ALTER"},  # ElectLeaders
    44: {TOPIC: "ALTER_CONFIGS", CLUSTER: "ALTER_CONFIGS", GROUP: "ALTER_CONFIGS"},  # IncrementalAlterConfigs
    45: {CLUSTER: "ALTER"},  # AlterPartitionReassignments
    46: {CLUSTER: "DESCRIBE"},  # ListPartitionReassignments
    47: {GROUP: "DELETE", TOPIC: "READ"},  # OffsetDelete
    48: {CLUSTER: "DESCRIBE_CONFIGS"},  # DescribeClientQuotas
    49: {CLUSTER: "ALTER_CONFIGS"},  # AlterClientQuotas
    50: {CLUSTER: "DESCRIBE"},  # DescribeUserScramCredentials
    51: {CLUSTER: "ALTER"},  # AlterUserScramCredentials
    55: {CLUSTER: "DESCRIBE"},  # DescribeQuorum
    57: {CLUSTER: "ALTER"},  # UpdateFeatures
    60: {CLUSTER: "DESCRIBE"},  # DescribeCluster
    61: {TOPIC: "READ"},  # DescribeProducers
    64: {CLUSTER: "ALTER"},  # UnregisterBroker
    65: {TRANSACTIONAL_ID: "DESCRIBE", TOPIC: "DESCRIBE"},  # DescribeTransactions
    66: {TRANSACTIONAL_ID: "DESCRIBE"},  # ListTransactions
    68: {GROUP: "READ", TOPIC: "DESCRIBE"},  # ConsumerGroupHeartbeat
    69: {GROUP: "DESCRIBE", TOPIC: "DESCRIBE"},  # ConsumerGroupDescribe
    74: {CLUSTER: "DESCRIBE_CONFIGS"},  # ListConfigResources
    75: {TOPIC: "DESCRIBE"},  # DescribeTopicPartitions
    76: {GROUP: "READ", TOPIC: "DESCRIBE"},  # ShareGroupHeartbeat
    77: {GROUP: "DESCRIBE", TOPIC: "DESCRIBE"},  # ShareGroupDescribe
    78: {GROUP: "READ", TOPIC: "READ"},  # ShareFetch
    79: {GROUP: "READ", TOPIC: "READ"},  # ShareAcknowledge
    88: {GROUP: "READ", TOPIC: "DESCRIBE"},  # StreamsGroupHeartbeat
    89: {GROUP: "DESCRIBE", TOPIC: "DESCRIBE"},  # StreamsGroupDescribe
    90: {GROUP: "DESCRIBE", TOPIC: "DESCRIBE"},  # DescribeShareGroupOffsets
    91: {GROUP: "READ", TOPIC: "READ"},  # AlterShareGroupOffsets
    92: {GROUP: "DELETE", TOPIC: "READ"},  # DeleteShareGroupOffsets
    93: {GROUP: "READ"},  # StreamsGroupTopologyDescriptionUpdate
}


class Asked(NamedTuple):
    """A request, to describe its refusal.

    Attributes:
        api: Its ApiKey; -1 if unknown.
        topic: The topic that the error code is about, or would be about.
        group: The group.
        transactional_id: The transactional id.
        principal: The sender's principal as in ACLs, such as ``"User:alice"``; empty if unknown.
        also: Other topics that were also refused.
    """

    api: int = -1
    topic: str = ""
    group: str = ""
    transactional_id: str = ""
    principal: str = ""
    also: tuple[str, ...] = ()


NOTHING = Asked()

_NAMED = 8
"""Maximum number of resources that a message mentions."""


class Refusal(NamedTuple):
    """Something that a client may not do.

    Attributes:
        operation: The operation as in ACLs, such as ``"WRITE"``; empty if unknown.
        resource_type: ``"topic"``, ``"group"``, ``"cluster"``, ``"transactional id"`` or ``"delegation token"``.
        resource_name: The resource; empty if unknown, and ``"kafka-cluster"`` for a cluster.
        also: The names of other resources of this type that were also refused.
        principal: The principal that may not do it, as in ACLs; empty if unknown.
    """

    operation: str
    resource_type: str
    resource_name: str
    also: tuple[str, ...] = ()
    principal: str = ""

    def __str__(self) -> str:
        kind, names = self.resource_type, (self.resource_name, *self.also)[:_NAMED]
        if kind == CLUSTER or not self.resource_name:
            what, resource = kind, _FLAGS[kind] if kind == CLUSTER else f"{_FLAGS[kind]} …"
        else:
            more = len(self.also) + 1 - len(names)
            what = (
                f"{kind}{'s' if self.also else ''} {', '.join(map(repr, names))}{f' and {more} more' if more else ''}"
            )
            # Quote the names: groups and transactional ids can contain spaces.
            resource = " ".join(f"{_FLAGS[kind]} {_quoted(name)}" for name in names)
        if not self.operation:
            return f"access to the {what} is refused to this client: grant the operation it needs with kafka-acls.sh"
        operation = "".join(word.capitalize() for word in self.operation.split("_"))
        principal = _quoted(self.principal, ":") if self.principal else "User:…"
        command = f"kafka-acls.sh --add --allow-principal {principal} --operation {operation} {resource}"
        return f"{self.operation} on {what} is refused to {self.principal or 'this client'}; grant it: {command}"


def refusal(code: ErrorCode, asked: Asked = NOTHING) -> Refusal | None:
    """Return what an error code refuses, or None if it's not about authorization."""
    kind = _RESOURCES.get(code)
    if kind is None:
        return None
    names = {
        TOPIC: asked.topic,
        GROUP: asked.group,
        TRANSACTIONAL_ID: asked.transactional_id,
        CLUSTER: CLUSTER_NAME,
    }
    also = asked.also if kind == TOPIC else ()
    return Refusal(_OPERATIONS.get(asked.api, {}).get(kind, ""), kind, names.get(kind, ""), also, asked.principal)


def _quoted(name: str, more: str = "") -> str:
    plain = all(character.isalnum() or character in "._-" or character in more for character in name)
    return name if plain else "'" + name.replace("'", "'\\''") + "'"
