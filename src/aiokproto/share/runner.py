"""Handling records concurrently: what :meth:`ShareConsumer.run` does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Literal, get_args

from aiokproto.errors import ConfigurationError
from aiokproto.fetched.waiting import wait_until
from aiokproto.runtime import create_task
from aiokproto.share.acknowledgement import Acknowledgement
from aiokproto.share.engine import ShareEngine
from aiokproto.share.ledger import ShareRecord

log = logging.getLogger("aiokproto.share")

_LONGEST_BACKOFF = 30.0
"""Seconds."""

Handler = Callable[[ShareRecord], Awaitable[object]]
Decision = Literal["release", "reject", "accept"]
ErrorPolicy = Literal["release", "reject"] | Callable[[ShareRecord, Exception], Decision]


class Runner:
    """Calls a handler for each record, several at a time, and acknowledges each record by how its call ended."""

    def __init__(
        self,
        engine: ShareEngine,
        handler: Handler,
        concurrency: int,
        max_bytes: int,
        on_error: ErrorPolicy,
        backoff: float,
    ) -> None:
        self._engine = engine
        self._handler = handler
        self._concurrency = concurrency
        self._max_bytes = max_bytes
        self._on_error: ErrorPolicy = on_error
        self._backoff = backoff
        self._running: dict[asyncio.Task[None], ShareRecord] = {}
        self._bytes = 0
        self._ended = asyncio.Event()
        self._over = asyncio.Event()
        self._failure: Exception | None = None

    async def run(self, drain: float) -> None:
        """Handle records until cancelled, or until reading fails; then wait ``drain`` seconds for the handlers."""
        engine = self._engine
        engine.handling = self
        try:
            while True:
                await self._room()
                engine.most_wanted = self._free
                record = engine.reader.next_record()
                if record is None:
                    await engine.reader.open()
                else:
                    self._start(record)
        finally:
            engine.most_wanted = None
            try:
                await self._drain(drain)
            finally:
                engine.handling = None
                self._over.set()

    def check_closable(self) -> None:
        """Raise in a handler: closing would wait for it."""
        if asyncio.current_task() in self._running:
            raise RuntimeError("a handler cannot close the share consumer, which would wait for the handler")

    async def finish(self, deadline: float) -> None:
        """After the reader was stopped: let handlers end, and cancel them at that loop time."""
        try:
            await wait_until(self._over, deadline)
        finally:
            # Also after a cancellation of close(), which waits no longer.
            for task in self._running:
                task.cancel()

    @property
    def _free(self) -> int:
        """How many handlers can start now. Records beyond that would wait, and their locks expire."""
        return self._concurrency - len(self._running)

    async def _room(self) -> None:
        while len(self._running) >= self._concurrency or (self._running and self._bytes >= self._max_bytes):
            self._ended.clear()
            await self._ended.wait()
        if self._failure is not None:
            raise self._failure

    def _start(self, record: ShareRecord) -> None:
        task = create_task(self._handle(record), name=f"aiokproto-share-handler-{record.offset}")
        self._running[task] = record
        self._bytes += _size(record)
        task.add_done_callback(self._done)

    async def _handle(self, record: ShareRecord) -> None:
        kind = Acknowledgement.RELEASE
        try:
            await self._handler(record)
            kind = Acknowledgement.ACCEPT
        except Exception as error:  # noqa: BLE001 - logged with the decision
            kind = self._decide(record, error)
            if kind is Acknowledgement.RELEASE:
                # The broker would deliver it again at once, and archive it after a short outage of what the handler
                # needs. Meanwhile the record takes up its place, so that not the whole queue waits.
                await asyncio.sleep(min(self._backoff * 2.0 ** (record.delivery_count - 1), _LONGEST_BACKOFF))
        finally:
            # Unless the handler has acknowledged it itself.
            self._engine.settle([record], kind)

    def _done(self, task: asyncio.Task[None]) -> None:
        record = self._running.pop(task)
        self._bytes -= _size(record)
        if self._engine.most_wanted is not None:
            self._engine.most_wanted = self._free
        self._ended.set()
        # Of a task that was cancelled before its first step.
        self._engine.settle([record], Acknowledgement.RELEASE)
        if not task.cancelled() and (error := task.exception()) is not None:
            # KeyboardInterrupt or SystemExit, which end the program.
            log.debug("share consumer: a handler raised %r", error)

    def _decide(self, record: ShareRecord, error: Exception) -> Acknowledgement:
        decision: Decision = "release"
        if callable(self._on_error):
            try:
                decision = _checked(self._on_error(record, error))
            except Exception as wrong:  # noqa: BLE001 - raised by run()
                # Raised by run(): a policy that fails is a bug in the application, and would fail for each record.
                self._failure = wrong
        else:
            decision = self._on_error
        log.warning(
            "share consumer: the handler failed for %s-%d at offset %d (delivery %d), which is acknowledged as %s",
            record.topic,
            record.partition,
            record.offset,
            record.delivery_count,
            decision,
            exc_info=error,
        )
        return Acknowledgement[decision.upper()]

    async def _drain(self, timeout: float) -> None:
        try:
            if self._running:
                await asyncio.wait(list(self._running), timeout=timeout)
        finally:
            left = list(self._running)
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left)


def _checked(decision: Decision) -> Decision:
    if decision not in get_args(Decision):
        raise ConfigurationError(f"on_error returned {decision!r}: expected 'release', 'reject' or 'accept'")
    return decision


def _size(record: ShareRecord) -> int:
    return len(record.key or b"") + len(record.value or b"")
