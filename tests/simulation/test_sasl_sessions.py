"""SASL sessions: when a connection authenticates again (KIP-368), in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aiokproto.codec.frames import encode_response
from aiokproto.codec.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from aiokproto.codec.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from aiokproto.codec.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import AuthenticationError, BrokerConnectionError, DeadlineError, KafkaError
from aiokproto.net.connection import Connection
from aiokproto.net.open import open_connection
from aiokproto.runtime.timeouts import timeout
from aiokproto.simulation import Simulation
from tests.net.authenticating import Counting, CountingExchange, accept, answers, beat, refused
from tests.net.peer import Answer, config, peer
from tests.timeouts import LONG_TIMEOUT

LONGEST = 3600.0
"""Virtual seconds that a program may take."""


def lasting(*lifetimes: int) -> Answer:
    """Limit the first sessions to these numbers of milliseconds, and no further ones."""
    rest = list(lifetimes)

    def answer(request: SaslAuthenticateRequest, version: int) -> SaslAuthenticateResponse:
        return SaslAuthenticateResponse(error_message=None, session_lifetime_ms=rest.pop(0) if rest else 0)

    return answer


def in_virtual_time(
    authenticate: Answer, program: Callable[[Connection, Any, list[KafkaError]], Any], mechanism: Counting | None = None
) -> Any:
    """Run a program with an open connection in virtual time. The program gets the peer, and what rejected renewals
    report."""

    async def main() -> Any:
        rejected: list[KafkaError] = []
        async with peer(answers(authenticate=authenticate)) as broker:
            options = config(sasl=mechanism or Counting(), connections_max_idle=1e6)
            line = await open_connection(
                "127.0.0.1", broker.port, "broker 1", options, 10.0, on_rejected=rejected.append
            )
            try:
                # Timers of the connection never end, so without a limit a request that is held back forever would never
                # fail.
                async with timeout(LONGEST):
                    return await program(line, broker, rejected)
            finally:
                line.abort()
                await line.wait_closed()

    return Simulation(seed=1).run(main())


def kinds(broker: Any) -> str:
    """Return the requests after ApiVersions: h, a, or the number of a heartbeat."""
    names: dict[type, str] = {SaslHandshakeRequest: "h", SaslAuthenticateRequest: "a"}
    return "".join(names.get(type(request)) or str(request.generation_id) for request, _ in broker.requests[1:])


def test_a_broker_that_does_not_respond_to_a_token() -> None:
    async def main() -> None:
        async with peer(answers(authenticate=lambda request, version: None)) as broker:
            with pytest.raises(
                DeadlineError, match=r"SaslAuthenticate to .*: no response in 10 s|not complete in 10 s"
            ):
                await open_connection("127.0.0.1", broker.port, "broker 1", config(sasl=Counting()), 10.0)
            assert asyncio.get_running_loop().time() < 10.1
            await broker.hung_up.wait()

    Simulation(seed=1).run(main())


def test_the_first_request_late_in_a_session_renews_it() -> None:
    """All later requests wait for it. An idle connection does nothing."""

    async def program(line: Connection, broker: Any, rejected: list[KafkaError]) -> None:
        await line.send(beat(1), timeout=LONG_TIMEOUT)
        await asyncio.sleep(8.4)
        await line.send(beat(2), timeout=LONG_TIMEOUT)
        await asyncio.sleep(1000)
        assert kinds(broker) == "ha12"
        calls = [asyncio.ensure_future(line.send(beat(number), timeout=LONG_TIMEOUT)) for number in (3, 4, 5)]
        assert [(await call).error_code for call in calls] == [3, 4, 5]
        await asyncio.sleep(1000)
        await line.send(beat(6), timeout=LONG_TIMEOUT)
        assert kinds(broker) == "ha12ha3456"

    in_virtual_time(lasting(10_000), program)


def test_sessions_are_renewed_as_often_as_they_end() -> None:
    async def program(line: Connection, broker: Any, rejected: list[KafkaError]) -> None:
        for number in range(1, 10):
            await line.send(beat(number), timeout=LONG_TIMEOUT)
            await asyncio.sleep(2.5)
        # Each renewal comes between 8.5 and 9.5 seconds after the previous one.
        assert kinds(broker) == "ha1234ha5678ha9"

    in_virtual_time(lasting(10_000, 10_000), program)


def test_requests_in_flight_are_not_disturbed_by_a_renewal() -> None:
    async def program(line: Connection, broker: Any, rejected: list[KafkaError]) -> None:
        answer = broker.answers[HeartbeatRequest.api_key]
        broker.answers[HeartbeatRequest.api_key] = lambda request, version: None
        first = asyncio.ensure_future(line.send(beat(1), timeout=100))
        await asyncio.sleep(20)
        assert kinds(broker) == "ha1"
        broker.answers[HeartbeatRequest.api_key] = answer
        # The peer answers as a broker does: first the response that is due, with the fourth request's id, then the
        # response to the sixth.
        broker.answers[SaslHandshakeRequest.api_key] = lambda request, version: (
            encode_response(HeartbeatResponse(error_code=1), HeartbeatRequest.versions.highest, 3)
            + encode_response(accept(request, version), version, 5)
        )
        second = asyncio.ensure_future(line.send(beat(2), timeout=100))
        assert [(await call).error_code for call in (first, second)] == [1, 2]
        assert kinds(broker) == "ha1ha2"

    in_virtual_time(lasting(10_000), program)


def test_a_throttle_time_and_a_renewal_hold_requests_back_together() -> None:
    async def program(line: Connection, broker: Any, rejected: list[KafkaError]) -> None:
        line._throttle(20)
        first = asyncio.ensure_future(line.send(beat(1), timeout=LONG_TIMEOUT))
        await asyncio.sleep(15)
        # The session must be renewed because a request waits, but the throttle time still holds the renewal back.
        assert kinds(broker) == "haha"
        assert not first.done()
        await first
        assert asyncio.get_running_loop().time() >= 20
        assert kinds(broker) == "haha1"

    in_virtual_time(lasting(10_000), program)


def test_a_refused_renewal_ends_the_connection_and_is_reported() -> None:
    """The requests that it has held back fail with the broker's message."""
    taken: list[Answer] = [lasting(10_000), refused(ErrorCode.SASL_AUTHENTICATION_FAILED, "the user is gone")]

    async def program(line: Connection, broker: Any, rejected: list[KafkaError]) -> None:
        await asyncio.sleep(10)
        outcomes: list[object] = []
        line.send_nowait(beat(1), outcomes.append, timeout=LONG_TIMEOUT)
        with pytest.raises(AuthenticationError, match=r"the user is gone \(Heartbeat was in flight\)"):
            await line.send(beat(2), timeout=LONG_TIMEOUT)
        assert isinstance(outcomes[0], AuthenticationError)
        assert isinstance(line.failure, AuthenticationError)
        assert rejected == [line.failure]
        assert kinds(broker) == "haha"

    in_virtual_time(lambda request, version: taken.pop(0)(request, version), program)


