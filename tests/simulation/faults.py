"""What goes wrong in a simulation, and when: a schedule from a seed, which can be printed, repeated and shortened."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any, cast

from aiokproto import Client
from aiokproto.broker import Cluster
from aiokproto.broker.control.call import Call, Serve
from aiokproto.codec.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from aiokproto.codec.registry import lookup
from aiokproto.codec.schema import Request, Response
from aiokproto.error_codes import ErrorCode
from aiokproto.simulation import Link, Simulation

REFUSALS: dict[str, tuple[ErrorCode, ...]] = {
    "Produce": (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
    ),
    "InitProducerId": (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR),
    "Metadata": (ErrorCode.LEADER_NOT_AVAILABLE,),
    "Fetch": (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ),
    "ListOffsets": (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_NOT_AVAILABLE),
    "FindCoordinator": (ErrorCode.COORDINATOR_NOT_AVAILABLE,),
    "JoinGroup": (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_MEMBER_ID),
    "SyncGroup": (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_MEMBER_ID),
    "Heartbeat": (
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NOT_COORDINATOR,
    ),
    "OffsetCommit": (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS,
    ),
    "OffsetFetch": (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR),
}
"""The error codes that brokers answer an API with though nothing is wrong with the request."""


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong.

    Attributes:
        at: When, in virtual seconds since the workload began.
        kind: What; a function of this module.
        seconds: For how long.
        options: What else it is about.
    """

    at: float
    kind: str
    seconds: float
    options: tuple[Any, ...] = ()


@dataclass
class World:
    """What faults have an effect on."""

    simulation: Simulation
    cluster: Cluster
    topic: str

    def links(self, broker: int) -> list[Link]:
        """The links of all clients to a broker."""
        port = int(self.cluster.bootstrap_servers.split(",")[broker].rpartition(":")[2])
        return self.simulation.network.links(server=("127.0.0.1", port))


async def kill(world: World, seconds: float, broker: int, noticed_after: float) -> None:
    if len(world.cluster.bootstrap_servers) and broker in _running(world):
        await world.cluster.kill_broker(broker, noticed_after)
        await asyncio.sleep(seconds)
        await world.cluster.start_broker(broker)


async def stop(world: World, seconds: float, broker: int) -> None:
    if broker in _running(world):
        await world.cluster.stop_broker(broker)
        await asyncio.sleep(seconds)
        await world.cluster.start_broker(broker)


def _running(world: World) -> set[int]:
    return set(world.cluster._servers)


async def move_leader(world: World, seconds: float, partition: int) -> None:
    if len(_running(world)) > 1:
        await world.cluster.move_leader(world.topic, partition)


async def cut(world: World, seconds: float, broker: int) -> None:
    await _for_a_while(world, seconds, broker, Link.cut)


async def reset(world: World, seconds: float, broker: int) -> None:
    for link in world.links(broker):
        link.reset()


async def silence(world: World, seconds: float, broker: int, to_server: bool, to_client: bool) -> None:
    await _for_a_while(world, seconds, broker, lambda link: link.silence(to_server=to_server, to_client=to_client))


async def _for_a_while(world: World, seconds: float, broker: int, act: Callable[[Link], None]) -> None:
    links = world.links(broker)
    for link in links:
        act(link)
    await asyncio.sleep(seconds)
    for link in links:
        link.restore()


async def delay(world: World, seconds: float, broker: int, latency: float) -> None:
    links = world.links(broker)
    before = [link.to_server.latency for link in links]
    for link in links:
        link.delay(latency / 2, latency)
    await asyncio.sleep(seconds)
    for link, (least, most) in zip(links, before, strict=True):
        link.delay(least, most)


def _request(api: str) -> type[Request[Any]]:
    return cast("type[Request[Any]]", lookup(f"{api}Request"))


async def refuse(world: World, seconds: float, api: str, code: ErrorCode, times: int) -> None:
    with world.cluster.faults.fail(_request(api), code, times=times):
        await asyncio.sleep(seconds)


async def drop(world: World, seconds: float, api: str, what: str, times: int) -> None:
    with world.cluster.faults.drop(_request(api), what, times=times):  # type: ignore[arg-type]
        await asyncio.sleep(seconds)


