"""SCRAM against servers that don't know the password, or violate the protocol."""

from __future__ import annotations

import pytest

from aiokproto.errors import AuthenticationError
from aiokproto.security import SaslExchange, Scram
from aiokproto.security.scram import DIGESTS
from tests.security.hostile_scram import FINALS, FIRSTS, PASSWORD, ScramServer


@pytest.fixture(params=DIGESTS)
def mechanism(request: pytest.FixtureRequest) -> Scram:
    return Scram(request.param, "alice", PASSWORD)


def server_for(mechanism: Scram, attack: str = "") -> ScramServer:
    return ScramServer(DIGESTS[mechanism.name], attack)


async def proof(exchange: SaslExchange, server: ScramServer) -> bytes:
    found = await exchange.respond(server.answer(await exchange.start()))
    assert found is not None
    return found


@pytest.mark.parametrize("attack", ["", "extensions"])
async def test_an_honest_server_is_believed(mechanism: Scram, attack: str) -> None:
    """It works with extensions that needn't be understood (RFC 5802 §5.1), too."""
    server, exchange = server_for(mechanism, attack), mechanism.exchange("broker")
    assert await exchange.respond(server.answer(await proof(exchange, server))) is None


@pytest.mark.parametrize("attack", FIRSTS)
async def test_nothing_is_proved_after_a_first_message_that_no_broker_sends(mechanism: Scram, attack: str) -> None:
    exchange, server = mechanism.exchange("broker"), server_for(mechanism, attack)
    with pytest.raises(AuthenticationError) as raised:
        await proof(exchange, server)
    check_text(raised.value)


@pytest.mark.parametrize("attack", [*FINALS, "another password"])
async def test_a_server_without_the_password_is_not_believed(mechanism: Scram, attack: str) -> None:
    exchange, server = mechanism.exchange("broker"), server_for(mechanism, attack)
    last = server.answer(await proof(exchange, server))
    with pytest.raises(AuthenticationError) as raised:
        await exchange.respond(last)
    check_text(raised.value)


def check_text(error: AuthenticationError) -> None:
    assert str(error).isprintable()
    assert len(str(error)) < 300
    assert PASSWORD not in str(error)


async def test_what_a_server_has_said_to_another_client_proves_nothing(mechanism: Scram) -> None:
    """Neither its first message nor its last is accepted."""
    heard, exchange = server_for(mechanism), mechanism.exchange("broker")
    first = heard.answer(await exchange.start())
    token = await exchange.respond(first)
    assert token is not None
    last = heard.answer(token)
    other = mechanism.exchange("broker")
    await other.start()
    with pytest.raises(AuthenticationError, match="does not extend the client's"):
        await other.respond(first)
    other, server = mechanism.exchange("broker"), server_for(mechanism)
    await proof(other, server)
    with pytest.raises(AuthenticationError, match="does not know the password"):
        await other.respond(last)


async def test_a_proof_is_made_once(mechanism: Scram) -> None:
    """A server that starts again gets no answer, because each proof can be tried against a list of passwords."""
    exchange, server = mechanism.exchange("broker"), server_for(mechanism)
    begun = server.answer(await exchange.start())
    await exchange.respond(begun)
    with pytest.raises(AuthenticationError, match="last SCRAM message is malformed"):
        await exchange.respond(begun)
