"""A pytest plugin: a test fails when it leaves anything behind, or when an event loop reports an unhandled error.

Together with ``filterwarnings = error`` this covers: exceptions that reach a loop's exception handler, tasks that end
with an exception never retrieved, coroutines never awaited, sockets, files and transports not closed, tasks and threads
still running at the end of the test.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

# A loop's own executor threads end with it; a thread pool of the library's would not.
LOOP_THREADS = ("asyncio_", "uvloop_")
# A task that was cancelled or signalled to end needs some loop iterations; waiting longer would hide leaks.
GRACE_TURNS = 5
GRACE_SECONDS = 1.0
HANDSHAKE_SECONDS = 30.0


class _LoopErrors(logging.Handler):
    """Collects what a loop's default exception handler reports: it does so by logging, at ERROR."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.reports: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.reports.append(logging.Formatter().format(record))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.function):
            # First in, last out: the other fixtures have then stopped what they started.
            item.fixturenames.insert(0, "no_task_left")


def pytest_collection_finish() -> None:
    # What all modules have defined stays to the end, and would be gone through again after every test.
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def no_loop_errors(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test when an event loop, in whatever thread, reported an unhandled error."""
    errors, logger = _LoopErrors(), logging.getLogger("asyncio")
    logger.addHandler(errors)
    try:
        yield
        if "no_task_left" in request.fixturenames:
            # "Never retrieved", "never awaited" and "never closed" are found when the object dies: now, in this test.
            gc.collect()
            # What is left, such as modules and what they cache, would be gone through again after every test.
            gc.freeze()
    finally:
        logger.removeHandler(errors)
    if errors.reports:
        pytest.fail("the event loop reported:\n" + "\n".join(errors.reports), pytrace=False)


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    """Fail the test when a thread that it started, and that would keep the process alive, still runs."""
    before = set(threading.enumerate())
    yield
    left = [
        thread
        for thread in threading.enumerate()
        if thread not in before and not thread.daemon and not thread.name.startswith(LOOP_THREADS)
    ]
    for thread in left:
        # A pool that was shut down lets its idle threads end a moment later.
        thread.join(GRACE_SECONDS)
    left = [thread for thread in left if thread.is_alive()]
    if left:
        pytest.fail(f"threads still running: {left}", pytrace=False)


@pytest.fixture
async def no_task_left() -> AsyncIterator[None]:
    """Fail the test when tasks still run on its loop (given to every async test)."""
    yield
    for _ in range(GRACE_TURNS):
        await asyncio.sleep(0)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    # The loop's own task for a TLS handshake, which nothing can cancel, ends once the peer's process has hung up.
    if handshakes := [task for task in left if "_accept_connection2" in repr(task.get_coro())]:
        await asyncio.wait(handshakes, timeout=HANDSHAKE_SECONDS)
        left -= {task for task in handshakes if task.done()}
    if left:
        pytest.fail("tasks still running:\n" + "\n".join(map(repr, left)), pytrace=False)
