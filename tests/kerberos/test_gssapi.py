"""GSSAPI in a realm of Kerberos: tickets, the exchange, and what goes wrong."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aiokproto.errors import AuthenticationError, BrokerConnectionError, ConfigurationError, KafkaError
from aiokproto.security import Gssapi, SaslExchange
from aiokproto.security import gssapi as module
from aiokproto.security.gssapi import GssapiExchange
from aiokproto.security.mechanism import NamedExchange
from tests.kafka.cluster import free_ports
from tests.kafka.config import HOST
from tests.kafka.kdc import REALM, Kdc
from tests.kerberos.acceptor import NO_LAYER, Acceptor, converse
from tests.kerberos.cluster import SERVICE
from tests.timeouts import LONG_TIMEOUT

pytestmark = pytest.mark.kerberos


def acceptor(realm: Kdc, offer: bytes = NO_LAYER) -> Acceptor:
    return Acceptor(realm.krb5_conf.with_name("service.keytab"), offer)


async def authenticated(mechanism: Gssapi, realm: Kdc) -> str:
    """Return the principal that the service sees."""
    service = acceptor(realm)
    await converse(mechanism.exchange(HOST), service)
    assert service.selection == NO_LAYER + service.client.encode()
    return service.client


async def test_a_keytab(realm: Kdc, keytab: Path, user: str) -> None:
    for given in (keytab, str(keytab), f"FILE:{keytab}"):
        for principal in (None, user, f"{user}@{REALM}"):
            assert await authenticated(Gssapi(keytab=given, principal=principal), realm) == f"{user}@{REALM}"


async def test_a_keytab_of_several_principals(realm: Kdc, keytab: Path, user: str) -> None:
    realm.add(f"{user}/admin")
    both = realm.keytab(f"{user}-both", user, f"{user}/admin")
    for name in (user, f"{user}/admin"):
        assert await authenticated(Gssapi(keytab=both, principal=name), realm) == f"{name}@{REALM}"


async def test_a_credential_cache_that_kinit_has_filled(realm: Kdc, keytab: Path, user: str) -> None:
    ccache = realm.kinit(user, user, keytab)
    for given in (ccache, f"FILE:{ccache}"):
        for principal in (None, user):
            assert await authenticated(Gssapi(ccache=given, principal=principal), realm) == f"{user}@{REALM}"


async def test_tickets_of_the_environment(realm: Kdc, keytab: Path, user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{realm.kinit(user, user, keytab)}")
    assert await authenticated(Gssapi(), realm) == f"{user}@{REALM}"


async def test_tickets_from_a_keytab_are_not_seen_by_other_programs(realm: Kdc, keytab: Path) -> None:
    await authenticated(Gssapi(keytab=keytab), realm)
    assert not Path(os.environ["KRB5CCNAME"].removeprefix("FILE:")).exists()


async def test_a_domain_name_in_place_of_the_host(realm: Kdc, keytab: Path, user: str) -> None:
    service = acceptor(realm)
    await converse(Gssapi(keytab=keytab, domain_name=HOST).exchange("a.load.balancer"), service)
    assert service.client == f"{user}@{REALM}"


async def test_a_service_of_another_name(realm: Kdc, keytab: Path, user: str) -> None:
    realm.add(f"{user}/broker.test")
    service = Acceptor(realm.keytab(f"{user}-service", f"{user}/broker.test"))
    await converse(Gssapi(keytab=keytab, service_name=user).exchange("broker.test"), service)
    assert service.client == f"{user}@{REALM}"


async def test_many_exchanges_at_once_need_one_ticket(realm: Kdc, keytab: Path, user: str) -> None:
    mechanisms = [Gssapi(keytab=keytab) for _ in range(3)]
    clients = await asyncio.gather(*(authenticated(mechanisms[number % 3], realm) for number in range(12)))
    assert set(clients) == {f"{user}@{REALM}"}
    assert issued(realm, user) == 1


def issued(realm: Kdc, user: str) -> int:
    """How often the KDC has issued a first ticket."""
    log = realm.krb5_conf.with_name("kdc.log").read_text()
    return sum("ISSUE" in line and f"{user}@{REALM} for krbtgt" in line for line in log.splitlines())


async def test_tickets_from_a_keytab_are_renewed_before_they_expire(realm: Kdc, user: str) -> None:
    """Every exchange has a valid ticket, beyond the lifetime of the first."""
    # The lifetime is long enough for a slow machine to use a new ticket.
    realm.add(user, '-maxlife "6 seconds"')
    mechanism = Gssapi(keytab=realm.keytab(user, user))
    end, until = time.monotonic() + 7, time.monotonic() + LONG_TIMEOUT
    while time.monotonic() < end or issued(realm, user) < 3:
        assert time.monotonic() < until
        assert await authenticated(mechanism, realm) == f"{user}@{REALM}"


async def test_a_mechanism_reaches_another_process(realm: Kdc, keytab: Path, user: str) -> None:
    mechanism = Gssapi(keytab=keytab, principal=user)
    await authenticated(mechanism, realm)
    assert await authenticated(pickle.loads(pickle.dumps(mechanism)), realm) == f"{user}@{REALM}"


# --- What the broker says ---


@pytest.mark.parametrize("offer", [b"\x06\x00\xff\xff", b"\x00\x00\x00\x00"])
async def test_a_broker_that_requires_a_security_layer(realm: Kdc, keytab: Path, offer: bytes) -> None:
    with pytest.raises(AuthenticationError, match="requires a security layer"):
        await converse(Gssapi(keytab=keytab).exchange(HOST), acceptor(realm, offer))


@pytest.mark.parametrize("offer", [b"\x07\x00\xff\xff", b"\x01\x00\xff\xff"])
async def test_no_layer_is_selected_of_several(realm: Kdc, keytab: Path, offer: bytes) -> None:
    service = acceptor(realm, offer)
    await converse(Gssapi(keytab=keytab).exchange(HOST), service)
    assert service.selection is not None
    assert service.selection.startswith(NO_LAYER)


@pytest.mark.parametrize("offer", [b"", b"\x01", b"\x01\x00\x00\x00\x00"])
async def test_an_offer_that_is_malformed(realm: Kdc, keytab: Path, offer: bytes) -> None:
    with pytest.raises(AuthenticationError, match="offer of security layers is malformed"):
        await converse(Gssapi(keytab=keytab).exchange(HOST), acceptor(realm, offer))


async def test_a_peer_without_the_key_is_not_the_broker(realm: Kdc, keytab: Path) -> None:
    """It may answer nothing, noise, what it has heard, or what the broker has said to another client."""
    mechanism = Gssapi(keytab=keytab)
    other = acceptor(realm).accept(await mechanism.exchange(HOST).start())
    heard = await mechanism.exchange(HOST).start()
    for response in (b"", b"noise", heard, other):
        assert response is not None
        exchange = mechanism.exchange(HOST)
        await exchange.start()
        with pytest.raises(AuthenticationError, match=r"proves nothing: .*; it may not be the broker"):
            await exchange.respond(response)


async def test_an_offer_that_was_changed_on_the_way(realm: Kdc, keytab: Path) -> None:
    service, exchange = acceptor(realm), Gssapi(keytab=keytab).exchange(HOST)
    token = await exchange.respond(service.accept(await exchange.start()) or b"")
    offer = bytearray(service.accept(token or b"") or b"")
    offer[-1] ^= 1
    with pytest.raises(AuthenticationError, match="proves nothing"):
        await exchange.respond(bytes(offer))
    assert not exchange.complete


# --- No ticket ---


def no_principal(realm: Kdc, user: str) -> Gssapi:
    realm.add(user)
    keytab = realm.keytab(user, user)
    realm.kadmin(f"delprinc -force {user}")
    return Gssapi(keytab=keytab)


def old_key(realm: Kdc, user: str, *options: str) -> Gssapi:
    realm.add(user, *options)
    keytab = realm.keytab(user, user)
    realm.kadmin(f"cpw -randkey {user}")
    return Gssapi(keytab=keytab)


def restricted(realm: Kdc, user: str, *options: str) -> Gssapi:
    realm.add(user, *options)
    return Gssapi(keytab=realm.keytab(user, user))


def with_keys(realm: Kdc, user: str, **options: Any) -> Gssapi:
    realm.add(user)
    return Gssapi(keytab=realm.keytab(user, user), **options)


def of_bytes(realm: Kdc, user: str, option: str, data: bytes | None) -> Gssapi:
    file = realm.krb5_conf.with_name(user)
    if data is not None:
        file.write_bytes(data)
    return Gssapi(**{option: file})  # type: ignore[arg-type,unused-ignore]


def of_another(realm: Kdc, user: str) -> Gssapi:
    realm.add(user)
    return Gssapi(ccache=realm.kinit(user, user, realm.keytab(user, user)), principal="bob")


@pytest.mark.parametrize(
    ("make", "error", "texts"),
    [
        (no_principal, AuthenticationError, ("not found in Kerberos database", "sasl_kerberos_principal")),
        (old_key, AuthenticationError, ("integrity check failed", "export it again")),
        (
            lambda realm, user: old_key(realm, user, "+requires_preauth"),
            AuthenticationError,
            ("Preauthentication failed", "export it again"),
        ),
        (
            lambda realm, user: restricted(realm, user, "-allow_tix"),
            AuthenticationError,
            ("have been revoked", "is locked"),
        ),
        (
            lambda realm, user: restricted(realm, user, "-expire yesterday"),
            AuthenticationError,
            ("has expired", "the principal has expired"),
        ),
        (
            lambda realm, user: restricted(realm, user, "-pwexpire yesterday"),
            AuthenticationError,
            ("Password has expired", "export the keytab again"),
        ),
        (
            lambda realm, user: with_keys(realm, user, service_name="nobody"),
            AuthenticationError,
            (f"no Kerberos ticket for nobody/{HOST}: ", "not found in Kerberos database", "sasl_kerberos_service_name"),
        ),
        (
            lambda realm, user: with_keys(realm, user, domain_name="elsewhere.test"),
            AuthenticationError,
            ("no Kerberos ticket for kafka/elsewhere.test: ", "sasl_kerberos_domain_name", "rdns"),
        ),
        (
            lambda realm, user: with_keys(realm, user, principal="bob"),
            BrokerConnectionError,
            ("keytab FILE:", f"No key table entry found for bob@{REALM}", "klist -k"),
        ),
        (
            lambda realm, user: with_keys(realm, user, principal=f"{user}@ELSEWHERE"),
            BrokerConnectionError,
            ("No key table entry found for user-", "@ELSEWHERE: ", "klist -k"),
        ),
        (
            lambda realm, user: of_bytes(realm, user, "keytab", None),
            BrokerConnectionError,
            ("keytab FILE:", "is nonexistent or empty", "check sasl_kerberos_keytab"),
        ),
        (
            lambda realm, user: of_bytes(realm, user, "keytab", b"no keytab"),
            BrokerConnectionError,
            ("keytab FILE:", "check sasl_kerberos_keytab"),
        ),
        (
            lambda realm, user: of_bytes(realm, user, "ccache", None),
            BrokerConnectionError,
            ("No credentials cache found", "run kinit, or set sasl_kerberos_keytab"),
        ),
        (
            lambda realm, user: of_bytes(realm, user, "ccache", b"no cache"),
            BrokerConnectionError,
            ("format version", "check sasl_kerberos_ccache"),
        ),
        (of_another, BrokerConnectionError, ("does not match desired name", "sasl_kerberos_principal is not the one")),
        (lambda realm, user: Gssapi(), BrokerConnectionError, ("No Kerberos credentials available", "run kinit")),
    ],
)
async def test_why_there_is_no_ticket(
    realm: Kdc, user: str, make: Callable[[Kdc, str], Gssapi], error: type[KafkaError], texts: tuple[str, ...]
) -> None:
    """A refusal of the KDC is final. A problem that can be fixed without a restart is tried again."""
    mechanism = make(realm, user)
    with pytest.raises(KafkaError) as raised:
        await mechanism.exchange(HOST).start()
    assert type(raised.value) is error
    for text in texts:
        assert text in str(raised.value)


async def start_for_ever(mechanism: Gssapi) -> None:
    while True:
        await mechanism.exchange(HOST).start()


async def test_a_ticket_that_has_expired(realm: Kdc, keytab: Path, user: str) -> None:
    """After another kinit, the same client continues."""
    mechanism = Gssapi(ccache=realm.kinit(user, user, keytab, "-l", "1s"))
    with pytest.raises(BrokerConnectionError, match="Ticket expired: run kinit, or set sasl_kerberos_keytab"):
        await asyncio.wait_for(start_for_ever(mechanism), LONG_TIMEOUT)
    realm.kinit(user, user, keytab)
    assert await authenticated(mechanism, realm) == f"{user}@{REALM}"


async def test_a_ticket_that_expires_during_the_exchange(realm: Kdc, keytab: Path, user: str) -> None:
    """The broker isn't to blame for its answer then, so the client tries again with another ticket."""
    mechanism = Gssapi(ccache=realm.kinit(user, user, keytab, "-l", "2s"))
    exchange = mechanism.exchange(HOST)
    await exchange.start()
    assert isinstance(exchange, GssapiExchange)
    until = time.monotonic() + LONG_TIMEOUT
    while not module._expired(exchange._credentials):
        assert time.monotonic() < until
    text = rf"the ticket for {SERVICE} has expired during the exchange: "
    with pytest.raises(BrokerConnectionError, match=text) as raised:
        await exchange.respond(b"noise")
    assert not isinstance(raised.value, AuthenticationError)
    realm.kinit(user, user, keytab)
    assert await authenticated(mechanism, realm) == f"{user}@{REALM}"


