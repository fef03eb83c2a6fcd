"""A broker is as open as its configuration says: options without effect, or that would open it, are refused."""

from __future__ import annotations

from typing import Any

import pytest

from aiokproto.broker import Broker, Security
from aiokproto.codec.messages.sasl_handshake import SaslHandshakeRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import ConfigurationError
from tests.broker.secure import USERS, authenticate, unsecured
from tests.broker.wire import connect

MECHANISMS = "sasl.enabled.mechanisms"
JWKS_URL = "sasl.oauthbearer.jwks.endpoint.url"
OF_USERS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
KEYS = {"AKIA1": "the secret"}


def validate(token: str) -> Any:
    """Validate a token."""
    raise ValueError(token)


class EmptyValidator:
    """A validator that is false, because it has a length."""

    def __len__(self) -> int:
        return 0

    def __call__(self, token: str) -> Any:
        raise ValueError(token)


async def offered(broker: Broker) -> list[str]:
    """Return the mechanisms that a broker lists for a client which requests none of them."""
    async with connect(broker) as wire:
        return (await wire.ask(SaslHandshakeRequest(mechanism="NONE"))).mechanisms


# ---- mechanisms


@pytest.mark.parametrize(
    ("arguments", "config", "expected"),
    [
        ({"users": USERS}, {}, OF_USERS),
        ({"token_validator": validate}, {}, ["OAUTHBEARER"]),
        ({"token_validator": EmptyValidator()}, {}, ["OAUTHBEARER"]),
        ({"aws_access_keys": KEYS}, {}, ["AWS_MSK_IAM"]),
        (
            {"users": USERS, "token_validator": validate, "aws_access_keys": KEYS},
            {},
            [*OF_USERS, "OAUTHBEARER", "AWS_MSK_IAM"],
        ),
        ({"users": USERS}, {MECHANISMS: "SCRAM-SHA-512"}, ["SCRAM-SHA-512"]),
        ({}, {MECHANISMS: "SCRAM-SHA-256"}, ["SCRAM-SHA-256"]),
        ({"unsecured_tokens": True}, {MECHANISMS: "OAUTHBEARER"}, ["OAUTHBEARER"]),
        ({"users": USERS, "unsecured_tokens": True}, {MECHANISMS: "PLAIN, OAUTHBEARER"}, ["PLAIN", "OAUTHBEARER"]),
    ],
)
async def test_a_mechanism_is_on_if_it_is_named_or_its_secret_is_given(
    arguments: Any, config: dict[str, Any], expected: list[str]
) -> None:
    async with Broker(security=Security("SASL_PLAINTEXT", **arguments), config=config) as broker:
        assert await offered(broker) == expected


async def test_an_unsigned_token_is_refused_where_passwords_are_used() -> None:
    async with Broker(security=Security("SASL_PLAINTEXT", users=USERS)) as broker, connect(broker) as wire:
        answer = await wire.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"))
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM


async def test_unsigned_tokens_are_accepted_with_consent() -> None:
    security = Security("SASL_PLAINTEXT", unsecured_tokens=True)
    async with Broker(security=security, config={MECHANISMS: "OAUTHBEARER"}) as broker, connect(broker) as wire:
        assert (await authenticate(wire, "OAUTHBEARER", unsecured("alice"))).error_code == 0


@pytest.mark.parametrize(
    ("arguments", "config", "text"),
    [
        ({}, {}, f"SASL_PLAINTEXT needs a mechanism to log in with: users for PLAIN and SCRAM; {JWKS_URL} or"),
        ({}, {MECHANISMS: ""}, "SASL_PLAINTEXT needs a mechanism to log in with"),
        ({"users": {}}, {}, "SASL_PLAINTEXT needs a mechanism to log in with"),
        ({"users": USERS}, {MECHANISMS: ""}, f"users has no effect: {MECHANISMS} does not name PLAIN or SCRAM-SHA-256"),
        ({}, {MECHANISMS: "PLAIN"}, f"{MECHANISMS}: PLAIN needs users"),
        ({}, {MECHANISMS: "OAUTHBEARER"}, f"{MECHANISMS}: OAUTHBEARER needs {JWKS_URL} or token_validator"),
        ({"users": USERS}, {MECHANISMS: "PLAIN,OAUTHBEARER"}, f"{MECHANISMS}: OAUTHBEARER needs"),
        ({"users": USERS}, {MECHANISMS: "PLAIN,AWS_MSK_IAM"}, f"{MECHANISMS}: AWS_MSK_IAM needs aws_access_keys"),
        (
            {"unsecured_tokens": True},
            {},
            f"unsecured_tokens has no effect: {MECHANISMS} does not name OAUTHBEARER",
        ),
        (
            {"users": USERS, "unsecured_tokens": True},
            {},
            f"unsecured_tokens has no effect: {MECHANISMS} does not name OAUTHBEARER",
        ),
        (
            {"users": USERS, "token_validator": validate},
            {MECHANISMS: "PLAIN"},
            f"token_validator has no effect: {MECHANISMS} does not name OAUTHBEARER",
        ),
        (
            {"users": USERS, "aws_access_keys": KEYS},
            {MECHANISMS: "PLAIN"},
            f"aws_access_keys has no effect: {MECHANISMS} does not name AWS_MSK_IAM",
        ),
        (
            {"users": USERS},
            {MECHANISMS: "PLAIN", JWKS_URL: "file:///keys.json"},
            f"{JWKS_URL} has no effect: {MECHANISMS} does not name OAUTHBEARER",
        ),
        (
            {"token_validator": validate, "unsecured_tokens": True},
            {MECHANISMS: "OAUTHBEARER"},
            "token_validator and unsecured_tokens are given: expected one of them",
        ),
        (
            {"unsecured_tokens": True},
            {MECHANISMS: "OAUTHBEARER", JWKS_URL: "file:///keys.json"},
            f"unsecured_tokens and {JWKS_URL} are given: expected one of them",
        ),
        (
            {"token_validator": validate},
            {JWKS_URL: "file:///keys.json"},
            f"token_validator and {JWKS_URL} are given: expected one of them",
        ),
    ],
)
def test_mechanisms_and_secrets_fit_together(arguments: Any, config: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        Broker(security=Security("SASL_PLAINTEXT", **arguments), config=config)
    assert str(raised.value).startswith(text)
    assert KEYS["AKIA1"] not in str(raised.value)


@pytest.mark.parametrize("value", ["false", 0, None])
def test_the_consent_to_unsigned_tokens_is_a_bool(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"unsecured_tokens=.*: expected True or False"):
        Security("SASL_PLAINTEXT", unsecured_tokens=value)
