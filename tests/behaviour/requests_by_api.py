"""A request of each API that ACLs protect, and the errors that a client without permissions receives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from aiokproto.codec.messages import read_share_group_state
from aiokproto.codec.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from aiokproto.codec.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from aiokproto.codec.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from aiokproto.codec.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from aiokproto.codec.messages.create_acls import CreateAclsRequest
from aiokproto.codec.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from aiokproto.codec.messages.create_topics import CreatableTopic, CreateTopicsRequest
from aiokproto.codec.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from aiokproto.codec.messages.delete_groups import DeleteGroupsRequest
from aiokproto.codec.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from aiokproto.codec.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from aiokproto.codec.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from aiokproto.codec.messages.describe_acls import DescribeAclsRequest
from aiokproto.codec.messages.describe_client_quotas import DescribeClientQuotasRequest
from aiokproto.codec.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from aiokproto.codec.messages.describe_groups import DescribeGroupsRequest
from aiokproto.codec.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from aiokproto.codec.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from aiokproto.codec.messages.end_txn import EndTxnRequest
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest
from aiokproto.codec.messages.heartbeat import HeartbeatRequest
from aiokproto.codec.messages.incremental_alter_configs import AlterConfigsResource, IncrementalAlterConfigsRequest
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest
from aiokproto.codec.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from aiokproto.codec.messages.leave_group import LeaveGroupRequest, MemberIdentity
from aiokproto.codec.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokproto.codec.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from aiokproto.codec.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from aiokproto.codec.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from aiokproto.codec.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from aiokproto.codec.messages.share_group_describe import ShareGroupDescribeRequest
from aiokproto.codec.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from aiokproto.codec.messages.sync_group import SyncGroupRequest
from aiokproto.codec.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from aiokproto.codec.schema import Request, Struct
from aiokproto.error_codes import ErrorCode
from tests.broker.secure import (
    READ,
    TOPIC,
    acl,
)
from tests.broker.wire import batch, fetch_request, produce_request

OK = ErrorCode.NONE
NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_TRANSACTION = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
THE_CLUSTER = "kafka-cluster"
NO_TOPIC_ID = "A" * 22


class RequestCase(NamedTuple):
    """A request that names a topic, a group or a transactional id, and its error without permission.

    Attributes:
        make: Makes the request from topic and group.
        version: The version to send it in.
        refusal: The error code that a client without permission receives.
    """

    make: Callable[[str, str], Request[Any]]
    version: int
    refusal: ErrorCode


def everything(
    resource_type: int = 1, name: str | None = None, pattern: int = 1, principal: str | None = None
) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=resource_type,
        resource_name_filter=name,
        pattern_type_filter=pattern,
        principal_filter=principal,
        host_filter=None,
        operation=1,
        permission_type=1,
    )


def errors(part: Struct) -> set[ErrorCode]:
    """All error codes in a response."""
    found = set()
    for spec in part.fields():
        value = getattr(part, spec.name)
        if spec.name.endswith("error_code"):
            found.add(ErrorCode(value))
        elif isinstance(value, list):
            found |= {error for item in value if isinstance(item, Struct) for error in errors(item)}
    return found - {OK}


REQUESTS = {
    "Produce": RequestCase(lambda topic, _group: produce_request(topic, batch([b"x"])), 9, NO_TOPIC),
    "Fetch": RequestCase(lambda topic, _group: fetch_request(topic), 12, NO_TOPIC),
    "ListOffsets": RequestCase(
        lambda topic, _group: ListOffsetsRequest(
            replica_id=-1,
            topics=[ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])],
        ),
        5,
        NO_TOPIC,
    ),
    "OffsetForLeaderEpoch": RequestCase(
        lambda topic, _group: OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                OffsetForLeaderTopic(topic=topic, partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)])
            ],
        ),
        4,
        NO_TOPIC,
    ),
    "Metadata": RequestCase(
        lambda topic, _group: MetadataRequest(
            topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False
        ),
        9,
        NO_TOPIC,
    ),
    "CreateTopics": RequestCase(
        lambda topic, _group: CreateTopicsRequest(
            topics=[CreatableTopic(name=f"{topic}-new", num_partitions=1, replication_factor=1)]
        ),
        7,
        NO_TOPIC,
    ),
    "DeleteTopics": RequestCase(
        lambda topic, _group: DeleteTopicsRequest(
            topics=[DeleteTopicState(name=topic, topic_id=bytes(16))], timeout_ms=9000
        ),
        6,
        NO_TOPIC,
    ),
    "DeleteTopics-5": RequestCase(
        lambda topic, _group: DeleteTopicsRequest(topic_names=[topic], timeout_ms=9000), 5, NO_TOPIC
    ),
    "CreatePartitions": RequestCase(
        lambda topic, _group: CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic, count=5, assignments=None)],
            timeout_ms=9000,
            validate_only=True,
        ),
        3,
        NO_TOPIC,
    ),
    "DeleteRecords": RequestCase(
        lambda topic, _group: DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])],
            timeout_ms=9000,
        ),
        2,
        NO_TOPIC,
    ),
    "DescribeConfigs": RequestCase(
        lambda topic, _group: DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=2, resource_name=topic, configuration_keys=None)]
        ),
        4,
        NO_TOPIC,
    ),
    "IncrementalAlterConfigs": RequestCase(
        lambda topic, _group: IncrementalAlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=2, resource_name=topic, configs=[])], validate_only=True
        ),
        1,
        NO_TOPIC,
    ),
    "JoinGroup": RequestCase(
        lambda _topic, group: JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        ),
        5,
        NO_GROUP,
    ),
    "SyncGroup": RequestCase(
        lambda _topic, group: SyncGroupRequest(group_id=group, generation_id=1, member_id="m", assignments=[]),
        4,
        NO_GROUP,
    ),
    "Heartbeat": RequestCase(
        lambda _topic, group: HeartbeatRequest(group_id=group, generation_id=1, member_id="m"), 4, NO_GROUP
    ),
    "LeaveGroup": RequestCase(
        lambda _topic, group: LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id="m")]), 4, NO_GROUP
    ),
    "OffsetCommit": RequestCase(
        lambda topic, group: OffsetCommitRequest(
            group_id=group,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata="")
                    ],
                )
            ],
        ),
        8,
        NO_GROUP,
    ),
    "OffsetFetch": RequestCase(
        lambda topic, group: OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id=group, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
                )
            ]
        ),
        8,
        NO_GROUP,
    ),
    "OffsetDelete": RequestCase(
        lambda topic, group: OffsetDeleteRequest(
            group_id=group,
            topics=[OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)])],
        ),
        0,
        NO_GROUP,
    ),
    "FindCoordinator": RequestCase(lambda _topic, group: FindCoordinatorRequest(coordinator_keys=[group]), 4, NO_GROUP),
    "FindCoordinator-3": RequestCase(lambda _topic, group: FindCoordinatorRequest(key=group), 3, NO_GROUP),
    "FindCoordinator-txn": RequestCase(
        lambda _topic, group: FindCoordinatorRequest(coordinator_keys=[group], key_type=1), 4, NO_TRANSACTION
    ),
    "DescribeGroups": RequestCase(lambda _topic, group: DescribeGroupsRequest(groups=[group]), 5, NO_GROUP),
    "DeleteGroups": RequestCase(lambda _topic, group: DeleteGroupsRequest(groups_names=[group]), 2, NO_GROUP),
    "InitProducerId": RequestCase(
        lambda _topic, _group: InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 4, NO_CLUSTER
    ),
    "InitProducerId-txn": RequestCase(
        lambda _topic, group: InitProducerIdRequest(transactional_id=group, transaction_timeout_ms=60_000),
        4,
        NO_TRANSACTION,
    ),
    "AddPartitionsToTxn": RequestCase(
        lambda topic, group: AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=group,
            v3_and_below_producer_id=1,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
        ),
        3,
        NO_TRANSACTION,
    ),
    "AddPartitionsToTxn-4": RequestCase(
        lambda topic, group: AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnTransaction(
                    transactional_id=group,
                    producer_id=1,
                    topics=[AddPartitionsToTxnTopic(name=topic, partitions=[0])],
                )
            ],
        ),
        4,
        NO_CLUSTER,
    ),
    "AddOffsetsToTxn": RequestCase(
        lambda _topic, group: AddOffsetsToTxnRequest(
            transactional_id=group, producer_id=1, producer_epoch=0, group_id=group
        ),
        3,
        NO_TRANSACTION,
    ),
    "TxnOffsetCommit": RequestCase(
        lambda topic, group: TxnOffsetCommitRequest(
            transactional_id=group,
            group_id=group,
            producer_id=1,
            producer_epoch=0,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata="")
                    ],
                )
            ],
        ),
        3,
        NO_TRANSACTION,
    ),
    "EndTxn": RequestCase(
        lambda _topic, group: EndTxnRequest(transactional_id=group, producer_id=1, producer_epoch=0, committed=True),
        3,
        NO_TRANSACTION,
    ),
    "FindCoordinator-share": RequestCase(
        lambda _topic, group: FindCoordinatorRequest(coordinator_keys=[f"{group}:{NO_TOPIC_ID}:0"], key_type=2),
        6,
        NO_CLUSTER,
    ),
    "ShareGroupHeartbeat": RequestCase(
        lambda topic, group: ShareGroupHeartbeatRequest(
            group_id=group, member_id="m", member_epoch=0, subscribed_topic_names=[topic]
        ),
        1,
        NO_GROUP,
    ),
    "ShareGroupDescribe": RequestCase(
        lambda _topic, group: ShareGroupDescribeRequest(group_ids=[group], include_authorized_operations=False),
        1,
        NO_GROUP,
    ),
    "DescribeShareGroupOffsets": RequestCase(
        lambda topic, group: DescribeShareGroupOffsetsRequest(
            groups=[
                DescribeShareGroupOffsetsRequestGroup(
                    group_id=group,
                    topics=[DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[0])],
                )
            ]
        ),
        1,
        NO_GROUP,
    ),
    "AlterShareGroupOffsets": RequestCase(
        lambda topic, group: AlterShareGroupOffsetsRequest(
            group_id=group,
            topics=[
                AlterShareGroupOffsetsRequestTopic(
                    topic_name=topic,
                    partitions=[AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)],
                )
            ],
        ),
        0,
        NO_GROUP,
    ),
    "DeleteShareGroupOffsets": RequestCase(
        lambda topic, group: DeleteShareGroupOffsetsRequest(
            group_id=group, topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=topic)]
        ),
        0,
        NO_GROUP,
    ),
    "ReadShareGroupState": RequestCase(
        lambda _topic, group: read_share_group_state.ReadShareGroupStateRequest(
            group_id=group,
            topics=[
                read_share_group_state.ReadStateData(
                    topic_id=bytes(16),
                    partitions=[read_share_group_state.PartitionData(partition=0, leader_epoch=0)],
                )
            ],
        ),
        0,
        NO_CLUSTER,
    ),
    "DescribeAcls": RequestCase(lambda _topic, _group: everything(), 3, NO_CLUSTER),
    "CreateAcls": RequestCase(
        lambda topic, _group: CreateAclsRequest(creations=[acl(TOPIC, topic, READ)]), 3, NO_CLUSTER
    ),
    "DeleteAcls": RequestCase(
        lambda topic, _group: DeleteAclsRequest(
            filters=[
                DeleteAclsFilter(
                    resource_type_filter=TOPIC,
                    resource_name_filter=topic,
                    principal_filter=None,
                    host_filter=None,
                    operation=1,
                    permission_type=1,
                )
            ]
        ),
        3,
        NO_CLUSTER,
    ),
    "DescribeUserScramCredentials": RequestCase(
        lambda _topic, _group: DescribeUserScramCredentialsRequest(users=[UserName(name="admin")]), 0, NO_CLUSTER
    ),
    "AlterUserScramCredentials": RequestCase(
        lambda _topic, _group: AlterUserScramCredentialsRequest(
            deletions=[ScramCredentialDeletion(name="unknown", mechanism=1)], upsertions=[]
        ),
        0,
        NO_CLUSTER,
    ),
    "DescribeClientQuotas": RequestCase(
        lambda _topic, _group: DescribeClientQuotasRequest(components=[], strict=False), 1, NO_CLUSTER
    ),
}