def test_a_renewal_that_comes_too_soon_ends_the_connection_only() -> None:
    async def program(line: Connection, broker: Any, rejected: list[KafkaError]) -> None:
        broker.answers[SaslHandshakeRequest.api_key] = lambda request, version: SaslHandshakeResponse(error_code=34)
        await asyncio.sleep(10)
        with pytest.raises(BrokerConnectionError, match="ILLEGAL_SASL_STATE") as raised:
            await line.send(beat(1), timeout=LONG_TIMEOUT)
        assert not isinstance(raised.value, AuthenticationError)

    in_virtual_time(lasting(10_000), program)


def test_a_mechanism_that_fails_in_a_renewal_ends_the_connection_only() -> None:
    """It doesn't matter where it fails: the requests that wait for the renewal would otherwise wait forever."""

    class Failing(Counting):
        def exchange(self, host: str) -> Any:
            if self.hosts:
                raise ValueError("no exchange today")
            return super().exchange(host)

    async def program(line: Connection, broker: Any, rejected: list[KafkaError]) -> None:
        await asyncio.sleep(10)
        with pytest.raises(BrokerConnectionError, match="ValueError") as raised:
            await line.send(beat(1), timeout=LONG_TIMEOUT)
        assert not isinstance(raised.value, AuthenticationError)
        assert rejected == [line.failure]
        assert kinds(broker) == "ha"

    in_virtual_time(lasting(10_000), program, Failing())


def test_a_renewal_has_a_deadline() -> None:
    taken: list[Answer] = [lasting(10_000), lambda request, version: None]

    async def program(line: Connection, broker: Any, rejected: list[KafkaError]) -> None:
        await asyncio.sleep(10)
        with pytest.raises(BrokerConnectionError, match=r"in 10 s"):
            await line.send(beat(1), timeout=LONG_TIMEOUT)
        assert asyncio.get_running_loop().time() < 25

    in_virtual_time(lambda request, version: taken.pop(0)(request, version), program)


class Endless(CountingExchange):
    """An exchange that gets no token: the source does not respond."""

    async def start(self) -> bytes:
        await asyncio.Event().wait()
        return b""


class OneToken(Counting):
    """A mechanism whose later exchanges get no token."""

    def exchange(self, host: str) -> CountingExchange:
        return Endless(self) if self.hosts else super().exchange(host)


def test_a_renewal_that_gets_no_token_has_a_deadline() -> None:
    async def program(line: Connection, broker: Any, rejected: list[KafkaError]) -> None:
        await asyncio.sleep(10)
        with pytest.raises(BrokerConnectionError, match=r"not complete in 10 s: the function, file or .* does not"):
            await asyncio.wait_for(line.send(beat(1), timeout=LONG_TIMEOUT), 60)
        assert asyncio.get_running_loop().time() < 25

    in_virtual_time(lasting(10_000), program, OneToken())


def test_a_caller_with_an_earlier_deadline_does_not_wait_for_the_renewal() -> None:
    taken: list[Answer] = [lasting(10_000), lambda request, version: None]

    async def program(line: Connection, broker: Any, rejected: list[KafkaError]) -> None:
        await asyncio.sleep(10)
        loop = asyncio.get_running_loop()
        with pytest.raises(DeadlineError, match="not sent, as the client is authenticating again"):
            await line.send(beat(1), timeout=LONG_TIMEOUT, deadline=loop.time() + 2)

    in_virtual_time(lambda request, version: taken.pop(0)(request, version), program)


def test_a_connection_that_is_lost_ends_the_renewal() -> None:
    taken: list[Answer] = [lasting(10_000), lambda request, version: None]

    async def program(line: Connection, broker: Any, rejected: list[KafkaError]) -> None:
        await asyncio.sleep(10)
        call = asyncio.ensure_future(line.send(beat(1), timeout=LONG_TIMEOUT))
        await asyncio.sleep(1)
        broker.drop_all()
        with pytest.raises(BrokerConnectionError, match="was lost"):
            await call
        await asyncio.sleep(1)
        assert asyncio.all_tasks() <= {asyncio.current_task(), *broker._tasks}
        assert rejected == []

    in_virtual_time(lambda request, version: taken.pop(0)(request, version), program)
