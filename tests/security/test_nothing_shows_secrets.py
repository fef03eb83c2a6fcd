"""No secret in a log, a representation, an error or a traceback: every mechanism, in logins that succeed and that fail.

Each secret is a text of its own, which no source line contains, as tracebacks show those.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import pickle
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pytest
from cryptography.hazmat.primitives import serialization

from aiokproto import Client, Consumer, Producer, ShareConsumer
from aiokproto.broker import Broker, Security
from aiokproto.codec.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from aiokproto.config import ClusterConfig
from aiokproto.errors import AuthenticationError, BrokerConnectionError, ConfigurationError, DeadlineError, KafkaError
from aiokproto.net.open import open_connection
from aiokproto.security import (
    Assertion,
    AwsCredentials,
    AwsMskIam,
    AwsMskIamToken,
    ClientCredentials,
    JwtBearer,
    OAuthBearer,
    Plain,
    SaslMechanism,
    Scram,
    Token,
    TokenEndpoint,
    UnsecuredToken,
)
from aiokproto.security.tracebacks import without_frames
from tests.net.authenticating import answers
from tests.net.peer import config, peer, raw_peer
from tests.security.certificates import make
from tests.security.hostile_scram import ScramServer
from tests.security.oidc import Asked, Issuer, Oidc, b64, issuing, oidc, refusing, response
from tests.timeouts import LONG_TIMEOUT

MARK = "zq"
QUICK: dict[str, Any] = {"retry_backoff": 0.001, "retry_backoff_max": 0.002, "read_timeout": 0.2}


def secret(name: str) -> str:
    return f"{MARK}-{name}-{MARK}"


PASSWORD, CLIENT_SECRET, PASSPHRASE, ACCESS_KEY, SESSION, QUERY, OPAQUE = (
    secret(name) for name in ("password", "client", "passphrase", "access", "session", "query", "token")
)
ALL = (PASSWORD, CLIENT_SECRET, PASSPHRASE, ACCESS_KEY, SESSION, QUERY, OPAQUE)


class Shown:
    """Everything that could show a secret, and every secret, however it is encoded."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.hidden: set[str] = set()
        for each in ALL:
            self.hide(each)
            self.hidden.add(base64.b64encode(f"id:{each}".encode()).decode())

    def hide(self, text: str) -> None:
        self.hidden |= {text, quote_plus(text), b64(text.encode())[:20], repr(text.encode())[2:-1]}

    def show(self, *objects: object) -> None:
        self.texts += [f"{each!r} {each}" for each in objects]

    def error(self, error: BaseException) -> None:
        self.show(error, error.args, vars(error), *notes(error))
        self.texts += traceback.format_exception(error)
        # Show variables as Sentry and Rich do, except for this module's, which has the secrets.
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_globals["__name__"] == __name__:
            frames = frames.tb_next
        shown = traceback.TracebackException(type(error), error, frames, capture_locals=True)
        self.texts += shown.format()

    def check(self) -> None:
        for text in self.texts:
            found = [each for each in self.hidden if each and each in text]
            assert not found, f"shown: {text}"


def notes(error: BaseException) -> list[str]:
    return getattr(error, "__notes__", [])


class Collector(logging.Handler):
    """Collects log records as text, with their tracebacks."""

    def __init__(self, shown: Shown) -> None:
        super().__init__(logging.NOTSET)
        self.shown = shown

    def emit(self, record: logging.LogRecord) -> None:
        self.shown.texts.append(logging.Formatter().format(record))
        self.shown.texts.append(repr(record.args))


@pytest.fixture
def shown() -> Iterator[Shown]:
    shown, root = Shown(), logging.getLogger()
    collector, level = Collector(shown), root.level
    root.addHandler(collector)
    root.setLevel(logging.DEBUG)
    yield shown
    root.removeHandler(collector)
    root.setLevel(level)
    assert len(shown.texts) > 5
    shown.check()


def key_file(folder: Path, shown: Shown) -> Path:
    issuer = Issuer()
    encrypted = serialization.BestAvailableEncryption(PASSPHRASE.encode())
    file = folder / "key.pem"
    data = issuer.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encrypted)
    file.write_bytes(data)
    shown.hidden |= {line for line in data.decode().splitlines()[1:-1] if len(line) > 40}
    return file


