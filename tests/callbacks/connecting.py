"""Callbacks of connections and of the embedded broker, walked in virtual time."""

from __future__ import annotations

import asyncio
from inspect import isawaitable
from typing import Any

from aiokproto import Client
from aiokproto.broker import Cluster
from aiokproto.codec.messages.list_groups import ListGroupsRequest
from aiokproto.config import ClusterConfig
from aiokproto.net.transport import Dialled, _Dial, _is_name
from tests.callbacks.cases import Misbehaving, Outcome, attempt

Options = dict[str, Any]


async def _connected(cluster: Cluster, **options: Any) -> Outcome:
    """Connect, and request something twice."""
    client = Client(
        bootstrap_servers=cluster.bootstrap_servers,
        request_timeout_ms=5000,
        socket_connection_setup_timeout_ms=3000,
        bootstrap_resolve_timeout_ms=60_000,
        **options,
    )
    first = await attempt(client.start())
    try:
        return Outcome(first, await attempt(client.request(ListGroupsRequest(), timeout_ms=30_000)))
    finally:
        began = asyncio.get_running_loop().time()
        assert await attempt(client.close()) is None
        assert asyncio.get_running_loop().time() - began < 10


async def address_map(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    return await _connected(cluster, address_map=misbehaving.started)


async def ssl_secret(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    """As :func:`_asked`."""
    config = ClusterConfig.parse(
        {
            "bootstrap_servers": "localhost:9092",
            "security_protocol": "SSL",
            "ssl_truststore_certificates": misbehaving.started,
        }
    )
    loop = asyncio.get_running_loop()

    async def read() -> None:
        began = loop.time()
        dial: Any = _Dial(Dialled, config, "a", 9, began + 5, "broker 1", None)
        try:
            await dial._certificates(config.tls)
        finally:
            assert loop.time() - began < 8

    return Outcome(await attempt(read()), await attempt(read()))


async def _asked(option: str, misbehaving: Misbehaving, valid: Any) -> Outcome:
    """A function that a connection asks, without the connection: simulated networks have no sockets and no TLS."""
    config = ClusterConfig.parse({"bootstrap_servers": "localhost:9092"})
    loop = asyncio.get_running_loop()

    async def ask() -> None:
        began = loop.time()
        dial: Any = _Dial(Dialled, config, "a", 9, began + 5, "broker 1", None)
        try:
            await dial._ask(option, misbehaving.started, "a", 9, valid)
        finally:
            assert loop.time() - began < 8

    return Outcome(await attempt(ask()), await attempt(ask()))


async def dialer(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    return await _asked("dialer", misbehaving, lambda given: given == "a socket")


async def ssl_server_hostname(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    return await _asked("ssl_server_hostname", misbehaving, _is_name)


OF_ALICE = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "alice"}


async def sasl_password(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    return await _connected(cluster, **OF_ALICE, sasl_password=misbehaving.started)


async def sasl_oauth_token(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    return await _connected(
        cluster,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token=misbehaving.started,
    )


class Mechanism:
    """PLAIN, as a mechanism of the application."""

    name = "PLAIN"

    def __init__(self, misbehaving: Misbehaving) -> None:
        self._misbehaving = misbehaving

    def exchange(self, host: str) -> Mechanism:
        return self

    complete = True

    def start(self) -> Any:
        return self._misbehaving.started()

    def respond(self, challenge: bytes) -> bytes | None:
        return None


async def sasl_mechanism(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    return await _connected(cluster, security_protocol="SASL_PLAINTEXT", sasl_mechanism=Mechanism(misbehaving))


async def sasl_aws_credentials(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    return await _connected(
        cluster,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="AWS_MSK_IAM",
        sasl_aws_region="us-east-1",
        sasl_aws_credentials=misbehaving.started,
    )


async def when(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    with cluster.faults.watch(ListGroupsRequest, when=misbehaving.plain):
        return await _requested(cluster)


async def intercept(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    def act(info: Any, serve: Any) -> Any:
        called = misbehaving.started()
        if not isawaitable(called):
            return called

        async def served() -> Any:
            found = await called
            return await serve(info.request) if found is None else found

        return served()

    with cluster.faults.intercept(ListGroupsRequest, act):
        return await _requested(cluster)


async def _requested(cluster: Cluster) -> Outcome:
    async with Client(bootstrap_servers=cluster.bootstrap_servers, request_timeout_ms=5000) as client:
        return Outcome(
            await attempt(client.request(ListGroupsRequest(), timeout_ms=30_000)),
            await attempt(client.request(ListGroupsRequest(), timeout_ms=30_000)),
        )


async def token_validator(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    """The broker has it from the table."""
    return await _connected(
        cluster, security_protocol="SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER", sasl_oauth_token=lambda: "t"
    )
