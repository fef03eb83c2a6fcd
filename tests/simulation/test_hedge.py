"""Hedged requests: several brokers get the request, and the first response is used."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from aiokproto import Client, Consumer, Producer, ShareConsumer
from aiokproto.broker import Cluster
from aiokproto.cluster.hedge import HEDGE_DELAY, first_response
from aiokproto.errors import BrokerConnectionError, ClientClosedError, InvalidTopicError, KafkaError, error_for
from aiokproto.simulation import Simulation

Behaviour = float | KafkaError
"""A broker's behaviour: it responds after this number of seconds, or fails at once."""


class Brokers:
    """Brokers 0, 1, … with a behaviour each. It records when each got the request, and which requests were
    cancelled."""

    def __init__(self, simulation: Simulation, *behaviours: Behaviour) -> None:
        self.at: dict[int, float] = {}
        self.cancelled: list[int] = []
        self._simulation = simulation
        self._behaviours = behaviours

    async def ask(self, node: int) -> str:
        self.at[node] = round(self._simulation.time(), 2)
        behaviour = self._behaviours[node]
        if isinstance(behaviour, KafkaError):
            raise behaviour
        try:
            await asyncio.sleep(behaviour)
        except asyncio.CancelledError:
            self.cancelled.append(node)
            raise
        return f"broker {node}"

    def first(self, final: Callable[[KafkaError], bool] = lambda error: False) -> tuple[str | None, list[int]]:
        async def main() -> tuple[str | None, list[int]]:
            answer, failures = await first_response(range(len(self._behaviours)), self.ask, final)
            assert asyncio.all_tasks() == {asyncio.current_task()}, "nothing goes on in the background"
            return answer, [node for node, _ in failures]

        return self._simulation.run(main())


LOST = BrokerConnectionError("lost")


def test_a_broker_that_responds_gets_the_only_request() -> None:
    brokers = Brokers(Simulation(), 0.5, 0.0)
    assert brokers.first() == ("broker 0", [])
    assert brokers.at == {0: 0.0}


def test_after_a_failure_the_next_broker_gets_the_request_at_once() -> None:
    brokers = Brokers(Simulation(), LOST, LOST, 0.5)
    assert brokers.first() == ("broker 2", [0, 1])
    assert brokers.at == {0: 0.0, 1: 0.0, 2: 0.0}


def test_after_the_hedge_delay_the_next_broker_gets_the_request_too() -> None:
    brokers = Brokers(Simulation(), 100.0, 100.0, 0.5)
    assert brokers.first() == ("broker 2", [])
    assert brokers.at == {0: 0.0, 1: HEDGE_DELAY, 2: 2 * HEDGE_DELAY}
    assert brokers.cancelled == [0, 1]


def test_a_late_response_of_the_first_broker_is_used() -> None:
    brokers = Brokers(Simulation(), 1.5, 100.0)
    assert brokers.first() == ("broker 0", [])
    assert brokers.cancelled == [1]


def test_all_fail() -> None:
    assert Brokers(Simulation(), LOST, LOST).first() == (None, [0, 1])


def test_a_final_error_is_raised_at_once() -> None:
    brokers = Brokers(Simulation(), 100.0, error_for(17), 0.0)
    with pytest.raises(InvalidTopicError):
        brokers.first(final=lambda error: isinstance(error, InvalidTopicError))
    assert brokers.at.keys() == {0, 1}
    assert brokers.cancelled == [0]


def test_cancelling_cancels_all_requests() -> None:
    simulation = Simulation()
    brokers = Brokers(simulation, 100.0, 100.0)

    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(first_response([0, 1], brokers.ask, lambda error: False), 2 * HEDGE_DELAY)

    simulation.run(main())
    assert brokers.cancelled == [0, 1]


def test_a_request_that_others_cancel_is_no_cancellation_of_the_caller() -> None:
    """A debugger or a test framework may cancel all tasks."""
    simulation = Simulation()
    brokers = Brokers(simulation, 100.0, 100.0)

    async def main() -> None:
        calling = asyncio.create_task(first_response([0, 1], brokers.ask, lambda error: False))
        await asyncio.sleep(1.5 * HEDGE_DELAY)
        (first, _) = [task for task in asyncio.all_tasks() if "hedged request" in task.get_name()]
        first.cancel()
        with pytest.raises(ClientClosedError, match=r"hedged request to broker .* was cancelled"):
            await calling

    simulation.run(main())
    assert brokers.cancelled == [0, 1]


CUT: dict[str, Callable[[str], Any]] = {
    "producer": lambda servers: Producer(bootstrap_servers=servers),
    "transactional producer": lambda servers: Producer(bootstrap_servers=servers, transactional_id="x"),
    "consumer": lambda servers: Consumer("t", bootstrap_servers=servers, group_id="g"),
    "share consumer": lambda servers: ShareConsumer("t", bootstrap_servers=servers, group_id="g"),
    "client": lambda servers: Client(bootstrap_servers=servers),
}


STEP = 0.001
"""Virtual seconds from one cut to the next."""


@pytest.mark.parametrize("kind", CUT)
def test_a_task_that_others_cancel_during_a_start_is_no_cancellation_of_the_caller(kind: str) -> None:
    """Each of the client's own tasks is cancelled, at each iteration of the loop. The client starts, or raises the
    library's error."""

    cut: set[str] = set()

    def run(at: int) -> bool:
        """Return whether the start hadn't ended by then."""
        simulation = Simulation(1)
        ended = False

        async def main() -> None:
            nonlocal ended
            async with Cluster(2) as cluster:
                await cluster.create_topic("t", 1)
                before = asyncio.all_tasks()
                client = CUT[kind](cluster.bootstrap_servers)
                starting = asyncio.create_task(client.start())
                await asyncio.sleep(at * STEP)
                ended = starting.done()
                tasks = {task.get_name(): task for task in asyncio.all_tasks() - before - {starting}}
                own = sorted(name for name in tasks if name.startswith("aiokproto "))
                if own and not ended:
                    chosen = own[at % len(own)]
                    cut.add(chosen)
                    tasks[chosen].cancel()
                with suppress(KafkaError):
                    await asyncio.wait_for(starting, 100)
                with suppress(KafkaError):
                    await client.close(1000)

        simulation.run(main())
        return not ended

    assert next(at for at in range(200) if not run(at)) > 3
    assert cut, "there were tasks"


@pytest.mark.parametrize("silent", range(3))
def test_a_silent_broker_delays_the_producer_id_by_a_second_at_most(silent: int) -> None:
    simulation = Simulation(1)

    async def main() -> float:
        async with Cluster(3) as cluster:
            await cluster.create_topic("t", 3)
            async with Producer(bootstrap_servers=cluster.bootstrap_servers, close_timeout_ms=0) as producer:
                await producer.partitions_for("t")
                port = int(cluster.bootstrap_servers.split(",")[silent].rpartition(":")[2])
                # Connections that aren't made yet are silent, too.
                simulation.network.link("client", ("127.0.0.1", port)).silence()
                began = simulation.time()
                healthy = next(number for number in range(3) if cluster.leader("t", number) != silent)
                await producer.send("t", b"x", partition=healthy)
                return simulation.time() - began

    assert simulation.run(main()) < HEDGE_DELAY + 0.2