@asynccontextmanager
async def brokers(provider: Oidc) -> AsyncIterator[str]:
    config: dict[str, Any] = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER,AWS_MSK_IAM",
        "sasl.oauthbearer.jwks.endpoint.url": provider.keys_url,
        "sasl.oauthbearer.allow.unverified.audience": True,
        "sasl.oauthbearer.allow.unverified.issuer": True,
    }
    security = Security("SASL_PLAINTEXT", users={"alice": PASSWORD}, aws_access_keys={"AKIA1": ACCESS_KEY})
    async with Broker(security=security, config=config) as broker:
        yield broker.bootstrap_servers


def raising(text: str) -> Callable[[], str]:
    def function() -> str:
        raise OSError("the vault is sealed")

    return function


async def log_in(shown: Shown, servers: str, mechanism: SaslMechanism) -> bool:
    shown.show(mechanism, mechanism.exchange("127.0.0.1"))
    common: dict[str, Any] = {
        "bootstrap_servers": servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "bootstrap_resolve_timeout_ms": 0,
    }
    shown.show(ClusterConfig.parse(common))
    try:
        async with Client(**common) as client, Producer(**common) as producer:
            await client.metadata()
            await producer.send("topic", b"value")
            shown.show(client, producer, vars(client), vars(producer), client.stats(), client.health())
            shown.show(*asyncio.all_tasks())
    except KafkaError as error:
        shown.error(error)
        return False
    return True


async def test_logins_that_succeed(shown: Shown, tmp_path: Path) -> None:
    asyncio.get_running_loop().set_debug(True)
    async with oidc() as provider:

        def answer(asked: Asked) -> bytes:
            token = provider.issuer.token()
            shown.hide(token)
            return response(200, {"access_token": token, "expires_in": 100})

        provider.answer = answer
        endpoint = TokenEndpoint(f"{provider.url}?key={QUERY}")
        assertion = Assertion(key_file(tmp_path, shown), passphrase=PASSPHRASE, issuer="me")
        file = tmp_path / "token"
        file.write_text(provider.issuer.token())
        shown.hide(file.read_text())
        mechanisms: list[SaslMechanism] = [
            Plain("alice", PASSWORD),
            Scram("SCRAM-SHA-256", "alice", lambda: PASSWORD),
            OAuthBearer(ClientCredentials(endpoint, "id", CLIENT_SECRET)),
            OAuthBearer(ClientCredentials(endpoint, "id", assertion=assertion)),
            OAuthBearer(JwtBearer(endpoint, assertion)),
            OAuthBearer(file),
            AwsMskIam(AwsCredentials("AKIA1", ACCESS_KEY, SESSION), "us-east-1"),
        ]
        async with brokers(provider) as servers:
            for mechanism in mechanisms:
                assert await log_in(shown, servers, mechanism)
        for asked in provider.asked:
            for value in (asked.form.get("assertion"), asked.form.get("client_assertion")):
                shown.hide(value or QUERY)


class Unwilling:
    """A mechanism of the application that fails with a secret in its error."""

    name = "PLAIN"

    def exchange(self, host: str) -> Any:
        raise OSError(f"https://vault.example/v1?token={QUERY}: 503")


def unwilling() -> Any:
    raise OSError(f"https://vault.example/v1?token={QUERY}: 503")


async def unwilling_later() -> Any:
    raise OSError(f"https://vault.example/v1?token={QUERY}: 503")


def accepts_nobody(token: str) -> Any:
    raise ValueError("nobody")


@pytest.mark.parametrize("function", [unwilling, unwilling_later])
@pytest.mark.parametrize("what", ["user", "password", "token", "endpoint", "credentials", "mechanism", "certificate"])
async def test_what_a_function_of_the_application_raises_is_not_repeated(
    shown: Shown, tmp_path: Path, what: str, function: Any
) -> None:
    """Its text can be the URL of a vault, with a token in it. The error's cause has it."""
    endpoint = TokenEndpoint("http://127.0.0.1:9/", **QUICK)
    mechanisms: dict[str, Any] = {
        "user": Plain(function, PASSWORD),
        "password": Scram("SCRAM-SHA-256", "alice", function),
        "token": OAuthBearer(function),
        "endpoint": OAuthBearer(ClientCredentials(endpoint, "id", function)),
        "credentials": AwsMskIam(function, "us-east-1"),
        "mechanism": Unwilling(),
    }
    options: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanisms.get(what)}
    if what == "certificate":
        files = make(tmp_path)
        options = files.options("encrypted", ssl_password=function)
    security = Security("SASL_PLAINTEXT", users={"alice": PASSWORD}, aws_access_keys={"AKIA1": ACCESS_KEY})
    mechanisms_on = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,AWS_MSK_IAM"}
    if what in ("token", "endpoint"):
        security = Security("SASL_PLAINTEXT", token_validator=accepts_nobody)
        mechanisms_on = {}
    async with Broker(security=security, config=mechanisms_on) as broker:
        client = Client(bootstrap_servers=broker.bootstrap_servers, bootstrap_resolve_timeout_ms=0, **options)
        with pytest.raises(KafkaError, match="OSError") as raised:
            await client.start()
    error: BaseException | None = raised.value
    while not isinstance(error, OSError) or isinstance(error, KafkaError):
        assert error is not None
        shown.show(error, error.args, vars(error), *notes(error))
        error = error.__cause__
    assert QUERY in str(error)
    shown.show(client, client.health(), client.stats())


