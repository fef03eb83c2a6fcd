"""Leases of shared clusters: together or alone, from any process, started once, and given back however the holder
ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import cast

import pytest

from tests.kafka import KafkaCluster, KafkaError
from tests.kafka.pool import KafkaPool, LocalPool, PoolServer, RemotePool
from tests.timeouts import LONG_TIMEOUT


class FakeCluster:
    """Counts the calls of its methods."""

    broker_ids = (1,)
    bootstrap_servers = "127.0.0.1:1"

    def __init__(self) -> None:
        self.started = 0
        self.stopped = threading.Event()
        self.running: set[int] = set()

    def start(self) -> None:
        self.started += 1
        self.stopped.clear()
        self.running = {1}

    def stop(self) -> None:
        self.running = set()
        self.stopped.set()

    def address(self, node_id: int) -> tuple[str, int]:
        return "127.0.0.1", node_id

    def data_folder(self, node_id: int) -> str:
        return f"/data/{node_id}"

    def stop_broker(self, node_id: int, *, hard: bool = False) -> None:
        if node_id not in self.running:
            raise KafkaError(f"broker {node_id} is not running")
        self.running.remove(node_id)

    def start_broker(self, node_id: int) -> None:
        self.running.add(node_id)


def refuse() -> KafkaCluster:
    raise KafkaError("no Java")


@pytest.fixture
def fake() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def local(fake: FakeCluster) -> Iterator[LocalPool]:
    pool = LocalPool({"one": lambda: cast("KafkaCluster", fake), "broken": refuse})
    yield pool
    pool.stop()
    assert not fake.running


@pytest.fixture(params=["local", "remote"])
def pool(request: pytest.FixtureRequest, local: LocalPool) -> Iterator[KafkaPool]:
    if request.param == "local":
        yield local
        return
    server = PoolServer(local)
    yield RemotePool(*server.address)
    server.close()


def test_a_leased_cluster_starts_once_and_is_used_like_a_local_one(pool: KafkaPool, fake: FakeCluster) -> None:
    for _ in range(2):
        with pool.lease("one", alone=True) as kafka:
            assert (kafka.broker_ids, kafka.bootstrap_servers, kafka.running) == ((1,), "127.0.0.1:1", {1})
            assert (kafka.address(7), str(kafka.data_folder(7))) == (("127.0.0.1", 7), "/data/7")
            kafka.stop_broker(1)
            with pytest.raises(KafkaError, match="broker 1 is not running"):
                kafka.stop_broker(1, hard=True)
            kafka.start_broker(1)
    assert fake.started == 1


def test_an_unused_cluster_is_stopped_until_a_test_needs_it(fake: FakeCluster) -> None:
    pool = LocalPool({"one": lambda: cast("KafkaCluster", fake)}, idle_seconds=0)
    try:
        for number in (1, 2):
            with pool.lease("one") as kafka, pool.lease("one"):
                assert kafka.running == {1}
            assert fake.stopped.wait(LONG_TIMEOUT)
            assert (fake.started, fake.running) == (number, set())
    finally:
        pool.stop()


def test_a_cluster_stays_while_one_lease_of_several_is_left(fake: FakeCluster) -> None:
    pool = LocalPool({"one": lambda: cast("KafkaCluster", fake)}, idle_seconds=0)
    try:
        with pool.lease("one") as kafka:
            with pool.lease("one"):
                pass
            assert kafka.running == {1}
            assert pool._clusters["one"]._timer is None
    finally:
        pool.stop()


def test_a_shared_lease_does_not_permit_to_stop_brokers(pool: KafkaPool) -> None:
    with pool.lease("one") as kafka:
        with pytest.raises(KafkaError, match="`exclusive`"):
            kafka.stop_broker(1)
        assert kafka.running == {1}


def test_the_error_for_a_cluster_that_does_not_start_has_the_cause(pool: KafkaPool) -> None:
    for _ in range(2):
        with pytest.raises(KafkaError, match="no Java"), pool.lease("broken"):
            pass


def test_leases_are_shared_or_exclusive(pool: KafkaPool) -> None:
    """A caller that wants the cluster alone waits for those that have it, and later ones wait for that caller."""
    order: list[str] = []

    def hold(name: str, alone: bool) -> threading.Thread:
        def run() -> None:
            with pool.lease("one", alone=alone):
                order.append(name)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    with ExitStack() as held:
        held.enter_context(pool.lease("one"))
        together = hold("together", False)
        together.join(LONG_TIMEOUT)
        assert order == ["together"]
        alone = hold("alone", True)
    alone.join(LONG_TIMEOUT)
    assert order == ["together", "alone"]


def test_a_lease_ends_with_its_connection(local: LocalPool) -> None:
    """This is also what happens when the process that has the lease is killed."""
    server = PoolServer(local)
    remote = RemotePool(*server.address)
    lease = remote.lease("one", alone=True)
    kafka = lease.__enter__()
    kafka._connection.close()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    with remote.lease("one", alone=True) as again:
        assert again.running == {1}
    server.close()