async def delay_answers(world: World, seconds: float, api: str, by: float) -> None:
    with world.cluster.faults.delay(_request(api), by):
        await asyncio.sleep(seconds)


async def serve_twice(world: World, seconds: float, api: str) -> None:
    """As when a request arrives again after its answer got lost."""

    async def twice(call: Call, serve: Serve) -> Response | None:
        await serve(call.request)
        return await serve(call.request)

    with world.cluster.faults.intercept(_request(api), twice):
        await asyncio.sleep(seconds)


async def throttle(world: World, seconds: float, api: str, by_ms: int) -> None:
    async def throttled(call: Call, serve: Serve) -> Response | None:
        response: Any = await serve(call.request)
        if hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = by_ms
        return cast("Response | None", response)

    with world.cluster.faults.intercept(_request(api), throttled):
        await asyncio.sleep(seconds)


async def grow(world: World, seconds: float, partitions: int) -> None:
    async with Client(bootstrap_servers=world.cluster.bootstrap_servers) as client:
        topic = CreatePartitionsTopic(name=world.topic, count=partitions, assignments=None)
        await client.request(CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=False))


async def stall(world: World, seconds: float) -> None:
    world.simulation.loop.stall(seconds)


async def hold_threads(world: World, seconds: float) -> None:
    world.simulation.threads.hold()
    await asyncio.sleep(seconds)
    world.simulation.threads.release()


WEIGHTS = {
    "kill": 2,
    "stop": 2,
    "move_leader": 4,
    "cut": 2,
    "reset": 3,
    "silence": 2,
    "delay": 2,
    "refuse": 8,
    "drop": 4,
    "stall": 1,
    "hold_threads": 1,
    "delay_answers": 2,
    "serve_twice": 2,
    "throttle": 2,
    "grow": 1,
}
"""How often each kind is drawn, relative to the others."""

KINDS: dict[str, Callable[..., Awaitable[None]]] = {name: globals()[name] for name in WEIGHTS}


def draw(random: Random, until: float, brokers: int, partitions: int, apis: tuple[str, ...]) -> Fault:
    """A fault at some time before ``until``. The first API is what the workload is about."""
    # Many come with the first request, and most early: what has only just begun is the most fragile.
    at = 0.0 if random.random() < 0.3 else until * random.random() ** 3
    seconds = random.choice((0.05, 0.5, 2.0, 8.0)) * random.uniform(0.5, 1.5)
    broker, api = random.randrange(brokers), random.choices(apis, [2 * len(apis), *[1] * (len(apis) - 1)])[0]
    kind = random.choices(tuple(WEIGHTS), tuple(WEIGHTS.values()))[0]
    choices: dict[str, Callable[[], tuple[Any, ...]]] = {
        "kill": lambda: (broker, random.choice((0.0, 1.0, 5.0))),
        "move_leader": lambda: (random.randrange(partitions),),
        "silence": lambda: (broker, *random.choice(((True, True), (True, False), (False, True)))),
        "delay": lambda: (broker, random.choice((0.05, 0.5))),
        "refuse": lambda: (api, random.choice(REFUSALS[api]), random.randint(1, 5)),
        "drop": lambda: (api, random.choice(("request", "answer")), random.randint(1, 3)),
        "delay_answers": lambda: (api, random.choice((0.5, 3.0))),
        "serve_twice": lambda: (api,),
        "throttle": lambda: (api, random.choice((50, 1000, 5000))),
        "grow": lambda: (partitions + random.randint(1, 3),),
        "stall": lambda: (),
        "hold_threads": lambda: (),
    }
    options = choices.get(kind, lambda: (broker,))()
    return Fault(round(at, 4), kind, round(seconds, 4), options)


async def carry_out(world: World, schedule: list[Fault]) -> None:
    """Have all of a schedule happen, and end."""

    async def happen(fault: Fault) -> None:
        await asyncio.sleep(fault.at)
        world.simulation.trace.note("fault", repr(fault))
        await KINDS[fault.kind](world, fault.seconds, *fault.options)

    await asyncio.gather(*(happen(fault) for fault in schedule))
