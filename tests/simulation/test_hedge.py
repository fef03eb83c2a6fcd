"""Several brokers are asked, and the first answer counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from aiokproto import Producer
from aiokproto.broker import Cluster
from aiokproto.cluster.hedge import HEDGE_DELAY, first_response
from aiokproto.errors import BrokerConnectionError, InvalidTopicError, KafkaError, error_for
from aiokproto.simulation import Simulation

Behaviour = float | KafkaError
"""What a broker does: answers after so many seconds, or fails at once."""


class Asked:
    """Brokers 0, 1, … with a behaviour each; notes when they were asked, and which questions were given up."""

    def __init__(self, simulation: Simulation, *behaviours: Behaviour) -> None:
        self.at: dict[int, float] = {}
        self.given_up: list[int] = []
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
            self.given_up.append(node)
            raise
        return f"broker {node}"

    def first(self, final: Callable[[KafkaError], bool] = lambda error: False) -> tuple[str | None, list[int]]:
        async def main() -> tuple[str | None, list[int]]:
            answer, failures = await first_response(range(len(self._behaviours)), self.ask, final)
            assert asyncio.all_tasks() == {asyncio.current_task()}, "nothing goes on in the background"
            return answer, [node for node, _ in failures]

        return self._simulation.run(main())


LOST = BrokerConnectionError("lost")


def test_one_that_answers_is_the_only_one_asked() -> None:
    asked = Asked(Simulation(), 0.5, 0.0)
    assert asked.first() == ("broker 0", [])
    assert asked.at == {0: 0.0}


def test_after_a_failure_the_next_is_asked_at_once() -> None:
    asked = Asked(Simulation(), LOST, LOST, 0.5)
    assert asked.first() == ("broker 2", [0, 1])
    assert asked.at == {0: 0.0, 1: 0.0, 2: 0.0}


def test_after_a_silence_the_next_is_asked_as_well() -> None:
    asked = Asked(Simulation(), 100.0, 100.0, 0.5)
    assert asked.first() == ("broker 2", [])
    assert asked.at == {0: 0.0, 1: HEDGE_DELAY, 2: 2 * HEDGE_DELAY}
    assert asked.given_up == [0, 1]


def test_a_late_answer_of_the_first_one_counts_too() -> None:
    asked = Asked(Simulation(), 1.5, 100.0)
    assert asked.first() == ("broker 0", [])
    assert asked.given_up == [1]


def test_all_fail() -> None:
    assert Asked(Simulation(), LOST, LOST).first() == (None, [0, 1])


def test_what_holds_for_all_is_raised_at_once() -> None:
    asked = Asked(Simulation(), 100.0, error_for(17), 0.0)
    with pytest.raises(InvalidTopicError):
        asked.first(final=lambda error: isinstance(error, InvalidTopicError))
    assert asked.at.keys() == {0, 1}
    assert asked.given_up == [0]


def test_giving_up_gives_up_all_questions() -> None:
    simulation = Simulation()
    asked = Asked(simulation, 100.0, 100.0)

    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(first_response([0, 1], asked.ask, lambda error: False), 2 * HEDGE_DELAY)

    simulation.run(main())
    assert asked.given_up == [0, 1]


@pytest.mark.parametrize("silent", range(3))
def test_a_silent_broker_delays_the_producer_id_by_a_second_at_most(silent: int) -> None:
    simulation = Simulation(1)

    async def main() -> float:
        async with Cluster(3) as cluster:
            await cluster.create_topic("t", 3)
            async with Producer(bootstrap_servers=cluster.bootstrap_servers, close_timeout_ms=0) as producer:
                await producer.partitions_for("t")
                port = int(cluster.bootstrap_servers.split(",")[silent].rpartition(":")[2])
                # Also the connections that are not made yet.
                simulation.network.link("client", ("127.0.0.1", port)).silence()
                began = simulation.time()
                healthy = next(number for number in range(3) if cluster.leader("t", number) != silent)
                await producer.send("t", b"x", partition=healthy)
                return simulation.time() - began

    assert simulation.run(main()) < HEDGE_DELAY + 0.2
