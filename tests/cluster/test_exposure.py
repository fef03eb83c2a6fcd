"""A client warns of the protection that its options leave out: once, when it starts."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any

import pytest

from aiokproto import Client, Consumer, Producer, ShareConsumer
from aiokproto.broker import Broker, Security
from aiokproto.cluster.exposure import EXPOSURES, REPORTED_ELSEWHERE, exposures
from aiokproto.config import ClusterConfig
from tests.broker.secure import USERS

REMOTE = "kafka.example.org:9092"


def context(*, mode: ssl.VerifyMode = ssl.CERT_REQUIRED, host: bool = True) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = host and mode is not ssl.CERT_NONE
    made.verify_mode = mode
    return made


def login(mechanism: str, protocol: str = "SASL_PLAINTEXT", servers: str = REMOTE) -> dict[str, Any]:
    secrets: dict[str, Any] = {"sasl_username": "alice", "sasl_password": "s3cret"}
    if mechanism == "OAUTHBEARER":
        secrets = {"sasl_oauth_token": lambda: "s3cret"}
    if mechanism == "AWS_MSK_IAM":
        secrets = {"sasl_aws_region": "eu-central-1", "sasl_aws_credentials": lambda: "s3cret"}
    return {"bootstrap_servers": servers, "security_protocol": protocol, "sasl_mechanism": mechanism, **secrets}


def tls(**options: Any) -> dict[str, Any]:
    return {"bootstrap_servers": REMOTE, "security_protocol": "SSL", **options}


def proxied(url: str, **options: Any) -> dict[str, Any]:
    # There is no TLS to the brokers, because Python 3.10 can't have it through such a proxy.
    return {"bootstrap_servers": REMOTE, "proxy_url": url, **options}


def tokens(url: str, **options: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": REMOTE,
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_endpoint_url": url,
        "sasl_oauthbearer_client_credentials_client_id": "client",
        "sasl_oauthbearer_client_credentials_client_secret": "s3cret",
        **options,
    }


CANONICAL = {"client_dns_lookup": "resolve_canonical_bootstrap_servers_only"}

EXPOSED: dict[str, list[dict[str, Any]]] = {
    "readable login": [
        login("PLAIN"),
        login("OAUTHBEARER"),
        login("AWS_MSK_IAM"),
        login("PLAIN", servers=f"127.0.0.1:9092,{REMOTE}"),
        login("PLAIN", servers="192.168.0.1:9092"),
    ],
    "any certificate": [
        tls(ssl_context=context(mode=ssl.CERT_NONE)),
        tls(ssl_context=context(mode=ssl.CERT_NONE), **CANONICAL),
        login("PLAIN", "SASL_SSL") | {"ssl_context": context(mode=ssl.CERT_NONE)},
        tls(ssl_context=context(mode=ssl.CERT_NONE)) | {"bootstrap_servers": "localhost:9092"},
    ],
    "any host": [
        tls(ssl_check_hostname=False),
        tls(ssl_endpoint_identification_algorithm=""),
        tls(ssl_context=context(host=False)),
        tls(ssl_context=context(mode=ssl.CERT_OPTIONAL, host=False)),
        login("SCRAM-SHA-512", "SASL_SSL") | {"ssl_check_hostname": False},
        tls(ssl_check_hostname=False, **CANONICAL),
    ],
    "host named by DNS": [tls(**CANONICAL), tls(ssl_context=context(), **CANONICAL)],
    "readable token request": [
        tokens("http://login.example.org/token", sasl_oauth_allow_http=True),
        tokens("http://192.168.0.1/token", sasl_oauth_allow_http=True),
    ],
    "any token endpoint": [
        tokens("https://login.example.org/token", sasl_oauth_ssl_context=context(mode=ssl.CERT_NONE))
    ],
    "any proxy": [
        proxied("https://proxy.example.org:3128", proxy_ssl_context=context(mode=ssl.CERT_NONE)),
    ],
}
"""Options by the one protection that they leave out."""

PROTECTED: list[dict[str, Any]] = [
    {"bootstrap_servers": REMOTE},
    {"bootstrap_servers": REMOTE, **CANONICAL},
    login("PLAIN", servers="127.0.0.1:9092,[::1]:9092,localhost:9092,127.1.2.3"),
    login("SCRAM-SHA-256"),
    login("PLAIN", "SASL_SSL"),
    login("OAUTHBEARER", "SASL_SSL"),
    tls(),
    tls(ssl_context=context()),
    # It's the same to a client: it verifies the broker's certificate.
    tls(ssl_context=context(mode=ssl.CERT_OPTIONAL)),
    tls(ssl_server_hostname="kafka.example.org", **CANONICAL),
    tokens("https://login.example.org/token"),
    tokens("https://login.example.org/token", sasl_oauth_ssl_context=context()),
    tokens("http://127.0.0.1:8080/token"),
    proxied("https://proxy.example.org:3128"),
    proxied("https://proxy.example.org:3128", proxy_ssl_context=context()),
    tls(proxy_url="http://proxy.example.org:3128"),
]


def test_every_exposure_has_options_here() -> None:
    assert list(EXPOSED) == list(EXPOSURES)


@pytest.mark.parametrize(("name", "number"), [(name, each) for name in EXPOSED for each in range(len(EXPOSED[name]))])
async def test_options_that_leave_protection_out(name: str, number: int) -> None:
    options = EXPOSED[name][number]
    assert exposures(ClusterConfig.parse(options)) == [f"client 'aiokproto': {EXPOSURES[name].text}"]


@pytest.mark.parametrize("number", range(len(PROTECTED)))
async def test_options_that_leave_nothing_out(number: int) -> None:
    assert exposures(ClusterConfig.parse(PROTECTED[number])) == []


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "aiokproto.security"]


@pytest.mark.parametrize("kind", [Client, Producer, Consumer, ShareConsumer])
async def test_a_client_warns_once_and_not_for_each_connection(
    kind: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiokproto.cluster.exposure.is_loopback", lambda host: False)
    security = Security("SASL_PLAINTEXT", users=USERS)
    more = {"group_id": "g"} if kind is ShareConsumer else {}
    async with Broker(security=security) as broker:
        await broker.create_topic("t")
        options: dict[str, Any] = login("PLAIN", servers=broker.bootstrap_servers) | {
            "sasl_password": USERS["alice"],
            **more,
        }
        with caplog.at_level(logging.WARNING):
            client = kind(client_id="mine", **options)
            assert warned(caplog) == []
            async with client:
                assert warned(caplog) == [f"client 'mine': {EXPOSURES['readable login'].text}"]
                await broker.stop_broker(0)
                await broker.start_broker(0)
                if isinstance(client, Producer):
                    await client.send("t", b"1")
            assert len(warned(caplog)) == 1
            async with kind(**options):
                assert len(warned(caplog)) == 2
    assert "s3cret" not in caplog.text


async def test_clients_of_a_context_that_reports_elsewhere_do_not_warn(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiokproto.cluster.exposure.is_loopback", lambda host: False)

    async def quiet(options: dict[str, Any]) -> None:
        REPORTED_ELSEWHERE.set(True)
        async with Client(**options):
            pass

    async with Broker(security=Security("SASL_PLAINTEXT", users=USERS)) as broker:
        options: dict[str, Any] = login("PLAIN", servers=broker.bootstrap_servers) | {"sasl_password": USERS["alice"]}
        await asyncio.create_task(quiet(options))
        assert warned(caplog) == []
        async with Client(**options):
            assert len(warned(caplog)) == 1
