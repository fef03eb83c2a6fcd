"""A loop that only polls."""

from __future__ import annotations

from aiokproto import Cluster, Consumer
from aiokproto.simulation import Simulation


def test_a_loop_of_polls_without_arguments_waits_for_records_instead_of_spinning() -> None:
    simulation = Simulation(1)

    async def main() -> float:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", 1)
            async with Consumer("t", bootstrap_servers=cluster.bootstrap_servers) as consumer:
                started = simulation.time()
                for _ in range(10):
                    assert await consumer.poll() == []
                return simulation.time() - started

    assert simulation.run(main()) >= 10 * 0.5