def echo(asked: Asked) -> bytes:
    """An endpoint that repeats what it got."""
    text = f"{asked.form} {asked.headers} {asked.target}"
    return response(400, {"error": "invalid_client", "error_description": text, "more": text})


async def test_logins_that_fail(shown: Shown, tmp_path: Path) -> None:
    asyncio.get_running_loop().set_debug(True)
    async with oidc(echo) as provider:
        endpoint = TokenEndpoint(f"{provider.url}?key={QUERY}", **QUICK)
        credentials = ClientCredentials(endpoint, "id", CLIENT_SECRET)
        file = key_file(tmp_path, shown)
        broken = tmp_path / "broken"
        broken.write_text(f"{OPAQUE}\x01{OPAQUE}")
        wrong = PASSWORD + "x"
        mechanisms: list[SaslMechanism] = [
            Plain("alice", wrong),
            Plain("alice", lambda: f"{PASSWORD}\0"),
            Plain("alice", lambda: PASSWORD.encode()),  # type: ignore[arg-type,return-value]
            Plain("alice", raising(PASSWORD)),
            Scram("SCRAM-SHA-512", "alice", wrong),
            OAuthBearer(OPAQUE, extensions={"key": QUERY}),
            OAuthBearer(lambda: f"{OPAQUE}\n"),
            OAuthBearer(lambda: (OPAQUE, 5.0)),
            OAuthBearer(lambda: (OPAQUE, OPAQUE)),  # type: ignore[arg-type,return-value]
            OAuthBearer(lambda: OPAQUE.encode()),  # type: ignore[arg-type,return-value]
            OAuthBearer(lambda: Token(OPAQUE, None, {"auth": OPAQUE})),
            OAuthBearer(lambda: Token(OPAQUE, None, {"key": f"{OPAQUE}\x01"})),
            OAuthBearer(raising(OPAQUE)),
            OAuthBearer(broken),
            OAuthBearer(UnsecuredToken("alice")),
            OAuthBearer(AwsMskIamToken("us-east-1", AwsCredentials("AKIA1", ACCESS_KEY, SESSION))),
            OAuthBearer(credentials),
            OAuthBearer(ClientCredentials(endpoint, "id", assertion=OPAQUE)),
            OAuthBearer(ClientCredentials(endpoint, "id", assertion=Assertion(file, passphrase=f"{PASSPHRASE}x"))),
            OAuthBearer(JwtBearer(endpoint, Assertion(PASSPHRASE))),
            OAuthBearer(JwtBearer(endpoint, OPAQUE)),
            AwsMskIam(AwsCredentials("AKIA1", f"{ACCESS_KEY}x", SESSION), "us-east-1"),
            AwsMskIam(lambda: (ACCESS_KEY, SESSION), "us-east-1"),  # type: ignore[arg-type]
        ]
        async with brokers(provider) as servers:
            for mechanism in mechanisms:
                assert not await log_in(shown, servers, mechanism)
            for answer in (
                refusing(text=CLIENT_SECRET),
                refusing(CLIENT_SECRET, status=400),
                lambda asked: response(500, CLIENT_SECRET.encode()),
                lambda asked: response(200, {"access_token": f"{OPAQUE}\x01"}),
                lambda asked: response(200, {"access_token": OPAQUE, "expires_in": OPAQUE}),
                lambda asked: response(200, {"access_token": [OPAQUE]}),
                lambda asked: OPAQUE.encode() + b"\r\n\r\n",
                lambda asked: response(302, OPAQUE, f"Location: https://elsewhere/?{OPAQUE}"),
                lambda asked: None,
            ):
                provider.answer = answer
                assert not await log_in(shown, servers, OAuthBearer(credentials))


