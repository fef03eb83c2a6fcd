"""Wrong arguments of an embedded cluster are refused before anything is started."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from aiokproto.broker import Cluster, Security
from aiokproto.errors import ConfigurationError

CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"brokers": 0}, "brokers=0: expected a number of at least 1"),
        ({"brokers": "3"}, "brokers='3': expected a whole number"),
        ({"port": -1}, "port=-1: expected a number of at least 0"),
        ({"port": "9092"}, "port='9092': expected a whole number"),
        ({"port": 65534, "brokers": 3}, "port=65534 leaves no room for 3 brokers below 65536"),
        ({"port": 65536, "brokers": 1}, "port=65536 leaves no room for 1 broker below 65536"),
        ({"clock": 5}, "clock=5: expected a VirtualClock"),
        ({"host": "0.0.0.0"}, "'0.0.0.0' is no host to connect to: set advertised_host"),
        ({"advertised_host": "::"}, "'::' is no host to connect to"),
        (
            {"config": {"ssl.keystore.location": "x.pem"}},
            r"ssl\.keystore\.location has no effect: the security protocol is PLAINTEXT, not SSL$",
        ),
        (
            {"config": {"sasl.enabled.mechanisms": "PLAIN"}, "security": Security("SSL")},
            r"sasl\.enabled\.mechanisms has no effect: the security protocol is SSL, not SASL_SSL or SASL_PLAINTEXT",
        ),
        (
            {"config": {"ssl.client.auth": "none"}, "security": Security("SSL", ssl_context=CONTEXT)},
            r"ssl\.client\.auth has no effect: ssl_context is given",
        ),
        ({"config": {"super.users": "User:a"}}, r"super\.users has no effect without authorizer\.class\.name"),
        ({"security": "SSL"}, "security='SSL': expected a Security"),
        ({"as_version": 2.8}, "as_version=2.8 is no release of Kafka; expected one of 0.8.2, "),
        ({"as_version": {0: "new"}}, "as_version: 0 has the versions 'new', expected e.g. '0-7'"),
        ({"as_version": {0: 7}}, "as_version: 0 has the versions 7, expected e.g. '0-7'"),
        ({"as_version": {"Produce": "0-7"}}, "'Produce' is not an API; pass its request class, such as Produce"),
        ({"as_version": "5.0"}, "as_version='5.0' is no release of Kafka; expected one of 0.8.2, "),
    ],
)
def test_wrong_arguments(options: Any, error: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{error}"):
        Cluster(**options)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"users": {"a": "s3cret"}}, "users has no effect: the security protocol is PLAINTEXT, not SASL_SSL or SASL_"),
        (
            {"protocol": "SSL", "aws_access_keys": {"AKIA": "s3cret"}},
            "aws_access_keys has no effect: .* is SSL, not",
        ),
        ({"token_validator": lambda token: None}, "token_validator has no effect"),
        ({"protocol": "SASL_PLAINTEXT", "ssl_context": CONTEXT}, "ssl_context has no effect: .*, not SASL_SSL$"),
    ],
)
def test_security_that_would_have_no_effect(arguments: Any, error: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{error}") as raised:
        Security(**arguments)
    assert "s3cret" not in str(raised.value)
