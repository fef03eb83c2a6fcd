"""The options of SASL."""

from __future__ import annotations

from typing import Any

import pytest

from aiokproto.config import ClusterConfig
from aiokproto.errors import ConfigurationError
from aiokproto.security import Plain, SaslExchange

LOGIN = {"sasl_username": "alice", "sasl_password": "s3cret"}


class Own:
    """A mechanism of the application's own."""

    name = "OWN"

    def exchange(self, host: str) -> SaslExchange:
        raise NotImplementedError


def parse(**options: Any) -> ClusterConfig:
    return ClusterConfig.parse({"bootstrap_servers": "localhost", **options})


@pytest.mark.parametrize(
    ("given", "name"),
    [("PLAIN", "PLAIN"), ("plain", "PLAIN"), ("SCRAM-SHA-256", "SCRAM-SHA-256"), ("scram-sha-512", "SCRAM-SHA-512")],
)
def test_a_mechanism_by_name(given: str, name: str) -> None:
    for protocol in ("SASL_PLAINTEXT", "sasl_ssl"):
        config = parse(security_protocol=protocol, sasl_mechanism=given, **LOGIN)
        assert config.sasl is not None
        assert config.sasl.name == name
        assert (config.tls is not None) == (protocol == "sasl_ssl")
        assert "s3cret" not in repr(config)


def test_a_mechanism_as_an_object() -> None:
    for mechanism in (Plain("alice", "s3cret"), Own()):
        assert parse(security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism).sasl is mechanism


SASL = {"security_protocol": "SASL_SSL"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (SASL, "sasl_mechanism is missing: 'PLAIN' or"),
        ({**SASL, "sasl_mechanism": "DIGEST-MD5", **LOGIN}, "sasl_mechanism='DIGEST-MD5': expected 'PLAIN' or"),
        ({**SASL, "sasl_mechanism": 5}, "int is no SaslMechanism"),
        ({**SASL, "sasl_mechanism": Own}, "type is no SaslMechanism"),
        ({**SASL, "sasl_mechanism": Own(), **LOGIN}, "sasl_password has no effect: sasl_mechanism is an object"),
        ({**SASL, "sasl_mechanism": "PLAIN"}, r"sasl_username and sasl_password are missing \(PLAIN\)"),
        ({**SASL, "sasl_mechanism": "PLAIN", "sasl_username": "a"}, r"sasl_password is missing \(PLAIN\)"),
        ({**SASL, "sasl_mechanism": "PLAIN", **LOGIN, "sasl_password": 5}, "sasl_password: expected text"),
        (
            {"sasl_mechanism": "PLAIN", **LOGIN},
            "security_protocol is 'PLAINTEXT': set it to 'SASL_SSL', or without TLS",
        ),
        ({"security_protocol": "SSL", **LOGIN}, "security_protocol is 'SSL': set it to 'SASL_SSL'"),
        (
            {"sasl_mechanism": "PLAIN", "ssl_cafile": "ca.pem", **LOGIN},
            "^sasl_mechanism and ssl_cafile are given, but security_protocol is 'PLAINTEXT': set it to 'SASL_SSL'$",
        ),
        (
            {"security_protocol": "SSL", "ssl_cafile": "ca.pem", **LOGIN},
            "^sasl_password is given, but security_protocol is 'SSL': set it to 'SASL_SSL'$",
        ),
        (
            {"security_protocol": "SASL_PLAINTEXT", "ssl_cafile": "ca.pem", **LOGIN},
            "^ssl_cafile is given, but security_protocol is 'SASL_PLAINTEXT': set it to 'SASL_SSL'$",
        ),
        (
            {"ssl_cafile": "ca.pem"},
            "^ssl_cafile is given, but security_protocol is 'PLAINTEXT': set it to 'SSL'$",
        ),
        ({"security_protocol": "SASL"}, "security_protocol='SASL': expected"),
    ],
)
def test_options_that_contradict_each_other(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text) as raised:
        parse(**options)
    assert "s3cret" not in str(raised.value)
