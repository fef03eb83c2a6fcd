"""Clients of real Kafka that authenticate by Kerberos."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import pytest

from aiokproto import Client, Consumer, Producer
from aiokproto.codec.messages.create_topics import CreatableTopic, CreateTopicsRequest
from aiokproto.errors import AuthenticationError, AuthorizationError, BrokerConnectionError, KafkaError
from aiokproto.hooks import ConnectionFailed, ConnectionOpened, Hooks
from tests.kafka.config import HOST
from tests.kafka.kdc import REALM
from tests.kerberos.cluster import SESSION_MS
from tests.kerberos.conftest import Kerberized
from tests.timeouts import LONG_TIMEOUT

pytestmark = [pytest.mark.kafka, pytest.mark.kerberos]


def login(kerberized: Kerberized, **options: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": kerberized.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        **options,
    }


def keytab_of(kerberized: Kerberized, principal: str, *options: str) -> Path:
    """Create a principal; return a file with its keys."""
    realm = kerberized.realm
    file = realm.krb5_conf.with_name(f"{principal.replace('/', '-')}.keytab")
    if f"{principal}@{REALM}" not in realm.kadmin(f"listprincs {principal}@{REALM}"):
        realm.add(principal, *options)
        realm.keytab(file.stem, principal)
    return file


@pytest.fixture
def alice(kerberized: Kerberized) -> dict[str, Any]:
    """The super user's options."""
    return login(kerberized, sasl_kerberos_keytab=keytab_of(kerberized, "alice"))


@pytest.fixture
async def created(alice: dict[str, Any], topic: str) -> str:
    """A topic that exists."""
    async with Client(**alice) as client:
        new = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
        assert (await client.request(CreateTopicsRequest(topics=[new]))).topics[0].error_code == 0
    return topic


async def writes_and_reads(topic: str, options: dict[str, Any]) -> None:
    async with (
        Producer(**options) as producer,
        Consumer(topic, group_id=f"group of {topic}", auto_offset_reset="earliest", **options) as consumer,
    ):
        await producer.send(topic, b"value")
        record = await anext(consumer)
        assert record.value == b"value"
        await consumer.commit(record)


async def test_producer_consumer_and_group_with_a_keytab(alice: dict[str, Any], created: str) -> None:
    await writes_and_reads(created, alice)


async def test_producer_consumer_and_group_with_tickets_of_kinit(kerberized: Kerberized, created: str) -> None:
    ccache = kerberized.realm.kinit(created, "alice", keytab_of(kerberized, "alice"))
    await writes_and_reads(created, login(kerberized, sasl_kerberos_ccache=ccache, sasl_kerberos_principal="alice"))


async def test_every_option_by_its_name(kerberized: Kerberized, created: str) -> None:
    options = login(
        kerberized,
        sasl_kerberos_service_name="kafka",
        sasl_kerberos_domain_name=HOST,
        sasl_kerberos_principal=f"alice@{REALM}",
        sasl_kerberos_keytab=str(keytab_of(kerberized, "alice")),
    )
    await writes_and_reads(created, options)


async def test_the_broker_knows_who_the_client_is(kerberized: Kerberized, created: str, user: str) -> None:
    """A principal that the broker authenticates, and which may do nothing."""
    async with Producer(**login(kerberized, sasl_kerberos_keytab=keytab_of(kerberized, user))) as producer:
        with pytest.raises(AuthorizationError):
            await producer.send(created, b"value")


async def refused(options: dict[str, Any]) -> KafkaError:
    with pytest.raises(KafkaError) as raised:
        async with Client(bootstrap_resolve_timeout_ms=0, **options):
            raise AssertionError
    return raised.value


async def test_a_service_that_the_kdc_does_not_know_ends_the_start(alice: dict[str, Any]) -> None:
    error = await refused({**alice, "sasl_kerberos_service_name": "nobody"})
    assert isinstance(error, AuthenticationError)
    assert f"Server nobody/{HOST}@{REALM} not found" in str(error)
    assert "check sasl_kerberos_service_name" in str(error)


async def test_a_ticket_for_another_service_is_rejected_by_the_broker(
    kerberized: Kerberized, alice: dict[str, Any], user: str
) -> None:
    kerberized.realm.add(f"{user}/{HOST}")
    error = await refused({**alice, "sasl_kerberos_service_name": user})
    assert isinstance(error, AuthenticationError)
    assert "(SASL GSSAPI): " in str(error)


