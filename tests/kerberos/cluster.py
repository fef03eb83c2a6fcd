"""Real Kafka with a listener for Kerberos, and its realm."""

from __future__ import annotations

from pathlib import Path

from tests.broker.secure import AUTHORIZER
from tests.kafka.cluster import KafkaCluster, free_ports
from tests.kafka.config import HOST
from tests.kafka.kdc import REALM, Kdc

SESSION_MS = 3000
"""How long an authentication is valid (KIP-368)."""

SERVICE = f"kafka/{HOST}"
"""The broker's principal."""

_LOGIN = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true isInitiator=false"


class KerberosKafka(KafkaCluster):
    """One broker of real Kafka with a second listener, for GSSAPI; clients of the first one are super users."""

    def __init__(self) -> None:
        super().__init__(1)
        self._address = ""
        self._kdc: Kdc | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The address where users log in."""
        return self._address

    def stop(self) -> None:
        """Stop the broker and the KDC."""
        if self._kdc is not None:
            self._kdc.stop()
            self._kdc = None
        super().stop()

    def _write_config(self, node_id: int) -> None:
        ports = self._ports[node_id]
        # The ports assigned to this node stay free until it has started.
        more = [port for each in free_ports((0, 1)).values() for port in (each.broker, each.controller)]
        login, kdc = [port for port in more if port not in (ports.broker, ports.controller)][:2]
        self._address = f"{HOST}:{login}"
        self._kdc = Kdc(realm_folder(self.data_folder(node_id)), kdc)
        self._tell_watchdog("+", self._kdc.start())
        self._kdc.add(SERVICE)
        keytab = self._kdc.keytab("broker", SERVICE)
        self._jvm = (f"-Djava.security.krb5.conf={self._kdc.krb5_conf}",)
        self._config = {
            "authorizer.class.name": AUTHORIZER,
            "super.users": "User:alice;User:ANONYMOUS",
            "listeners": (
                f"PLAINTEXT://{HOST}:{ports.broker},CONTROLLER://{HOST}:{ports.controller},"
                f"SASL_PLAINTEXT://{self._address}"
            ),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "connections.max.reauth.ms": str(SESSION_MS),
            "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": (
                f'{_LOGIN} keyTab="{keytab}" principal="{SERVICE}@{REALM}";'
            ),
        }
        super()._write_config(node_id)


def realm_folder(data: Path) -> Path:
    """Return the folder of the realm, from the broker's folder of data."""
    return data.parents[1] / "realm"
