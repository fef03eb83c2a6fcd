"""Clusters of one broker, of each kind, with SASL authentication, where only ``admin`` has permissions."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from aiokproto import Consumer, Producer
from aiokproto.broker import Broker, Security
from aiokproto.codec.messages.create_acls import AclCreation
from aiokproto.codec.messages.create_topics import CreatableTopic, CreateTopicsRequest
from aiokproto.codec.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.behaviour.requests_by_api import errors, everything
from tests.behaviour.waiting import until
from tests.broker.secure import AUTHORIZER, USERS, acl, authenticate, plain, unsecured
from tests.broker.wire import Wire, connect
from tests.kafka.cluster import KafkaCluster, free_ports
from tests.kafka.config import HOST
from tests.kafka.pool import RunningKafka
from tests.security.oidc import AUDIENCE, ISSUER, Issuer, oidc

_LOGINS = " ".join(f'user_{user}="{password}"' for user, password in USERS.items())
_MODULES = "org.apache.kafka.common.security"
_MECHANISMS = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER"
_JAAS = "listener.name.sasl_plaintext.{}.sasl.jaas.config"
_TOKENS = "listener.name.tokens.oauthbearer."
SHORT, SHORT_MS = "SCRAM-SHA-512", 3000
"""A mechanism with short sessions on real Kafka, and how short. The embedded broker has one time for all mechanisms."""

SECURED = {
    "authorizer.class.name": AUTHORIZER,
    "super.users": "User:admin;User:ANONYMOUS",
    "connections.max.reauth.ms": "3600000",
    "delegation.token.secret.key": "between brokers",
    "transaction.two.phase.commit.enable": "true",
    "unstable.api.versions.enable": "true",
}


class Secured(NamedTuple):
    """Where to log in."""

    kind: str
    bootstrap_servers: str


ISSUER_FOLDER = "issuer"
"""In a node's folder: the issuer whose tokens the broker accepts, and the address of the listener for them."""

_VALIDATION = {
    "sasl.oauthbearer.expected.audience": AUDIENCE,
    "sasl.oauthbearer.expected.issuer": ISSUER,
    "sasl.oauthbearer.clock.skew.seconds": "0",
}


class Identified(NamedTuple):
    """A cluster that accepts the tokens of an issuer."""

    kind: str
    bootstrap_servers: str
    issuer: Issuer