NAMES = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "AWS_MSK_IAM", None, "GSSAPI")
WRONG: dict[str, list[Any]] = {
    "sasl_username": [PASSWORD, PASSWORD.encode(), [PASSWORD]],
    "sasl_password": [PASSWORD, PASSWORD.encode(), {"a": PASSWORD}],
    "sasl_jaas_config": [
        PASSWORD,
        [PASSWORD],
        f"a.PlainLoginModule required password={PASSWORD}",
        f'a.PlainLoginModule required password="{PASSWORD};',
        f"a.PlainLoginModule required {PASSWORD}=a;",
        f"a.PlainLoginModule {PASSWORD};",
        f"{PASSWORD} required;",
        f"a.{PASSWORD}LoginModule required;",
        f'a.OAuthBearerLoginModule required clientSecret="{PASSWORD}" more="{PASSWORD}";',
        f"a.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=a unsecuredLoginLifetimeSeconds={PASSWORD};",
        f"a.ScramLoginModule required username={PASSWORD} password={PASSWORD};",
    ],
    "sasl_oauth_token": [OPAQUE, OPAQUE.encode(), [OPAQUE]],
    "sasl_oauthbearer_token_endpoint_url": [
        f"https://id:{CLIENT_SECRET}@issuer",
        f"https://issuer?{QUERY}#",
        f"http://issuer/?key={QUERY}",
        f"https://issuer:{CLIENT_SECRET}",
    ],
    "sasl_oauthbearer_client_credentials_client_secret": [CLIENT_SECRET, CLIENT_SECRET.encode(), (CLIENT_SECRET,)],
    "sasl_oauthbearer_assertion_private_key_passphrase": [PASSPHRASE, PASSPHRASE.encode()],
    "sasl_oauthbearer_assertion_private_key_file": [f"-----BEGIN PRIVATE KEY-----{PASSPHRASE}", f"a\n{PASSPHRASE}"],
    "sasl_oauthbearer_assertion_file": [f"eyJhbGciOiJub25lIn0.{OPAQUE}.x"],
    "sasl_oauthbearer_extensions": [{"key": f"{OPAQUE}\x01"}],
    "sasl_aws_credentials": [AwsCredentials("a", ACCESS_KEY, SESSION), (ACCESS_KEY, SESSION), ACCESS_KEY],
}


@pytest.mark.parametrize("option", WRONG)
def test_options_that_are_wrong(shown: Shown, option: str) -> None:
    """This includes secrets in the wrong option, or with options that they contradict."""
    beside: list[dict[str, Any]] = [
        {},
        {"sasl_username": "a"},
        {"sasl_oauthbearer_token_endpoint_url": "https://issuer"},
        {"sasl_oauth_token": OPAQUE},
        {"sasl_jaas_config": f"a.PlainLoginModule required username=a password={PASSWORD};"},
    ]
    for value in WRONG[option]:
        for name in NAMES:
            for more in beside:
                for protocol in ("SASL_PLAINTEXT", "PLAINTEXT"):
                    options = {**more, option: value, "sasl_mechanism": name, "security_protocol": protocol}
                    try:
                        Client(bootstrap_servers="a", **options)
                    except KafkaError as error:
                        shown.error(error)
                    else:
                        parsed = ClusterConfig.parse({"bootstrap_servers": "a", **options})
                        shown.show(parsed, parsed.sasl, asdict(parsed))


async def test_the_answers_of_a_provider_are_hidden_too(shown: Shown) -> None:
    """This test can fail: it finds a secret that is shown."""
    checked = Shown()
    checked.show(f"an error with {issuing.__name__} and {PASSWORD}")
    with pytest.raises(AssertionError, match="shown: "):
        checked.check()
    shown.show(*range(10))


CLIENTS: list[Callable[..., object]] = [Client, Producer, Consumer, partial(ShareConsumer, group_id="g")]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("wrong", [{"no_such_option": 1}, {"sasl_mechanism": "X"}, {"security_protocol": "SSL"}])
def test_constructors_show_no_options(client: Callable[..., object], wrong: dict[str, Any]) -> None:
    shown = Shown()
    options: dict[str, Any] = {"sasl_username": "alice", "sasl_password": PASSWORD, "ssl_keystore_password": PASSPHRASE}
    options |= {"bootstrap_servers": "a", "security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"} | wrong
    with pytest.raises(ConfigurationError) as raised:
        client(**options)
    shown.error(raised.value)
    shown.check()


