"""The client's own threads: work in the default executor does not delay it, nor do its deadlines depend on it."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from aiokproto.cluster import ClusterClient
from aiokproto.errors import BootstrapError, ClientClosedError
from tests.cluster.fake import brokers
from tests.net.peer import config


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """An event that blocked threads wait for."""
    event = threading.Event()
    yield event
    event.set()


async def test_a_client_works_while_the_default_executor_is_full(gate: threading.Event) -> None:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as threads:
        loop.set_default_executor(threads)
        await uses_its_own_threads(loop.run_in_executor(None, gate.wait), gate)


async def uses_its_own_threads(busy: asyncio.Future[bool], gate: threading.Event) -> None:
    async with brokers() as (_, (broker,)):
        cluster = ClusterClient(config(bootstrap_servers=(("localhost", broker.port),), connect_timeout=5.0))
        try:
            await cluster.start()
            assert await cluster.run_in_thread(sum, (1, 2)) == 3
        finally:
            gate.set()
            await busy
            await cluster.close()
    with pytest.raises(ClientClosedError):
        cluster.run_in_thread(sum, (1, 2))


async def test_slow_name_lookups_end_at_their_deadlines(gate: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are more lookups than threads, and the ones that wait for a thread end at their deadlines, too."""

    def slow(*_: object, **__: object) -> list[Any]:
        gate.wait()
        return []

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    names = tuple((f"name{number}", 9092) for number in range(10))
    cluster = ClusterClient(config(bootstrap_servers=names, connect_timeout=0.1))
    with pytest.raises(BootstrapError, match=r"resolving 'name0' took too long.* name9:9092: "):
        await cluster.start()
    assert not gate.is_set()
