"""TLS: certificates in every format, and certificates that a broker rejects, on the embedded broker and real Kafka."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aiokproto import Client, Consumer, Producer
from aiokproto.codec.messages.create_topics import CreatableTopic, CreateTopicsRequest
from aiokproto.errors import AuthenticationError, BrokerConnectionError, NotKafkaError
from tests.behaviour.tls import USER, USER_PASSWORD, TlsCluster, tls_brokers
from tests.conftest import ON_BOTH
from tests.kafka.pool import KafkaPool
from tests.net.proxies import proxy
from tests.security.certificates import PASSWORD, Files, add_java_stores, make
from tools.setup.system import find_java


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """The certificates of the embedded brokers."""
    files = make(tmp_path_factory.mktemp("tls"))
    if find_java() is not None:
        add_java_stores(files, "broker", "client")
    return files


@pytest.fixture(params=ON_BOTH)
async def tls_cluster(request: pytest.FixtureRequest, kafka_pool: KafkaPool) -> AsyncIterator[TlsCluster]:
    if request.param == "embedded":
        async with tls_brokers(request.getfixturevalue("certificates")) as cluster:
            yield cluster
        return
    with kafka_pool.lease("tls") as kafka:
        addresses = kafka.bootstrap_servers.split(",")
        for address in addresses:
            await wait_open(address)
        # The certificates are beside the node's folder, which has data/.
        folder: Path = kafka.data_folder(1).parent.parent / "certificates"
        yield TlsCluster("kafka", addresses[0], addresses[1], Files(folder))


async def wait_open(address: str) -> None:
    """Wait until a listener accepts connections, without a transport that the test would have to close."""
    host, port = address.split(":")
    while True:
        try:
            socket.create_connection((host, int(port))).close()
        except OSError:
            await asyncio.sleep(0)
        else:
            return


async def round_trip(topic: str, options: dict[str, Any]) -> None:
    """Create a topic, write to it and read it."""
    new = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
    async with Client(**options) as client:
        assert (await client.request(CreateTopicsRequest(topics=[new]))).topics[0].error_code == 0
    async with Producer(**options) as producer:
        await producer.send(topic, b"value")
    async with Consumer(topic, auto_offset_reset="earliest", **options) as consumer:
        async for record in consumer:
            assert record.value == b"value"
            break


@pytest.mark.parametrize("how", ["files", "encrypted", "one file", "java pem", "text", "p12", "jks", "jceks"])
async def test_certificates_in_every_format(tls_cluster: TlsCluster, topic: str, how: str) -> None:
    if how in ("jks", "jceks") and find_java() is None:
        pytest.skip("keytool writes these stores")
    options = tls_cluster.files.options(how)
    await round_trip(topic, {**options, "bootstrap_servers": tls_cluster.mutual})


def login(tls_cluster: TlsCluster) -> dict[str, Any]:
    """The options for the listener with TLS and a password."""
    return {
        "bootstrap_servers": tls_cluster.login,
        "security_protocol": "SASL_SSL",
        "ssl_truststore_location": tls_cluster.files["trusted.p12"],
        "ssl_truststore_type": "PKCS12",
        "ssl_truststore_password": PASSWORD,
        "sasl_mechanism": "PLAIN",
        "sasl_username": USER,
        "sasl_password": USER_PASSWORD,
    }


async def test_tls_with_a_password(tls_cluster: TlsCluster, topic: str) -> None:
    await round_trip(topic, login(tls_cluster))


@pytest.mark.parametrize("scheme", ["socks5", "socks5h", "http"])
async def test_tls_with_a_password_through_a_proxy(tls_cluster: TlsCluster, topic: str, scheme: str) -> None:
    async with proxy(scheme, login=("me", "p@ss")) as way:
        await round_trip(topic, {**login(tls_cluster), "proxy_url": f"{scheme}://me:p%40ss@127.0.0.1:{way.port}"})
        assert {f"{host}:{port}" for host, port in way.asked} == {tls_cluster.login}


MISMATCHES: dict[str, tuple[str, type[BrokerConnectionError], str]] = {
    "SSL": ("login", BrokerConnectionError, r"first request after ApiVersions: .*security_protocol='SASL_SSL'"),
    "SASL_SSL": ("mutual", AuthenticationError, "requires a client certificate|does not expect SASL|it requires"),
    "PLAINTEXT": ("login", NotKafkaError, r"like a TLS server .*security_protocol='SSL' or 'SASL_SSL'"),
    "SASL_PLAINTEXT": ("login", NotKafkaError, r"like a TLS server .*security_protocol='SSL' or 'SASL_SSL'"),
}


@pytest.mark.parametrize("protocol", MISMATCHES)
async def test_a_listener_of_another_security_protocol(tls_cluster: TlsCluster, protocol: str) -> None:
    listener, kind, text = MISMATCHES[protocol]
    options: dict[str, Any] = {
        name: value
        for name, value in login(tls_cluster).items()
        if name.split("_")[0] in protocol.lower() or name.startswith("boot")
    }
    options |= {"security_protocol": protocol, "bootstrap_servers": getattr(tls_cluster, listener)}
    with pytest.raises(kind, match=text):
        async with Client(**options, bootstrap_resolve_timeout_ms=0):
            pass


REJECTED = {
    "no certificate": r"requires a client certificate.*ssl_certfile",
    "expired": r"has expired: renew it|it may have expired",
    "stranger": r"(does not know the|by an) authority .*the broker's truststore",
}
"""The text names what the alert can mean. Java's brokers send one alert for most causes, so it names all of these."""


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("how", REJECTED)
async def test_a_client_certificate_that_the_broker_rejects(tls_cluster: TlsCluster, how: str, version: str) -> None:
    """With TLS 1.3 the alert comes after the handshake. The error is the same, and the client doesn't try again."""
    options = tls_cluster.files.options(how, ssl_enabled_protocols=version)
    with pytest.raises(AuthenticationError, match=f"ended the TLS handshake: .*({REJECTED[how]})"):
        async with Client(bootstrap_servers=tls_cluster.mutual, **options):
            pass


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
async def test_a_version_of_tls_that_both_have(tls_cluster: TlsCluster, version: str) -> None:
    options = tls_cluster.files.options("files", ssl_enabled_protocols=[version])
    async with Client(bootstrap_servers=tls_cluster.mutual, **options) as client:
        assert await client.metadata([]) is not None


async def test_chosen_cipher_suites(tls_cluster: TlsCluster) -> None:
    suites = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    options = tls_cluster.files.options("files", ssl_cipher_suites=suites)
    async with Client(bootstrap_servers=tls_cluster.mutual, **options) as client:
        assert await client.metadata([]) is not None
