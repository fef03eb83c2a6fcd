"""Whole clients with OAUTHBEARER in virtual time: how many tokens they need, and what they do if they get none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aiokproto import Producer
from aiokproto.broker import Cluster, Security
from aiokproto.broker.security.oauthbearer import Token as ValidToken
from aiokproto.errors import AuthenticationError
from aiokproto.hooks import ConnectionOpened, Hooks
from aiokproto.runtime import current
from aiokproto.security import OAuthBearer, Token
from aiokproto.simulation import Simulation

LIFETIME = 300.0
"""The lifetime of a token, and therefore of the sessions that it starts (s)."""


class Provider(Hooks):
    """Provides tokens, and counts them and the connections. It can be down, and can reject the client."""

    def __init__(self) -> None:
        self.calls = 0
        self.connections = 0
        self.fails: Exception | None = None

    async def __call__(self) -> Token:
        self.calls += 1
        await asyncio.sleep(0.2)
        if self.fails is not None:
            raise self.fails
        expires_at = current().milliseconds() / 1000 + LIFETIME
        return Token(f"alice.{int(expires_at * 1000)}", expires_at)

    def on_connection_opened(self, event: ConnectionOpened) -> None:
        self.connections += 1


def validate(token: str) -> ValidToken:
    user, _, expires = token.partition(".")
    if int(expires) <= current().milliseconds():
        raise ValueError("the token has expired")
    return ValidToken(user, int(expires))


def in_virtual_time(program: Callable[[Provider, dict[str, Any]], Awaitable[None]]) -> None:
    provider = Provider()
    security = Security("SASL_PLAINTEXT", token_validator=validate)

    async def main() -> None:
        async with Cluster(3, security=security, config={"sasl.enabled.mechanisms": "OAUTHBEARER"}) as cluster:
            await cluster.create_topic("t", partitions=3)
            options: dict[str, Any] = {
                "bootstrap_servers": cluster.bootstrap_servers,
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": OAuthBearer(provider),
                "hooks": provider,
                "linger_ms": 0,
            }
            await program(provider, options)

    Simulation(5).run(main())


async def send_for(producer: Producer, seconds: float) -> None:
    """Send to each broker again and again."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while loop.time() < until:
        for partition in range(3):
            await producer.send("t", b"value", partition=partition)
        await asyncio.sleep(5)


def test_all_connections_of_many_clients_need_one_token_at_a_time() -> None:
    """This holds even when their sessions end together."""

    async def program(provider: Provider, options: dict[str, Any]) -> None:
        producers = [Producer(**options) for _ in range(10)]
        await asyncio.gather(*(producer.start() for producer in producers))
        await asyncio.gather(*(send_for(producer, 20) for producer in producers))
        assert provider.connections >= 40
        assert provider.calls == 1
        connections = provider.connections
        await asyncio.gather(*(send_for(producer, 3 * LIFETIME) for producer in producers))
        assert provider.calls <= 5
        assert provider.connections == connections
        for producer in producers:
            await producer.close()

    in_virtual_time(program)


def test_an_outage_of_the_provider_delays_records_and_ends_no_client() -> None:
    """Sessions continue with the old token until it expires. Then the calls wait for the provider."""

    async def program(provider: Provider, options: dict[str, Any]) -> None:
        loop = asyncio.get_running_loop()
        async with Producer(**options) as producer:
            await send_for(producer, 10)
            provider.fails = OSError("the provider is down")
            # The clock is at 280 s, and the token is valid.
            await send_for(producer, 270)
            loop.call_later(60, setattr, provider, "fails", None)
            begun = loop.time()
            await send_for(producer, 100)
            assert loop.time() - begun < 120

    in_virtual_time(program)


def test_a_provider_that_rejects_the_client_ends_it_once_the_token_has_expired() -> None:
    """The next call raises the error, and so do all later ones. The provider isn't asked again."""

    async def program(provider: Provider, options: dict[str, Any]) -> None:
        producer = Producer(**options)
        await producer.start()
        await send_for(producer, 10)
        provider.fails = AuthenticationError("the client is disabled")
        for _ in range(2):
            with pytest.raises(AuthenticationError, match="the client is disabled"):
                await send_for(producer, 2 * LIFETIME)
        calls = provider.calls
        await asyncio.sleep(LIFETIME)
        assert provider.calls == calls
        await producer.close()

    in_virtual_time(program)
