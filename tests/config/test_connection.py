"""Options: valid values, and the errors for others."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from aiokproto.config import ClusterConfig, ConnectionOptions, connection, parse_addresses, values
from aiokproto.errors import ConfigurationError
from aiokproto.security.options import SASL_OPTIONS
from aiokproto.security.tls.options import TLS_OPTIONS


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("a:1", (("a", 1),)),
        (" a:1 , b:2,", (("a", 1), ("b", 2))),
        ("a", (("a", 9092),)),
        ("[::1]:9093,[fe80::1]", (("::1", 9093), ("fe80::1", 9092))),
        (["a:1", "b:65535", "a:1"], (("a", 1), ("b", 65535))),
    ],
)
def test_addresses(given: object, read: tuple[tuple[str, int], ...]) -> None:
    assert parse_addresses("bootstrap_servers", given) == read


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("a:0", "'a:0' has the port '0': expected 1 to 65535"),
        ("a:65536", "has the port '65536'"),
        ("a:kafka", "has the port 'kafka'"),
        ("a:", "has the port ''"),
        ("a:²", "has the port '²'"),
        (":9092", "has no usable host"),
        ("a;b:9092", "'a;b:9092' has a semicolon: separate addresses by commas"),
        ("a b:1", "has no usable host"),
        ("::1", r"several colons: .*IPv6 is written '\[::1\]:9092'"),
        ("[::1", "IPv6 is written"),
        ("[::1]9092", "IPv6 is written"),
        ("http://a:1", "is a URL"),
        ("kafka://user:secret@a:1", "'kafka://…@a:1' is a URL"),
        ("", "has no address"),
        ([], "has no address"),
        (9092, "bootstrap_servers=9092: expected 'host:port'"),
        (["a:1", 2], "expected 'host:port'"),
        (b"a:1", "expected 'host:port'"),
    ],
)
def test_bad_addresses(given: object, error: str) -> None:
    with pytest.raises(ConfigurationError, match=error):
        parse_addresses("bootstrap_servers", given)


def test_defaults() -> None:
    parsed = ClusterConfig.parse({"bootstrap_servers": "a:1"})
    assert parsed == ClusterConfig(bootstrap_servers=(("a", 1),))
    assert parsed.tls is None


def test_options_are_milliseconds_and_the_code_has_seconds() -> None:
    parsed = ClusterConfig.parse({"bootstrap_servers": "a:1", "request_timeout_ms": 1500, "retry_backoff_ms": 20.5})
    assert parsed.request_timeout == 1.5
    assert parsed.retry_backoff == 0.0205


def test_every_option_is_read() -> None:
    """An option that is declared but not read would be silently ignored."""
    read = {*connection._CHECKS, "bootstrap_servers", "security_protocol", "ssl_context", *TLS_OPTIONS}
    read |= {"sasl_mechanism", *SASL_OPTIONS, "proxy_url", "no_proxy", "proxy_ssl_context"}
    assert set(ConnectionOptions.__annotations__) == read


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, "bootstrap_servers is missing"),
        ({"bootstrap_server": "a"}, "unknown option 'bootstrap_server'; did you mean 'bootstrap_servers'?"),
        ({"request.timeout.ms": 1}, "did you mean 'request_timeout_ms'?"),
        ({"zzz": 1}, "unknown option 'zzz'; valid options: address_map, application_metrics, "),
        ({"request_timeout_ms": 0}, "request_timeout_ms=0: expected a number of milliseconds above 0"),
        ({"request_timeout_ms": -1}, "request_timeout_ms=-1: expected a number of at least 0"),
        ({"request_timeout_ms": "5"}, "request_timeout_ms='5': expected a number"),
        ({"request_timeout_ms": True}, "request_timeout_ms=True: expected a number"),
        ({"request_timeout_ms": float("nan")}, "request_timeout_ms=nan: expected a number"),
        ({"client_id": ""}, "client_id='': expected text of 1 to 32767 bytes"),
        ({"client_id": "\ud800"}, r"client_id='\ud800': expected text of 1 to 32767 bytes"),
        ({"client_rack": "\ud800"}, r"client_rack='\ud800': expected text of at most 32767 bytes"),
        ({"max_response_size": 1000}, "max_response_size=1000: expected a number of at least 65536"),
        ({"max_response_size": 1e6}, "max_response_size=1000000.0: expected a whole number"),
        ({"security_protocol": "TLS"}, "security_protocol='TLS': expected 'PLAINTEXT' or 'SSL' or 'SASL_PLAINTEXT'"),
        ({"ssl_context": "x"}, "ssl_context='x': expected an ssl.SSLContext"),
        ({"retry_backoff_ms": 5000}, "retry_backoff_max_ms=1000 is less than retry_backoff_ms=5000"),
        ({"address_map": 3}, "address_map=3: expected a function, or None"),
    ],
)
def test_bad_options(options: dict[str, Any], error: str) -> None:
    if options and not any(name.startswith("bootstrap") for name in options):
        options = {"bootstrap_servers": "a:1", **options}
    with pytest.raises(ConfigurationError) as caught:
        ClusterConfig.parse(options)
    assert error in str(caught.value)


async def test_tls() -> None:
    secured = ClusterConfig.parse({"bootstrap_servers": "a:1", "security_protocol": "ssl"})
    assert secured.tls is not None
    context = await secured.tls.context()
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    own = ssl.create_default_context()
    given = ClusterConfig.parse({"bootstrap_servers": "a:1", "security_protocol": "SSL", "ssl_context": own})
    assert given.tls is not None
    assert await given.tls.context() is own
    with pytest.raises(ConfigurationError, match="security_protocol is 'PLAINTEXT'"):
        ClusterConfig.parse({"bootstrap_servers": "a:1", "ssl_context": own})


def test_checks_shared_by_producer_and_consumer() -> None:
    assert values.one_of("acks", "ALL", ("all", 0, 1)) == "all"
    assert values.boolean("x", False) is False
    assert values.positive("x", 1) == 1
    for check, value in ((values.boolean, "false"), (values.positive, 0), (values.integer, 1.5)):
        with pytest.raises(ConfigurationError, match=r"x=.*: expected"):
            check("x", value)