@pytest.mark.parametrize("challenge", [None, b"", b"noise"])
async def test_challenges_without_end(realm: Kdc, keytab: Path, challenge: bytes | None) -> None:
    """The peer repeats itself or the client, or starts again with what the broker has said."""
    service, exchange = acceptor(realm), Gssapi(keytab=keytab).exchange(HOST)
    first = await exchange.start()
    response = service.accept(first) if challenge is None else challenge
    with pytest.raises(AuthenticationError, match=r"proves nothing|malformed"):
        await repeated(exchange, response or b"")


async def repeated(exchange: SaslExchange, challenge: bytes) -> None:
    for _ in range(3):
        await exchange.respond(challenge)


async def test_an_exchange_names_its_user(realm: Kdc, keytab: Path, user: str) -> None:
    exchange = Gssapi(keytab=keytab).exchange(HOST)
    await exchange.start()
    assert isinstance(exchange, NamedExchange)
    assert exchange.user == f"{user}@{REALM}"


async def test_a_realm_that_the_kdc_does_not_trust(realm: Kdc, keytab: Path, conf: Callable[[str], None]) -> None:
    conf("[domain_realm]\n    broker.test = ELSEWHERE\n")
    with pytest.raises(
        AuthenticationError, match=r"krbtgt/ELSEWHERE.*: the KDC knows no way into this realm.*realms of"
    ):
        await Gssapi(keytab=keytab).exchange("broker.test").start()


