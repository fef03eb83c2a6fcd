"""An event loop in virtual time: nothing really waits, and a program runs the same way every time."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import traceback
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextvars import Context
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from aiokproto.simulation.network import Network
from aiokproto.simulation.threads import Threads

if TYPE_CHECKING:
    from typing_extensions import TypeVarTuple, Unpack

    from aiokproto.runtime import Runtime

    Ts = TypeVarTuple("Ts")

T = TypeVar("T")
ExceptionHandler = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object]

log = logging.getLogger("aiokproto.simulation")

TURN_SECONDS = 10e-6
"""Virtual seconds per iteration of the loop. It isn't zero because a task that spins must not stop the clock."""


class DeadlockError(RuntimeError):
    """All tasks are waiting and no timer is set, so nothing can ever happen again. The message lists the tasks and
    where each of them is waiting."""


class SimulationLoop(asyncio.AbstractEventLoop):
    """An event loop whose clock jumps to the next timer when nothing is ready to run.

    Connections go through a :class:`Network` in memory, and :class:`Threads` simulates threads. Everything else that a
    loop can do (signals, processes, pipes, real sockets) raises ``NotImplementedError``.

    Attributes:
        network: Where servers listen and clients connect.
        threads: The threads that ``run_in_executor`` uses.
        runtime: The clients' source of wall-clock time and randomness.
        turns: The number of iterations so far. Many iterations per virtual second mean a busy loop.
    """

    def __init__(self, network: Network, threads: Threads, runtime: Runtime) -> None:
        self.network = network
        self.threads = threads
        self.runtime = runtime
        self.turns = 0
        self._now = 0.0
        self._ready: deque[asyncio.Handle] = deque()
        # The second item keeps timers with the same time in the order in which they were set.
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timers_set = 0
        self._timers_cancelled = 0
        self._stopping = False
        self._running = False
        self._closed = False
        self._debug = False
        self._exception_handler: ExceptionHandler | None = None
        self._task_factory: Any = None
        self._numbers = count()
        self._generators: dict[int, AsyncGenerator[Any, Any]] = {}
        self._most_generators = 100

    # --- Running

    def run_forever(self) -> None:
        self._check_closed()
        if self._running or asyncio._get_running_loop() is not None:
            raise RuntimeError("an event loop is running already")
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(self._generator_started, self._generator_dropped)
        # This function is private, but it's the only way for a loop that isn't asyncio's own to register itself.
        asyncio._set_running_loop(self)
        self._running = True
        try:
            while not self._stopping:
                self._turn()
        finally:
            self._stopping = self._running = False
            asyncio._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def run_until_complete(self, future: Generator[Any, None, T] | Awaitable[T]) -> T:
        self._check_closed()
        given = asyncio.isfuture(future)
        task: asyncio.Future[T] = asyncio.ensure_future(future, loop=self)  # type: ignore[arg-type]
        task.add_done_callback(self._stop_for)
        try:
            self.run_forever()
        except BaseException:
            if not given and task.done() and not task.cancelled():
                # Retrieve the exception. Otherwise asyncio would report it in addition to the error that ended the
                # loop.
                task.exception()
            raise
        finally:
            task.remove_done_callback(self._stop_for)
        if not task.done():
            raise RuntimeError("the event loop was stopped before the future was done")
        return task.result()

    def _stop_for(self, _: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stopping = True

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        if self._running:
            raise RuntimeError("a running event loop cannot be closed")
        self._closed = True
        self._ready.clear()
        self._timers.clear()

    def _check_closed(self) -> None:
        if self._closed:
            raise RuntimeError("the event loop is closed")

    def _turn(self) -> None:
        if not self._ready:
            self._skip_to_next_timer()
        self._now += TURN_SECONDS
        self.turns += 1
        while self._timers and self._timers[0][0] <= self._now:
            self._ready.append(heappop(self._timers)[2])
        # Callbacks scheduled by these run in the next iteration, as in asyncio's own loops.
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            if not handle.cancelled():
                handle._run()

    def _skip_to_next_timer(self) -> None:
        while self._timers and self._timers[0][2].cancelled():
            heappop(self._timers)
        if not self._timers:
            raise DeadlockError(f"nothing is left to happen at {self._now:.6f} s; waiting are:\n{self._waiting()}")
        # The clock never moves back: stall() may have moved it past the timer.
        self._now = max(self._now, self._timers[0][0])

    def _waiting(self) -> str:
        tasks = sorted(asyncio.all_tasks(self), key=asyncio.Task.get_name)
        frames = ((task.get_name(), task.get_stack(limit=1)) for task in tasks)
        return "\n".join(
            f"  {name} at {''.join(traceback.format_stack(stack[-1], limit=1)).strip() if stack else 'its end'}"
            for name, stack in frames
        )

    # --- Time

    def time(self) -> float:
        return self._now

    def stall(self, seconds: float) -> None:
        """Stall the loop's thread, as a long garbage collection or a suspended process would. All timers that expire
        during the stall are late."""
        self._now += seconds

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: Unpack[Ts], context: Context | None = None
    ) -> asyncio.Handle:
        self._check_closed()
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[Unpack[Ts]], object], *args: Unpack[Ts], context: Context | None = None
    ) -> asyncio.Handle:
        # The simulation has only one thread.
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: Unpack[Ts], context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: Unpack[Ts], context: Context | None = None
    ) -> asyncio.TimerHandle:
        self._check_closed()
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._timers_set += 1
        heappush(self._timers, (when, self._timers_set, timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        # Long timers that are set and cancelled for every request would fill up memory.
        self._timers_cancelled += 1
        if self._timers_cancelled > 100 and 2 * self._timers_cancelled > len(self._timers):
            self._timers = [timer for timer in self._timers if not timer[2].cancelled()]
            heapify(self._timers)
            self._timers_cancelled = 0

    # --- Tasks

    def create_future(self) -> asyncio.Future[Any]:
        return SimulatedFuture(next(self._numbers), self)

    def create_task(self, coro: Coroutine[Any, Any, T] | Generator[Any, None, T], **options: Any) -> asyncio.Task[T]:
        self._check_closed()
        if self._task_factory is not None:
            task: asyncio.Task[T] = self._task_factory(self, coro, **options)
            return task
        return SimulatedTask(next(self._numbers), coro, self, **options)

    def set_task_factory(self, factory: Any) -> None:
        self._task_factory = factory

    def get_task_factory(self) -> Any:
        return self._task_factory

    def run_in_executor(self, executor: Any, func: Callable[[Unpack[Ts]], T], *args: Unpack[Ts]) -> asyncio.Future[T]:
        self._check_closed()
        return self.threads.run(self, executor, lambda: func(*args))

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        pass

    def _generator_started(self, generator: AsyncGenerator[Any, Any]) -> None:
        # Unlike in asyncio, the references are strong: what happens next must not depend on when the garbage collector
        # runs. Finished generators are removed.
        if len(self._generators) >= self._most_generators:
            started = self._generators.items()
            self._generators = {key: each for key, each in started if getattr(each, "ag_frame", each) is not None}
            self._most_generators = max(100, 2 * len(self._generators))
        self._generators[id(generator)] = generator

    def _generator_dropped(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generators.pop(id(generator), None)
        if not self._closed:
            # As in asyncio, the generator's finally blocks may await.
            self.create_task(generator.aclose())

    def add_signal_handler(self, sig: int, callback: object, *args: object) -> NoReturn:
        raise NotImplementedError("a simulation has no signals: call the handler at a time of the program's choice")

    def remove_signal_handler(self, sig: int) -> NoReturn:
        raise NotImplementedError("a simulation has no signals")

    async def shutdown_asyncgens(self) -> None:
        generators, self._generators = list(self._generators.values()), {}
        for generator in generators:
            await generator.aclose()

    # --- The network

    async def getaddrinfo(  # type: ignore[override]
        self, host: str | None, port: int | str | None, **_: Any
    ) -> list[tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[str, int]]]:
        address = await self.network.resolve(host or "127.0.0.1")
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, int(port or 0)))]

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: object = None,
        sock: object = None,
        **_: Any,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        if ssl or sock is not None or host is None or port is None:
            raise NotImplementedError("simulated connections are made to a host and port, without TLS")
        return await self.network.connect(self, protocol_factory, host, port)

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int | None = None,
        *,
        ssl: object = None,
        sock: object = None,
        **_: Any,
    ) -> asyncio.AbstractServer:
        if ssl or sock is not None:
            raise NotImplementedError("simulated servers listen at a host and port, without TLS")
        return self.network.listen(self, protocol_factory, host or "127.0.0.1", port or 0)

    # --- Errors

    def set_exception_handler(self, handler: ExceptionHandler | None) -> None:
        self._exception_handler = handler

    def get_exception_handler(self) -> ExceptionHandler | None:
        return self._exception_handler

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        details = ", ".join(
            f"{key}: {value!r}" for key, value in context.items() if key not in ("message", "exception")
        )
        log.error("%s (%s)", context["message"], details, exc_info=context.get("exception"))

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._exception_handler is None:
            self.default_exception_handler(context)
        else:
            self._exception_handler(self, context)

    def get_debug(self) -> bool:
        return self._debug

    def set_debug(self, enabled: bool) -> None:
        self._debug = enabled


# Hashes of tasks and futures are the same in every run, so sets of them have the same order.


class SimulatedFuture(asyncio.Future[T]):
    """The ``number``th future or task of its loop."""

    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class SimulatedTask(asyncio.Task[T]):
    """The ``number``th future or task of its loop. It's named after the number if no name is given: asyncio's default
    names count all tasks of the process."""

    def __init__(
        self,
        number: int,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        loop: asyncio.AbstractEventLoop,
        **options: Any,
    ) -> None:
        # Set the number first, because Task.__init__() puts the task into a set.
        self._number = number
        if options.get("name") is None:
            options["name"] = f"Task-{number}"
        super().__init__(coro, loop=loop, **options)

    def __hash__(self) -> int:
        return self._number
