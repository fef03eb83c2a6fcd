"""The life cycle of a client with background tasks, shared by consumers and share consumers.

No task should end while the client is running. If one does, for any reason, even a cancellation, it ends the client:
every later call raises the cause.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from aiokproto.application.gates import ASK, Obstacle, Use, refuse
from aiokproto.cluster.cluster_client import ClusterClient
from aiokproto.errors import ClientClosedError, KafkaError
from aiokproto.runtime import create_task
from aiokproto.texts import repr_of, text_of

DISCONNECT = 5.0
"""Maximum seconds for flushing the connections."""


class Lifecycle:
    """The state and the tasks of a client: the base class of client engines.

    Attributes:
        cluster: Metadata and connections.
    """

    def __init__(self, kind: str, cluster: ClusterClient, log: logging.Logger) -> None:
        """``kind`` names the client in errors and log lines, as in ``"share consumer"``."""
        self.cluster = cluster
        self._kind = kind
        self._log = log
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failure: BaseException | None = None
        self._close_error = ClientClosedError(f"the {kind} is not started: use async with, or await start()")
        self._started = False
        self._running = False
        self._closing = False

    def _failed(self) -> None:
        """Wake the waiting calls after one of the tasks has ended."""
        raise NotImplementedError

    # State

    @property
    def closing(self) -> bool:
        """Whether close() was called."""
        return self._closing

    @property
    def running(self) -> bool:
        """Whether the client is started and not closed."""
        return self._running

    @property
    def ended(self) -> KafkaError | None:
        """Why the client can't be used: it isn't started, is closed, or has failed. None while it can be used."""
        if isinstance(self._failure, KafkaError):
            return self._failure
        if self._failure is not None:
            return ClientClosedError(f"the {self._kind} has failed: {repr_of(self._failure)}")
        return None if self._running and not self._closing else self._close_error

    @property
    def closed_or_failed(self) -> bool:
        """Whether the client has ended for good."""
        return self._failure is not None or self._closing or (self._started and not self._running)

    def admit(self, use: Use) -> None:
        """Raise if an obstacle prevents this use of the client (:mod:`aiokproto.application.gates`)."""
        if use.obstacles:
            self.cluster.home.check()
        # Test the normal case first: every read comes through here.
        if not self._running or self._closing or self._failure is not None:
            self._refuse_ended(use)
        for obstacle in self._other_obstacles():
            # guard: what a session owns is refused to others
            refuse(use, obstacle)

    def _refuse_ended(self, use: Use) -> None:
        if self._failure is not None:
            # Raise the task's own error, so callers can catch it by type.
            if isinstance(self._failure, KafkaError):
                refuse(use, Obstacle.FAILED, self._failure)
            elif Obstacle.FAILED in use.obstacles:
                raise ClientClosedError(f"the {self._kind} has failed: {repr_of(self._failure)}") from self._failure
            return
        if self._running:
            obstacle = Obstacle.CLOSING
        elif self._closing or self._close_error.__cause__ is not None:
            obstacle = Obstacle.CLOSED
        else:
            obstacle = Obstacle.NOT_STARTED
        if obstacle in use.obstacles:
            raise ClientClosedError(str(self._close_error)) from self._close_error.__cause__

    def _other_obstacles(self) -> Iterable[Obstacle]:
        """Return the current obstacles that have nothing to do with the client's life cycle."""
        raise NotImplementedError

    def check_running(self) -> None:
        """Raise if the client is closed, one of its tasks has ended, or another event loop is running."""
        self.admit(ASK)

    # Start and end

    async def _connect(self, prepare: Callable[[], Awaitable[None]]) -> None:
        """Connect, and call ``prepare`` to set up what the tasks need.

        If that fails, close everything again and raise the cause.
        """
        if self._started:
            raise ClientClosedError(f"the {self._kind} was started before; create another one")
        self._started = True
        try:
            await self.cluster.start()
            self._running = True
            await prepare()
            # The client may have been closed in the same loop iteration in which the response arrived.
            self.cluster.check()
        except BaseException as error:
            self._running = False
            self._close_error = ClientClosedError(f"the {self._kind} could not be started; create another one")
            self._close_error.__cause__ = error
            await self.cluster.close()
            raise

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks[name] = create_task(work, name=f"aiokproto-{self._kind.replace(' ', '-')}-{name}")
        task.add_done_callback(lambda done: self._task_ended(name, done))

    def _task_ended(self, name: str, task: asyncio.Task[None]) -> None:
        """Fail the client: it can't go on without this task."""
        error = None if task.cancelled() else task.exception()
        if self._closing or not self._running or self._failure is not None:
            return
        self._failure = error or ClientClosedError(f"the {self._kind}'s {name} task was cancelled")
        level = logging.DEBUG if self.cluster.has_logged(self._failure) else logging.ERROR
        self._log.log(level, "%s: the %s task has ended: %s", self._kind, name, text_of(self._failure))
        self._failed()

    async def _can_close(self, timeout: float) -> bool:
        """Return whether there is something to close. If a start is in progress, abort it, which makes it raise."""
        self.cluster.check_loop()
        if not self._started or self._closing:
            return False
        if not self._tasks:
            await self.cluster.close(min(timeout, DISCONNECT))
            return False
        return True

    def _start_closing(self) -> None:
        """Mark the client as closing: nothing new starts, and a task that ends is no longer a failure."""
        self._closing = True
        self._close_error = ClientClosedError(f"the {self._kind} is closed")

    async def _end_tasks(self, timeout: float) -> None:
        """Cancel the tasks, and wait for them."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.wait(self._tasks.values(), timeout=timeout)
