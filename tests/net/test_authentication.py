"""Authentication of a connection: what is sent, what ends it, and how a session is renewed."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest

from aiokproto.broker import Broker, Security
from aiokproto.codec.frames import decode_request_header, encode_response
from aiokproto.codec.messages.heartbeat import HeartbeatResponse
from aiokproto.codec.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from aiokproto.codec.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from aiokproto.codec.schema import Response
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import (
    AuthenticationError,
    BrokerConnectionError,
    ConfigurationError,
    KafkaError,
    UnsupportedVersionError,
)
from aiokproto.net.authentication import MAX_CHALLENGES
from aiokproto.net.open import open_connection
from aiokproto.security import AwsCredentials, AwsMskIam, OAuthBearer, Plain, SaslMechanism, Scram, UnsecuredToken
from tests.net.authenticating import Counting, answers, beat, refused
from tests.net.bare import bare, framed
from tests.net.peer import HangUp, config, connected, peer, raw_peer, serves
from tests.timeouts import LONG_TIMEOUT


@pytest.mark.parametrize("tokens", [1, 2, 5])
async def test_tokens_and_challenges_take_turns(tokens: int) -> None:
    mechanism = Counting(tokens=tokens)
    async with peer(answers()) as broker, connected(broker.port, sasl=mechanism) as line:
        assert (await line.send(beat(7), timeout=LONG_TIMEOUT)).error_code == 7
    expected = [b"token %d" % (number + 1) for number in range(tokens)]
    assert mechanism.challenges == expected
    assert mechanism.hosts == ["127.0.0.1"]
    handshake, *exchange = broker.requests[1:-1]
    assert (handshake[0].mechanism, handshake[1]) == ("COUNTING", 1)
    assert [(bytes(request.auth_bytes), version) for request, version in exchange] == [(each, 2) for each in expected]


@pytest.mark.parametrize("answered", [True, False])
async def test_a_broker_before_1_0_gets_bare_tokens(answered: bool) -> None:
    """The broker may respond to the last token; Event Hubs does, with some bytes."""
    mechanism = Counting(tokens=3, complete_early=not answered)
    tokens: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        versions = decode_request_header(await bare(reader))
        listed = serves(SaslHandshake=(0, 0), Heartbeat=(0, 1), ApiVersions=(0, 0))(None, 0)
        assert isinstance(listed, Response)
        writer.write(encode_response(listed, versions.api_version, versions.correlation_id))
        handshake = decode_request_header(await bare(reader))
        assert (handshake.api_key, handshake.api_version) == (17, 0)
        writer.write(encode_response(SaslHandshakeResponse(), 0, handshake.correlation_id))
        for number in range(3):
            tokens.append(await bare(reader))
            if answered or number < 2:
                writer.write(framed(b"challenge" if number == 0 else b"data"))
        request = decode_request_header(await bare(reader))
        writer.write(encode_response(HeartbeatResponse(error_code=3), request.api_version, request.correlation_id))
        await reader.read()

    async with raw_peer(serve) as port, connected(port, sasl=mechanism) as line:
        assert (await line.send(beat(), timeout=LONG_TIMEOUT)).error_code == 3
    assert tokens == [b"token 1", b"token 2", b"token 3"]
    assert mechanism.challenges[0] == b"challenge"


async def before_0_10(reader: asyncio.StreamReader) -> bytes:
    """Read the first frame; close the connection if it is a request."""
    first = await bare(reader)
    if not first.startswith(b"token"):
        raise ConnectionResetError
    return first


async def test_a_broker_before_0_10_gets_gssapi_tokens_at_once() -> None:
    mechanism = Counting("GSSAPI", tokens=2, complete_early=True)
    tokens: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tokens.append(await before_0_10(reader))
        writer.write(framed(b"challenge"))
        tokens.append(await bare(reader))
        await reader.read()

    async with raw_peer(serve) as port, connected(port, sasl=mechanism) as line:
        assert line.versions.assumed
        # The last token may still be on its way.
        while len(tokens) < 2:
            await asyncio.sleep(0)
    assert tokens == [b"token 1", b"token 2"]


async def test_what_closes_every_connection_can_be_a_broker_before_0_10_or_one_that_is_away() -> None:
    """The client can't tell them apart, and only a retry can succeed."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await before_0_10(reader)

    async with raw_peer(serve) as port:
        with pytest.raises(BrokerConnectionError, match=r"is starting.*before 0\.10 has no SASL mechanism COUNTING"):
            async with connected(port, sasl=Counting()):
                raise AssertionError


