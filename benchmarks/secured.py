"""Real Kafka with listeners for TLS, and for TLS with SCRAM-SHA-256, beside the plain one."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path

from aiokproto import Client
from aiokproto.codec.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from benchmarks.work import Security
from tests.kafka.cluster import KafkaCluster, free_ports
from tests.kafka.config import HOST
from tests.security.certificates import PASSWORD, Files, make

USER, USER_PASSWORD = "benchmarks", "benchmarks-secret"
_SALT, _ITERATIONS = b"benchmarks-salt", 4096
_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


class SecuredKafka(KafkaCluster):
    """One broker. Certificates are RSA with 2048 bits, as trustme makes them."""

    def __init__(self, *, heap: str) -> None:
        super().__init__(1, heap=heap)
        self._listeners: dict[str, str] = {}
        self._files = Files(Path())

    def start(self) -> None:
        super().start()
        asyncio.run(_add_user(self.bootstrap_servers))

    def security(self, protocol: str) -> Security:
        """How clients connect."""
        if protocol == "PLAINTEXT":
            return Security(self.bootstrap_servers)
        user = (USER, USER_PASSWORD) if protocol == "SASL_SSL" else ("", "")
        return Security(self._listeners[protocol], protocol, str(self._files["ca.pem"]), *user)

    def _write_config(self, node_id: int) -> None:
        ports = self._ports[node_id]
        more = [port for each in free_ports((0, 1)).values() for port in (each.broker, each.controller)]
        free = [port for port in more if port not in (ports.broker, ports.controller)]
        self._listeners = {
            protocol: f"{HOST}:{port}" for protocol, port in zip(("SSL", "SASL_SSL"), free, strict=False)
        }
        self._files = make(self._node_folder(node_id).parent / "certificates")
        secured = "".join(f",{protocol}://{address}" for protocol, address in self._listeners.items())
        self._config = {
            "listeners": f"PLAINTEXT://{HOST}:{ports.broker},CONTROLLER://{HOST}:{ports.controller}{secured}",
            "listener.security.protocol.map": ("PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL"),
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self._files["broker.p12"]),
            "ssl.keystore.password": PASSWORD,
            "ssl.key.password": PASSWORD,
            # Otherwise the libraries prefer different ones.
            "ssl.enabled.protocols": "TLSv1.3",
            "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f"{_MODULE} required;",
        }
        super()._write_config(node_id)


async def _add_user(bootstrap: str) -> None:
    salted = hashlib.pbkdf2_hmac("sha256", USER_PASSWORD.encode(), _SALT, _ITERATIONS)
    new = ScramCredentialUpsertion(name=USER, mechanism=1, iterations=_ITERATIONS, salt=_SALT, salted_password=salted)
    async with Client(bootstrap_servers=bootstrap) as client:
        response = await client.request(AlterUserScramCredentialsRequest(deletions=[], upsertions=[new]))
        assert not response.results[0].error_code, response
