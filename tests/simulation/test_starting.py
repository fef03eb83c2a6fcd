"""Clients and producers that are closed, or started again, while they start."""

from __future__ import annotations

import asyncio

import pytest

from aiokproto import Client, Producer
from aiokproto.broker import Cluster
from aiokproto.errors import ClientClosedError
from aiokproto.simulation import Simulation


def client_tasks() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if "aiokproto" in task.get_name()]


async def use(client: Client | Producer) -> None:
    if isinstance(client, Client):
        await client.metadata()
    else:
        await client.send("t", b"x")


@pytest.mark.parametrize("kind", [Client, Producer])
def test_closed_at_any_turn_while_it_starts_nothing_is_left(kind: type[Client] | type[Producer]) -> None:
    async def closed_after(turns: int) -> bool:
        """Whether it had started by then."""
        async with Cluster(1) as cluster:
            client = kind(bootstrap_servers=cluster.bootstrap_servers)
            starting = asyncio.create_task(client.start())
            for _ in range(turns):
                await asyncio.sleep(0.00001)
            started = starting.done()
            # The one may end in the very turn in which the other begins.
            await asyncio.get_running_loop().create_task(client.close())
            await asyncio.wait((starting,))
            assert started or isinstance(starting.exception(), (ClientClosedError, type(None)))
            with pytest.raises(ClientClosedError):
                await use(client)
            assert not client_tasks()
            return started

    turns = 1
    while not Simulation(1).run(closed_after(turns)):
        turns += 1
    assert turns > 10


def test_a_producer_starts_once_also_when_two_tasks_start_it() -> None:
    async def main() -> None:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", 1)
            producer = Producer(bootstrap_servers=cluster.bootstrap_servers)
            first, second = await asyncio.gather(producer.start(), producer.start(), return_exceptions=True)
            assert first is None
            assert isinstance(second, ClientClosedError)
            await producer.send("t", b"x")
            await producer.close()
            assert not client_tasks()

    Simulation(1).run(main())
