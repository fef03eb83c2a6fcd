"""Retries of a token endpoint, in virtual time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from aiokproto.errors import AuthenticationError, BrokerConnectionError
from aiokproto.security import Token, TokenEndpoint
from aiokproto.security.token_endpoint import WARN_EVERY
from aiokproto.simulation import Simulation

URL = "http://10.0.0.9:8080/token"
TOKEN = b'HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{"access_token":"t"}'
BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
REFUSED = b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n"


class Provider:
    """Gives the answers of a list, then repeats the last one; None is silence. ``times`` has the time of each
    request."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)
        self.times: list[float] = []

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            self.times.append(asyncio.get_running_loop().time())
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if answer is None:
                await reader.read()
            else:
                writer.write(answer)
            writer.close()

        server = await asyncio.start_server(serve, "10.0.0.9", 8080)
        try:
            yield
        finally:
            server.close()


def simulated(program: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await program()

    Simulation(seed=5).run(main())


async def ask(**options: float) -> Token:
    return await TokenEndpoint(URL, allow_http=True, **options).request({}, {}, ())  # type: ignore[arg-type]


def test_waits_double_up_to_a_limit() -> None:
    async def program() -> None:
        provider = Provider(*[BUSY] * 5, TOKEN)
        async with provider.serving():
            assert (await ask(retry_backoff=1, retry_backoff_max=100)).value == "t"
        waits = [later - earlier for earlier, later in zip(provider.times, provider.times[1:], strict=False)]
        for wait, expected in zip(waits, [1, 2, 4, 8, 16], strict=True):
            assert 0.8 * expected <= wait <= 1.2 * expected + 0.5

    simulated(program)


def test_no_attempt_starts_after_the_longest_wait() -> None:
    async def program() -> None:
        provider = Provider(BUSY)
        began = asyncio.get_running_loop().time()
        async with provider.serving():
            with pytest.raises(BrokerConnectionError, match="status 503"):
                await ask()
        assert 5 <= asyncio.get_running_loop().time() - began <= 10.5
        assert 5 <= len(provider.times) <= 8

    simulated(program)


def test_each_attempt_has_its_time() -> None:
    async def program() -> None:
        provider = Provider(None, None, TOKEN)
        began = asyncio.get_running_loop().time()
        async with provider.serving():
            assert (await ask(read_timeout=2)).value == "t"
        assert 4 <= asyncio.get_running_loop().time() - began <= 6

    simulated(program)


def test_a_rejection_is_not_repeated() -> None:
    async def program() -> None:
        provider = Provider(REFUSED)
        async with provider.serving():
            with pytest.raises(AuthenticationError, match="status 401"):
                await ask()
        assert len(provider.times) == 1

    simulated(program)


def test_retries_are_logged_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    """The log doesn't contain the secret, which the endpoint repeats. It has at most one line in a while, even if the
    endpoint's errors differ."""

    def busy(number: int) -> bytes:
        body = f'{{"error":"busy","error_description":"s3cret, request {number}"}}'.encode()
        return b"HTTP/1.1 503 Busy\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

    async def program() -> None:
        endpoint = TokenEndpoint(URL, allow_http=True)
        async with Provider(*map(busy, range(1000))).serving():
            for wait in (0.0, WARN_EVERY / 2, WARN_EVERY):
                await asyncio.sleep(wait)
                with pytest.raises(BrokerConnectionError, match="status 503"):
                    await endpoint.request({}, {}, ("s3cret",))

    with caplog.at_level(logging.WARNING, "aiokproto"):
        simulated(program)
    first, second = (record.getMessage() for record in caplog.records)
    assert first.startswith(f"the token endpoint {URL} gave no token: status 503, busy: ")
    assert "request 0; trying again in 0." in first
    assert "gave no token: status 503" in second
    assert "s3cret" not in caplog.text
