"""Tokens of OAUTHBEARER in virtual time: when they are replaced, which call replaces them, and what failures do."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import pickle
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.errors import AuthenticationError, BrokerConnectionError
from aiokproto.runtime import current
from aiokproto.security import ClientCredentials, OAuthBearer, RefreshWindow, Token
from aiokproto.security.mechanism import RenewableExchange
from aiokproto.security.token import TokenReader
from aiokproto.security.token_cache import TokenCache
from aiokproto.simulation import Simulation

HIDDEN = " (its text is left out, as it may have a secret)"
EXACT = RefreshWindow(jitter=0)


def simulated(program: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await program()

    Simulation(seed=3).run(main())


def now() -> float:
    return current().milliseconds() / 1000


class Source:
    """Provides numbered tokens of one hour. It can be slow, and can fail."""

    def __init__(self, lifetime: float | None = 3600) -> None:
        self.lifetime = lifetime
        self.calls = 0
        self.cancelled = 0
        self.delay = 0.0
        self.error: Exception | None = None

    async def __call__(self) -> Any:
        self.calls += 1
        number = self.calls
        try:
            await asyncio.sleep(self.delay)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        return f"t{number}" if self.lifetime is None else Token(f"t{number}", now() + self.lifetime)


def cache(source: Any, window: RefreshWindow = EXACT) -> TokenCache:
    return TokenCache(TokenReader("sasl_oauth_token", source), window)


def test_a_token_is_kept_until_its_refresh_time() -> None:
    async def program() -> None:
        source = Source()
        tokens = cache(source)
        values = []
        for wait in (0, 2000, 870, 20):
            await asyncio.sleep(wait)
            values.append((await tokens.get()).value)
        # 80 % of an hour is 2880 s.
        assert values == ["t1", "t1", "t1", "t2"]

    simulated(program)


@pytest.mark.parametrize(
    ("window", "lifetime", "expected"),
    [
        (EXACT, 3600, 2880),
        (EXACT, 100_000, 80_000),
        # The token is replaced at least five minutes before its end.
        (EXACT, 1000, 700),
        # The token is too short for the margins, which are ignored.
        (EXACT, 300, 240),
        (RefreshWindow(0.5, 0, 900, 0), 1000, 900),
        (RefreshWindow(1, 0, 0, 0), 1000, 1000),
        (RefreshWindow(0.8, 0, 60, 3600), 3700, 100),
    ],
)
def test_when_a_token_is_replaced(window: RefreshWindow, lifetime: float, expected: float) -> None:
    assert window.refresh_at(5000, 5000 + lifetime) == pytest.approx(5000 + expected)


@given(
    factor=st.floats(0.5, 1),
    jitter=st.floats(0, 0.25),
    min_period=st.integers(0, 900),
    buffer=st.integers(0, 3600),
    lifetime=st.floats(1, 1e6),
)
def test_margins_are_kept_where_they_fit(
    factor: float, jitter: float, min_period: int, buffer: int, lifetime: float
) -> None:
    at = RefreshWindow(factor, jitter, min_period, buffer).refresh_at(0, lifetime)
    assert at >= 0
    if min_period + buffer <= lifetime:
        assert min_period - 1e-6 <= at <= lifetime - buffer + 1e-6
    else:
        assert factor * lifetime - 1e-6 <= at <= (factor + jitter) * lifetime + 1e-6


def test_many_connections_share_one_request() -> None:
    async def program() -> None:
        source = Source()
        source.delay = 3
        tokens = cache(source)
        values = await asyncio.gather(*(tokens.get() for _ in range(50)))
        assert ({token.value for token in values}, source.calls) == ({"t1"}, 1)

    simulated(program)


def test_all_who_wait_get_the_failure_and_after_a_second_the_next_asks_again() -> None:
    async def program() -> None:
        source = Source()
        source.delay, source.error = 1, OSError("the vault is sealed")
        tokens = cache(source)
        failures = await asyncio.gather(*(tokens.get() for _ in range(3)), return_exceptions=True)
        assert [str(each) for each in failures] == [f"sasl_oauth_token cannot be read: OSError{HIDDEN}"] * 3
        assert all(isinstance(each, BrokerConnectionError) for each in failures)
        source.error = None
        with pytest.raises(BrokerConnectionError, match="cannot be read: OSError"):
            await tokens.get()
        await asyncio.sleep(1)
        assert (await tokens.get()).value == "t2"

    simulated(program)


def test_many_connections_ask_a_source_that_fails_once_a_second() -> None:
    """Each connection is tried again on its own, as connections to many brokers are."""

    async def program() -> None:
        source = Source()
        source.error = OSError("down")
        tokens = cache(source)

        async def connection(number: int) -> None:
            while True:
                await asyncio.sleep(0.01 * number + 0.005)
                try:
                    await tokens.get()
                except BrokerConnectionError:
                    continue
                return

        connections = [asyncio.ensure_future(connection(number)) for number in range(100)]
        await asyncio.sleep(20)
        assert 10 < source.calls <= 21
        source.error = None
        await asyncio.wait_for(asyncio.gather(*connections), 3)
        assert source.calls <= 24

    simulated(program)


def test_one_who_leaves_does_not_end_the_request_and_the_last_does() -> None:
    async def program() -> None:
        source = Source()
        source.delay = 10
        tokens = cache(source)
        first, second = (asyncio.ensure_future(tokens.get()) for _ in range(2))
        await asyncio.sleep(1)
        first.cancel()
        assert (await second).value == "t1"
        assert (source.calls, source.cancelled, first.cancelled()) == (1, 0, True)
        other = cache(source)
        last = asyncio.ensure_future(other.get())
        await asyncio.sleep(1)
        last.cancel()
        await asyncio.sleep(0.1)
        assert source.cancelled == 1
        source.delay = 0
        assert (await other.get()).value == "t3"

    simulated(program)


def test_a_failing_refresh_keeps_the_token_until_it_expires(caplog: pytest.LogCaptureFixture) -> None:
    async def program() -> None:
        source = Source()
        tokens = cache(source)
        await tokens.get()
        source.error = OSError("down")
        await asyncio.sleep(2900)
        assert (await tokens.get()).value == "t1"
        # The function isn't called again at once.
        await asyncio.sleep(5)
        assert (await tokens.get()).value == "t1"
        assert source.calls == 2
        await asyncio.sleep(6)
        assert (await tokens.get()).value == "t1"
        assert source.calls == 3
        await asyncio.sleep(700)
        with pytest.raises(BrokerConnectionError, match="cannot be read: OSError"):
            await tokens.get()

    with caplog.at_level(logging.WARNING, "aiokproto.security"):
        simulated(program)
    text = "the OAuth token could not be replaced, and is used until it expires: sasl_oauth_token cannot be read"
    assert [record.message for record in caplog.records] == [f"{text}: OSError{HIDDEN}"] * 2


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tasks do not tell before Python 3.11")
def test_a_function_that_is_cancelled_by_itself_has_failed() -> None:
    """Waiting callers aren't cancelled, and the old token is used while it is valid."""

    async def program() -> None:
        source = Source()
        tokens = cache(source)
        source.error = asyncio.CancelledError()  # type: ignore[assignment]
        failures = await asyncio.gather(*(tokens.get() for _ in range(3)), return_exceptions=True)
        text = f"sasl_oauth_token cannot be read: CancelledError{HIDDEN}"
        assert [(type(each), str(each)) for each in failures] == [(BrokerConnectionError, text)] * 3
        source.error = None
        await asyncio.sleep(1)
        assert (await tokens.get()).value == "t2"
        source.error = asyncio.CancelledError()  # type: ignore[assignment]
        await asyncio.sleep(2900)
        assert (await tokens.get()).value == "t2"

    simulated(program)


