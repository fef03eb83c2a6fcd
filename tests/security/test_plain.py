"""SASL/PLAIN."""

from __future__ import annotations

import pytest

from aiokproto.broker.security.plain import PlainSaslServer
from aiokproto.broker.security.sasl_server import AuthenticatedUser
from aiokproto.errors import ConfigurationError
from aiokproto.security import Plain


@pytest.mark.parametrize(("username", "password"), [("alice", "secret"), ("älice", "=,\n"), ("a b", "ﬁ")])
async def test_the_broker_reads_what_the_client_writes(username: str, password: str) -> None:
    exchange = Plain(username, password).exchange("broker")
    server = PlainSaslServer({username: password})
    assert not exchange.complete
    challenge = server.step(await exchange.start())
    assert exchange.complete
    assert await exchange.respond(challenge) is None
    assert server.authenticated_user == AuthenticatedUser(username)


@pytest.mark.parametrize(("username", "password"), [("a\0b", "secret"), ("alice", "se\0cret")])
async def test_a_null_character_is_refused_without_the_value(username: str, password: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^sasl_(username|password) contains a null character"):
        await Plain(username, password).exchange("broker").start()
