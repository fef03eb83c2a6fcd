"""DescribeConfigs of a broker shows the security that is in force, even if it follows from arguments."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest

from aiokproto.broker import Broker, Security
from aiokproto.broker.config.options import STATIC_BROKER_CONFIG
from aiokproto.client import Client
from aiokproto.codec.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from tests.broker.secure import AUTHORIZER, USERS, Certificates

BROKER = 4
LOGIN = {"sasl_mechanism": "PLAIN", "sasl_username": "admin", "sasl_password": USERS["admin"]}
SASL: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", **LOGIN}


async def described(broker: Broker, **client: Any) -> dict[str, DescribeConfigsResourceResult]:
    """Return the broker's options by name."""
    async with Client(bootstrap_servers=broker.bootstrap_servers, **client) as admin:
        resource = DescribeConfigsResource(resource_type=BROKER, resource_name="0", configuration_keys=None)
        (result,) = (await admin.request(DescribeConfigsRequest(resources=[resource]), node=0)).results
        return {each.name: each for each in result.configs}


@pytest.mark.parametrize(
    ("named", "expected"),
    [(None, "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"), ("SCRAM-SHA-512,PLAIN", "SCRAM-SHA-512,PLAIN")],
)
async def test_the_mechanisms_that_are_enabled_are_shown(named: str | None, expected: str) -> None:
    config = {"sasl.enabled.mechanisms": named} if named is not None else {}
    async with Broker(security=Security("SASL_PLAINTEXT", users=USERS), config=config) as broker:
        shown = (await described(broker, **SASL))["sasl.enabled.mechanisms"]
    assert (shown.value, shown.config_source, shown.read_only) == (expected, STATIC_BROKER_CONFIG, True)


async def test_without_sasl_there_are_none() -> None:
    async with Broker() as broker:
        found = await described(broker)
    assert found["sasl.enabled.mechanisms"].value == ""
    assert found["security.inter.broker.protocol"].value == "PLAINTEXT"
    assert found["listener.security.protocol.map"].value == "PLAINTEXT:PLAINTEXT"


@pytest.mark.parametrize(
    ("mode", "expected"),
    [(ssl.CERT_NONE, "none"), (ssl.CERT_OPTIONAL, "requested"), (ssl.CERT_REQUIRED, "required")],
)
async def test_whether_a_context_asks_for_certificates_is_shown(
    mode: ssl.VerifyMode, expected: str, tmp_path: Path
) -> None:
    certificates = Certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.keystore)
    context.load_verify_locations(certificates.authority)
    context.verify_mode = mode
    broker = Broker(security=Security("SSL", ssl_context=context))
    async with broker:
        options = {"security_protocol": "SSL", "ssl_cafile": certificates.authority}
        if mode is ssl.CERT_REQUIRED:
            options |= {"ssl_certfile": certificates.keystore}
        found = await described(broker, **options)
    assert found["ssl.client.auth"].value == expected
    assert found["listener.security.protocol.map"].value == "SSL:SSL"


async def test_the_authorizer_is_shown_and_secrets_are_not() -> None:
    config = {
        "authorizer.class.name": AUTHORIZER,
        "super.users": "User:admin",
        "delegation.token.secret.key": "s3cr3t",
    }
    async with Broker(security=Security("SASL_PLAINTEXT", users=USERS), config=config) as broker:
        found = await described(broker, **SASL)
    assert found["authorizer.class.name"].value == AUTHORIZER
    assert found["super.users"].value == "User:admin"
    hidden = found["delegation.token.secret.key"]
    assert (hidden.value, hidden.is_sensitive) == (None, True)
    assert "s3cr3t" not in repr(found)
    assert not [each for each in found.values() if each.value is not None and USERS["admin"] in each.value.split(",")]