def test_a_slow_refresh_does_not_delay_connections_while_the_token_is_valid() -> None:
    async def program() -> None:
        source = Source()
        tokens = cache(source)
        await tokens.get()
        source.delay = 60
        await asyncio.sleep(2900)
        began = now()
        assert (await tokens.get()).value == "t1"
        assert now() - began < 6
        await asyncio.sleep(1)
        assert source.cancelled == 1

    simulated(program)


def test_a_final_failure_of_a_refresh_keeps_the_token_too() -> None:
    async def program() -> None:
        source = Source()
        tokens = cache(source)
        await tokens.get()
        source.error = AuthenticationError("the endpoint rejects the secret")
        await asyncio.sleep(2900)
        assert (await tokens.get()).value == "t1"
        await asyncio.sleep(700)
        with pytest.raises(AuthenticationError, match="rejects the secret"):
            await tokens.get()

    simulated(program)


def test_a_token_of_unknown_expiry_is_asked_for_each_time() -> None:
    async def program() -> None:
        tokens = cache(Source(lifetime=None))
        assert [(await tokens.get()).value for _ in range(3)] == ["t1", "t2", "t3"]

    simulated(program)


def web_token(**claims: Any) -> str:
    return f"e30.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}."


def test_the_expiry_of_a_web_token_is_its_claim() -> None:
    async def program() -> None:
        calls: list[float] = []

        def source() -> str:
            calls.append(now())
            return web_token(exp=now() + 1000, number=len(calls))

        tokens = cache(source)
        for _ in range(60):
            await tokens.get()
            await asyncio.sleep(50)
        # The token is replaced every 700 s, five minutes before its end.
        assert len(calls) == 5

    simulated(program)


