"""A cluster of one broker where clients have to log in and nobody may do anything but ``admin``: of each kind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from aiokproto.broker import Broker, Security
from aiokproto.codec.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.broker.secure import AUTHORIZER, USERS, authenticate, plain
from tests.broker.wire import Wire, connect
from tests.kafka.cluster import KafkaCluster, _free_ports
from tests.kafka.config import HOST

_LOGINS = " ".join(f'user_{user}="{password}"' for user, password in USERS.items())
_MODULES = "org.apache.kafka.common.security"
_JAAS = "listener.name.sasl_plaintext.{}.sasl.jaas.config"
SECURED = {
    "authorizer.class.name": AUTHORIZER,
    "super.users": "User:admin;User:ANONYMOUS",
    "connections.max.reauth.ms": "3600000",
    "delegation.token.secret.key": "between brokers",
}


class Secured(NamedTuple):
    """Where to log in."""

    kind: str
    bootstrap_servers: str


class SecuredKafka(KafkaCluster):
    """Real Kafka with a second listener, for SASL; whoever comes by the first is a super user."""

    def __init__(self) -> None:
        super().__init__(1)
        self._address_for_sasl = ""

    @property
    def bootstrap_servers(self) -> str:
        """Where users log in."""
        return self._address_for_sasl

    def _write_config(self, node_id: int) -> None:
        ports = self._ports[node_id]
        self._address_for_sasl = f"{HOST}:{_free_ports((0,))[0].broker}"
        self._config = {
            **SECURED,
            "listeners": (
                f"PLAINTEXT://{HOST}:{ports.broker},CONTROLLER://{HOST}:{ports.controller},"
                f"SASL_PLAINTEXT://{self._address_for_sasl}"
            ),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            _JAAS.format("plain"): f"{_MODULES}.plain.PlainLoginModule required {_LOGINS};",
            _JAAS.format("scram-sha-256"): f"{_MODULES}.scram.ScramLoginModule required;",
            _JAAS.format("scram-sha-512"): f"{_MODULES}.scram.ScramLoginModule required;",
            _JAAS.format("oauthbearer"): (
                f'{_MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
            ),
        }
        super()._write_config(node_id)


@asynccontextmanager
async def secured_broker() -> AsyncIterator[Secured]:
    """The embedded broker."""
    async with Broker(security=Security("SASL_PLAINTEXT", users=USERS), config=SECURED) as broker:
        yield Secured("embedded", broker.bootstrap_servers)


async def until_open(address: str) -> None:
    """Wait until a listener is there."""
    host, port = address.split(":")
    while True:
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            continue
        writer.close()
        return


@asynccontextmanager
async def as_user(secured: Secured, user: str) -> AsyncIterator[Wire]:
    """A connection of a user."""
    async with connect(secured) as wire:
        assert (await authenticate(wire, "PLAIN", plain(user))).error_code == 0
        yield wire


async def create(admin: Wire, topic: str, partitions: int = 1) -> None:
    """Create a topic."""
    new = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
    assert (await admin.ask(CreateTopicsRequest(topics=[new]), 7)).topics[0].error_code == 0
