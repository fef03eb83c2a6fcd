"""What errors say about a refused request: the operation, the resource, and the command that grants it."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from aiokproto.authorization import Asked, refusal
from aiokproto.broker.handlers import SERVED, find
from aiokproto.broker.security.acls import REFUSALS, ResourceType
from aiokproto.broker.security.authorization import BROKERS_ONLY
from aiokproto.codec import registry
from aiokproto.codec.registry_table import APIS
from aiokproto.config import ClusterConfig
from aiokproto.error_codes import ErrorCode, Policy
from aiokproto.errors import AuthorizationError, error_for

TOPIC, GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER, TRANSACTION = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
TOKEN = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED


def api(name: str) -> int:
    return registry.lookup(f"{name}Request").api_key  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize(
    ("code", "asked", "what", "arguments"),
    [
        (TOPIC, Asked(api("Produce"), topic="t"), "WRITE on topic 't'", "Write --topic t"),
        (GROUP, Asked(api("JoinGroup"), group="a group"), "READ on group 'a group'", "Read --group 'a group'"),
        (CLUSTER, Asked(api("InitProducerId")), "IDEMPOTENT_WRITE on cluster", "IdempotentWrite --cluster"),
        (
            TRANSACTION,
            Asked(api("EndTxn"), transactional_id="it's"),
            'WRITE on transactional id "it\'s"',
            "Write --transactional-id 'it'\\''s'",
        ),
        (
            TOKEN,
            Asked(api("DescribeDelegationToken")),
            "DESCRIBE on delegation token",
            "Describe --delegation-token …",
        ),
    ],
)
def test_texts(code: ErrorCode, asked: Asked, what: str, arguments: str) -> None:
    error = error_for(code, "Produce", None, asked)
    command = f"kafka-acls.sh --add --allow-principal User:… --operation {arguments}"
    assert str(error) == f"Produce: {code.name} ({code.value}): {what} is refused to this client; grant it: {command}"
    assert "because of this" in str(error_for(code, "", "because of this", asked))


def test_a_refusal_of_an_unknown_request_says_what_is_known() -> None:
    text = "access to the topic is refused to this client: grant the operation it needs with kafka-acls.sh"
    assert str(error_for(TOPIC)) == f"TOPIC_AUTHORIZATION_FAILED (29): {text}"


def test_the_command_has_the_principal_and_all_topics() -> None:
    asked = Asked(api("Fetch"), principal="User:alice")
    names = ("a", "b", "a", "c d")
    errors = [AuthorizationError(TOPIC, "Fetch", None, asked._replace(topic=name)) for name in names]
    together = AuthorizationError.together(errors)
    assert together.resource_names == ("a", "b", "c d")
    assert str(together).endswith(
        "READ on topics 'a', 'b', 'c d' is refused to User:alice; grant it: kafka-acls.sh --add --allow-principal "
        "User:alice --operation Read --topic a --topic b --topic 'c d'"
    )
    assert AuthorizationError.together(errors[:1]) is errors[0]
    assert str(pickle.loads(pickle.dumps(together))) == str(together)


@pytest.mark.parametrize(
    ("options", "principal"),
    [
        ({"sasl_mechanism": "PLAIN", "sasl_username": "alice"}, "User:alice"),
        ({"sasl_mechanism": "SCRAM-SHA-256", "sasl_username": "bob"}, "User:bob"),
        ({"sasl_mechanism": "PLAIN", "sasl_username": lambda: "later"}, ""),
    ],
)
def test_the_principal_is_that_of_the_user_name(options: dict[str, Any], principal: str) -> None:
    servers = {"bootstrap_servers": "localhost", "security_protocol": "SASL_SSL", "sasl_password": "x"}
    assert ClusterConfig.parse(servers | options).principal == principal


def test_attributes_survive_copies() -> None:
    error = error_for(TOPIC, "Produce", "the broker's words", Asked(0, topic="t"))
    for each in (error, copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert isinstance(each, AuthorizationError)
        assert (each.operation, each.resource_type, each.resource_name) == ("WRITE", "topic", "t")
        assert str(each) == str(error)


def test_a_code_that_is_about_something_else_has_no_refusal() -> None:
    assert refusal(ErrorCode.NOT_LEADER_OR_FOLLOWER, Asked(0, topic="t")) is None
    for code in ErrorCode:
        assert (refusal(code) is not None) == bool(code.policy & Policy.AUTHORIZATION)


NOT_NAMED = {
    # Only versions for brokers need this operation.
    ("AddPartitionsToTxn", ResourceType.CLUSTER),
    # IDEMPOTENT_WRITE is refused without this operation.
    ("InitProducerId", ResourceType.TOPIC),
}
"""Operations that errors of the client don't name."""


@pytest.mark.parametrize("key", SERVED, ids=registry.api_name)
def test_the_operations_are_those_that_a_broker_asks_for(key: int) -> None:
    """The operations are compared with the embedded broker's, which tests on real Kafka have confirmed."""
    handler = find(key)
    assert handler is not None
    for required in handler.requires:
        # Tokens of users have no separate error code, and clients don't send requests between brokers.
        if required.resource_type is ResourceType.USER or handler.requires == BROKERS_ONLY:
            continue
        found = refusal(REFUSALS[required.resource_type], Asked(key))
        assert found is not None
        if (APIS[key][1], required.resource_type) in NOT_NAMED:
            assert found.operation == ""
            continue
        declared = {each.operation.name for each in handler.requires if each.resource_type is required.resource_type}
        declared |= {each.unless.name for each in handler.requires if each.unless is not None}
        assert found.operation in declared