async def test_a_realm_whose_kdc_is_not_known(realm: Kdc, user: str, keytab: Path, conf: Callable[[str], None]) -> None:
    conf(f"[realms]\n    {REALM} = {{\n    }}\n")
    with pytest.raises(BrokerConnectionError, match=r"Cannot find KDC for realm.*check the realm's spelling"):
        await Gssapi(keytab=keytab).exchange(HOST).start()


async def test_no_default_realm(realm: Kdc, keytab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "nothing"))
    with pytest.raises(BrokerConnectionError, match=r"default realm: set default_realm in krb5\.conf"):
        await Gssapi(keytab=keytab, principal="alice").exchange(HOST).start()


@pytest.fixture
def conf(realm: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Configure this process otherwise: what is given comes first."""

    def configure(text: str) -> None:
        file = tmp_path / "krb5.conf"
        rest = realm.krb5_conf.read_text()
        if "[realms]" in text:
            rest = rest.partition("[realms]")[0]
        file.write_text(rest + text)
        monkeypatch.setenv("KRB5_CONFIG", str(file))

    return configure


# --- KDCs that are away ---


async def test_a_kdc_that_is_away_is_asked_again(realm: Kdc, keytab: Path, user: str) -> None:
    mechanism = Gssapi(keytab=keytab)
    realm.stop()
    try:
        with pytest.raises(BrokerConnectionError, match=r"Cannot contact any KDC.*: check that the KDC runs"):
            await mechanism.exchange(HOST).start()
    finally:
        realm.run()
    assert await authenticated(mechanism, realm) == f"{user}@{REALM}"


async def test_tickets_that_are_valid_are_used_while_the_kdc_is_away(realm: Kdc, keytab: Path, user: str) -> None:
    mechanism = Gssapi(keytab=keytab)
    await authenticated(mechanism, realm)
    realm.stop()
    try:
        assert await authenticated(mechanism, realm) == f"{user}@{REALM}"
    finally:
        realm.run()


@pytest.fixture
def silent_kdc(conf: Callable[[str], None]) -> Iterator[None]:
    """A KDC that accepts everything and never answers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams, socket.socket() as streams:
        port = free_ports((1,))[1].broker
        datagrams.bind((HOST, port))
        streams.bind((HOST, port))
        streams.listen()
        conf(f"[realms]\n    {REALM} = {{\n        kdc = {HOST}:{port}\n    }}\n")
        yield


async def test_cancelling_does_not_wait_for_a_kdc(
    silent_kdc: None, keytab: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "SLOW", 0.0)
    caplog.set_level(logging.WARNING, "aiokproto.security")
    mechanism = Gssapi(keytab=keytab)
    starting = [asyncio.ensure_future(mechanism.exchange(HOST).start()) for _ in range(2)]
    await asyncio.sleep(0)
    for each in starting:
        each.cancel()
        with pytest.raises(asyncio.CancelledError):
            await each
    assert len(caplog.records) == 2
    for record in caplog.records:
        assert record.getMessage().startswith(f"no ticket for {SERVICE} in ")
        assert record.getMessage().endswith(" s: the KDC does not answer, or is slow")


async def test_a_library_without_credential_stores(realm: Kdc, keytab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Heimdal is one."""

    def refuses(*_: Any, **__: Any) -> None:
        raise NotImplementedError("Your GSSAPI implementation does not have support for manipulating credential stores")

    monkeypatch.setattr("gssapi.Credentials", refuses)
    with pytest.raises(ConfigurationError, match="need MIT Kerberos"):
        await Gssapi(keytab=keytab).exchange(HOST).start()
