"""Which values of messages ``repr`` hides: each field that may have a secret is known as such, or as none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from aiokproto import Client
from aiokproto.broker.config.options import BROKER, GROUP, PASSWORD, TOPIC, ClusterOptions, NodeOptions
from aiokproto.codec.config_names import may_be_secret
from aiokproto.codec.messages.alter_configs import AlterableConfig as WholeConfig
from aiokproto.codec.messages.create_topics import CreatableTopicConfig, CreatableTopicConfigs
from aiokproto.codec.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from aiokproto.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from aiokproto.codec.payloads.kraft_cluster import ConfigRecord
from aiokproto.codec.schema import Struct
from tests.clusters import BehaviourCluster
from tests.codec.fill import all_messages

SECRET = "zq-canary-zq"
SUSPECT = re.compile(
    r"passw|passphrase|secret|key|token|credential|jaas|hmac|salt|auth|value|private|certificate"
    r"|signature|(request|response)_data"
)
NONE_IN_THEM = {
    **dict.fromkeys(
        ("Coordinator.key", "FindCoordinatorRequest.coordinator_keys", "FindCoordinatorRequest.key"),
        "names of groups, transactional ids and share partitions",
    ),
    "DescribeConfigsResource.configuration_keys": "names of options",
    "DescribeConfigsSynonym.value": "null for what is sensitive, as the broker knows it",
    **dict.fromkeys(
        (
            "CreateDelegationTokenResponse.token_id",
            "DelegationTokenRecord.token_id",
            "DescribedDelegationToken.token_id",
            "RemoveDelegationTokenRecord.token_id",
        ),
        "the public part, as a user name",
    ),
    **dict.fromkeys(
        (
            f"{struct}.token_requester_principal_{part}"
            for struct in ("CreateDelegationTokenResponse", "DescribedDelegationToken")
            for part in ("type", "name")
        ),
        "who requested it",
    ),
    **dict.fromkeys(
        (f"{struct}.key" for struct in ("ClientQuotaRecord", "OpData", "QuotaRecord", "ValueData")), "names of quotas"
    ),
    **dict.fromkeys(
        (f"{struct}.salt" for struct in ("ScramCredentialUpsertion", "UserScramCredentialRecord")),
        "sent to anyone who begins to log in",
    ),
    **dict.fromkeys(
        (
            f"{struct}.{part}"
            for struct in ("ClientTag", "KeyValue", "LastAssignmentConfig", "TopicConfig")
            for part in ("key", "value")
        ),
        "options of internal topics and of assignments, and tags, of Kafka Streams",
    ),
}
"""Fields with such names that have no secret, and why."""


def structs(root: type[Struct]) -> Iterator[type[Struct]]:
    yield root
    for spec in root.fields():
        if spec.struct is not None:
            yield from structs(spec.struct)


ALL = {struct for message in all_messages() for struct in structs(message)}


def test_every_field_whose_name_may_mean_a_secret_is_classified() -> None:
    hidden: set[str] = set()
    shown: set[str] = set()
    for struct in ALL:
        for spec in struct.fields():
            if spec.kind in ("string", "bytes") and SUSPECT.search(spec.name):
                (hidden if struct._declared[spec.name].secret else shown).add(f"{struct.__name__}.{spec.name}")
    assert shown == set(NONE_IN_THEM)
    assert len(hidden) > 15


def test_no_repr_shows_a_secret() -> None:
    walked = 0
    for struct in ALL:
        for name, declared in struct._declared.items():
            if declared.secret:
                text = isinstance(declared.default, str) or declared.default is None
                values: list[Any] = [SECRET, SECRET.encode()] if text else [SECRET.encode()]
                for value in values:
                    values_of: dict[str, Any] = {name: value}
                    if "is_sensitive" in struct._declared:
                        values_of["is_sensitive"] = True
                    made = struct(**values_of)
                    assert SECRET not in repr(made), struct
                    assert f"{name}=<hidden>" in repr(made)
                    walked += 1
    assert walked > 15


@pytest.mark.parametrize("config", [AlterableConfig, WholeConfig, CreatableTopicConfig, ConfigRecord])
def test_the_value_of_an_option_is_hidden_if_it_is_a_password_or_unknown(config: Any) -> None:
    for name in ("ssl.keystore.password", "listener.name.a.sasl.jaas.config", "my.plugin.pin", "retention.sm", ""):
        assert SECRET not in repr(config(name=name, value=SECRET))
    assert "value='60000'" in repr(config(name="retention.ms", value="60000"))
    assert "value=None" in repr(config(name="ssl.keystore.password", value=None))


@pytest.mark.parametrize("config", [CreatableTopicConfigs, DescribeConfigsResourceResult])
def test_the_value_of_an_option_is_hidden_if_the_broker_says_so(config: Any) -> None:
    assert SECRET not in repr(config(name="retention.ms", value=SECRET, is_sensitive=True))
    assert SECRET in repr(config(name="my.plugin.color", value=SECRET))


def test_a_whole_request_shows_no_password() -> None:
    config = AlterableConfig(name="listener.name.a.ssl.keystore.password", value=SECRET)
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[config])
    assert SECRET not in repr(IncrementalAlterConfigsRequest(resources=[resource]))


def test_the_options_of_the_embedded_broker_are_shown_but_its_passwords() -> None:
    for table in (TOPIC, GROUP, ClusterOptions.TABLE, NodeOptions.TABLE):
        assert [name for name in table if may_be_secret(name)] == []
    assert [name for name, option in BROKER.items() if option.code == PASSWORD and not may_be_secret(name)] == []


@pytest.mark.extended
async def test_the_options_that_are_shown_are_those_that_kafka_can_alter(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name)
        for kind, name in ((2, topic), (4, str(cluster.broker_ids[0])), (32, f"g-{topic}"), (16, f"m-{topic}"))
    ]
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        found = await client.request(DescribeConfigsRequest(resources=resources))
    options = [each for result in found.results for each in result.configs]
    assert len(options) > 20
    assert [each.name for each in options if each.is_sensitive and not may_be_secret(each.name)] == []
    assert [
        each.name for each in options if not each.is_sensitive and not each.read_only and may_be_secret(each.name)
    ] == []