async def test_a_client_that_the_kdc_does_not_know_ends_the_start(kerberized: Kerberized, user: str) -> None:
    keytab = keytab_of(kerberized, user)
    kerberized.realm.kadmin(f"delprinc -force {user}")
    error = await refused(login(kerberized, sasl_kerberos_keytab=keytab))
    assert isinstance(error, AuthenticationError)
    assert f"Client '{user}@{REALM}' not found" in str(error)


async def test_a_missing_ticket_is_named_at_the_start(kerberized: Kerberized, tmp_path: Path) -> None:
    error = await refused(login(kerberized, sasl_kerberos_ccache=tmp_path / "nothing"))
    assert isinstance(error, BrokerConnectionError)
    assert not isinstance(error, AuthenticationError)
    assert "run kinit, or set sasl_kerberos_keytab" in str(error)


async def test_a_client_starts_once_a_kdc_can_be_reached(
    kerberized: Kerberized, user: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the KDC is unreachable, the connection fails and is tried again, as for an unreachable broker."""
    keytab = keytab_of(kerberized, user)
    nowhere = re.sub(r"kdc = .*", f"kdc = {HOST}:1", kerberized.realm.krb5_conf.read_text())
    (tmp_path / "krb5.conf").write_text(nowhere)
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
    errors: list[BaseException | None] = []

    class Noting(Hooks):
        def on_connection_failed(self, event: ConnectionFailed) -> None:
            errors.append(event.error)
            monkeypatch.setenv("KRB5_CONFIG", str(kerberized.realm.krb5_conf))

    async with Client(**login(kerberized, sasl_kerberos_keytab=keytab, hooks=Noting())) as client:
        assert await client.metadata() == {}
    assert "Cannot contact any KDC" in str(errors[0])


class Counting(Hooks):
    """Counts connections."""

    def __init__(self) -> None:
        self.connections = 0

    def on_connection_opened(self, event: ConnectionOpened) -> None:
        self.connections += 1


async def test_sessions_are_renewed_with_new_tickets_on_the_connections_in_use(
    kerberized: Kerberized, alice: dict[str, Any], created: str, user: str
) -> None:
    """Tickets and sessions expire meanwhile. No connection is opened again."""
    principal = "alice/short"
    # Its short name is alice, too (auth_to_local).
    keytab = keytab_of(kerberized, principal, '-maxlife "6 seconds"')
    options = login(kerberized, sasl_kerberos_keytab=keytab)
    hooks = Counting()
    log = kerberized.realm.krb5_conf.with_name("kdc.log")

    def tickets() -> int:
        return sum(
            "ISSUE" in line and f"{principal}@{REALM} for krbtgt" in line for line in log.read_text().splitlines()
        )

    async with (
        Producer(hooks=hooks, linger_ms=0, **options) as producer,
        Consumer(created, auto_offset_reset="earliest", hooks=hooks, **options) as consumer,
    ):
        await producer.send(created, b"0")
        await anext(consumer)
        connections, before = hooks.connections, tickets()
        end, number = time.monotonic() + 3 * SESSION_MS / 1000, 0
        while time.monotonic() < end:
            number += 1
            await producer.send(created, b"%d" % number)
            assert (await anext(consumer)).value == b"%d" % number
        assert hooks.connections == connections
        assert tickets() > before


async def test_a_client_whose_ticket_has_expired_goes_on_after_kinit(kerberized: Kerberized, user: str) -> None:
    """Meanwhile its calls end at their deadline, and their errors name the ticket."""
    realm, keytab = kerberized.realm, keytab_of(kerberized, user)
    ccache = realm.kinit(user, user, keytab, "-l", "3s")
    options = login(kerberized, sasl_kerberos_ccache=ccache, default_api_timeout_ms=1000)
    async with Client(**options) as client:
        await client.metadata()
        await asyncio.wait_for(until_a_call_says("Ticket expired", client), LONG_TIMEOUT)
        realm.kinit(user, user, keytab)
        await asyncio.wait_for(again(client), LONG_TIMEOUT)


async def until_a_call_says(text: str, client: Client) -> None:
    """Some calls may end in the middle of an attempt; their errors say what they waited for."""
    while True:
        try:
            await client.metadata()
        except KafkaError as error:
            if text in str(error):
                return


async def again(client: Client) -> None:
    while True:
        try:
            await client.metadata()
        except KafkaError:
            continue
        return
