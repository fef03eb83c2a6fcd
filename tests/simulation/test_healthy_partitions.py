"""Responses whose parts about one topic are damaged. The records of another topic are still produced, read and
committed, and the records of the first are again when the damage ends."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from math import inf
from random import Random
from typing import Any

import pytest

from aiokproto import Consumer, Producer, ShareConsumer
from aiokproto.broker import Cluster
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.codec import registry
from aiokproto.codec.schema import Response, Role, Struct
from aiokproto.errors import KafkaError
from aiokproto.simulation import Simulation
from tests.simulation.everything import FAST
from tests.simulation.mutations import FIELDS, damage
from tests.simulation.sharing import OPTIONS, configure

DAMAGED_FOR = 6.0
"""The duration of each damage in virtual seconds."""
LONG_TIMEOUT = 3.0
"""Seconds within which the healthy topic makes progress: a retry, and the calls that wait for it."""

APIS: dict[int, tuple[str, ...]] = {
    0: ("reader",),
    1: ("reader", "classic"),
    2: ("new reader",),
    3: ("reader", "classic", "consumer"),
    8: ("classic", "consumer"),
    9: ("new classic", "new consumer"),
    23: ("reader", "leaders"),
    78: ("share",),
    79: ("share",),
}
"""The APIs whose responses list topics, by ApiKey, with the clients that send them besides producers. New clients start
again and again."""

TURN = 1.5
"""Seconds until a new client starts."""


def damages() -> Iterator[Any]:
    for number, api in enumerate(APIS):
        for place, how in enumerate(FIELDS):
            usual = number % 3 == 0 and place == number
            marks = () if usual else (pytest.mark.extended,)
            yield pytest.param(api, how, marks=marks, id=f"{registry.api_name(api)}-{how}")


def topics(part: Struct, name_of: Any) -> Iterator[tuple[str | None, Struct]]:
    """Yield the parts of a response that are about one topic, with its name."""
    for spec in part.fields():
        value = getattr(part, spec.name)
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, Struct):
                continue
            named = [
                getattr(item, each.name) for each in item.fields() if each.role is Role.TOPIC_NAME and not each.array
            ]
            ids = [getattr(item, each.name) for each in item.fields() if each.role is Role.TOPIC_ID and not each.array]
            if named or ids:
                yield next((name for name in (*named, *map(name_of, ids)) if name), None), item
            else:
                yield from topics(item, name_of)


class Healthy:
    """Clients of two topics. Each step of the healthy one has to be done in time, regardless of the other."""

    def __init__(self, simulation: Simulation, cluster: Cluster) -> None:
        self._time = simulation.time
        self._cluster = cluster
        self.last: dict[str, float] = {}
        self.longest: dict[str, float] = {}
        self.done: dict[str, int] = {}
        self.foreign: list[str] = []

    def did(self, name: str) -> None:
        now = self._time()
        self.longest[name] = max(self.longest.get(name, 0.0), now - self.last.get(name, now))
        self.last[name] = now
        self.done[name] = self.done.get(name, 0) + 1

    async def each(self, name: str, step: Any, seconds: float = inf) -> None:
        end = self._time() + seconds
        while self._time() < end:
            try:
                await step(name)
            except KafkaError:
                pass
            except Exception as error:  # noqa: BLE001 - whatever is foreign is noted
                self.foreign.append(f"{name}: {error!r}")
            await asyncio.sleep(0.2)

    def options(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": self._cluster.bootstrap_servers,
            "request_timeout_ms": 2000,
            "default_api_timeout_ms": 4000,
            "metadata_max_age_ms": 1000,
        }

    async def produce(self, producer: Producer, topic: str) -> None:
        async def step(name: str) -> None:
            await producer.send(topic, b"x")
            self.did(name)

        await self.each(f"produce {topic}", step)

    async def consume(self, kind: str, **options: Any) -> None:
        while True:
            consumer = Consumer(
                "healthy", "odd", **self.options(), auto_offset_reset="earliest", enable_auto_commit=False, **options
            )

            async def step(name: str, consumer: Consumer = consumer) -> None:
                try:
                    records = await consumer.poll(500, 10)
                except KafkaError:
                    # Some errors stop a partition until the application seeks.
                    consumer.seek_to_beginning(*(each for each in consumer.assignment() if each.topic == "odd"))
                    raise
                for record in records:
                    self.did(f"{name} {record.topic}")
                    commits = record.topic == "healthy" and "group_id" in options
                    if commits and (await consumer.commit(record)).committed:
                        self.did(f"{name} commits")

            with suppress(KafkaError):
                async with consumer:
                    await self.each(kind, step, TURN if kind.startswith("new") else inf)
            await asyncio.sleep(0.1)

    def run(self, kind: str) -> Coroutine[Any, Any, None]:
        """Return the coroutine of one of the clients in `APIS`."""
        if kind == "share":
            return self.share()
        if kind == "leaders":
            return self.move_leaders()
        protocol = kind.removeprefix("new ")
        group = {} if protocol == "reader" else {"group_id": protocol, "group_protocol": protocol}
        return self.consume(kind, **group)

    async def move_leaders(self) -> None:
        """Move the leaders of the damaged topic, so that positions are validated."""
        while True:
            await asyncio.sleep(0.7)
            for partition in (0, 1):
                await self._cluster.move_leader("odd", partition)

    async def share(self) -> None:
        async with ShareConsumer("healthy", "odd", **self.options(), group_id="g") as consumer:

            async def step(name: str) -> None:
                for record in await consumer.poll(500):
                    self.did(f"{name} {record.topic}")
                if any(each.ok and each.topic == "healthy" for each in await consumer.commit(2000)):
                    self.did(f"{name} commits")

            await self.each("share", step)


@pytest.mark.parametrize(("api", "how"), list(damages()))
def test_a_healthy_topic_goes_on_beside_a_damaged_one(api: int, how: str) -> None:
    simulation, random = Simulation(api), Random(how)

    async def change(info: RequestInfo, serve: Serve) -> Response | None:
        response = await serve(info.request)
        for name, part in list(topics(response, info.name_of)) if response is not None else ():
            if name == "odd":
                damage(random, how, part, info.version)
        return response

    async def main() -> None:
        async with Cluster(2, config={**FAST, **OPTIONS}, auto_create_topics=False) as cluster:
            for topic in ("healthy", "odd"):
                await cluster.create_topic(topic, 2, replication=2)
            await configure(cluster)
            clients = Healthy(simulation, cluster)
            async with Producer(**clients.options(), linger_ms=0, delivery_timeout_ms=4000) as producer:
                work = [clients.produce(producer, topic) for topic in ("healthy", "odd")]
                tasks = [asyncio.create_task(each) for each in (*work, *map(clients.run, APIS[api]))]
                await asyncio.sleep(4)
                names = set(clients.last)
                clients.longest.clear()
                with cluster.faults.intercept(registry.request(api), change) as rule:
                    await asyncio.sleep(DAMAGED_FOR)
                    for name in names:
                        if not name.endswith("odd"):
                            clients.longest[name] = max(
                                clients.longest.get(name, 0.0), simulation.time() - clients.last[name]
                            )
                    late = {name: round(took, 1) for name, took in clients.longest.items() if not name.endswith("odd")}
                    counted = rule.count
                before = dict(clients.done)
                await asyncio.sleep(20)
                stuck = [name for name in names if clients.done[name] == before[name]]
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                for task in tasks:
                    with suppress(asyncio.CancelledError):
                        task.result()
        assert counted
        assert not clients.foreign
        assert not stuck, "works again"
        assert max(late.values()) <= LONG_TIMEOUT, late

    simulation.run(main())
