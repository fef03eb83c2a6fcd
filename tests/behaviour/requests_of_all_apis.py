"""Requests of every API and version that is served, each with two topics, two groups and a transactional id where the
API has them.

They change nothing, because what they would change doesn't exist, or is only validated. So each one can be sent
repeatedly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from aiokproto.broker.handlers import UNSTABLE
from aiokproto.codec import registry
from aiokproto.codec.registry import api_name
from aiokproto.codec.schema import Request, Versions
from aiokproto.records import BatchBuilder
from tests.broker.secure import CLUSTER, TOPIC
from tests.broker.wire import NOW, batch

BROKER_CONFIGS, METRICS_CONFIGS, GROUP_CONFIGS = 4, 16, 32
PARTITION = {"partition_index": 0}
PRODUCER = {"producer_id": 4_000_000, "producer_epoch": 0}
"""A producer id that was never allocated."""


class Names(NamedTuple):
    """What the requests name.

    Attributes:
        topics: Two topics with one partition, and their ids.
        groups: Two groups with committed offsets of both topics.
        transactional_id: A transactional id.
    """

    topics: Mapping[str, bytes]
    groups: tuple[str, str]
    transactional_id: str


class Sample(NamedTuple):
    """A request of one version.

    Attributes:
        name: The API, and what is special about the request.
        version: The version.
        request: The request.
        lists: Whether the response lists what exists, and leaves out what the client may not see.
    """

    name: str
    version: int
    request: Request[Any]
    lists: bool


def samples(names: Names, served: Mapping[int, Versions] = UNSTABLE) -> Iterator[Sample]:
    """Yield the requests of all versions that are served."""
    by_name = _requests(names)
    for key in UNSTABLE:
        known = registry.request(key)
        if key not in served:
            continue
        for title, values in by_name.items():
            if title.split(",")[0] != api_name(key):
                continue
            first, last = _VERSIONS.get(title, (0, 99))
            for version in range(
                max(first, served[key].lowest, UNSTABLE[key].lowest),
                min(last, served[key].highest, UNSTABLE[key].highest) + 1,
            ):
                yield Sample(title, version, _build(known, version, values), title in _LISTS)


def _build(struct: type[Any], version: int, values: Mapping[str, Any]) -> Any:
    """Return a struct with the values that the version has a field for."""
    specs = {spec.name: spec for spec in struct.fields()}
    found = {}
    for name, value in values.items():
        spec = specs[name]
        if version not in spec.versions:
            continue
        if spec.struct is not None and isinstance(value, list):
            value = [_build(spec.struct, version, each) for each in value]
        elif spec.struct is not None and value is not None:
            value = _build(spec.struct, version, value)
        found[name] = value
    return struct(**found)


_VERSIONS = {
    "Produce, transactional": (3, 99),
    "Metadata, all": (1, 99),
    "Metadata, by id": (12, 99),
    "OffsetFetch, all topics": (2, 99),
    "FindCoordinator, transactional id": (1, 99),
    "FindCoordinator, share": (6, 99),
    "CreateDelegationToken, for another": (3, 99),
}
"""The first and last version of requests that not all versions have."""

_LISTS = {
    "Metadata, all",
    "OffsetFetch, all topics",
    "ListGroups",
    "DescribeTransactions",
    "ListTransactions",
    "DescribeTopicPartitions, all",
    "DescribeShareGroupOffsets, all topics",
}


def _requests(names: Names) -> dict[str, dict[str, Any]]:
    """Return the fields of each request, of all its versions."""
    return {
        **_of_records(names),
        **_of_metadata(names),
        **_of_topics(names),
        **_of_groups(names),
        **_of_offsets(names),
        **_of_new_groups(names),
        **_of_share_groups(names),
        **_of_transactions(names),
        **_of_configs(names),
        **_of_the_cluster(names),
        **_of_security(),
    }


def _of_records(names: Names) -> dict[str, dict[str, Any]]:
    def produced(records: bytes) -> list[dict[str, Any]]:
        return [
            {"name": name, "topic_id": topic_id, "partition_data": [{"index": 0, "records": records}]}
            for name, topic_id in names.topics.items()
        ]

    builder = BatchBuilder(is_transactional=True)
    builder.append(NOW, None, b"x")
    number, epoch = PRODUCER.values()
    transactional = bytes(builder.close(producer_id=number, producer_epoch=epoch, base_sequence=0))
    fetched = [
        {"topic": name, "topic_id": topic_id, "partitions": [{"partition": 0, "partition_max_bytes": 1000}]}
        for name, topic_id in names.topics.items()
    ]
    offsets = [{"partition_index": 0, "timestamp": -1, "max_num_offsets": 1}]
    return {
        "Produce": {"acks": -1, "timeout_ms": 9000, "topic_data": produced(batch([b"x"]))},
        "Produce, transactional": {
            "acks": -1,
            "timeout_ms": 9000,
            "transactional_id": names.transactional_id,
            "topic_data": produced(transactional),
        },
        "Fetch": {"max_bytes": 1000, "topics": fetched},
        "ListOffsets": {"replica_id": -1, "topics": [{"name": each, "partitions": offsets} for each in names.topics]},
        "OffsetForLeaderEpoch": {
            "replica_id": -1,
            "topics": [{"topic": each, "partitions": [{"partition": 0, "leader_epoch": 0}]} for each in names.topics],
        },
        "DescribeProducers": {"topics": [{"name": each, "partition_indexes": [0]} for each in names.topics]},
    }


def _of_metadata(names: Names) -> dict[str, dict[str, Any]]:
    return {
        "ApiVersions": {"client_software_name": "test", "client_software_version": "1"},
        "Metadata": {
            "topics": [{"name": each} for each in names.topics],
            "allow_auto_topic_creation": False,
            "include_cluster_authorized_operations": True,
        },
        "Metadata, by id": {
            "topics": [{"name": None, "topic_id": each} for each in names.topics.values()],
            "allow_auto_topic_creation": False,
        },
        # The topic that it would create has an invalid name.
        "Metadata, creating": {"topics": [{"name": f"{each}!"} for each in names.topics]},
        "Metadata, all": {"topics": None},
        "DescribeCluster": {"include_cluster_authorized_operations": True},
        "DescribeTopicPartitions": {"topics": [{"name": each} for each in names.topics]},
        "DescribeTopicPartitions, all": {"topics": []},
    }


def _of_topics(names: Names) -> dict[str, dict[str, Any]]:
    partitions = [{"name": each, "partitions": [0]} for each in names.topics]
    unknown = [f"{each}-unknown" for each in names.topics]
    return {
        # It asks for more replicas than there are brokers.
        "CreateTopics": {"topics": [{"name": each, "num_partitions": 1, "replication_factor": 9} for each in unknown]},
        "DeleteTopics": {
            "topics": [{"name": each} for each in unknown],
            "topic_names": unknown,
            "timeout_ms": 9000,
        },
        "DeleteRecords": {
            "topics": [{"name": each, "partitions": [{"partition_index": 9, "offset": 0}]} for each in names.topics],
            "timeout_ms": 9000,
        },
        "CreatePartitions": {
            "topics": [{"name": each, "count": 3, "assignments": None} for each in names.topics],
            "timeout_ms": 9000,
            "validate_only": True,
        },
        "AlterReplicaLogDirs": {"dirs": [{"path": "/none", "topics": partitions}]},
        "DescribeLogDirs": {"topics": [{"topic": each, "partitions": [0]} for each in names.topics]},
        "ElectLeaders": {
            "topic_partitions": [{"topic": each, "partitions": [0]} for each in names.topics],
            "timeout_ms": 9000,
        },
        "AlterPartitionReassignments": {
            "topics": [{"name": each, "partitions": [PARTITION | {"replicas": None}]} for each in names.topics],
            "timeout_ms": 9000,
        },
        "ListPartitionReassignments": {
            "topics": [{"name": each, "partition_indexes": [0]} for each in names.topics],
            "timeout_ms": 9000,
        },
    }


def _of_groups(names: Names) -> dict[str, dict[str, Any]]:
    group = names.groups[0]
    member = {"group_id": group, "generation_id": 9, "member_id": "unknown"}
    return {
        "FindCoordinator": {"key": group, "coordinator_keys": list(names.groups)},
        "FindCoordinator, transactional id": {
            "key": names.transactional_id,
            "coordinator_keys": [names.transactional_id],
            "key_type": 1,
        },
        "FindCoordinator, share": {
            "coordinator_keys": [f"{each}:{'A' * 22}:0" for each in names.groups],
            "key_type": 2,
        },
        "JoinGroup": {
            "group_id": group,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "member_id": "unknown",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        },
        "SyncGroup": {**member, "assignments": [], "protocol_type": "consumer", "protocol_name": "range"},
        "Heartbeat": member,
        "LeaveGroup": {"group_id": group, "member_id": "unknown", "members": [{"member_id": "unknown"}]},
        "DescribeGroups": {"groups": list(names.groups)},
        "ListGroups": {},
        "DeleteGroups": {"groups_names": [f"{each}-unknown" for each in names.groups]},
    }


def _of_offsets(names: Names) -> dict[str, dict[str, Any]]:
    topics = [{"name": name, "topic_id": topic_id} for name, topic_id in names.topics.items()]
    committed = [{**PARTITION, "committed_offset": 0, "committed_metadata": ""}]
    fetched = [{**each, "partition_indexes": [0]} for each in topics]
    by_name = [{"name": each["name"], "partition_indexes": [0]} for each in topics]
    return {
        "OffsetCommit": {
            "group_id": names.groups[0],
            "generation_id_or_member_epoch": 9,
            "member_id": "unknown",
            "topics": [{**each, "partitions": committed} for each in topics],
        },
        "OffsetFetch": {
            "group_id": names.groups[0],
            "topics": by_name,
            "groups": [{"group_id": each, "topics": fetched} for each in names.groups],
        },
        "OffsetFetch, all topics": {
            "group_id": names.groups[0],
            "topics": None,
            "groups": [{"group_id": each, "topics": None} for each in names.groups],
        },
        "OffsetDelete": {
            "group_id": names.groups[0],
            # These partitions don't exist, because offsets of existing ones would be deleted.
            "topics": [{"name": each, "partitions": [{"partition_index": 9}]} for each in names.topics],
        },
    }


def _of_new_groups(names: Names) -> dict[str, dict[str, Any]]:
    # The group doesn't exist, because what a heartbeat changes depends on the group.
    group, topics = f"{names.groups[0]}-unknown", list(names.topics)
    heartbeat = {"group_id": group, "member_id": "unknown", "member_epoch": 9}
    return {
        "ConsumerGroupHeartbeat": {**heartbeat, "subscribed_topic_names": topics, "topic_partitions": []},
        "ConsumerGroupDescribe": {"group_ids": list(names.groups)},
        "ShareGroupHeartbeat": {**heartbeat, "subscribed_topic_names": topics},
        "ShareGroupDescribe": {"group_ids": list(names.groups)},
        # It lacks the rebalance timeout, which a member that joins has to send.
        "StreamsGroupHeartbeat": {
            **heartbeat,
            "member_epoch": 0,
            "topology": {
                "epoch": 0,
                "subtopologies": [
                    {
                        "subtopology_id": "0",
                        "source_topics": topics[:1],
                        "repartition_sink_topics": topics[1:],
                        "state_changelog_topics": [],
                        "repartition_source_topics": [],
                    }
                ],
            },
            "active_tasks": [],
            "standby_tasks": [],
            "warmup_tasks": [],
            "process_id": "process",
            "client_tags": [],
            "task_offsets": [],
            "task_end_offsets": [],
        },
        "StreamsGroupDescribe": {"group_ids": list(names.groups)},
        "StreamsGroupTopologyDescriptionUpdate": {"group_id": group},
    }


def _of_share_groups(names: Names) -> dict[str, dict[str, Any]]:
    group, ids = f"{names.groups[0]}-unknown", list(names.topics.values())
    fetched = [{"topic_id": each, "partitions": [PARTITION | {"partition_max_bytes": 1000}]} for each in ids]
    acknowledged = [{"topic_id": each, "partitions": [PARTITION]} for each in ids]
    share = {"group_id": group, "member_id": "unknown"}

    def state(**values: Any) -> dict[str, Any]:
        return {
            "group_id": group,
            "topics": [{"topic_id": bytes(15) + b"\1", "partitions": [{"partition": 0, **values}]}],
        }

    return {
        "ShareFetch": {**share, "max_bytes": 1000, "max_records": 1, "batch_size": 1, "topics": fetched},
        "ShareAcknowledge": {**share, "share_session_epoch": 9, "topics": acknowledged},
        "InitializeShareGroupState": state(state_epoch=0, start_offset=0),
        "ReadShareGroupState": state(leader_epoch=0),
        "WriteShareGroupState": state(state_epoch=9, leader_epoch=0, start_offset=0),
        "DeleteShareGroupState": state(),
        "ReadShareGroupStateSummary": state(leader_epoch=0),
        "DescribeShareGroupOffsets": {
            "groups": [
                {"group_id": each, "topics": [{"topic_name": name, "partitions": [0]} for name in names.topics]}
                for each in names.groups
            ]
        },
        "DescribeShareGroupOffsets, all topics": {
            "groups": [{"group_id": each, "topics": None} for each in names.groups]
        },
        "AlterShareGroupOffsets": {
            "group_id": group,
            "topics": [{"topic_name": each, "partitions": [PARTITION | {"start_offset": 0}]} for each in names.topics],
        },
        "DeleteShareGroupOffsets": {
            "group_id": group,
            "topics": [{"topic_name": each} for each in names.topics],
        },
    }


def _of_transactions(names: Names) -> dict[str, dict[str, Any]]:
    transaction = {"transactional_id": names.transactional_id, **PRODUCER}
    added = [{"name": each, "partitions": [0]} for each in names.topics]
    committed = [{**PARTITION, "committed_offset": 0, "committed_metadata": ""}]
    return {
        "InitProducerId": {"transactional_id": None, "transaction_timeout_ms": 0},
        "InitProducerId, transactional": {
            "transactional_id": names.transactional_id,
            "transaction_timeout_ms": 60_000,
            "enable2_pc": True,
        },
        "AddPartitionsToTxn": {
            "v3_and_below_transactional_id": names.transactional_id,
            "v3_and_below_producer_id": PRODUCER["producer_id"],
            "v3_and_below_topics": added,
            "transactions": [{**transaction, "topics": added}],
        },
        "AddOffsetsToTxn": {**transaction, "group_id": names.groups[0]},
        "EndTxn": transaction,
        "TxnOffsetCommit": {
            **transaction,
            "group_id": names.groups[0],
            "topics": [
                {"name": name, "topic_id": topic_id, "partitions": committed} for name, topic_id in names.topics.items()
            ],
        },
        "WriteTxnMarkers": {
            "markers": [
                {
                    "producer_id": number,
                    "producer_epoch": 0,
                    "topics": [{"name": f"{each}-unknown", "partition_indexes": [0]}],
                }
                for number, each in enumerate(names.topics, PRODUCER["producer_id"])
            ]
        },
        "DescribeTransactions": {"transactional_ids": [names.transactional_id]},
        "ListTransactions": {},
    }


def _of_configs(names: Names) -> dict[str, dict[str, Any]]:
    resources = [
        *({"resource_type": TOPIC, "resource_name": each} for each in names.topics),
        *({"resource_type": GROUP_CONFIGS, "resource_name": each} for each in names.groups),
        {"resource_type": METRICS_CONFIGS, "resource_name": "metrics"},
        {"resource_type": BROKER_CONFIGS, "resource_name": ""},
    ]
    return {
        "DescribeConfigs": {"resources": [{**each, "configuration_keys": None} for each in resources]},
        "AlterConfigs": {"resources": [{**each, "configs": []} for each in resources], "validate_only": True},
        "IncrementalAlterConfigs": {
            "resources": [{**each, "configs": []} for each in resources],
            "validate_only": True,
        },
        "ListConfigResources": {},
        "DescribeClientQuotas": {"components": [], "strict": False},
        "AlterClientQuotas": {
            "entries": [{"entity": [{"entity_type": "user", "entity_name": "unknown"}], "ops": []}],
            "validate_only": True,
        },
    }


def _of_the_cluster(names: Names) -> dict[str, dict[str, Any]]:
    return {
        "DescribeQuorum": {"topics": [{"topic_name": "__cluster_metadata", "partitions": [PARTITION]}]},
        "UpdateFeatures": {
            "feature_updates": [{"feature": "unknown", "max_version_level": 1}],
            "timeout_ms": 9000,
            "validate_only": True,
        },
        "UnregisterBroker": {"broker_id": 99},
        "GetTelemetrySubscriptions": {},
        "PushTelemetry": {"client_instance_id": bytes(15) + b"\1", "metrics": b""},
    }


def _of_security() -> dict[str, dict[str, Any]]:
    any_acl = {"principal_filter": "User:unknown", "host_filter": None, "operation": 1, "permission_type": 1}
    of_topics = {"resource_type_filter": TOPIC, "resource_name_filter": "unknown", **any_acl}
    return {
        "DescribeAcls": of_topics,
        "CreateAcls": {
            "creations": [
                {
                    "resource_type": CLUSTER,
                    "resource_name": "not the cluster",
                    "principal": "User:unknown",
                    "host": "*",
                    "operation": 3,
                    "permission_type": 3,
                }
            ]
        },
        "DeleteAcls": {"filters": [of_topics]},
        "DescribeUserScramCredentials": {"users": [{"name": "unknown"}]},
        "AlterUserScramCredentials": {"deletions": [{"name": "unknown", "mechanism": 1}], "upsertions": []},
        "CreateDelegationToken": {"owner_principal_type": None, "owner_principal_name": None, "max_lifetime_ms": 1},
        "CreateDelegationToken, for another": {
            "owner_principal_type": "User",
            "owner_principal_name": "another",
            "max_lifetime_ms": 1,
        },
        "RenewDelegationToken": {"hmac": b"unknown", "renew_period_ms": 1},
        "ExpireDelegationToken": {"hmac": b"unknown", "expiry_time_period_ms": 1},
        "DescribeDelegationToken": {"owners": None},
    }