async def test_a_broker_before_0_10_has_no_other_mechanism() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await before_0_10(reader)

    async with raw_peer(serve) as port:
        with pytest.raises(UnsupportedVersionError, match=r"COUNTING needs Kafka 0\.10 or later.*is Kafka 0\.9 by"):
            async with connected(port, sasl=Counting(), broker_version="0.9"):
                raise AssertionError


def hang_up(request: object, version: int) -> None:
    raise HangUp


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        (
            {
                "handshake": lambda request, version: SaslHandshakeResponse(
                    error_code=33, mechanisms=["PLAIN", "GSSAPI"]
                )
            },
            AuthenticationError,
            r"does not enable SASL mechanism COUNTING on this listener \(enabled: PLAIN, GSSAPI\)",
        ),
        (
            {"handshake": lambda request, version: SaslHandshakeResponse(error_code=34)},
            AuthenticationError,
            "does not expect SASL on this listener",
        ),
        (
            {"handshake": lambda request, version: SaslHandshakeResponse(error_code=-1)},
            BrokerConnectionError,
            "SASL authentication failed: SaslHandshake to .*UNKNOWN_SERVER_ERROR",
        ),
        (
            {"authenticate": refused(ErrorCode.SASL_AUTHENTICATION_FAILED, "no such user")},
            AuthenticationError,
            r"rejected the credentials \(SASL COUNTING\): no such user",
        ),
        (
            {"authenticate": refused(ErrorCode.COORDINATOR_NOT_AVAILABLE)},
            BrokerConnectionError,
            "SASL authentication failed: SaslAuthenticate to .*COORDINATOR_NOT_AVAILABLE",
        ),
        ({"handshake": hang_up}, BrokerConnectionError, r"was lost.*SaslHandshake was in flight"),
        ({"authenticate": hang_up}, BrokerConnectionError, r"was lost.*SaslAuthenticate was in flight"),
        (
            {"authenticate": lambda request, version: b"\x7f\x00\x00\x00"},
            BrokerConnectionError,
            "SaslAuthenticate to .* has 2130706432 bytes, and the connection is not open yet",
        ),
    ],
)
async def test_a_broker_that_does_not_authenticate(changes: Any, error: type[KafkaError], text: str) -> None:
    async with peer(answers(**changes)) as broker:
        with pytest.raises(error, match=text) as raised:
            async with connected(broker.port, sasl=Counting()):
                raise AssertionError
        assert type(raised.value) is error
        await broker.hung_up.wait()


@pytest.mark.parametrize(
    ("cause", "error", "text"),
    [
        (AuthenticationError("the proof is wrong"), AuthenticationError, "SASL COUNTING with .*: the proof is wrong"),
        (BrokerConnectionError("no file"), BrokerConnectionError, "SASL COUNTING with .*: no file"),
        (
            ValueError("no token today"),
            BrokerConnectionError,
            r"SASL COUNTING with .*: ValueError \(its text is left out",
        ),
    ],
)
async def test_a_mechanism_that_fails(cause: Exception, error: type[KafkaError], text: str) -> None:
    async with peer(answers()) as broker:
        with pytest.raises(error, match=text) as raised:
            async with connected(broker.port, sasl=Counting(fails=cause)):
                raise AssertionError
        assert (isinstance(raised.value, error), raised.value.__cause__) == (True, cause)


async def test_the_methods_of_an_own_mechanism_need_not_be_coroutines() -> None:
    class Plain:
        complete = True

        def start(self) -> bytes:
            return b"first"

        def respond(self, challenge: bytes) -> None:
            return None

    class Mechanism(Counting):
        def exchange(self, host: str) -> Any:
            return Plain()

    async with peer(answers()) as broker, connected(broker.port, sasl=Mechanism()):
        pass


class Broken(Counting):
    """An application's mechanism with a mistake in one place."""

    def __init__(self, **methods: Any) -> None:
        super().__init__()
        self.methods = methods

    def exchange(self, host: str) -> Any:
        if "exchange" in self.methods:
            return self.methods["exchange"]()
        return type(
            "Exchange", (), {"complete": True, "start": lambda _: b"token", "respond": lambda *_: None} | self.methods
        )()


