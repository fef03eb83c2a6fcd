"""A program in virtual time: an event loop, a network and threads, all determined by one seed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from random import Random
from typing import Any, TypeVar

from aiokproto.errors import ConfigurationError
from aiokproto.runtime import AddressInfo, Runtime
from aiokproto.simulation.loop import TURN_SECONDS, SimulationLoop
from aiokproto.simulation.network import Network
from aiokproto.simulation.threads import Threads
from aiokproto.simulation.trace import Trace

T = TypeVar("T")

EPOCH = 1_700_000_000_000
"""The wall clock when a simulation starts, in milliseconds since the epoch."""


class SimulatedRuntime(Runtime):
    """The wall clock and randomness of a simulation."""

    def __init__(self, random: Random, secrets: Random, time: Callable[[], float]) -> None:
        super().__init__(random, secrets)
        self._time = time
        self._cpu_seconds = 0.0

    def milliseconds(self) -> int:
        return EPOCH + int(self._time() * 1000)

    def getaddrinfo(self, threads: ThreadPoolExecutor | None, host: str, port: int) -> Awaitable[list[AddressInfo]]:
        return asyncio.get_running_loop().getaddrinfo(host, port)

    async def getnameinfo(self, threads: ThreadPoolExecutor | None, sockaddr: tuple[Any, ...]) -> str:
        # Names are addresses here.
        return str(sockaddr[0])

    def cpu_time(self) -> float:
        # Real work doesn't take virtual time, so each call advances this clock a little.
        self._cpu_seconds += TURN_SECONDS
        return self._cpu_seconds


class Simulation:
    """Runs a program in virtual time. The same seed, program and Python version give the same run.

    ::

        simulation = Simulation(seed=7)
        simulation.run(main(simulation))

    Attributes:
        seed: A whole number that determines every random decision: latency, order, faults, and the clients' random
            numbers.
        random: Randomness for the program's own decisions.
        network: The network. Servers listen there, and its links can fail.
        threads: The threads that ``run_in_executor`` and ``asyncio.to_thread`` use.
        trace: The events so far.
        loop: The event loop.
    """

    def __init__(self, seed: int = 0) -> None:
        """Create the loop. Nothing runs before :meth:`run`.

        Raises:
            ConfigurationError: ``seed`` is not a whole number.
        """
        # A seed of another type would give different random numbers: "7" from a command line isn't 7.
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise ConfigurationError(f"seed={seed!r}: expected a whole number")
        self.seed = seed
        # Each part has its own random numbers: an additional draw in the network must not change the program's
        # decisions.
        self.random = Random(f"{seed}/program")
        self.trace = Trace(self.time)
        self.network = Network(Random(f"{seed}/network"), self.trace, self.time)
        self.threads = Threads(Random(f"{seed}/threads"))
        runtime = SimulatedRuntime(Random(f"{seed}/runtime"), Random(f"{seed}/secrets"), self.time)
        # The methods that it doesn't define raise NotImplementedError, as in the abstract class.
        self.loop = SimulationLoop(self.network, self.threads, runtime)  # type: ignore[abstract]

    def time(self) -> float:
        """Virtual seconds since the simulation started."""
        return self.loop.time()

    def run(self, program: Awaitable[T]) -> T:
        """Run a coroutine to its end, cancel the tasks it leaves behind, and close the loop. Can be called only once.

        Returns:
            The coroutine's result.

        Raises:
            DeadlockError: All tasks are waiting for one another.
            RuntimeError: The simulation has run before, or an event loop is running in this thread.
        """
        loop = self.loop
        problem = ""
        if loop.is_closed():
            problem = f"the simulation has run already: create another Simulation(seed={self.seed})"
        elif asyncio._get_running_loop() is not None:
            problem = "an event loop is running: run() has its own, call it outside of coroutines"
        if problem:
            if asyncio.iscoroutine(program):
                program.close()
            raise RuntimeError(problem)
        try:
            return loop.run_until_complete(program)
        finally:
            for task in sorted(asyncio.all_tasks(loop), key=asyncio.Task.get_name):
                task.cancel()
            while left := asyncio.all_tasks(loop):
                # If a task has raised SystemExit, each task that awaits it raises it again.
                with suppress(SystemExit):
                    loop.run_until_complete(asyncio.wait(left))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