@pytest.mark.parametrize("option", ["ssl_keystore_password", "ssl_password", "proxy_url", "ssl_keystore_key"])
async def test_certificates_and_proxies_that_cannot_be_used(shown: Shown, tmp_path: Path, option: str) -> None:
    files = make(tmp_path)
    key = f"-----BEGIN PRIVATE KEY-----\n{PASSPHRASE}\n-----END PRIVATE KEY-----"
    options: dict[str, dict[str, Any]] = {
        "ssl_keystore_password": {"ssl_keystore_location": files["client.p12"], "ssl_keystore_password": PASSWORD},
        "ssl_password": {"ssl_certfile": files["stranger.key"], "ssl_password": PASSWORD},
        "proxy_url": {"proxy_url": f"http://alice:{PASSWORD}@127.0.0.1:{{}}"},
        "ssl_keystore_key": {"ssl_keystore_certificate_chain": files.text("client.pem"), "ssl_keystore_key": key},
    }

    async def refuses(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")

    async with raw_peer(refuses) as port:
        given: dict[str, Any] = dict(options[option])
        if "proxy_url" in given:
            given["proxy_url"] = given["proxy_url"].format(port)
        client = Client(
            bootstrap_servers=f"127.0.0.1:{port}",
            security_protocol="PLAINTEXT" if option == "proxy_url" else "SSL",
            bootstrap_resolve_timeout_ms=0,
            **given,
        )
        with pytest.raises(KafkaError, match=r"ssl_|proxy") as raised:
            await client.start()
    shown.error(raised.value)
    shown.show(client, client.health(), *range(5))


async def test_cancelled_logins_show_no_secrets(shown: Shown) -> None:
    """Logins are cancelled while they wait for the broker, for a function, and in a thread."""
    received = asyncio.Event()

    async def waits() -> str:
        received.set()
        await asyncio.Event().wait()
        return ""

    def silent(request: object, version: int) -> None:
        received.set()

    for mechanism in (
        Plain("alice", PASSWORD),
        Plain(waits, PASSWORD),
        Scram("SCRAM-SHA-256", "alice", PASSWORD),
        OAuthBearer(OPAQUE),
        AwsMskIam(AwsCredentials("AKIA1", ACCESS_KEY, SESSION), "us-east-1"),
    ):
        async with peer(answers(authenticate=silent)) as broker:
            options = config(sasl=mechanism)
            opening = asyncio.ensure_future(
                open_connection("127.0.0.1", broker.port, "broker 1", options, LONG_TIMEOUT)
            )
            await received.wait()
            opening.cancel()
            with pytest.raises(asyncio.CancelledError) as raised:
                await opening
            shown.error(raised.value)
            received.clear()
            with pytest.raises(DeadlineError) as late:
                await open_connection("127.0.0.1", broker.port, "broker 1", options, 0.05)
            shown.error(late.value)
            received.clear()


@pytest.mark.parametrize("make", [lambda: Plain("alice", PASSWORD), lambda: OAuthBearer(OPAQUE)])
async def test_a_broker_that_repeats_what_it_got(shown: Shown, make: Callable[[], SaslMechanism]) -> None:
    def repeat(request: SaslAuthenticateRequest, version: int) -> SaslAuthenticateResponse:
        text = bytes(request.auth_bytes).decode()
        return SaslAuthenticateResponse(error_code=58, error_message=f"not accepted: {text}\r\n{'x' * 20_000}")

    async with peer(answers(authenticate=repeat)) as broker:
        with pytest.raises(AuthenticationError, match="not accepted: ") as raised:
            await open_connection("127.0.0.1", broker.port, "broker 1", config(sasl=make()), LONG_TIMEOUT)
    shown.error(raised.value)
    shown.show(*range(5))
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 1500


async def test_pickles_have_what_was_given_and_nothing_that_was_read(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(PASSWORD)
    scram = Scram("SCRAM-SHA-256", "alice", file)
    server = ScramServer("sha256")
    exchange = scram.exchange("broker")
    await exchange.respond(server.answer(await exchange.start()))
    bearer = OAuthBearer(token_of_the_vault)
    await bearer.exchange("broker").start()
    for mechanism in (scram, bearer):
        found = pickle.dumps(mechanism)
        assert PASSWORD.encode() not in found
        assert OPAQUE.encode() not in found
        assert await pickle.loads(found).exchange("broker").start()


def token_of_the_vault() -> Token:
    return Token(OPAQUE, time.time() + 1000)


def test_frames_of_the_application_stay_in_tracebacks() -> None:
    with pytest.raises(OSError, match="sealed") as raised:
        raising("")()
    error = BrokerConnectionError("no secret")
    error.__cause__ = raised.value
    assert "in function\n" in "".join(traceback.format_exception(without_frames(error)))
