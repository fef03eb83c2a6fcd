"""Clusters of one broker, of each kind, with TLS: a listener that requires client certificates, and one with SASL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from aiokproto.broker import Broker, Security
from tests.kafka.cluster import KafkaCluster, free_ports
from tests.kafka.config import HOST
from tests.security.certificates import KEY_PASSWORD, PASSWORD, Files, add_java_stores, make

USER, USER_PASSWORD = "alice", "alice-secret"


class TlsCluster(NamedTuple):
    """Where the listeners are.

    Attributes:
        mutual: The address for SSL, where a client certificate is required.
        login: The address for SASL_SSL, with PLAIN.
    """

    kind: str
    mutual: str
    login: str
    files: Files


class TlsKafka(KafkaCluster):
    """Real Kafka with two more listeners. Its own stores are JKS and PKCS#12."""

    def __init__(self) -> None:
        super().__init__(1)
        self._addresses: list[str] = []

    @property
    def bootstrap_servers(self) -> str:
        """Return both addresses."""
        return ",".join(self._addresses)

    def _write_config(self, node_id: int) -> None:
        ports = self._ports[node_id]
        taken = (ports.broker, ports.controller)
        more = [port for each in free_ports((0, 1)).values() for port in (each.broker, each.controller)]
        self._addresses = [f"{HOST}:{port}" for port in more if port not in taken][:2]
        files = make(self._node_folder(node_id).parent / "certificates")
        add_java_stores(files, "broker", "client")
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        self._config = {
            "listeners": (
                f"PLAINTEXT://{HOST}:{ports.broker},CONTROLLER://{HOST}:{ports.controller},"
                f"SSL://{self._addresses[0]},SASL_SSL://{self._addresses[1]}"
            ),
            "listener.security.protocol.map": ("PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL"),
            "listener.name.ssl.ssl.client.auth": "required",
            "listener.name.ssl.ssl.keystore.type": "JKS",
            "listener.name.ssl.ssl.keystore.location": str(files["broker.jks"]),
            "listener.name.ssl.ssl.keystore.password": PASSWORD,
            "listener.name.ssl.ssl.key.password": KEY_PASSWORD,
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(files["broker.p12"]),
            "ssl.keystore.password": PASSWORD,
            "ssl.key.password": PASSWORD,
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": str(files["trusted.p12"]),
            "ssl.truststore.password": PASSWORD,
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{module} required user_{USER}="{USER_PASSWORD}";',
        }
        super()._write_config(node_id)


@asynccontextmanager
async def tls_brokers(files: Files) -> AsyncIterator[TlsCluster]:
    """Two embedded brokers, because each has one protocol for all its nodes."""
    mutual = {
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(files["broker.p12"]),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.location": str(files["trusted.p12"]),
        "ssl.truststore.password": PASSWORD,
    }
    login = {"ssl.keystore.key": files.text("broker.key"), "ssl.keystore.certificate.chain": files.text("broker.pem")}
    users = {USER: USER_PASSWORD}
    async with (
        Broker(security=Security("SSL"), config=mutual) as first,
        Broker(security=Security("SASL_SSL", users=users), config=login) as second,
    ):
        yield TlsCluster("embedded", first.bootstrap_servers, second.bootstrap_servers, files)