def fails(*_: object) -> Any:
    raise ValueError("the mechanism is broken")


async def cancelled(*_: object) -> bytes:
    """A library does so if its own task was cancelled."""
    task = asyncio.ensure_future(asyncio.Event().wait())
    asyncio.get_running_loop().call_soon(task.cancel)
    await task
    return b""


@pytest.mark.parametrize(
    ("methods", "error", "text"),
    [
        ({"exchange": fails}, BrokerConnectionError, r"SASL COUNTING with .*: ValueError \(its text is left out"),
        ({"start": fails}, BrokerConnectionError, r"SASL COUNTING with .*: ValueError \(its text is left out"),
        ({"respond": fails}, BrokerConnectionError, r"SASL COUNTING with .*: ValueError \(its text is left out"),
        ({"start": lambda _: "s3cret"}, ConfigurationError, "the mechanism returned str: expected bytes"),
        ({"start": lambda _: None}, ConfigurationError, "the mechanism returned NoneType: expected bytes"),
        ({"respond": lambda *_: 5}, ConfigurationError, "the mechanism returned int: expected bytes"),
        ({"respond": lambda *_: "s3cret"}, ConfigurationError, "the mechanism returned str: expected bytes"),
    ],
)
async def test_a_mechanism_of_an_application_that_is_wrong(methods: Any, error: type[KafkaError], text: str) -> None:
    """Its errors make the attempt fail. An error that no retry fixes is an error of the option."""
    async with peer(answers()) as broker:
        with pytest.raises(error, match=text) as raised:
            async with connected(broker.port, sasl=Broken(**methods)):
                raise AssertionError
        assert "s3cret" not in str(raised.value)
        await broker.hung_up.wait()


async def test_an_explanation_that_fails() -> None:
    async with peer(answers(authenticate=refused(ErrorCode.SASL_AUTHENTICATION_FAILED))) as broker:
        with pytest.raises(BrokerConnectionError, match=r"ValueError \(its text is left out"):
            async with connected(broker.port, sasl=Broken(explain=fails)):
                raise AssertionError


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tasks do not tell before Python 3.11")
@pytest.mark.parametrize("method", ["start", "respond"])
async def test_a_mechanism_that_is_cancelled_by_itself(method: str) -> None:
    """The task that connects isn't cancelled, because that would end the client."""
    async with peer(answers()) as broker:
        with pytest.raises(BrokerConnectionError, match=": CancelledError"):
            async with connected(broker.port, sasl=Broken(**{method: cancelled})):
                raise AssertionError


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("no such user", "no such user"),
        (None, "without a reason"),
        ("", "without a reason"),
        ("\r\n\x1b[2Jx", "???[2Jx"),
        ("x" * 30_000, "x" * 1000),
    ],
)
async def test_what_a_broker_says_is_on_one_line_and_not_long(said: str | None, shown: str) -> None:
    async with peer(answers(authenticate=refused(ErrorCode.SASL_AUTHENTICATION_FAILED, said))) as broker:
        with pytest.raises(AuthenticationError) as raised:
            async with connected(broker.port, sasl=Counting()):
                raise AssertionError
    assert str(raised.value).endswith(f" rejected the credentials (SASL COUNTING): {shown}")


@pytest.mark.parametrize(
    ("mechanism", "user"),
    [
        (Plain("alice", "s3cret"), "'alice'"),
        (Plain(lambda: "bob", "s3cret"), "'bob'"),
        (Plain("a\r\nb" + "x" * 1000, "s3cret"), "'a??b" + "x" * 196 + "'"),
        (Scram("SCRAM-SHA-256", "älice", "s3cret"), "'älice'"),
        (Scram("SCRAM-SHA-512", "token-1", "s3cret", delegation_token=True), "'token-1'"),
        (OAuthBearer(UnsecuredToken("carol")), "'carol'"),
        (OAuthBearer("opaque"), None),
        (AwsMskIam(AwsCredentials("AKIA1", "s3cret"), "us-east-1"), "'AKIA1'"),
    ],
)
async def test_the_error_names_mechanism_user_and_broker(mechanism: SaslMechanism, user: str | None) -> None:
    async with peer(answers(authenticate=refused(ErrorCode.SASL_AUTHENTICATION_FAILED, "no"))) as broker:
        with pytest.raises(AuthenticationError) as raised:
            async with connected(broker.port, sasl=mechanism):
                raise AssertionError
    of = "" if user is None else f" of {user}"
    assert str(raised.value) == f"{broker.address} rejected the credentials{of} (SASL {mechanism.name}): no"
    assert "s3cret" not in repr(raised.value.__cause__)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
