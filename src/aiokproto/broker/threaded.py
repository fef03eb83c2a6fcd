"""The embedded broker in a thread, for code that has no event loop or doesn't want to share it."""

from __future__ import annotations

import asyncio
import inspect
import secrets
import threading
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, TypeVar, overload

from aiokproto.application.calls import ENDS_THE_PROGRAM
from aiokproto.application.hints import Hints
from aiokproto.broker.cluster import Cluster
from aiokproto.broker.config.options import Value
from aiokproto.broker.control import Faults

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, Self

    P = ParamSpec("P")

T = TypeVar("T")


class _Ends(NamedTuple):
    """The result of a call that raised an exception which should end the program."""

    error: BaseException


_IN_THREAD = {
    name: f"use call(kafka.cluster.{name}, ...), which runs it in the cluster's thread"
    for name in dir(Cluster)
    if not name.startswith("_")
}


class ThreadedCluster(Hints, hints=_IN_THREAD):
    """Runs a :class:`Cluster` in its own thread and event loop. Every method blocks until its work is done.

    ::

        with ThreadedCluster(Broker()) as kafka:
            kafka.create_topic("flights", partitions=3)
            kafka.faults.drop(ProduceRequest, times=1)
            kafka.call(kafka.cluster.move_leader, "flights", 0)
            ...  # any client, in any thread or loop, at kafka.bootstrap_servers

    Use it from any thread but its own. Coroutines can call it too, but block their event loop while waiting.

    Attributes:
        cluster: The cluster. Its methods must run in the cluster's thread: use :meth:`call`.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread and the cluster. Raises the same errors as :meth:`Cluster.start`, leaving nothing
        running."""
        if self._thread is not None:
            raise RuntimeError("the cluster is already started")
        ready: Future[asyncio.AbstractEventLoop] = Future()
        # A daemon thread, so an interrupted test run doesn't hang at exit.
        self._thread = threading.Thread(target=self._run, args=[ready], name="aiokproto-broker", daemon=True)
        self._thread.start()
        self._loop = ready.result()
        try:
            self.call(self.cluster.start)
        except BaseException:
            self._stop()
            raise

    def close(self) -> None:
        """Close the cluster and end the thread. A second call does nothing."""
        if self._thread is None:
            return
        try:
            self.call(self.cluster.close)
        finally:
            self._stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @overload
    def call(self, function: Callable[P, Awaitable[T]], *arguments: P.args, **named: P.kwargs) -> T: ...
    @overload
    def call(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T: ...
    def call(self, function: Callable[..., object], *arguments: object, **named: object) -> object:
        """Call a function or coroutine function in the cluster's thread, and return its result. Exceptions are raised
        here.

        Raises:
            RuntimeError: The cluster isn't started, or this is called in its own thread, which would wait for itself.
        """
        if self._loop is None:
            raise RuntimeError("the cluster is not started")
        if threading.current_thread() is self._thread:
            raise RuntimeError("call() was called in the cluster's own thread, which cannot wait for itself")

        async def run() -> object:
            try:
                result = function(*arguments, **named)
                return await result if inspect.isawaitable(result) else result
            except ENDS_THE_PROGRAM as error:
                # Return the exception to the calling thread. Raising it here would end the cluster's thread before it
                # could answer.
                return _Ends(error)

        result = asyncio.run_coroutine_threadsafe(run(), self._loop).result()
        if isinstance(result, _Ends):
            raise result.error
        return result

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of each node, as clients' ``bootstrap_servers`` option expects it."""
        return self.cluster.bootstrap_servers

    @property
    def faults(self) -> Faults:
        """Injects faults; can be used from any thread."""
        return self.cluster.faults

    def create_topic(
        self, name: str, partitions: int = 1, replication: int = 1, config: Mapping[str, Value] | None = None
    ) -> None:
        """See :meth:`Cluster.create_topic`."""
        self.call(self.cluster.create_topic, name, partitions, replication, config)

    def new_topic(
        self,
        prefix: str = "topic",
        partitions: int = 1,
        replication: int = 1,
        config: Mapping[str, Value] | None = None,
    ) -> str:
        """Create a topic with a unique name, and return the name."""
        name = f"{prefix}-{secrets.token_hex(4)}"
        self.create_topic(name, partitions, replication, config)
        return name

    def _run(self, ready: Future[asyncio.AbstractEventLoop]) -> None:
        loop = asyncio.new_event_loop()
        try:
            loop.call_soon(ready.set_result, loop)
            loop.run_forever()
        finally:
            loop.close()

    def _stop(self) -> None:
        assert self._loop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop = self._thread = None