def test_an_expired_token_is_never_given() -> None:
    async def program() -> None:
        for source in (web_token(exp=now() - 1), lambda: ("t", now())):
            with pytest.raises(BrokerConnectionError, match=r"the token expired [\d.]+ s ago by this machine's clock"):
                await cache(source).get()

    simulated(program)


def test_a_session_is_renewed_with_a_newer_token() -> None:
    """The window doesn't matter. There is one request for all connections, and not another at once if it fails."""

    async def program() -> None:
        source = Source()
        mechanism = OAuthBearer(source, refresh=RefreshWindow(1, 0, 0, 0))
        exchanges = [mechanism.exchange("broker") for _ in range(3)]
        for exchange in exchanges:
            assert b"Bearer t1\x01" in await exchange.start()
        await asyncio.sleep(60)
        for number in (2, 3):
            assert all(isinstance(exchange, RenewableExchange) for exchange in exchanges)
            exchanges = [exchange.renewed() for exchange in exchanges if isinstance(exchange, RenewableExchange)]
            for exchange in exchanges:
                assert b"Bearer t%d\x01" % number in await exchange.start()
        source.error = OSError("down")
        for _ in range(3):
            exchanges = [exchange.renewed() for exchange in exchanges if isinstance(exchange, RenewableExchange)]
            assert b"Bearer t3\x01" in await exchanges[0].start()
        assert source.calls == 4

    simulated(program)


def test_a_rejected_token_is_not_used_again() -> None:
    async def program() -> None:
        source = Source()
        mechanism = OAuthBearer(source)
        for number in (1, 2):
            exchange = mechanism.exchange("broker")
            assert b"Bearer t%d\x01" % number in await exchange.start()
            await exchange.respond(b'{"status":"invalid_token"}')

    simulated(program)


def test_a_mechanism_serves_several_event_loops() -> None:
    source = Source(lifetime=None)
    tokens = cache(source)

    async def abandoned() -> None:
        source.delay = 1000
        waiting = asyncio.ensure_future(tokens.get())
        await asyncio.sleep(1)
        # Nothing awaits it, because its loop ends first.
        assert not waiting.done()

    async def other() -> None:
        source.delay = 0
        assert (await tokens.get()).value == "t2"

    for program in (abandoned, other):
        simulated(program)


def test_a_mechanism_reaches_other_processes() -> None:
    async def program() -> None:
        mechanism = OAuthBearer(ClientCredentials("https://issuer/token", "id", "s3cret"))
        waiting = asyncio.ensure_future(mechanism.exchange("broker").start())
        await asyncio.sleep(0.001)
        copy = pickle.loads(pickle.dumps(mechanism))
        assert repr(copy) == "OAuthBearer()"
        waiting.cancel()

    simulated(program)
