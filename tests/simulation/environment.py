"""The environment that faults affect: a simulation with its cluster, its topic and its links."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from inspect import getsource
from typing import Any, Protocol, TypeVar

from aiokproto.broker import Cluster
from aiokproto.records import BatchRecord, decode, encode
from aiokproto.simulation import Link, Simulation
from tests.timeouts import LONG_TIMEOUT

MAX_TURNS = 1000
"""The most iterations of the loop in a virtual second, with all the work of a workload's clients and brokers."""
TURNS_A_SECOND = 20
"""More iterations of the loop in a virtual second, besides those that the work itself takes, mean a busy loop."""

T = TypeVar("T")


@dataclass
class Environment:
    """A simulation, with everything that faults affect.

    Attributes:
        simulation: The network, the threads, the clock.
        cluster: The brokers.
        topic: The topic that the workload reads or writes.
        acks: What its producers wait for. With 1, leaders may lose records that they have acknowledged.
        unclean: Whether replicas that aren't in sync may lead. Records that all in-sync replicas had are lost as well
            then.
        lost: The values that were cut off each partition's log.
    """

    simulation: Simulation
    cluster: Cluster
    topic: str
    acks: int = -1
    unclean: bool = False
    lost: dict[int, set[bytes | None]] = field(default_factory=lambda: defaultdict(set))

    def links(self, broker: int) -> list[Link]:
        """Return the links of all clients to a broker."""
        port = int(self.cluster.bootstrap_servers.split(",")[broker].rpartition(":")[2])
        return self.simulation.network.links(server=("127.0.0.1", port))

    def append(self, partition: int, value: bytes, timestamp: int = 0) -> None:
        """Write a record to the log directly, without a request."""
        data = encode([BatchRecord(0, timestamp, None, value)])
        self.cluster._running.state.partition(self.topic, partition).append(data, 0)

    def running(self) -> set[int]:
        """Return the brokers that run."""
        return set(self.cluster._servers)


def run_within_turns(seed: int, program: Callable[[Simulation], Coroutine[Any, Any, None]]) -> Simulation:
    """Run a program in a new simulation. Raise AssertionError if it keeps the event loop busier than `MAX_TURNS`."""
    simulation = Simulation(seed)
    simulation.run(program(simulation))
    # A run can end within the first second, which contains the work of a start.
    turns = simulation.loop.turns / max(simulation.time(), 1.0)
    assert turns <= MAX_TURNS, f"{turns:.0f} turns of the loop in a second"
    return simulation


async def until(condition: Callable[[], object], within: float = LONG_TIMEOUT) -> None:
    """Wait for something that must happen. Raise AssertionError after ``within`` virtual seconds.

    Timers of clients and brokers never end, so without a limit a test would run forever.
    """
    time = asyncio.get_running_loop().time
    deadline = time() + within
    while not condition():
        assert time() < deadline, f"has not happened within {within:g} s: {getsource(condition).strip()}"
        await asyncio.sleep(0.01)


async def in_time(call: Awaitable[T], name: str, seconds: float, slack: float) -> T:
    """Await a call; raises AssertionError if it takes longer than its timeout and the slack, however it ends."""
    time = asyncio.get_running_loop().time
    started = time()
    try:
        return await call
    finally:
        took = time() - started
        assert took <= seconds + slack, f"{name} took {took:.1f} s, {seconds:g} were given"


class Living(Protocol):
    """A client that does its work in `live()` until it is stopped."""

    async def live(self, until: float) -> None: ...
    def stop(self) -> None: ...


async def live_until_nothing_is_missing(member: Living, missing: Callable[[], object], within: float) -> None:
    """Have a member do what is left; raises AssertionError if some is missing after ``within`` virtual seconds."""
    living = asyncio.create_task(member.live(asyncio.get_running_loop().time() + within))
    try:
        while left := missing():
            assert not living.done(), f"{left} are missing"
            await asyncio.wait([living], timeout=0.5)
    finally:
        if living.done():
            living.result()
        member.stop()
        await living


def check_no_task_is_left(names: tuple[str, ...] = ("aiokproto",)) -> None:
    """Assert that no task runs whose name starts with one of these."""
    left = [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith(names)]
    assert not left, f"closed, and still running: {left}"


def stored_records(cluster: Cluster, topic: str, partition: int) -> list[tuple[int, bytes | None]]:
    """Return the records of a log, whether or not a client can read them."""
    return [record for _, records in stored_batches(cluster, topic, partition) for record in records]


def stored_batches(cluster: Cluster, topic: str, partition: int) -> list[tuple[int, list[tuple[int, bytes | None]]]]:
    """Return the batches in a log: the base offset and the records of each. Control records are left out."""
    log = cluster._running.state.partition(topic, partition).log
    data = log.find(log.start_offset, 1 << 30, at_least_one=True).read()
    return [
        (batch.base_offset, [] if batch.is_control else [(record.offset, record.value) for record in batch])
        for batch in decode(data)
    ]
