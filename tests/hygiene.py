"""A pytest plugin: a test fails when it leaves anything behind, or when an event loop reports an unhandled error.

Together with ``filterwarnings = error`` this covers exceptions that reach a loop's exception handler, tasks whose
exception is never retrieved, coroutines that are never awaited, sockets, files and transports that aren't closed, and
tasks and threads that still run at the end of the test.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

# A loop's own executor threads end with it, but the threads of a library's pool wouldn't.
LOOP_THREADS = ("asyncio_", "uvloop_")
# A task that was cancelled or signalled to end needs some loop iterations. A longer wait would hide leaks.
GRACE_TURNS = 5
GRACE_SECONDS = 1.0
HANDSHAKE_SECONDS = 30.0


class _LoopErrors(logging.Handler):
    """Collects the reports of a loop's default exception handler, which it logs as errors."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.reports: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.reports.append(logging.Formatter().format(record))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.function):
            # The first fixture in is the last one out. The other fixtures have stopped what they started by then.
            item.fixturenames.insert(0, "no_task_left")


def pytest_collection_finish() -> None:
    # The objects of all modules stay to the end, and every collection would go through them again after each test.
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_loop_errors(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test if an event loop in any thread reported an unhandled error."""
    errors, logger = _LoopErrors(), logging.getLogger("asyncio")
    logger.addHandler(errors)
    try:
        yield
        if "no_task_left" in request.fixturenames:
            # An object that was never retrieved, awaited or closed is reported when it dies, which must happen now, in
            # this test.
            gc.collect()
            # Every collection would go through the remaining objects again after each test, such as modules and their
            # caches.
            gc.freeze()
    finally:
        logger.removeHandler(errors)
    if errors.reports:
        pytest.fail("the event loop reported:\n" + "\n".join(errors.reports), pytrace=False)


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    """Fail the test if a thread that it started, and that would keep the process alive, still runs."""
    before = set(threading.enumerate())
    yield
    left = [
        thread
        for thread in threading.enumerate()
        if thread not in before and not thread.daemon and not thread.name.startswith(LOOP_THREADS)
    ]
    for thread in left:
        # The idle threads of a pool that was shut down end a moment later.
        thread.join(GRACE_SECONDS)
    left = [thread for thread in left if thread.is_alive()]
    if left:
        pytest.fail(f"threads still running: {left}", pytrace=False)


@pytest.fixture
async def no_task_left() -> AsyncIterator[None]:
    """Fail the test if tasks still run on its loop. Every async test has this fixture."""
    yield
    for _ in range(GRACE_TURNS):
        await asyncio.sleep(0)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    # Nothing can cancel the loop's own task for a TLS handshake, which ends once the peer's process has hung up.
    if handshakes := [task for task in left if "_accept_connection2" in repr(task.get_coro())]:
        await asyncio.wait(handshakes, timeout=HANDSHAKE_SECONDS)
        left -= {task for task in handshakes if task.done()}
    if left:
        pytest.fail("tasks still running:\n" + "\n".join(map(repr, left)), pytrace=False)
