"""Requests that are refused: the response names each part of the request, and says what isn't known."""

from __future__ import annotations

from collections.abc import Iterator

from aiokproto.codec.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from aiokproto.codec.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from aiokproto.codec.messages.begin_quorum_epoch import BeginQuorumEpochRequest, LeaderEndpoint
from aiokproto.codec.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from aiokproto.codec.messages.leave_group import LeaveGroupRequest, MemberIdentity
from aiokproto.codec.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from aiokproto.codec.refusal import refuse
from aiokproto.codec.schema import Struct
from aiokproto.error_codes import ErrorCode
from tests.codec.fill import all_messages

DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def structs() -> Iterator[type[Struct]]:
    waiting: list[type[Struct]] = list(all_messages())
    while waiting:
        struct = waiting.pop()
        yield struct
        waiting += [spec.struct for spec in struct.fields() if spec.struct is not None]


def test_the_items_of_all_lists_are_in_one_response() -> None:
    request = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name="ann", mechanism=1)],
        upsertions=[
            ScramCredentialUpsertion(name="bob", mechanism=1, iterations=4096, salt=b"s", salted_password=b"p")
        ],
    )
    answer = refuse(request, 0, DENIED, "no")
    assert answer is not None
    assert [(result.user, result.error_code, result.error_message) for result in answer.results] == [  # type: ignore[attr-defined]
        ("ann", DENIED, "no"),
        ("bob", DENIED, "no"),
    ]


def test_lists_of_other_entities_are_not_in_the_response() -> None:
    request = BeginQuorumEpochRequest(leader_endpoints=[LeaderEndpoint(name="a", host="b", port=1)])
    answer = refuse(request, 1, DENIED)
    assert answer is not None
    assert answer.topics == []  # type: ignore[attr-defined]


def test_entities_that_a_request_only_refers_to_are_not_in_the_response() -> None:
    request = FetchRequest(
        topics=[FetchTopic(topic="t", partitions=[FetchPartition(partition=3)])],
        forgotten_topics_data=[ForgottenTopic(topic="old", partitions=[0])],
    )
    answer = refuse(request, 11, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert answer is not None
    [topic] = answer.responses  # type: ignore[attr-defined]
    [partition] = topic.partitions
    assert (topic.topic, partition.partition_index) == ("t", 3)
    assert (partition.high_watermark, partition.error_code) == (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def test_members_are_named_by_both_their_names() -> None:
    members = [MemberIdentity(member_id="m-1", group_instance_id="static"), MemberIdentity(member_id="m-2")]
    answer = refuse(LeaveGroupRequest(group_id="g", members=members), 5, DENIED)
    assert answer is not None
    assert [(member.member_id, member.group_instance_id) for member in answer.members] == [  # type: ignore[attr-defined]
        ("m-1", "static"),
        ("m-2", None),
    ]


def test_keys_are_not_roles() -> None:
    """A field declares what it names in one way only."""
    both = [(struct.__name__, spec.name) for struct in structs() for spec in struct.fields() if spec.key and spec.role]
    assert not both


def test_a_refused_topic_is_not_the_error_of_its_group() -> None:
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
    answer = refuse(request, 8, DENIED, of_parts=True)
    assert isinstance(answer, OffsetFetchResponse)
    (group,) = answer.groups
    assert (group.group_id, group.error_code, group.topics[0].partitions[0].error_code) == ("g", 0, DENIED)
    whole = refuse(request, 8, DENIED)
    assert isinstance(whole, OffsetFetchResponse)
    assert whole.groups[0].error_code == DENIED


def test_topics_that_a_request_lists_by_directory_are_named() -> None:
    topics = [AlterReplicaLogDirTopic(name=each, partitions=[0, 1]) for each in "ab"]
    answer = refuse(AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="/d", topics=topics)]), 2, DENIED)
    assert isinstance(answer, AlterReplicaLogDirsResponse)
    assert [
        (topic.topic_name, [(each.partition_index, each.error_code) for each in topic.partitions])
        for topic in answer.results
    ] == [(name, [(0, DENIED), (1, DENIED)]) for name in "ab"]
