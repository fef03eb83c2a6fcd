"""The application's code that verifies logins misbehaves: the client is refused, the log says so without secrets, and
the broker serves others.

``SystemExit`` ends the program: see ``tests/callbacks/test_walk.py``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NoReturn, cast

import pytest

from aiokproto.broker import Broker, Security
from aiokproto.broker.request_context import CloseConnection
from aiokproto.broker.security.oauthbearer import Token
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.messages.sasl_authenticate import SaslAuthenticateRequest
from aiokproto.codec.messages.sasl_handshake import SaslHandshakeRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, KafkaError
from tests.broker.wire import Wire, connect

SECRET = "s3cr3t"
BEARER = f"n,,\x01auth=Bearer {SECRET}\x01\x01".encode()
LOGINS = {"OAUTHBEARER": BEARER, "PLAIN": f"\0alice\0{SECRET}".encode()}

FAILURES: dict[str, Callable[[], BaseException]] = {
    "bug": lambda: RuntimeError(SECRET),
    "client error": lambda: KafkaError(SECRET),
    "broker error": lambda: BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, detail=SECRET),
    "foreign cancellation": lambda: asyncio.CancelledError(SECRET),
    "end of an iteration": lambda: StopAsyncIteration(SECRET),
    "no connection": lambda: ConnectionResetError(SECRET),
    "end of a file": lambda: EOFError(SECRET),
    "of the broker": lambda: CloseConnection(SECRET),
}


async def hanging() -> None:
    """Wait forever. A validator that is a coroutine function returns such a coroutine."""
    await asyncio.get_running_loop().create_future()


RESULTS: dict[str, Callable[[], object]] = {
    "nothing": lambda: None,
    "the token": lambda: SECRET,
    "a coroutine": hanging,
    "no name": lambda: Token("", 1 << 41),
    "a number for the name": lambda: Token(cast("Any", 3), 1 << 41),
    "no time": lambda: Token("alice", cast("Any", None)),
    "seconds": lambda: Token("alice", cast("Any", 1.5)),
    "a time that is none": lambda: Token("alice", 1 << 80),
}


class Misbehaving:
    """A validator or a mapping of passwords that misbehaves."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act

    def my_function(self, *asked: object) -> Any:
        return self._act()

    def security(self, mechanism: str) -> Security:
        if mechanism == "OAUTHBEARER":
            return Security("SASL_PLAINTEXT", token_validator=self.my_function)
        return Security("SASL_PLAINTEXT", users=Passwords(self))


class Passwords(dict[str, str]):
    """Passwords that are read from elsewhere when they are needed."""

    def __init__(self, misbehaving: Misbehaving) -> None:
        super().__init__(alice=SECRET)
        self.get = misbehaving.my_function  # type: ignore[method-assign]


def raising(make: Callable[[], BaseException]) -> Callable[[], NoReturn]:
    def act() -> NoReturn:
        raise make()

    return act


async def log_in(wire: Wire, mechanism: str, handshake: int) -> None:
    """Log in. With version 0 of SaslHandshake the token is sent bare."""
    request = SaslHandshakeRequest(mechanism=mechanism)
    assert (await wire.ask(request, handshake)).error_code == 0
    token = LOGINS[mechanism]
    if handshake == 0:
        wire.writer.write(len(token).to_bytes(4, "big") + token)
    else:
        wire.send(SaslAuthenticateRequest(auth_bytes=token))


async def failed_login(act: Callable[[], object], mechanism: str, handshake: int) -> list[dict[str, Any]]:
    """Log in while ``act`` verifies it, and return what the event loop has reported."""
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
    try:
        async with Broker(security=Misbehaving(act).security(mechanism)) as broker:
            async with connect(broker) as wire:
                await log_in(wire, mechanism, handshake)
                assert await wire.closed(), "without a word of why"
            async with connect(broker) as other:
                assert (await other.ask(ApiVersionsRequest(), 3)).error_code == 0
    finally:
        asyncio.get_running_loop().set_exception_handler(None)
    return reported


@pytest.mark.parametrize("handshake", [0, 1], ids=["bare", "wrapped"])
@pytest.mark.parametrize("mechanism", LOGINS)
@pytest.mark.parametrize("failure", FAILURES)
async def test_what_raises_is_logged_without_its_text_and_closes_the_connection(
    failure: str, mechanism: str, handshake: int, caplog: pytest.LogCaptureFixture
) -> None:
    made = FAILURES[failure]()
    with caplog.at_level(logging.DEBUG, "aiokproto"):
        assert await failed_login(raising(lambda: made), mechanism, handshake) == []
    (record,) = (each for each in caplog.records if each.levelno >= logging.WARNING)
    assert record.levelno == logging.ERROR
    assert type(made).__name__ in record.getMessage()
    assert "my_function" in caplog.text, "the frames of the application's function"
    assert SECRET not in caplog.text
    assert_no_frame_has(record.exc_info, LOGINS[mechanism])


def assert_no_frame_has(exc_info: Any, token: bytes) -> None:
    """Look as tools do that show the variables of frames, and the errors behind an error."""
    error = exc_info[1]
    assert error.__context__ is None
    traceback = error.__traceback__
    while traceback is not None:
        assert token not in traceback.tb_frame.f_locals.values()
        traceback = traceback.tb_next


@pytest.mark.parametrize("handshake", [0, 1], ids=["bare", "wrapped"])
@pytest.mark.parametrize("result", RESULTS)
async def test_a_validator_that_returns_no_token_of_a_user_lets_no_client_in(
    result: str, handshake: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "aiokproto"):
        assert await failed_login(RESULTS[result], "OAUTHBEARER", handshake) == []
    (record,) = (each for each in caplog.records if each.levelno >= logging.WARNING)
    assert "token_validator returned" in record.getMessage()
    assert SECRET not in caplog.text
    assert_no_frame_has(record.exc_info, BEARER)


async def test_a_password_that_is_not_a_string_lets_no_client_in(caplog: pytest.LogCaptureFixture) -> None:
    assert await failed_login(lambda: 3, "PLAIN", 1) == []
    assert "what verifies logins by PLAIN raised AttributeError" in caplog.text


async def test_a_refusal_of_a_validator_is_not_a_failure(caplog: pytest.LogCaptureFixture) -> None:
    """ValueError is how it does; its text goes nowhere."""
    security = Misbehaving(raising(lambda: ValueError(SECRET))).security("OAUTHBEARER")
    with caplog.at_level(logging.DEBUG, "aiokproto"):
        async with Broker(security=security) as broker, connect(broker) as wire:
            assert (await wire.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1)).error_code == 0
            challenge = await wire.ask(SaslAuthenticateRequest(auth_bytes=BEARER))
            assert (challenge.error_code, challenge.auth_bytes) == (0, b'{"status":"invalid_token"}')
            answer = await wire.ask(SaslAuthenticateRequest(auth_bytes=b"\x01"))
            assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not [each for each in caplog.records if each.levelno >= logging.ERROR]
    assert SECRET not in caplog.text
