"""Hundreds of consumers in one event loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokproto import Consumer
from aiokproto.broker import Cluster
from aiokproto.simulation import Simulation
from tests.simulation.members import own_tasks

CONSUMERS = 200
SLACK = 0.1


@pytest.mark.parametrize("broker", ["up", pytest.param("down", marks=pytest.mark.extended)])
def test_hundreds_of_consumers_close_together(broker: str) -> None:
    """Each consumer has its own group. If there's no broker, they close by the deadline of the call."""
    simulation = Simulation(1)

    async def main() -> float:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t")
            options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, "heartbeat_interval_ms": 1000}
            consumers = [Consumer("t", group_id=f"g{number}", **options) for number in range(CONSUMERS)]
            await asyncio.gather(*(consumer.start() for consumer in consumers))
            await asyncio.gather(*(consumer.poll(8000) for consumer in consumers))
            assert all(consumer.assignment() for consumer in consumers)
            if broker == "down":
                await cluster.kill_broker(0)
            began = simulation.time()
            await asyncio.gather(*(consumer.close(2000) for consumer in consumers))
            took = simulation.time() - began
            assert own_tasks() == []
            return took

    took = simulation.run(main())
    assert took <= (1 if broker == "up" else 2) + SLACK
