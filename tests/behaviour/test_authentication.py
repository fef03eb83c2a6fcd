"""Clients that authenticate by SASL: the same on the embedded broker and on real Kafka."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest

from aiokproto import Client, Consumer, Producer
from aiokproto.broker import Broker, Security
from aiokproto.codec.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from aiokproto.codec.messages.create_delegation_token import CreateDelegationTokenRequest
from aiokproto.errors import AuthenticationError, KafkaError
from aiokproto.hooks import ConnectionOpened, Hooks
from aiokproto.security import Plain, Scram
from tests.behaviour.requests_by_api import errors
from tests.behaviour.secured import (
    SECURED,
    SHORT,
    SHORT_MS,
    Secured,
    as_user,
    create,
    skip_where_sessions_end,
    write_and_read,
)
from tests.behaviour.waiting import until
from tests.broker.secure import USERS

NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}


async def set_password(secured: Secured, user: str, password: str, *mechanisms: str) -> None:
    """Create SCRAM credentials; return once a client can log in with each."""
    upsertions = [
        ScramCredentialUpsertion(
            name=user,
            mechanism=NUMBERS[mechanism],
            iterations=4096,
            salt=b"some salt",
            salted_password=hashlib.pbkdf2_hmac("sha" + mechanism[-3:], password.encode(), b"some salt", 4096),
        )
        for mechanism in mechanisms
    ]
    async with as_user(secured, "admin") as admin:
        made = await admin.ask(AlterUserScramCredentialsRequest(deletions=[], upsertions=upsertions))
        assert not errors(made)
    for mechanism in mechanisms:
        login = Scram(mechanism, user, password)
        await until(partial(can_log_in, secured, login), bool)


async def can_log_in(secured: Secured, mechanism: Plain | Scram) -> bool:
    try:
        async with Client(**options(secured, sasl_mechanism=mechanism)):
            return True
    except AuthenticationError:
        return False


def options(secured: Secured, **more: Any) -> dict[str, Any]:
    return {"bootstrap_servers": secured.bootstrap_servers, "security_protocol": "SASL_PLAINTEXT", **more}


def admin(secured: Secured) -> dict[str, Any]:
    return options(secured, sasl_mechanism="PLAIN", sasl_username="admin", sasl_password=USERS["admin"])


async def writes_and_reads(secured: Secured, login: dict[str, Any], topic: str) -> None:
    """Send a record, and read it in a group: connections of all kinds."""
    async with as_user(secured, "admin") as wire:
        await create(wire, topic)
    await write_and_read(login, topic)


async def test_plain(secured: Secured, topic: str) -> None:
    await writes_and_reads(secured, admin(secured), topic)


@pytest.mark.parametrize("mechanism", NUMBERS)
async def test_scram(secured: Secured, topic: str, user: str, mechanism: str) -> None:
    """The user has odd characters in name and password, and may at least request versions and metadata."""
    name, password = f"{user}=2C, =", "pass,word=ä"
    await set_password(secured, name, password, mechanism)
    login = options(secured, sasl_mechanism=mechanism, sasl_username=name, sasl_password=password)
    async with Client(**login) as client:
        assert await client.metadata() == {}


async def test_a_scram_name_beyond_ascii_is_refused(secured: Secured, user: str) -> None:
    """Brokers refuse the name because Kafka's grammar of SCRAM is ASCII. The password may have any characters."""
    assert not await can_log_in(secured, Scram("SCRAM-SHA-256", f"{user}ü", "password"))


@pytest.mark.parametrize("form", ["NFD", "NFKC", "NFKD"])
async def test_passwords_are_not_normalized(secured: Secured, user: str, form: Any) -> None:
    """RFC 5802 has SASLprep; Kafka takes passwords as they are, and so does the client."""
    password = "p\u00e4ss\u2168\u00a0word"
    await set_password(secured, user, password, "SCRAM-SHA-256")
    assert await can_log_in(secured, Scram("SCRAM-SHA-256", user, password))
    assert not await can_log_in(secured, Scram("SCRAM-SHA-256", user, normalize(form, password)))


async def test_long_names_and_passwords(secured: Secured, user: str) -> None:
    """The error quotes a part of the name. Kafka doesn't respond to a SCRAM login with a name of thousands of
    characters."""
    name, password = user + "n" * 500, "p" * 100_000
    await set_password(secured, name, password, "SCRAM-SHA-512")
    login = options(secured, sasl_mechanism="PLAIN", sasl_username=name, sasl_password=password)
    with pytest.raises(
        AuthenticationError, match=r"of 'user-[0-9a-f]+n+' \(SASL PLAIN\): .*Invalid username"
    ) as raised:
        async with Client(**login):
            raise AssertionError
    assert len(str(raised.value)) < 1000


async def test_a_delegation_token(secured: Secured, topic: str) -> None:
    async with Client(**admin(secured)) as client:
        token = await client.request(CreateDelegationTokenRequest(max_lifetime_ms=-1))
        assert token.error_code == 0
    secret = base64.b64encode(bytes(token.hmac)).decode()
    mechanism = Scram("SCRAM-SHA-256", token.token_id, secret, delegation_token=True)
    await until(lambda: can_log_in(secured, mechanism), bool)
    await writes_and_reads(secured, options(secured, sasl_mechanism=mechanism), topic)