@pytest.mark.parametrize(
    ("user", "password", "hint"),
    [
        ("alice", "s3cret2\n", "; sasl_password begins or ends with white space"),
        (" alice", "s3cret", "; sasl_username begins or ends with white space"),
        ("alice", "an other", ""),
    ],
)
async def test_credentials_with_white_space_around_them_are_named(
    mechanism: str, user: str, password: str, hint: str
) -> None:
    made = Plain(user, password) if mechanism == "PLAIN" else Scram(mechanism, user, password)
    async with Broker(security=Security("SASL_PLAINTEXT", users={"alice": "s3cret"})) as broker:
        with pytest.raises(AuthenticationError, match=rf"[Ii]nvalid [^;]*{hint}$") as raised:
            async with connected(int(broker.bootstrap_servers.rpartition(":")[2]), sasl=made):
                raise AssertionError
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    "challenge", [b"", b"challenge", b"n,,\x01auth=\x01", b'{"version":"2020_10_22"}', b"\xff" * 500]
)
@pytest.mark.parametrize(
    "mechanism",
    [
        Plain("alice", "s3cret"),
        Scram("SCRAM-SHA-256", "alice", "s3cret"),
        Scram("SCRAM-SHA-512", "alice", "s3cret"),
        OAuthBearer("opaque"),
        AwsMskIam(AwsCredentials("AKIA1", "s3cret"), "us-east-1"),
    ],
    ids=lambda mechanism: mechanism.name,
)
async def test_no_mechanism_answers_challenges_for_ever(mechanism: SaslMechanism, challenge: bytes) -> None:
    def challenges(request: SaslAuthenticateRequest, version: int) -> SaslAuthenticateResponse:
        return SaslAuthenticateResponse(error_message=None, auth_bytes=challenge)

    async with peer(answers(authenticate=challenges)) as broker:
        try:
            async with connected(broker.port, sasl=mechanism):
                pass
        except AuthenticationError:
            pass
    assert len(broker.requests) <= 4


@pytest.mark.parametrize("offered", [["PLAIN"], ["GSSAPI", "PLAIN"], [f"X{number}" for number in range(10_000)]])
@pytest.mark.parametrize("name", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_client_never_falls_back_to_another_mechanism(name: str, offered: list[str]) -> None:
    """A server that offers only PLAIN gets nothing, and the connection is closed."""

    def refuse(request: SaslHandshakeRequest, version: int) -> SaslHandshakeResponse:
        return SaslHandshakeResponse(error_code=33, mechanisms=offered)

    async with peer(answers(handshake=refuse)) as broker:
        with pytest.raises(
            AuthenticationError, match=rf"does not enable SASL mechanism {name}.*enabled: {offered[0]}"
        ) as raised:
            async with connected(broker.port, sasl=Scram(name, "alice", "s3cret")):
                raise AssertionError
        await broker.hung_up.wait()
    assert len(broker.requests) == 2
    assert len(str(raised.value)) < 400


async def test_an_exchange_without_end() -> None:
    async with peer(answers()) as broker:
        with pytest.raises(AuthenticationError, match=f"not complete after {MAX_CHALLENGES} challenges"):
            async with connected(broker.port, sasl=Counting(tokens=1 << 30)):
                raise AssertionError
    assert len(broker.requests) == 2 + MAX_CHALLENGES


async def test_cancelling_closes_the_socket() -> None:
    asked = asyncio.Event()

    def silent(request: object, version: int) -> None:
        asked.set()

    async with peer(answers(authenticate=silent)) as broker:
        opening = asyncio.ensure_future(
            open_connection("127.0.0.1", broker.port, "broker 1", config(sasl=Counting()), LONG_TIMEOUT)
        )
        await asked.wait()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        await broker.hung_up.wait()
