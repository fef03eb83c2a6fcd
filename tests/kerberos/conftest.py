"""Fixtures: a realm of this process, and one with a broker of real Kafka."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.behaviour.secured import until_open
from tests.kafka.cluster import free_ports
from tests.kafka.kdc import Kdc
from tests.kafka.pool import KafkaPool
from tests.kerberos.cluster import SERVICE, realm_folder


@pytest.fixture(scope="session")
def session_realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    """A realm with the principal of a service."""
    kdc = Kdc(tmp_path_factory.mktemp("realm"), free_ports((1,))[1].broker)
    try:
        kdc.start()
        kdc.add(SERVICE)
        kdc.keytab("service", SERVICE)
        yield kdc
    finally:
        kdc.stop()


@pytest.fixture
def realm(session_realm: Kdc, monkeypatch: pytest.MonkeyPatch) -> Kdc:
    """The realm, where this process finds it."""
    for name, value in session_realm.environment.items():
        monkeypatch.setenv(name, value)
    return session_realm


@pytest.fixture
def user() -> str:
    """A principal that no other test uses."""
    return f"user-{secrets.token_hex(4)}"


@pytest.fixture
def keytab(realm: Kdc, user: str) -> Path:
    """The file with the principal's keys."""
    realm.add(user)
    return realm.keytab(user, user)


class Kerberized(NamedTuple):
    """A broker, and its realm."""

    bootstrap_servers: str
    realm: Kdc


@pytest.fixture
async def kerberized(kafka_pool: KafkaPool, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Kerberized]:
    """Real Kafka, started by the first test that uses it, where ``alice`` is a super user."""
    with kafka_pool.lease("kerberos") as cluster:
        address = cluster.bootstrap_servers
        await until_open(address)
        realm = Kdc(realm_folder(cluster.data_folder(1)))
        for name, value in realm.environment.items():
            monkeypatch.setenv(name, value)
        yield Kerberized(address, realm)
