"""Clients, producers and consumers that are closed, or started again, while they start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from aiokproto import Client, Consumer, Producer, ShareConsumer
from aiokproto.broker import Cluster
from aiokproto.errors import ClientClosedError, UnknownTopicError
from aiokproto.simulation import Simulation


def client_tasks() -> list[str]:
    return [task.get_name() for task in asyncio.all_tasks() if "aiokproto" in task.get_name()]


async def use(client: Client | Consumer | Producer) -> None:
    if isinstance(client, Client):
        await client.metadata()
    elif isinstance(client, Consumer):
        await client.poll()
    else:
        await client.send("t", b"x")


def in_group(bootstrap_servers: str) -> Consumer:
    return Consumer("t", bootstrap_servers=bootstrap_servers, group_id="g")


@pytest.mark.parametrize("kind", [Client, Producer, in_group])
def test_closing_at_any_loop_iteration_of_a_start_leaves_nothing_behind(
    kind: Callable[..., Client | Consumer | Producer],
) -> None:
    async def closed_after(turns: int) -> bool:
        """Return whether the client had started by then."""
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", 1)
            client = kind(bootstrap_servers=cluster.bootstrap_servers)
            starting = asyncio.create_task(client.start())
            for _ in range(turns):
                await asyncio.sleep(0.00001)
            started = starting.done()
            # One may end in the same iteration in which the other starts.
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


def matching(bootstrap_servers: str) -> Consumer:
    consumer = Consumer(bootstrap_servers=bootstrap_servers)
    consumer.subscribe(pattern="t.*")
    return consumer


def new_protocol(bootstrap_servers: str) -> Consumer:
    return Consumer("t", bootstrap_servers=bootstrap_servers, group_id="g", group_protocol="consumer")


def sharing(bootstrap_servers: str) -> ShareConsumer:
    return ShareConsumer("t", bootstrap_servers=bootstrap_servers, group_id="s")


@pytest.mark.parametrize("turns", range(5))
@pytest.mark.parametrize("kind", [matching, new_protocol, sharing])
def test_closing_at_any_loop_iteration_after_a_subscription_ends_all_tasks(
    kind: Callable[..., Consumer | ShareConsumer], turns: int
) -> None:
    async def main() -> None:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", 1)
            client = kind(bootstrap_servers=cluster.bootstrap_servers)
            await client.start()
            if kind is sharing:
                # The missing topic is looked up again and again.
                client.subscribe("missing")
            await asyncio.sleep(3)
            if kind is matching:
                client.subscribe(pattern="t|u")  # type: ignore[call-arg]
            else:
                client.subscribe("t", "u")
            for _ in range(turns):
                await asyncio.sleep(0)
            began = simulation.time()
            await client.close()
            assert simulation.time() - began < 1
            assert not client_tasks()

    simulation = Simulation(1)
    simulation.run(main())


@pytest.mark.parametrize("kind", [Producer, in_group])
def test_a_client_starts_once_also_when_two_tasks_start_it(kind: Callable[..., Consumer | Producer]) -> None:
    async def main() -> None:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", 1)
            client = kind(bootstrap_servers=cluster.bootstrap_servers)
            first, second = await asyncio.gather(client.start(), client.start(), return_exceptions=True)
            assert first is None
            assert isinstance(second, ClientClosedError)
            await use(client)
            await client.close()
            assert not client_tasks()

    Simulation(1).run(main())


def test_a_consumer_of_a_missing_topic_does_not_start_and_says_why_afterwards() -> None:
    async def program() -> None:
        async with Cluster(1) as cluster:
            consumer = in_group(cluster.bootstrap_servers)
            with pytest.raises(UnknownTopicError, match="consumers never create topics: create it first") as caught:
                await consumer.start()
            for call in (consumer.poll, consumer.commit):
                with pytest.raises(ClientClosedError, match="could not be started; create another one") as later:
                    await call()
                assert later.value.__cause__ is caught.value

    Simulation(1).run(program())