class SecuredKafka(KafkaCluster):
    """Real Kafka with more listeners: one for SASL, and one for signed tokens. Clients of the first are super users.

    The keys for the tokens are served over HTTP, by a process that ends with the cluster.
    """

    def __init__(self) -> None:
        super().__init__(1)
        self._address_for_sasl = ""
        self._keys: subprocess.Popen[bytes] | None = None

    def stop(self) -> None:
        if self._keys is not None:
            self._keys.kill()
            self._keys.wait()
            self._tell_watchdog("-", self._keys.pid)
            self._keys = None
        super().stop()

    def _serve_keys(self, node_id: int, port: int, listener: str) -> str:
        """Create an issuer, and serve its keys; return their URL."""
        folder, issuer = self._node_folder(node_id) / ISSUER_FOLDER, Issuer()
        (folder / "public").mkdir(parents=True)
        (folder / "key.pem").write_bytes(issuer.pem())
        (folder / "listener").write_text(listener)
        (folder / "public" / "keys.json").write_text(json.dumps(issuer.keys()))
        command = [sys.executable, "-I", "-m", "http.server", str(port), "--bind", HOST]
        self._keys = subprocess.Popen(
            command, cwd=folder / "public", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        self._tell_watchdog("+", self._keys.pid)
        return f"http://{HOST}:{port}/keys.json"

    @property
    def bootstrap_servers(self) -> str:
        """Where users log in."""
        return self._address_for_sasl

    def _write_config(self, node_id: int) -> None:
        ports = self._ports[node_id]
        # The ports assigned to this node stay free until it has started.
        more = [port for each in free_ports((0, 1, 2)).values() for port in (each.broker, each.controller)]
        free = (port for port in more if port not in (ports.broker, ports.controller))
        self._address_for_sasl, for_tokens = f"{HOST}:{next(free)}", f"{HOST}:{next(free)}"
        keys = self._serve_keys(node_id, next(free), for_tokens)
        self._jvm = (*self._jvm, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys}")
        validation = {**_VALIDATION, "sasl.oauthbearer.jwks.endpoint.url": keys}
        self._config = {
            **SECURED,
            "listeners": (
                f"PLAINTEXT://{HOST}:{ports.broker},CONTROLLER://{HOST}:{ports.controller},"
                f"SASL_PLAINTEXT://{self._address_for_sasl},TOKENS://{for_tokens}"
            ),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
            ",TOKENS:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": _MECHANISMS,
            _JAAS.format("plain"): f"{_MODULES}.plain.PlainLoginModule required {_LOGINS};",
            _JAAS.format("scram-sha-256"): f"{_MODULES}.scram.ScramLoginModule required;",
            _JAAS.format("scram-sha-512"): f"{_MODULES}.scram.ScramLoginModule required;",
            f"listener.name.sasl_plaintext.{SHORT.lower()}.connections.max.reauth.ms": str(SHORT_MS),
            _JAAS.format("oauthbearer"): (
                f'{_MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
            ),
            "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{_TOKENS}sasl.jaas.config": (
                f'{_MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
            ),
            f"{_TOKENS}sasl.server.callback.handler.class": (
                f"{_MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
            ),
            **{f"{_TOKENS}{name}": value for name, value in validation.items()},
        }
        super()._write_config(node_id)


def identified_kafka(cluster: RunningKafka) -> Identified:
    """The listener for signed tokens of a running :class:`SecuredKafka`."""
    folder = cluster.data_folder(1).parent / ISSUER_FOLDER
    key = serialization.load_pem_private_key((folder / "key.pem").read_bytes(), None)
    assert isinstance(key, rsa.RSAPrivateKey)
    return Identified("kafka", (folder / "listener").read_text(), Issuer(key))


@asynccontextmanager
async def identified_broker(**config: str) -> AsyncIterator[Identified]:
    """The embedded broker, which gets the keys over HTTP. It has no delegation tokens, because they log in with
    SCRAM."""
    async with oidc() as provider:
        options = {
            **{name: value for name, value in SECURED.items() if not name.startswith("delegation.")},
            **_VALIDATION,
            "sasl.oauthbearer.jwks.endpoint.url": provider.keys_url,
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            **config,
        }
        async with Broker(security=Security("SASL_PLAINTEXT"), config=options) as broker:
            yield Identified("embedded", broker.bootstrap_servers, provider.issuer)


@asynccontextmanager
async def secured_broker() -> AsyncIterator[Secured]:
    """The embedded broker."""
    security = Security("SASL_PLAINTEXT", users=USERS, unsecured_tokens=True)
    async with Broker(security=security, config={**SECURED, "sasl.enabled.mechanisms": _MECHANISMS}) as broker:
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
    """Connect as any user. Users without a password log in with an unsigned token."""
    proof = ("PLAIN", plain(user)) if user in USERS else ("OAUTHBEARER", unsecured(user))
    async with connect(secured) as wire:
        response = await authenticate(wire, *proof)
        # The broker responds with the reason for a refused token, which takes another request.
        assert (response.error_code, bytes(response.auth_bytes)) == (0, b"")
        yield wire


async def create(admin: Wire, topic: str, partitions: int = 1) -> None:
    """Create a topic; return once the broker knows it."""
    new = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
    assert (await admin.ask(CreateTopicsRequest(topics=[new]), 7)).topics[0].error_code == 0
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    known = await until(lambda: admin.ask(request, 9), lambda response: not errors(response))
    assert len(known.topics[0].partitions) == partitions


def rule(user: str, resource_type: int, name: str, operation: int, **more: Any) -> AclCreation:
    """An ACL of one user."""
    return acl(resource_type, name, operation, **{"principal": f"User:{user}", **more})


async def revoke(admin: Wire, user: str) -> None:
    """Delete all ACLs of a user; return once the broker applies that."""
    all_of_his = DeleteAclsFilter(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=f"User:{user}",
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    assert not errors(await admin.ask(DeleteAclsRequest(filters=[all_of_his]), 3))
    while (await admin.ask(everything(principal=f"User:{user}"), 3)).resources:
        pass


def skip_where_sessions_end(request: pytest.FixtureRequest) -> None:
    """Skip a test of connections that outlive their sessions of some seconds."""
    if request.config.getoption("loop") == "stalling":
        pytest.skip("time leaps by more than a session has left when it is renewed, so sessions end")


async def write_and_read(login: Mapping[str, Any], topic: str) -> None:
    """Send a record, and read it in a group: connections of all kinds."""
    async with (
        Producer(**login) as producer,
        Consumer(topic, group_id=f"group of {topic}", auto_offset_reset="earliest", **login) as consumer,
    ):
        await producer.send(topic, b"value")
        record = await anext(consumer)
        assert record.value == b"value"
        await consumer.commit(record)