@pytest.mark.parametrize(
    ("mechanism", "username", "password", "text"),
    [
        ("PLAIN", "admin", "wrong", "Invalid username or password"),
        ("PLAIN", "nobody", "wrong", "Invalid username or password"),
        ("SCRAM-SHA-256", "nobody", "wrong", "due to invalid credentials with SASL mechanism SCRAM-SHA-256"),
    ],
)
async def test_rejected_credentials_end_the_start(
    secured: Secured, mechanism: str, username: str, password: str, text: str
) -> None:
    login = options(secured, sasl_mechanism=mechanism, sasl_username=username, sasl_password=password)
    with pytest.raises(AuthenticationError, match=text) as raised:
        async with Producer(**login):
            raise AssertionError
    assert f"rejected the credentials of {username!r} (SASL {mechanism}): " in str(raised.value)
    assert secured.bootstrap_servers in str(raised.value)
    assert password not in str(raised.value)


async def test_a_client_without_authentication_learns_what_is_missing(secured: Secured) -> None:
    with pytest.raises(KafkaError, match=r"the listener expects authentication \(security_protocol='SASL_SSL' or"):
        async with Producer(bootstrap_servers=secured.bootstrap_servers, bootstrap_resolve_timeout_ms=0):
            raise AssertionError


async def test_a_rotated_password_is_read_for_the_next_connection(secured: Secured, user: str, tmp_path: Path) -> None:
    await set_password(secured, user, "first", "SCRAM-SHA-256")
    file = tmp_path / "password"
    file.write_text("first\n")
    login = options(secured, sasl_mechanism="SCRAM-SHA-256", sasl_username=lambda: user, sasl_password=file)
    async with Client(**login) as client:
        await client.metadata()
        await set_password(secured, user, "second", "SCRAM-SHA-256")
        file.write_text("second\n")
        async with Client(**login) as other:
            await other.metadata()
        await client.metadata()


@asynccontextmanager
async def short_sessions(secured: Secured) -> AsyncIterator[Secured]:
    """A cluster with sessions of some seconds."""
    if secured.kind == "kafka":
        yield secured
    else:
        config = {**SECURED, "connections.max.reauth.ms": str(SHORT_MS)}
        async with Broker(security=Security("SASL_PLAINTEXT", users=USERS), config=config) as broker:
            yield Secured("embedded", broker.bootstrap_servers)


class Counting(Hooks):
    """Counts connections."""

    def __init__(self) -> None:
        self.connections = 0

    def on_connection_opened(self, event: ConnectionOpened) -> None:
        self.connections += 1


async def test_sessions_are_renewed_on_the_connections_in_use(
    secured: Secured, topic: str, user: str, request: pytest.FixtureRequest
) -> None:
    """A fetch is always in flight, and records arrive all the time. No connection is opened again."""
    skip_where_sessions_end(request)
    async with short_sessions(secured) as cluster:
        # The embedded broker's users have the same password for all mechanisms, which no request changes.
        if cluster.kind != "embedded":
            await set_password(cluster, "admin", USERS["admin"], SHORT)
        login = options(cluster, sasl_mechanism=SHORT, sasl_username="admin", sasl_password=USERS["admin"])
        async with as_user(cluster, "admin") as wire:
            await create(wire, topic)
        hooks = Counting()
        async with Producer(hooks=hooks, linger_ms=0, **login) as producer:
            await producer.send(topic, b"0")
            async with Consumer(topic, auto_offset_reset="earliest", hooks=hooks, **login) as consumer:
                await anext(consumer)
                connections = hooks.connections
                loop = asyncio.get_running_loop()
                until_time, number = loop.time() + 2 * SHORT_MS / 1000, 0
                while loop.time() < until_time:
                    number += 1
                    await producer.send(topic, b"%d" % number)
                    assert (await anext(consumer)).value == b"%d" % number
                assert hooks.connections == connections


@pytest.mark.parametrize("gone", ["user", "password"])
async def test_a_running_client_raises_what_the_broker_says_about_its_credentials(
    secured: Secured, topic: str, user: str, gone: str
) -> None:
    async with short_sessions(secured) as cluster:
        await set_password(cluster, user, "first", SHORT)
        login = options(cluster, sasl_mechanism=SHORT, sasl_username=user, sasl_password="first")
        async with Client(**login) as client:
            await client.metadata()
            if gone == "user":
                async with as_user(cluster, "admin") as admin:
                    deletion = ScramCredentialDeletion(name=user, mechanism=NUMBERS[SHORT])
                    made = await admin.ask(AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[]))
                    assert not errors(made)
            else:
                await set_password(cluster, user, "second", SHORT)
            for _ in range(2):
                with pytest.raises(AuthenticationError, match=rf"of '{user}' \(SASL {SHORT}\): .*invalid credentials"):
                    await ask_for_ever(client)


async def ask_for_ever(client: Client) -> None:
    while True:
        await client.metadata()
