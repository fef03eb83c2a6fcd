"""What clients send and the broker repeats, in responses and in the log, is short and seldom."""

from __future__ import annotations

from typing import Any

import pytest

from aiokproto.broker import Broker, Security, handlers
from aiokproto.broker.server.socket_server import MAX_LOGGED
from aiokproto.codec.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from aiokproto.codec.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from aiokproto.codec.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from aiokproto.codec.messages.create_acls import AclCreation, CreateAclsRequest
from aiokproto.codec.messages.create_topics import CreatableTopic, CreateTopicsRequest
from aiokproto.codec.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from aiokproto.codec.messages.describe_groups import DescribeGroupsRequest
from aiokproto.codec.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest
from aiokproto.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.codec.messages.share_group_describe import ShareGroupDescribeRequest
from aiokproto.codec.messages.streams_group_describe import StreamsGroupDescribeRequest
from aiokproto.codec.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from aiokproto.codec.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from aiokproto.codec.schema import Request
from aiokproto.error_codes import ErrorCode
from tests.broker.secure import (
    DESCRIBE,
    GROUP,
    PREFIXED,
    READ,
    TOPIC,
    acl,
    authenticate,
    grant,
    guarded,
    logged_in,
    unsecured,
)
from tests.broker.wire import connect

LONG = "n" * 32_767
REPEATED: dict[str, tuple[Request[Any], int]] = {
    "FindCoordinator": (FindCoordinatorRequest(coordinator_keys=[LONG]), 4),
    "FindCoordinator v3": (FindCoordinatorRequest(key=LONG), 3),
    "FindCoordinator of an unknown type": (FindCoordinatorRequest(coordinator_keys=[LONG], key_type=9), 4),
    "CreateTopics": (CreateTopicsRequest(topics=[CreatableTopic(name=LONG, num_partitions=1)]), 7),
    "DescribeGroups": (DescribeGroupsRequest(groups=[LONG]), 6),
    "ConsumerGroupDescribe": (ConsumerGroupDescribeRequest(group_ids=[LONG]), 1),
    "ShareGroupDescribe": (ShareGroupDescribeRequest(group_ids=[LONG]), 1),
    "StreamsGroupDescribe": (StreamsGroupDescribeRequest(group_ids=[LONG]), 1),
    "ConsumerGroupHeartbeat": (
        ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="m", rebalance_timeout_ms=1, server_assignor=LONG, topic_partitions=[]
        ),
        1,
    ),
    "DescribeConfigs": (
        DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=4, resource_name=LONG)]),
        4,
    ),
    "IncrementalAlterConfigs": (
        IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=2,
                    resource_name="t",
                    configs=[AlterableConfig(name=LONG, config_operation=0, value="x")],
                )
            ]
        ),
        1,
    ),
    "UpdateFeatures": (UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey(feature=LONG, max_version_level=1)]), 1),
    "CreateAcls": (
        CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=2, resource_name="t", principal=LONG, host="*", operation=3, permission_type=3
                )
            ]
        ),
        3,
    ),
    "DescribeUserScramCredentials": (DescribeUserScramCredentialsRequest(users=[UserName(name=LONG)]), 0),
    "AlterUserScramCredentials": (
        AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name=LONG, mechanism=1)]),
        0,
    ),
}


@pytest.mark.parametrize("user", ["admin", "alice"])
@pytest.mark.parametrize("name", REPEATED)
async def test_a_long_name_is_answered(name: str, user: str, caplog: pytest.LogCaptureFixture) -> None:
    """With a text that is short enough to be encoded, or that leaves the name out."""
    request, version = REPEATED[name]
    async with guarded() as broker, logged_in(broker, user) as wire:
        await broker.create_topic("t")
        await wire.ask(request, version)
    assert not caplog.records


async def test_thousands_of_topics_that_cannot_be_created_are_answered() -> None:
    """A streams member with a topology whose internal topics are missing."""
    stores = [TopicInfo(name=f"t-{number:040}", partitions=0, replication_factor=1) for number in range(2000)]
    topology = Topology(
        subtopologies=[Subtopology(subtopology_id="0", source_topics=["t"], state_changelog_topics=stores)]
    )
    request = StreamsGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        rebalance_timeout_ms=30_000,
        topology=topology,
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="p",
        client_tags=[],
    )
    async with guarded() as broker, logged_in(broker, "admin") as admin, logged_in(broker, "alice") as alice:
        await broker.create_topic("t")
        await grant(admin, acl(GROUP, "g", READ), acl(TOPIC, "t", DESCRIBE, pattern=PREFIXED))
        answer = await alice.ask(request)
        assert answer.error_code == 0
        assert any("cannot be created" in each.status_detail for each in answer.status or [])


async def test_a_long_authorization_id_is_answered() -> None:
    token = unsecured("alice").replace(b"n,,", b"n,a=" + LONG.encode() * 3 + b",")
    config = {"sasl.enabled.mechanisms": "OAUTHBEARER"}
    security = Security("SASL_PLAINTEXT", unsecured_tokens=True)
    async with Broker(security=security, config=config) as broker, connect(broker) as wire:
        answer = await authenticate(wire, "OAUTHBEARER", token)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "authorization id" in (answer.error_message or "")


async def test_errors_of_handlers_are_logged_as_seldom_as_closed_connections(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    handler = handlers.find(MetadataRequest.api_key)
    assert handler is not None
    monkeypatch.setattr("aiokproto.broker.server.dispatch.find", lambda _: handler._replace(handle=fail))
    async with Broker() as broker:
        for _ in range(3 * MAX_LOGGED):
            async with connect(broker) as wire:
                wire.send(MetadataRequest(topics=None))
                assert await wire.closed()
    assert sum(record.exc_info is not None for record in caplog.records) == MAX_LOGGED
    assert caplog.records[-1].getMessage().startswith("broker 0 closed 20 more connections")
